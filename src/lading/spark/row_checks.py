"""Checks on rows: what lading.yaml asks for, as one number a row that says which of them the row fails.

The number travels with the row to the task that writes it (tally.py), so the checks cost no pass of
their own over the data. Whatever is wrong with a check itself, a column that isn't there or SQL that
doesn't parse, shows when the plan is made, before a single row is read.
"""

from __future__ import annotations

import difflib
import math
import struct
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)
from pyspark.sql import types as st

from lading.config.sql import is_moment
from lading.errors import ConfigError
from lading.layout.table import SOURCE
from lading.model import Check, IngestJob
from lading.spark.failures import Py4JError, raise_interrupt, said_first
from lading.spark.sql import condition, quoted

_NUMBERS = (st.ByteType, st.ShortType, st.IntegerType, st.LongType, st.DecimalType)
_FLOATS = (st.FloatType, st.DoubleType)
_MOMENTS = (st.DateType, st.TimestampType, st.TimestampNTZType)
_LONGEST_NUMBER = 400  # digits before or behind the point


def failed_checks(spark: SparkSession, frame: DataFrame, job: IngestJob) -> Column | None:
    """A number for each row, bit i set if it fails check i of the job; None when there are none."""
    for check in job.checks:
        if check.kind == "unique":
            for name in check.columns:
                _refuse_unknown(frame, name, check, job.table)
    if not job.row_checks:
        return None
    bits = F.lit(0).cast("bigint")
    for number, check in enumerate(job.row_checks):
        fails = _failing(spark, frame, check, job.table)
        bits = bits + F.when(fails, F.lit(1 << number).cast("bigint")).otherwise(F.lit(0).cast("bigint"))
    return bits


def _failing(spark: SparkSession, frame: DataFrame, check: Check, table: str) -> Column:
    """Whether a row fails the check; a null passes everything but `not_null`."""
    if check.kind == "sql":
        bare = spark.createDataFrame([], frame.schema)  # what made the rows was looked at elsewhere
        held, _ = condition(bare, check.text, partial(_wrong, check, table))
        return F.coalesce(~held, F.lit(False))
    for name in check.columns:
        _refuse_unknown(frame, name, check, table)
    columns = [F.col(quoted(name)) for name in check.columns]
    if check.kind == "not_null":
        fails = columns[0].isNull()
        for column in columns[1:]:
            fails = fails | column.isNull()
        return fails
    dtype = frame.schema[check.columns[0]].dataType
    if check.kind == "range":
        return _outside(spark, columns[0], dtype, check, table)
    if check.kind == "values":
        return F.coalesce(_not_listed(spark, columns[0], dtype, check, table), F.lit(False))
    return F.coalesce(~columns[0].cast("string").rlike(_whole(spark, check, table)), F.lit(False))


def _outside(spark: SparkSession, column: Column, dtype: st.DataType, check: Check, table: str) -> Column:
    fails = F.isnan(column) if isinstance(dtype, _FLOATS) else F.lit(False)  # NaN lies in no range
    if check.least is not None:
        fails = fails | _below(spark, column, check.least, dtype, check, table)
    if check.most is not None:
        fails = fails | _above(spark, column, check.most, dtype, check, table)
    return F.coalesce(fails, F.lit(False))


def _below(
    spark: SparkSession, column: Column, least: str, dtype: st.DataType, check: Check, table: str
) -> Column:
    if not isinstance(dtype, _NUMBERS):
        return column < _literal(spark, least, dtype, check, table)
    step, exact = _step(least, dtype, check, table)
    first = step if exact else step + 1  # that is no longer below
    if not _fits(first, dtype):
        return column.isNotNull() if first > 0 else F.lit(False)
    return column < _number(first, dtype)


def _above(
    spark: SparkSession, column: Column, most: str, dtype: st.DataType, check: Check, table: str
) -> Column:
    if not isinstance(dtype, _NUMBERS):
        return column > _literal(spark, most, dtype, check, table)
    last, _ = _step(most, dtype, check, table)  # that is not yet above
    if not _fits(last, dtype):
        return column.isNotNull() if last < 0 else F.lit(False)
    return column > _number(last, dtype)


