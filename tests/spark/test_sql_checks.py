"""The checks that only Spark can evaluate: what they find, and what is refused before a row is read."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lading.errors import ConfigError
from lading.model import Check
from lading.spark.sql_checks import spark_bits


def check(kind: str, text: str, *columns: str) -> Check:
    return Check(kind, text, "tables.t.checks[0]", 7, columns=columns, text=text)


def test_rows_bring_the_bits_of_the_checks_that_they_fail(spark: SparkSession) -> None:
    rows = [(1, "oslo", 1.5), (2, "Oslo", float("nan")), (3, "bergen", 1e10), (None, None, None)]
    frame = spark.createDataFrame(rows, "id bigint, `the.port` string, x double").coalesce(1)
    checks = {
        0: check("sql", "id % 2 = 1"),
        5: check("pattern", "(?!o).*", "the.port"),
        61: check("pattern", r"1\..*", "x"),
        62: check("sql", "id is not null"),
    }
    bits = spark_bits(spark, frame, checks, "t")
    assert bits is not None
    found = [row[0] for row in frame.select(bits).collect()]
    assert found == [1 << 5, 1 | 1 << 61, 0, 1 << 62]
    assert spark_bits(spark, frame, {}, "t") is None


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (check("pattern", "(?P<x>a)", "port"), "INVALID_PARAMETER_VALUE.PATTERN"),
        (check("sql", "id >"), "[PARSE_SYNTAX_ERROR]"),
        (check("sql", "nobody > 1"), "[UNRESOLVED_COLUMN"),
        (check("sql", "sum(id) > 1"), "[INVALID_WHERE_CONDITION]"),
        (check("sql", "id + 1"), "FILTER_NOT_BOOLEAN"),
        (check("sql", "id > rand()"), "uses rand(), which gives different results each time"),
    ],
)
def test_a_check_that_makes_no_sense_is_an_error_with_line_and_key(
    spark: SparkSession, one: Check, said: str
) -> None:
    frame = spark.createDataFrame([], "id bigint, port string")
    with pytest.raises(ConfigError) as caught:
        spark_bits(spark, frame, {0: one}, "t")
    assert said in caught.value.message
    assert caught.value.message.startswith("lading.yaml:7: tables.t.checks[0]: ")
    assert caught.value.hint and caught.value.table == "t"
