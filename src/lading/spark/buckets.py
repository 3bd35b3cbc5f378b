"""Which bucket a row goes to: `bucket = tick // size`, with the order column's value as the tick.

Spark sends rows to tasks by this rule and the task cuts its parts by the same one (parts/cut.py).
"""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)
from pyspark.sql import types as st

from lading.errors import ConfigError

_INTS = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)
_SPAN = re.compile(r"([1-9][0-9]*)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DAY = 86_400


def bucket_ticks(size: int | str | None, dtype: st.DataType, column: str, table: str) -> int | None:
    """A bucket's width in ticks of the order column; None when there is one bucket for all."""
    if size is None:
        return None
    if isinstance(dtype, _INTS):
        if isinstance(size, int):
            return _within(size, size, dtype, column, table)
        raise _misfit(size, dtype, column, table, "give a number, such as 100")
    if not isinstance(dtype, (st.DateType, st.TimestampType, st.TimestampNTZType)):
        raise _misfit(
            size, dtype, column, table, "remove this key; only ints, dates and timestamps have buckets"
        )
    seconds = _seconds(size)
    if seconds is None:
        raise _misfit(size, dtype, column, table, "give a duration, such as 7d")
    if not isinstance(dtype, st.DateType):
        return _within(seconds * 1_000_000, size, dtype, column, table)
    if seconds % _DAY:
        raise _misfit(size, dtype, column, table, "give whole days, such as 1d or 30d")
    return _within(seconds // _DAY, size, dtype, column, table)


def _within(ticks: int, size: int | str, dtype: st.DataType, column: str, table: str) -> int:
    if ticks < 2**63:
        return ticks
    raise _misfit(size, dtype, column, table, "remove this key to have one bucket for all rows")


def bucket_column(column: str, dtype: st.DataType, ticks: int) -> Column:
    """The bucket of a row, rounded down also below zero."""
    tick = _tick(F.col(_quoted(column)), dtype)
    width = F.lit(ticks).cast("bigint")
    remainder = tick % width
    return F.call_function("div", tick, width) - F.when(remainder < 0, 1).otherwise(0)


def _tick(column: Column, dtype: st.DataType) -> Column:
    if isinstance(dtype, st.DateType):
        return F.unix_date(column).cast("bigint")
    if isinstance(dtype, (st.TimestampType, st.TimestampNTZType)):
        return F.unix_micros(column.cast("timestamp"))  # the session's zone is UTC
    return column.cast("bigint")


def _seconds(size: int | str) -> int | None:
    match = _SPAN.fullmatch(size) if isinstance(size, str) else None
    return int(match[1]) * _SECONDS[match[2]] if match else None


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _misfit(size: int | str, dtype: st.DataType, column: str, table: str, remedy: str) -> ConfigError:
    return ConfigError(
        f"bucket_size {size} does not fit the order column {column!r}, which is {dtype.simpleString()}",
        hint=f"tables.{table}.bucket_size: {remedy}",
        table=table,
    )
