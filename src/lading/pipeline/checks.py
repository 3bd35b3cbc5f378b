"""Checks on rows: what lading.yaml asks for, as one number a row that says which of them the row fails.

The number travels with the row to the task that writes it (tally.py), so the checks cost no pass of
their own over the data. Whatever is wrong with a check itself, a column that isn't there or SQL that
doesn't parse, shows when the plan is made, before a single row is read.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)
from pyspark.sql import types as st

from lading.errors import ConfigError
from lading.model import Check, IngestJob
from lading.pipeline.determinism import nondeterministic
from lading.pipeline.failures import first_line
from lading.pipeline.gateway import Py4JError, raise_interrupt
from lading.pipeline.parts import SOURCE
from lading.pipeline.read_values import quoted

_NUMBERS = (st.ByteType, st.ShortType, st.IntegerType, st.LongType, st.DecimalType)
_FLOATS = (st.FloatType, st.DoubleType)
_MOMENTS = (st.DateType, st.TimestampType, st.TimestampNTZType)


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
        return F.coalesce(~_sql(bare, check, table), F.lit(False))
    for name in check.columns:
        _refuse_unknown(frame, name, check, table)
    columns = [F.col(quoted(name)) for name in check.columns]
    if check.kind == "not_null":
        fails = columns[0].isNull()
        for column in columns[1:]:
            fails = fails | column.isNull()
        return fails
    type = frame.schema[check.columns[0]].dataType
    if check.kind == "range":
        return _outside(spark, columns[0], type, check, table)
    if check.kind == "values":
        listed = [_literal(spark, text, type, check, table) for text in check.values]
        return F.coalesce(~columns[0].isin(listed), F.lit(False))
    return F.coalesce(~columns[0].cast("string").rlike(_whole(spark, check, table)), F.lit(False))


def _outside(spark: SparkSession, column: Column, type: st.DataType, check: Check, table: str) -> Column:
    fails = F.isnan(column) if isinstance(type, _FLOATS) else F.lit(False)  # NaN lies in no range
    if check.least is not None:
        fails = fails | (column < _literal(spark, check.least, type, check, table))
    if check.most is not None:
        fails = fails | (column > _literal(spark, check.most, type, check, table))
    return F.coalesce(fails, F.lit(False))


def _sql(frame: DataFrame, check: Check, table: str) -> Column:
    held = F.expr(check.text) if _parses(frame, check, table) else F.lit(True)
    chosen = frame.select(held.alias("held"))
    if not isinstance(chosen.schema["held"].dataType, st.BooleanType):
        found = chosen.schema["held"].dataType.simpleString()
        raise _wrong(check, table, f"gives {found}, not true or false", "compare it with something")
    try:
        chance = nondeterministic(chosen)
    except (PySparkException, Py4JError) as error:  # Spark works constants out when it explains its plan
        raise_interrupt(error)
        raise _wrong(check, table, first_line(str(error)), "write it with smaller values") from error
    if chance is not None:
        raise _wrong(
            check, table, f"uses {chance}, so it would differ each time", "use the row's own columns"
        )
    return held


def _parses(frame: DataFrame, check: Check, table: str) -> bool:
    """Spark's own word on the expression, as a condition on rows: sums and windows have no place there."""
    try:
        _ = frame.where(F.expr(check.text)).schema
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        said = first_line(str(error)) or type(error).__name__
        columns = ", ".join(name for name in frame.columns if name != SOURCE)
        raise _wrong(
            check, table, said, f"a condition on one row, in Spark SQL; columns: {columns}"
        ) from error
    return True


def _literal(spark: SparkSession, text: str, type: st.DataType, check: Check, table: str) -> Column:
    """A value of lading.yaml as one that the column can be compared with."""
    try:
        if isinstance(type, st.StringType):
            return F.lit(text)
        if isinstance(type, _FLOATS):
            return F.lit(float(text))
        if isinstance(type, _NUMBERS):
            number = Decimal(text)
            exponent = number.as_tuple().exponent
            if isinstance(exponent, int) and exponent >= 0 and abs(number) < 2**63:
                return F.lit(int(number)).cast("bigint")
            return F.lit(number)
        if isinstance(type, st.BooleanType) and text.lower() in ("true", "false"):
            return F.lit(text.lower() == "true")
        if isinstance(type, _MOMENTS):
            moment = F.lit(text).try_cast(type)
            if spark.range(1).select(moment.isNotNull()).collect()[0][0]:
                return moment
    except (ValueError, InvalidOperation):
        pass  # said below, in one way for all types
    raise _wrong(
        check,
        table,
        f"{text!r} can't be compared with {check.columns[0]!r}, which is {type.simpleString()}",
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
        said = first_line(str(error))
        raise _wrong(check, table, said, "write it so that Java understands it too") from error
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
