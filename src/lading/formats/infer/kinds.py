"""What a column of text holds: the narrowest kind that every value of it has.

Kinds are joined, so the answer doesn't depend on how files are cut into blocks. A kind is only given
where nothing is lost: '00123', '+49', 19 digits among decimals and 7 digits of a second stay
strings. And only where Spark's reader, with the same formats, reads every value of it.

A type that is pinned from here on stays one that inference would give: `keeps` says whether it does with
more values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lading.formats.text_shapes import (
    EXACT_DIGITS,
    PLAIN_BIGINT,
    PLAIN_DATE,
    PLAIN_DOUBLE,
    java_pattern,
    plain_timestamp_shape,
    whole,
)

NULL = "null"  # nothing seen
# Integers of more than 15 digits: bigint alone, but among doubles they would lose digits.
LONG = "bigint beyond double"

_BOOLEAN = r"(?i)\A(?:true|false)\z"
_SAMPLE = 64


def spark_type(kind: str) -> str:
    return {NULL: "string", LONG: "bigint"}.get(kind, kind)


@dataclass(frozen=True, slots=True)
class Kinds:
    """Classifies and joins, under the table's own date and timestamp formats if it has any."""

    date_format: str | None = None
    timestamp_format: str | None = None

    @classmethod
    def of(cls, read_options: Mapping[str, Any]) -> Kinds:
        return cls(read_options.get("date_format"), read_options.get("timestamp_format"))

    def of_text(self, values: pa.Array, *, numbers: bool = True) -> str:
        """The kind of all the values, none of which is null. JSON has numbers of its own: `numbers=False`."""
        if len(values) == 0:
            return NULL
        candidates = ["date", "timestamp_ntz", "timestamp"]
        if numbers:
            candidates = ["boolean", "bigint", "double", *candidates]
        # Most columns are settled by a few values; only what survives them looks at all.
        for block in (values.slice(0, _SAMPLE), values):
            candidates = [kind for kind in candidates if self._all(kind, block)]
            if not candidates:
                return "string"
        if candidates[0] == "bigint" and not matches(rf"\A-?[0-9]{{1,{EXACT_DIGITS}}}\z", values):
            return LONG
        return candidates[0]

    def join(self, one: str, other: str) -> str:
        if one == other or other == NULL:
            return one
        if one == NULL:
            return other
        pair = {one, other}
        if pair == {"bigint", "double"}:
            return "double"
        if pair == {"bigint", LONG}:
            return LONG
        # A date reads as a timestamp unless one of them has a format of its own.
        if pair == {"date", "timestamp_ntz"} and not (self.date_format or self.timestamp_format):
            return "timestamp_ntz"
        return "string"

    def keeps(self, dtype: str, values: pa.Array) -> bool:
        """Whether the type, inferred from other values, is still what inference gives with these as well."""
        return spark_type(self.join(dtype, self.of_text(values))) == dtype

    def _all(self, kind: str, values: pa.Array) -> bool:
        if kind == "boolean":
            return matches(_BOOLEAN, values)
        if kind == "bigint":
            return matches(whole(PLAIN_BIGINT), values) and casts(values, pa.int64())
        if kind == "double":
            return matches(whole(PLAIN_DOUBLE), values) and finite(values)
        if kind == "date" and self.date_format:
            return java_casts(self.date_format, values, pa.date32())
        if kind == "date":
            return matches(whole(PLAIN_DATE), values) and casts(values, pa.date32())
        zoned = kind == "timestamp"
        target = pa.timestamp("us", "UTC" if zoned else None)
        if self.timestamp_format:
            return java_casts(self.timestamp_format, values, target)
        shape = plain_timestamp_shape(kind, date_format=self.date_format)
        return matches(whole(shape), values) and casts(to_microseconds(values), target)


def to_microseconds(values: pa.Array) -> pa.Array:
    """Times without the zeros beyond a microsecond, at which Arrow balks."""
    return pc.replace_substring_regex(values, r"(\.[0-9]{6})0+", r"\1")


def matches(pattern: str, values: pa.Array) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, pattern), min_count=0).as_py())


def casts(values: pa.Array, target: pa.DataType) -> bool:
    try:
        pc.cast(values, target)
    except pa.ArrowInvalid:
        return False
    return True


def finite(values: pa.Array) -> bool:
    try:
        return bool(pc.all(pc.is_finite(pc.cast(values, pa.float64())), min_count=0).as_py())
    except pa.ArrowInvalid:
        return False


def java_casts(fmt: str, values: pa.Array, target: pa.DataType) -> bool:
    pattern = java_pattern(fmt)
    if pattern is None:
        return False
    names = re.findall(r"\(\?P<(\w+)>", pattern)
    if ("zone" in names) != (pa.types.is_timestamp(target) and target.tz is not None):
        return False
    found = pc.extract_regex(values, rf"\A{pattern}\z")
    if found.null_count:
        return False
    part = {name: pc.struct_field(found, name) for name in names}
    two = {name: pc.utf8_lpad(part[name], 2, "0") for name in ("month", "day", "hour") if name in part}
    iso = pc.binary_join_element_wise(part["year"], two["month"], two["day"], "-")
    if pa.types.is_date(target):
        return set(names) == {"year", "month", "day"} and casts(iso, target)
    midnight = pa.array(["00"] * len(values))
    clock = [two.get("hour", midnight), part.get("minute", midnight), part.get("second", midnight)]
    iso = pc.binary_join_element_wise(iso, pc.binary_join_element_wise(*clock, ":"), "T")
    if "zone" in part:
        iso = pc.binary_join_element_wise(iso, part["zone"], "")
    return casts(iso, target)
