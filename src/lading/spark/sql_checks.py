"""The checks on rows that only Spark can evaluate: `sql`, and patterns that are Java's alone.

checks/rows.py says which they are, and evaluates the others without Spark. What Spark finds comes to the
tasks as one number a row. SQL that doesn't parse, or an expression that Java doesn't know, shows when the
plan is made, before a single row is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)

from lading.errors import ConfigError
from lading.model import Check
from lading.spark.failures import Py4JError, raise_interrupt, said_first
from lading.spark.sql import condition, quoted


def spark_bits(
    spark: SparkSession, frame: DataFrame, checks: Mapping[int, Check], table: str
) -> Column | None:
    """A number for each row: of the checks, which are named by their bits, those that it fails; None when
    there are no checks."""
    if not checks:
        return None
    bits = F.lit(0).cast("bigint")
    for number, check in checks.items():
        fails = _failing(spark, frame, check, table)
        bits = bits + F.when(fails, F.lit(1 << number).cast("bigint")).otherwise(F.lit(0).cast("bigint"))
    return bits


def _failing(spark: SparkSession, frame: DataFrame, check: Check, table: str) -> Column:
    """Whether a row fails the check; a null passes."""
    if check.kind == "sql":
        bare = spark.createDataFrame([], frame.schema)  # what made the rows was looked at elsewhere
        holds, _ = condition(bare, check.text, partial(_wrong, check, table))
    else:
        text = F.col(quoted(check.columns[0])).cast("string")
        holds = text.rlike(_whole(spark, check, table))
    return F.coalesce(~holds, F.lit(False))


def _whole(spark: SparkSession, check: Check, table: str) -> str:
    """The expression for a whole value. lading.yaml was checked by Python's rules, so Java is asked too."""
    whole = rf"\A(?:{check.text})\z"
    try:
        spark.range(1).select(F.lit("").rlike(whole)).collect()
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        raise _wrong(check, table, said_first(error), "use syntax that Java understands too") from error
    return whole


def _wrong(check: Check, table: str, what: str, hint: str) -> ConfigError:
    return ConfigError(f"lading.yaml:{check.line}: {check.key}: {what}", hint=hint, table=table)
