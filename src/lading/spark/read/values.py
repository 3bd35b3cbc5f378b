"""Pieces of text as typed values, strictly: what is not plainly a value of the type is null.

Spark's casts and its CSV reader take more than they should: ' 1', '1d' and '0x1p3' are numbers to them,
'1e999' is infinite, '1.239' rounds to 1.24, '1,5' is a decimal fifteen, and '12:30' is that time today.
So a cast counts only where a cheap look at the text allows it. Regular expressions, which cost more than
the cast itself, are left to the types where nothing less will do.

A type that was inferred takes less: what inference over all files would still call so.
formats/infer/kinds.py says that to Arrow, in the same shapes; a value that makes a column text would be
read wrong here, '00501' as 501.

Rules are written as SQL: a table of a thousand columns has ten thousand expressions, and each that is made
with Spark's functions is a call to the JVM and back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import or_
from typing import TypeVar

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame

from lading.errors import ConfigError
from lading.formats.text_shapes import (
    EXACT_DIGITS,
    PLAIN_DOUBLE,
    format_type,
    java_pattern,
    plain_timestamp_shape,
    timestamp_shape,
    whole,
    without_names,
)
from lading.model import Column, IngestJob

_T = TypeVar("_T")

RAW = "__lading_raw"  # the text of a bad row; null in good ones

# Spark's own default would read '12:30' as that time today.
TIMESTAMP_FORMAT = "yyyy-MM-dd[['T'][' ']HH:mm[:ss[.SSSSSSSSS]][XXX][XX][X]]"

_TEXTUAL = ("string", "binary")
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_SHORT = 38  # characters: what is shorter, and has no exponent, is finite even as a float
_SPECIAL = ("NaN", "Inf", "+Inf", "-Inf", "Infinity", "+Infinity", "-Infinity")


def typed_rows(
    rows: DataFrame, columns: Sequence[Column], texts: Texts, *, malformed: str, record: str
) -> DataFrame:
    """`rows` has the text of each column as `text_name(n)`; the result has values instead, and as the
    last column `RAW`: `malformed` if that is not null, or `record` when a value doesn't fit."""
    own = {*map(text_name, range(len(columns))), RAW}
    kept = [quoted(name) for name in rows.schema.names if name not in own]
    values = [texts.value(text_name(number), column) for number, column in enumerate(columns)]
    # In two steps, so that each value is computed once: for the row, and for the question whether it fits.
    valued = rows.selectExpr("*", *(f"{value} AS {_value_name(n)}" for n, value in enumerate(values)))
    misfits = [
        f"{texts.present(text_name(number))} AND {_value_name(number)} IS NULL"
        for number, column in enumerate(columns)
        if column.type not in _TEXTUAL
    ]
    misfit = f"WHEN {any_of_sql(misfits)} THEN {record}" if misfits else ""
    raw = f"CASE WHEN ({malformed}) IS NOT NULL THEN {malformed} {misfit} END"
    named = [f"{_value_name(number)} AS {quoted(column.name)}" for number, column in enumerate(columns)]
    return valued.selectExpr(*named, *kept, f"{raw} AS {RAW}")


def any_of(conditions: Sequence[SparkColumn]) -> SparkColumn:
    """Whether one of them holds."""
    return _halved(conditions, or_)


def any_of_sql(conditions: Sequence[str]) -> str:
    """The same for conditions that are SQL."""
    return _halved([f"({one})" for one in conditions], lambda left, right: f"({left} OR {right})")


def _halved(conditions: Sequence[_T], join: Callable[[_T, _T], _T]) -> _T:
    """All joined, as a balanced tree: a chain of a thousand columns would be too deep for Spark."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return join(_halved(conditions[:half], join), _halved(conditions[half:], join))


def text_name(number: int) -> str:
    """What the text of a file's n-th column is called while it is being read."""
    return f"__lading_text_{number}"


def _value_name(number: int) -> str:
    return f"__lading_value_{number}"


