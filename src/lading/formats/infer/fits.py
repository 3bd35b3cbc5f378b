"""Whether the values of a column can be read as the type that is pinned for it.

The same rules as the reader's (spark/read/values.py), told to Arrow, so that a schema that evolves
knows before Spark starts. A type that was inferred takes what inference would still call so. One that a
person wrote takes more: whoever pins '00123' as bigint, or '+5', is right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lading.formats.infer.kinds import Kinds, casts, finite, java_casts, matches, to_microseconds
from lading.formats.text_shapes import DATE, ZONE, java_pattern, timestamp_shape, whole
from lading.model import Column

_INTEGERS = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
_NUMBER = r"\A[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\z"
_SPECIAL = r"\A(?:NaN|[+-]?Inf(?:inity)?)\z"


@dataclass(frozen=True, slots=True)
class Fits:
    """Under the table's own date and timestamp formats, if it has any."""

    kinds: Kinds

    def first_misfit(self, values: pa.Array, column: Column) -> int | None:
        """The place of the first value, none of which is null, that can't be read as the column's type."""
        if self.all_fit(values, column):
            return None
        least, most = 0, len(values) - 1  # the first misfit lies between them
        while least < most:
            middle = (least + most) // 2
            if self.all_fit(values.slice(least, middle - least + 1), column):
                least = middle + 1
            else:
                most = middle
        return least

    def all_fit(self, values: pa.Array, column: Column) -> bool:
        if len(values) == 0:
            return True
        return (
            self.kinds.keeps(column.type, values)
            if column.inferred
            else self._as_written(values, column.type)
        )

    def _as_written(self, values: pa.Array, dtype: str) -> bool:
        if dtype in _INTEGERS:
            return matches(r"\A[+-]?[0-9]+\z", values) and casts(_unsigned(values), _INTEGERS[dtype])
        if dtype in ("double", "float"):
            return _floating(values)
        if size := re.fullmatch(r"decimal\((\d+),(\d+)\)", dtype):
            before = int(size[1]) - int(size[2])
            shape = rf"\A[+-]?0*[0-9]{{0,{before}}}(?:\.[0-9]{{0,{size[2]}}}0*)?\z"
            return matches(shape, values) and matches("[0-9]", values)
        if dtype == "boolean":
            return matches(r"(?i)\A(?:true|false)\z", values)
        if dtype == "date":
            if self.kinds.date_format:
                return _in_format(self.kinds.date_format, values, pa.date32())
            return matches(whole(DATE), values) and casts(values, pa.date32())
        if dtype in ("timestamp", "timestamp_ntz"):
            return self._timestamps(values, zoned=dtype == "timestamp")
        return True  # text; what else there is, the reader says

    def _timestamps(self, values: pa.Array, *, zoned: bool) -> bool:
        if self.kinds.timestamp_format:
            target = pa.timestamp("us", "UTC" if "X" in self.kinds.timestamp_format else None)
            return _in_format(self.kinds.timestamp_format, values, target)
        if not matches(whole(timestamp_shape("timestamp" if zoned else "timestamp_ntz")), values):
            return False
        short = to_microseconds(values)
        with_zone = pc.match_substring_regex(short, rf":[0-9.]+{ZONE}\z")
        return casts(short.filter(with_zone), pa.timestamp("us", "UTC")) and casts(
            short.filter(pc.invert(with_zone)), pa.timestamp("us")
        )


def _in_format(fmt: str, values: pa.Array, target: pa.DataType) -> bool:
    """What is written in a format beyond the usual, the reader says."""
    return java_pattern(fmt) is None or java_casts(fmt, values, target)


def _unsigned(values: pa.Array) -> pa.Array:
    return pc.utf8_ltrim(values, "+")


def _floating(values: pa.Array) -> bool:
    special = pc.match_substring_regex(values, _SPECIAL)
    numbers = values.filter(pc.invert(special))
    return matches(_NUMBER, numbers) and finite(_unsigned(numbers))