def _not_listed(spark: SparkSession, column: Column, dtype: st.DataType, check: Check, table: str) -> Column:
    if not isinstance(dtype, _NUMBERS):
        return ~column.isin([_literal(spark, text, dtype, check, table) for text in check.values])
    steps = [step for step, exact in (_step(text, dtype, check, table) for text in check.values) if exact]
    values = [_number(step, dtype) for step in steps if _fits(step, dtype)]
    return ~column.isin(values) if values else column.isNotNull()


def _step(text: str, dtype: st.DataType, check: Check, table: str) -> tuple[int, bool]:
    """The last value of the column's type at or below a number, counted in its smallest steps, and whether
    it is that number. So values are compared in the column's own type, and none is ever rounded."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or abs(number.adjusted()) > _LONGEST_NUMBER:
        raise _unlike(text, dtype, check, table)
    scaled = Fraction(number) * 10 ** _scale(dtype)
    return math.floor(scaled), scaled.denominator == 1


def _number(step: int, dtype: st.DataType) -> Column:
    if not isinstance(dtype, st.DecimalType):
        return F.lit(step).cast("bigint")
    digits = tuple(int(digit) for digit in str(abs(step)))
    return F.lit(Decimal((int(step < 0), digits, -_scale(dtype)))).cast(dtype)


def _scale(dtype: st.DataType) -> int:
    return dtype.scale if isinstance(dtype, st.DecimalType) else 0


def _fits(step: int, dtype: st.DataType) -> bool:
    most: int = 10**dtype.precision if isinstance(dtype, st.DecimalType) else 2**63
    return -most < step < most or (step == -most and not isinstance(dtype, st.DecimalType))


def _literal(spark: SparkSession, text: str, dtype: st.DataType, check: Check, table: str) -> Column:
    """A value of lading.yaml as one of the column's type; numbers with steps have a way of their own."""
    if isinstance(dtype, st.StringType):
        return F.lit(text)
    if isinstance(dtype, _FLOATS):
        try:
            return _float(float(text), dtype)
        except ValueError:
            raise _unlike(text, dtype, check, table) from None
    if isinstance(dtype, st.BooleanType) and text.lower() in ("true", "false"):
        return F.lit(text.lower() == "true")
    if isinstance(dtype, _MOMENTS) and not is_moment(text):  # 'today' is another day tomorrow
        moment = F.lit(text).try_cast(dtype)
        if spark.range(1).select(moment.isNotNull()).collect()[0][0]:
            return moment
    raise _unlike(text, dtype, check, table)


def _float(number: float, dtype: st.DataType) -> Column:
    """The nearest value of the column's own width, so that 0.1 is 0.1. A number that only a double can
    hold is left one: the column's values are then compared as doubles, which loses nothing."""
    if not isinstance(dtype, st.FloatType):
        return F.lit(number)
    try:
        return F.lit(struct.unpack("<f", struct.pack("<f", number))[0]).cast(dtype)
    except OverflowError:
        return F.lit(number)


def _unlike(text: str, dtype: st.DataType, check: Check, table: str) -> ConfigError:
    return _wrong(
        check,
        table,
        f"{text!r} can't be compared with {check.columns[0]!r}, which is {dtype.simpleString()}",
        "write a value of that type",
    )


def _whole(spark: SparkSession, check: Check, table: str) -> str:
    """The expression for a whole value; Java's rules are a little different from those lading.yaml was
    checked by, so Java is asked too."""
    whole = rf"\A(?:{check.text})\z"
    try:
        spark.range(1).select(F.lit("").rlike(whole)).collect()
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        said = said_first(error)
        raise _wrong(check, table, said, "use syntax that Java understands too") from error
    return whole


def _refuse_unknown(frame: DataFrame, name: str, check: Check, table: str) -> None:
    if name in frame.columns and name != SOURCE:
        return
    raise unknown_column(check, name, [one for one in frame.columns if one != SOURCE], table)


def unknown_column(check: Check, name: str, columns: Sequence[str], table: str) -> ConfigError:
    near = difflib.get_close_matches(name, columns, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(columns)}"
    return _wrong(check, table, f"{table} has no column {name!r}", hint)


def _wrong(check: Check, table: str, what: str, hint: str) -> ConfigError:
    return ConfigError(f"lading.yaml:{check.line}: {check.key}: {what}", hint=hint, table=table)