def quoted(name: str) -> str:
    """A column's name as Spark's parser takes it, dots and all."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class Texts:
    """How a table writes its dates, its times and its nulls."""

    date: str | None
    timestamp: str | None
    null: str | None

    @classmethod
    def of(cls, job: IngestJob) -> Texts:
        given = job.read_options
        return cls(given.get("date_format"), given.get("timestamp_format"), given.get("null"))

    def present(self, text: str) -> str:
        """Whether the text says anything. For all types but string, nothing at all is null."""
        return f"{text} <> ''" if self.null is None else f"{text} <> '' AND {text} <> {literal(self.null)}"

    def value(self, text: str, column: Column) -> str:
        """The value of a text; null where there is none, or the text is none of the type."""
        dtype = column.type
        if dtype in _TEXTUAL:
            there = text if self.null is None else f"nullif({text}, {literal(self.null)})"
            return there if dtype == "string" else f"CAST({there} AS {dtype})"
        cases = self._cases(text, column)
        if cases is None:
            raise ConfigError(
                f"column {column.name!r} is {dtype}, which can't be read from text",
                hint="make it string in the table's schema file and parse it in a transform",
            )
        # What has to be asked first. No rule of ours takes an empty text for a value; a user's format may.
        ours = self.null is None and self.date is None and self.timestamp is None
        first = "" if ours else f"{self.present(text)} AND "
        return f"CASE {' '.join(f'WHEN {first}{shape} THEN {value}' for shape, value in cases)} END"

    def _cases(self, text: str, column: Column) -> list[tuple[str, str]] | None:
        """Shapes of text, and the value of a text that has the shape; None for a type without any."""
        dtype, inferred = column.type, column.inferred
        if dtype in _INTEGERS:
            bare = f" AND {_bare_integer(text)}" if inferred else ""
            return [(_plain(text, "0123456789") + bare, f"try_cast({text} AS {dtype})")]
        if dtype in ("double", "float"):
            return _inferred_double(text) if inferred and dtype == "double" else _floating(text, dtype)
        if dtype.startswith("decimal("):
            return _decimal(text, dtype)
        if dtype == "boolean":
            return [(f"lower({text}) = 'true'", "true"), (f"lower({text}) = 'false'", "false")]
        if dtype == "date":
            return self._date(text, inferred)
        if dtype in ("timestamp", "timestamp_ntz"):
            return self._timestamp(text, dtype, inferred)
        return None

    def _date(self, text: str, inferred: bool) -> list[tuple[str, str]]:
        if self.date is not None:
            shape = _in_format(text, self.date, "date") if inferred else "true"
            return [(shape, f"CAST(try_to_timestamp({text}, {literal(self.date)}) AS date)")]
        dashes = f"substring({text}, 5, 1) = '-' AND substring({text}, 8, 1) = '-'"
        least = "0001" if inferred else "0"
        shape = (
            f"octet_length({text}) = 10 AND {_plain(text, '0123456789')} AND {text} >= '{least}' AND {dashes}"
        )
        return [(shape, f"try_cast({text} AS date)")]

    def _timestamp(self, text: str, dtype: str, inferred: bool) -> list[tuple[str, str]]:
        if self.timestamp is not None:
            shape = _in_format(text, self.timestamp, dtype) if inferred else "true"
            return [(shape, f"CAST(try_to_timestamp({text}, {literal(self.timestamp)}) AS {dtype})")]
        wanted = plain_timestamp_shape(dtype, date_format=self.date) if inferred else timestamp_shape(dtype)
        shape = f"{text} RLIKE r'{whole(wanted)}'"
        # A zone behind bare minutes is beyond the cast, which is otherwise the quicker one.
        slow = f"CAST(try_to_timestamp({text}, {literal(TIMESTAMP_FORMAT)}) AS {dtype})"
        return [(shape, f"coalesce(try_cast({text} AS {dtype}), {slow})")]


def literal(text: str) -> str:
    """A text as SQL, whatever is in it and however a session takes backslashes."""
    return f"CAST(X'{text.encode().hex()}' AS string)"


def _plain(text: str, last: str) -> str:
    """Whether it starts with a sign, a point or a digit, by order of bytes, so that nothing is copied or
    decoded, and ends with one of the characters `last`."""
    return f"{text} >= '+' AND {text} < ':' AND contains('{last}', substring({text}, -1, 1))"


def _floating(text: str, dtype: str) -> list[tuple[str, str]]:
    number = f"try_cast({text} AS {dtype})"
    plain = f"{_plain(text, '.0123456789')} AND NOT contains({text}, 'x') AND NOT contains({text}, 'X')"
    # Whether it is too great for the type is asked only where it may be: that parses it once more.
    small = f"octet_length({text}) < {_SHORT} AND NOT contains({text}, 'e') AND NOT contains({text}, 'E')"
    finite = f"abs({number}) < CAST('Infinity' AS {dtype})"
    special = ", ".join(f"'{one}'" for one in _SPECIAL)
    return [(f"{plain} AND ({small} OR {finite})", number), (f"{text} IN ({special})", number)]


def _bare_integer(text: str) -> str:
    """Of a `_plain` one: whether it has no sign but a minus, and no leading zero."""
    return f"({text} >= '1' OR {text} = '0' OR {text} >= '-1' AND {text} < '-:')"


def _inferred_double(text: str) -> list[tuple[str, str]]:
    number = f"try_cast({text} AS double)"
    finite = f"abs({number}) < CAST('Infinity' AS double)"
    exponent = f"(contains({text}, 'e') OR contains({text}, 'E'))"
    # By ranges of bytes: how a number begins that has no plus, and no zero but one before its point.
    ranges = (("1", ":"), ("-1", "-:"), ("0.", "0/"), ("-0.", "-0/"), (".", "/"), ("-.", "-/"))
    begins = " OR ".join(f"{text} >= '{low}' AND {text} < '{high}'" for low, high in ranges)
    short = f"octet_length({text}) <= {EXACT_DIGITS} + CAST(startswith({text}, '-') AS int)"
    plain = (
        f"{_plain(text, '.0123456789')} AND NOT {exponent} AND ({begins} OR {text} IN ('0', '-0')) "
        f"AND (contains({text}, '.') OR {short}) AND (octet_length({text}) < {_SHORT} OR {finite})"
    )
    return [
        (plain, number),
        (f"{exponent} AND {text} RLIKE r'{whole(PLAIN_DOUBLE)}' AND {finite}", number),
    ]


def inferred_pattern(fmt: str, dtype: str) -> str | None:
    """What inference would read as the type in a format of the table's own; None for nothing. A format of a
    day alone does for a timestamp too: midnight."""
    pattern, gives = java_pattern(fmt), format_type(fmt)
    if pattern is None or not (gives == dtype or (gives, dtype) == ("date", "timestamp_ntz")):
        return None
    return whole(without_names(pattern))


def _in_format(text: str, fmt: str, dtype: str) -> str:
    pattern = inferred_pattern(fmt, dtype)
    return "false" if pattern is None else f"{text} RLIKE {literal(pattern)}"


def _decimal(text: str, dtype: str) -> list[tuple[str, str]]:
    scale = re.fullmatch(r"decimal\(\d+,(\d+)\)", dtype)
    assert scale is not None, dtype
    shape = rf"^[+-]?(?=\.?[0-9])[0-9]*(?:\.[0-9]{{0,{scale[1]}}}0*)?\z"
    return [(f"{text} RLIKE r'{shape}'", f"try_cast({text} AS {dtype})")]
