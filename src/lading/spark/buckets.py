"""Which bucket a row goes to: `bucket = tick // size`, with the order column's value as the tick.

Spark sends rows to tasks by this rule and the task cuts its parts by the same one (parts/cut.py).
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)
from pyspark.sql import types as st

from lading.spark.sql import quoted


def bucket_column(column: str, dtype: st.DataType, ticks: int) -> Column:
    """The bucket of a row, rounded down also below zero."""
    tick = _tick(F.col(quoted(column)), dtype)
    width = F.lit(ticks).cast("bigint")
    remainder = tick % width
    return F.call_function("div", tick, width) - F.when(remainder < 0, 1).otherwise(0)


def _tick(column: Column, dtype: st.DataType) -> Column:
    if isinstance(dtype, st.DateType):
        return F.unix_date(column).cast("bigint")
    if isinstance(dtype, (st.TimestampType, st.TimestampNTZType)):
        return F.unix_micros(column.cast("timestamp"))  # the session's zone is UTC
    return column.cast("bigint")
