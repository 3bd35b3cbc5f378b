"""Pieces of text as typed values, strictly: what is not plainly a value of the type is null.

Spark's casts and its CSV reader take more than they should: ' 1', '1d' and '0x1p3' are numbers to them,
'1e999' is infinite, '1.239' rounds to 1.24, '1,5' is a decimal fifteen, and '12:30' is that time today.
So a cast counts only where a cheap look at the text allows it. Regular expressions, which cost more than
the cast itself, are left to the types where nothing less will do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)

from lading.errors import ConfigError
from lading.model import Column, IngestJob

RAW = "__lading_raw"  # the text of a bad row; null in good ones

# Spark's own default would read '12:30' as that time today.
TIMESTAMP_FORMAT = "yyyy-MM-dd[['T'][' ']HH:mm[:ss[.SSSSSSSSS]][XXX][XX][X]]"
DATE_FORMAT = "yyyy-MM-dd"

_TEXTUAL = ("string", "binary")
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_SPECIAL = ("NaN", "Inf", "+Inf", "-Inf", "Infinity", "+Infinity", "-Infinity")
# More than six digits of a second only if nothing is lost with them.
_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6}0*)?)?%s)?"
_ZONE = r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"


def typed_rows(
    rows: DataFrame, columns: Sequence[Column], texts: Texts, *, malformed: SparkColumn, record: SparkColumn
) -> DataFrame:
    """`rows` has the text of each column as `text_name(n)`; the result has values instead, and as the
    last column `RAW`: `malformed` if that is not null, or `record` when a value doesn't fit."""
    kept = [name for name in rows.columns if name not in {*map(text_name, range(len(columns))), RAW}]
    pieces = [F.col(text_name(number)) for number in range(len(columns))]
    present = [texts.present(piece, column.type) for piece, column in zip(pieces, columns, strict=True)]
    values = [texts.value(piece, column) for piece, column in zip(present, columns, strict=True)]
    # In two steps, so that each value is computed once: for the row, and for the question whether it fits.
    valued = rows.select("*", *(value.alias(_value_name(number)) for number, value in enumerate(values)))
    misfits = [
        piece.isNotNull() & F.col(_value_name(number)).isNull()
        for number, (piece, column) in enumerate(zip(present, columns, strict=True))
        if column.type not in _TEXTUAL
    ]
    raw = F.when(malformed.isNotNull(), malformed)
    if misfits:
        raw = raw.when(any_of(misfits), record)
    named = [F.col(_value_name(number)).alias(column.name) for number, column in enumerate(columns)]
    return valued.select(*(F.col(quoted(name)) for name in kept), *named, raw.alias(RAW))


def any_of(conditions: Sequence[SparkColumn]) -> SparkColumn:
    """Any of them, as a balanced tree: a chain of a thousand columns would be too deep for Spark."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return any_of(conditions[:half]) | any_of(conditions[half:])


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

    def present(self, text: SparkColumn, type: str) -> SparkColumn:
        """The text where it says anything: for all types but string, nothing at all is null."""
        if self.null is not None:
            text = F.nullif(text, F.lit(self.null))
        return text if type in _TEXTUAL else F.nullif(text, F.lit(""))

    def value(self, text: SparkColumn, column: Column) -> SparkColumn:
        """The value of a text that is present; null where the text is none of the type."""
        type = column.type
        if type in _TEXTUAL:
            return text.cast(type)
        if type in _INTEGERS:
            return F.when(_starts_plainly(text) & _last(text).between("0", "9"), text.try_cast(type))
        if type in ("double", "float"):
            return _floating(text, type)
        if type.startswith("decimal("):
            return _decimal(text, type)
        if type == "boolean":
            lower = F.lower(text)
            return F.when(lower == "true", F.lit(True)).when(lower == "false", F.lit(False))
        if type == "date":
            return self._date(text)
        if type in ("timestamp", "timestamp_ntz"):
            return self._timestamp(text, type)
        raise ConfigError(
            f"column {column.name!r} is {type}, which can't be read from text",
            hint="pin it as string in the table's schema file and take it apart in a transform",
        )

    def _date(self, text: SparkColumn) -> SparkColumn:
        if self.date is not None:
            return F.try_to_timestamp(text, F.lit(self.date)).cast("date")
        digits = text.between("0", ":") & _last(text).between("0", "9")
        dashes = (F.substring(text, 5, 1) == "-") & (F.substring(text, 8, 1) == "-")
        return F.when((F.length(text) == 10) & digits & dashes, text.try_cast("date"))

    def _timestamp(self, text: SparkColumn, type: str) -> SparkColumn:
        if self.timestamp is not None:
            return F.try_to_timestamp(text, F.lit(self.timestamp)).cast(type)
        shape = text.rlike(rf"^{_TIME % (_ZONE if type == 'timestamp' else '')}\z")
        # A zone behind bare minutes is beyond the cast, which is otherwise the quicker one.
        slow = F.try_to_timestamp(text, F.lit(TIMESTAMP_FORMAT)).cast(type)
        return F.when(shape, F.coalesce(text.try_cast(type), slow))


def _starts_plainly(text: SparkColumn) -> SparkColumn:
    """With a sign, a point or a digit: by order of bytes, so nothing is copied or decoded."""
    return (text >= "+") & (text < ":")


def _last(text: SparkColumn) -> SparkColumn:
    return F.substring(text, -1, 1)


def _floating(text: SparkColumn, type: str) -> SparkColumn:
    number = text.try_cast(type)
    hexadecimal = F.contains(text, F.lit("x")) | F.contains(text, F.lit("X"))
    plain = _starts_plainly(text) & _last(text).between(".", "9") & ~hexadecimal
    finite = F.abs(number) < F.lit(float("inf"))
    return F.when(plain & finite, number).when(text.isin(*_SPECIAL), number)


def _decimal(text: SparkColumn, type: str) -> SparkColumn:
    scale = re.fullmatch(r"decimal\(\d+,(\d+)\)", type)
    assert scale is not None, type
    shape = rf"^[+-]?(?=\.?[0-9])[0-9]*(?:\.[0-9]{{0,{scale[1]}}}0*)?\z"
    return F.when(text.rlike(shape), text.try_cast(type))
