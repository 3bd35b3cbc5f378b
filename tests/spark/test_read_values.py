"""The reader's rules for text, and that those which let a schema evolve are the same."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lading.errors import ConfigError
from lading.formats import values as rules
from lading.formats.infer.fits import Fits
from lading.formats.infer.kinds import Kinds
from lading.model import Column
from lading.spark.read.values import Texts, literal

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
    "2024-01-31T10:00Z", "T10:00", "10:00", "now", "today", "x", "00:00", "2024-01-31T10:00:00+18:00",
    "2024-01-31T10:00:00+18:30", "2024-01-31T10:00:00-19", "2024-01-31 10:00:00.123456000000",
]  # fmt: skip
AWKWARD = [
    "-0", "00501", "08001", "123456789012345", "1234567890123456", "-123456789012345",
    "-1234567890123456", "9007199254740993", "0.5", "-0.5", "00.5", "-00.5", "+1.5", "0e1", "-0E1", "-.",
    "1e-12345", "-1e300", "1234567890123456.5", "0." + "3" * 50, "9" * 400 + ".5", "0000-01-01",
    "0001-01-01", "2021-01-15 17:22", "2021-01-15 17", "0000-01-01 00:00", "2021-01-15 24:00",
    "2021-01-15 17:22Z", "2021-01-15 17:22:01+0200", "2021-01-15T17:22:01+02", "31.01.2024", "1.1.2024",
    "31.02.2024", "31.01.2024 10:30", "1.1.2024 10:30", "01/31/2024", "+12024-01-31",
    "2021-01-15T17:22+02:00", "2021-01-15T17:22Z", "0000-01-15T17:22Z", "31.01.0000",
]  # fmt: skip
TYPES = [
    "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(38,0)",
    "boolean", "date", "timestamp", "timestamp_ntz",
]  # fmt: skip


def test_the_reader_takes_exactly_what_lets_a_schema_stay_as_it_is(spark):
    texts = Texts(None, None, None)
    frame = spark.createDataFrame([(text,) for text in TEXTS], "v string").coalesce(1)
    values = [f"{texts.value('v', Column('v', type))} IS NOT NULL AS `{type}`" for type in TYPES]
    fits = Fits(Kinds())
    for row in frame.selectExpr("v", *values).collect():
        for type in TYPES:
            assert row[type] == fits.all_fit(pa.array([row["v"]]), Column("v", type)), (row["v"], type)


INFERRED = ["bigint", "double", "boolean", "date", "timestamp", "timestamp_ntz", "string"]


@pytest.mark.parametrize(
    ("date", "timestamp"),
    [(None, None), ("dd.MM.yyyy", None), (None, "d.M.yyyy HH:mm"), ("MM/dd/yyyy", "yyyy-MM-dd'T'HH:mmXXX")],
)
def test_under_an_inferred_type_the_reader_takes_exactly_what_inference_would(spark, date, timestamp):
    """Spark's side of tests/sources/test_inferred_types.py."""
    texts = Texts(date, timestamp, None)
    columns = [Column("v", type, inferred=True) for type in INFERRED]
    frame = spark.createDataFrame([(text,) for text in (*TEXTS, *AWKWARD)], "v string").coalesce(1)
    values = [f"{texts.value('v', column)} IS NOT NULL AS `{column.type}`" for column in columns]
    fits = Fits(Kinds(rules.Texts.of({"date_format": date, "timestamp_format": timestamp})))
    for row in frame.selectExpr("v", *values).collect():
        for column in columns:
            wanted = fits.all_fit(pa.array([row["v"]]), column)
            assert row[column.type] == wanted, (row["v"], column.type)


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
        f"{texts.value(literal(text), Column(name, type))} AS {name}" for name, (text, type) in given.items()
    ]
    (row,) = spark.range(1).selectExpr(*values).collect()
    assert [str(value) for value in row] == ["7", "-5.0", "1.50", "True", "2024-01-31", "2024-01-31 10:30:00"]


def test_nothing_and_the_null_text_are_null_and_empty_text_is_text(spark):
    texts = Texts(None, None, "NA")
    given = [("", "string"), ("NA", "string"), ("", "int"), ("NA", "int"), ("5", "int")]
    values = [texts.value(literal(text), Column("v", type)) for text, type in given]
    shown = [f"{value} AS c{number}" for number, value in enumerate(values)]
    assert tuple(spark.range(1).selectExpr(*shown).collect()[0]) == ("", None, None, None, 5)


@pytest.mark.parametrize("type", TYPES)
def test_the_null_text_is_null_also_where_it_would_be_a_value(spark, type):
    texts = Texts(None, None, "1")
    (row,) = spark.range(1).selectExpr(f"{texts.value(literal('1'), Column('v', type))} AS v").collect()
    assert row["v"] is None


def test_a_format_that_takes_an_empty_text_makes_no_value_of_it(spark):
    texts = Texts("[yyyy-MM-dd]", "[yyyy-MM-dd HH:mm]", None)
    values = [f"{texts.value(literal(''), Column('v', type))} AS {type}" for type in ("date", "timestamp")]
    assert tuple(spark.range(1).selectExpr(*values).collect()[0]) == (None, None)


@pytest.mark.parametrize(
    ("text", "type", "value"),
    [
        ("9" * 37, "float", 1e37),
        ("9" * 39, "float", None),
        ("9" * 400, "double", None),
        ("9" * 300, "double", 1e300),
        ("1\x7f", "int", None),
        ("1\x7f", "double", None),
        ("1/", "double", None),
    ],
)
def test_numbers_that_are_too_great_or_end_with_something_else_are_none(spark, text, type, value):
    (row,) = (
        spark.range(1)
        .selectExpr(f"{Texts(None, None, None).value(literal(text), Column('v', type))} AS v")
        .collect()
    )
    assert row["v"] == (value if value is None else pytest.approx(value))


@pytest.mark.parametrize("text", ["", "it's", 'say "x"', "\\", "a\nb", "東京", "${x}"])
def test_any_text_can_be_a_literal(spark, text):
    assert spark.range(1).selectExpr(f"{literal(text)} AS v").collect()[0]["v"] == text


def test_a_nested_type_can_not_be_read_from_text(spark):
    with pytest.raises(ConfigError, match="'v' is array<int>, which can't be read from text"):
        Texts(None, None, None).value("x", Column("v", "array<int>"))
