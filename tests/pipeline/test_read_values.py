"""The reader's rules for text, and that those which let a schema evolve are the same."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

from lading.errors import ConfigError
from lading.model import Column
from lading.pipeline.read_values import Texts
from lading.sources.infer_fits import Fits
from lading.sources.kinds import Kinds

TEXTS = [
    "0", "1", "-1", "+1", "007", "127", "128", "-128", "-129", "32768", "2147483648",
    "9223372036854775807", "9223372036854775808", "1.", ".5", "-.5", "1.5", "1.50", "1.239",
    "12345.67", "1e3", "1E-3", "1e999", "1d", "1f", "1D", "0x1p3", "0x10", "NaN", "nan", "Inf",
    "-Inf", "Infinity", "+Infinity", "inf", " 1", "1 ", "1\t", "1\x00", "1_0", "1,5", "1,500",
    "--1", "+", "-", ".", "e", "1e", "٣", "true", "FALSE", "t", "Y", "yes", "2024-01-31",
    "2024-1-31", "2024-02-30", "2024-01-31 ", "2024-01-31T", "2024-01", "2024", "12024-01-31",
    "2024-01-31 10:00", "2024-01-31T10:00:00", "2024-01-31 10:00:00.5",
    "2024-01-31 10:00:00.123456", "2024-01-31 10:00:00.1234567", "2024-01-31 10:00:00.1234560",
    "2024-01-31T25:00:00", "2024-01-31T10:00:60", "2024-01-31T10:00:00Z",
    "2024-01-31T10:00:00+02:00", "2024-01-31T10:00:00+0200", "2024-01-31T10:00:00+02",
    "2024-01-31T10:00Z", "T10:00", "10:00", "now", "today", "x", "00:00",
]  # fmt: skip
TYPES = [
    "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(38,0)",
    "boolean", "date", "timestamp", "timestamp_ntz",
]  # fmt: skip


def test_the_reader_takes_exactly_what_lets_a_schema_stay_as_it_is(spark):
    texts = Texts(None, None, None)
    frame = spark.createDataFrame([(text,) for text in TEXTS], "v string").coalesce(1)
    values = [texts.value(F.col("v"), Column("v", type)).isNotNull().alias(type) for type in TYPES]
    fits = Fits(Kinds())
    for row in frame.select("v", *values).collect():
        for type in TYPES:
            assert row[type] == fits.all_fit(pa.array([row["v"]]), type), (row["v"], type)


def test_values_are_what_the_text_says(spark):
    texts = Texts("dd.MM.yyyy", "dd.MM.yyyy HH:mm", "NA")
    given = {
        "a": ("007", "int"),
        "b": ("-.5e1", "double"),
        "c": ("+1.500", "decimal(5,2)"),
        "d": ("TRUE", "boolean"),
        "e": ("31.01.2024", "date"),
        "f": ("31.01.2024 10:30", "timestamp_ntz"),
    }
    values = [
        texts.value(F.lit(text), Column(name, type)).alias(name) for name, (text, type) in given.items()
    ]
    (row,) = spark.range(1).select(*values).collect()
    assert [str(value) for value in row] == ["7", "-5.0", "1.50", "True", "2024-01-31", "2024-01-31 10:30:00"]


def test_nothing_and_the_null_text_are_null_and_empty_text_is_text(spark):
    texts = Texts(None, None, "NA")
    given = [("", "string"), ("NA", "string"), ("", "int"), ("NA", "int"), ("5", "int")]
    shown = [texts.present(F.lit(text), type).alias(f"c{i}") for i, (text, type) in enumerate(given)]
    assert tuple(spark.range(1).select(*shown).collect()[0]) == ("", None, None, None, "5")


def test_a_nested_type_can_not_be_read_from_text(spark):
    with pytest.raises(ConfigError, match="'v' is array<int>, which can't be read from text"):
        Texts(None, None, None).value(F.lit("x"), Column("v", "array<int>"))
