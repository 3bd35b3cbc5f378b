"""Stored columns in the table's types of today: no value changes, and what would have to change is refused."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.errors import PartError
from lading.formats.arrow_types import arrow_type
from lading.parts.schema import conformed, lossless

PLAIN = ["tinyint", "smallint", "int", "bigint", "double", "boolean", "date"]
NUMBERS = PLAIN[:5]
TYPES = [*PLAIN, "float", "string", "binary", "timestamp", "timestamp_ntz", "decimal(10,2)", "array<int>"]


def read(values: Any, old: str | pa.DataType, new: str | pa.DataType) -> list[Any]:
    old, new = (arrow_type(one) if isinstance(one, str) else one for one in (old, new))
    batch = pa.record_batch({"x": pa.array(values, old)})
    found = conformed(batch, pa.schema([("x", new)]), "part-1")
    assert found.schema.types == [new]
    return found.column(0).to_pylist()


@pytest.mark.parametrize("new", TYPES)
@pytest.mark.parametrize("old", TYPES)
def test_which_types_can_be_read_as_which(old: str, new: str) -> None:
    pair = {old, new}
    always = old == new or pair <= set(NUMBERS) or pair == {"date", "timestamp_ntz"}
    if_plain = "string" in pair and bool(pair & set(PLAIN))
    assert lossless(old, new, plain=False) is always
    assert lossless(old, new, plain=True) is (always or if_plain)


@pytest.mark.parametrize(
    ("old", "new", "fine"),
    [
        ("decimal(10,2)", "decimal(12,2)", True),
        ("decimal(10,2)", "decimal(12,4)", True),
        ("decimal(10,2)", "decimal(12,6)", False),
        ("decimal(10,2)", "decimal(10,1)", False),
        ("decimal(10,2)", "double", False),
        ("bigint", "decimal(38,0)", False),
        ("struct<a:int>", "struct<a:bigint>", False),
        ("struct<a:int>", "struct<a:int>", True),
        ("array<string>", "string", False),
    ],
)
def test_decimals_widen_and_nested_types_stay(old: str, new: str, fine: bool) -> None:
    assert lossless(old, new, plain=True) is fine


DAYS = st.integers(-700_000, 2_000_000).map(lambda day: date(1970, 1, 1) + timedelta(days=day))
# Values of `old` that are values of `new` too, and what they are there.
PAIRS: dict[tuple[str, str], tuple[st.SearchStrategy[Any], Any]] = {
    ("int", "bigint"): (st.integers(-(2**31), 2**31 - 1), int),
    ("bigint", "int"): (st.integers(-(2**31), 2**31 - 1), int),
    ("bigint", "double"): (st.integers(-(10**15), 10**15), float),
    ("double", "bigint"): (st.integers(-(10**15), 10**15).map(float), int),
    ("double", "int"): (st.integers(-(2**31), 2**31 - 1).map(float), int),
    ("date", "timestamp_ntz"): (DAYS, lambda day: datetime(day.year, day.month, day.day)),
    ("timestamp_ntz", "date"): (DAYS.map(lambda d: datetime(d.year, d.month, d.day)), datetime.date),
    ("decimal(10,2)", "decimal(14,4)"): (st.decimals(-(10**7), 10**7, places=2), Decimal),
    ("bigint", "string"): (st.integers(-(2**63), 2**63 - 1), str),
    ("tinyint", "string"): (st.integers(-128, 127), str),
    ("boolean", "string"): (st.booleans(), lambda value: str(value).lower()),
    ("date", "string"): (DAYS, date.isoformat),
    ("double", "string"): (st.decimals(-999, 999, places=3).map(float), lambda x: repr(x).removesuffix(".0")),
    # Stored as a time while the column was one; the file has dates.
    ("timestamp_ntz", "string"): (
        DAYS.map(lambda d: datetime(d.year, d.month, d.day)),
        lambda at: at.date().isoformat(),
    ),
}


@pytest.mark.parametrize(("old", "new"), PAIRS, ids="->".join)
def test_every_value_is_read_as_what_it_is_and_comes_back(old: str, new: str) -> None:
    values, meaning = PAIRS[old, new]

    @settings(max_examples=150, deadline=None)
    @given(st.lists(values | st.none(), max_size=5))
    def check(stored: list[Any]) -> None:
        expected = [None if one is None else meaning(one) for one in stored]
        found = read(stored, old, new)
        assert found == expected and list(map(type, found)) == list(map(type, expected))
        assert read(found, new, old) == stored

    check()


def test_a_column_that_a_part_lacks_is_null_and_one_that_the_table_lacks_stays_away() -> None:
    batch = pa.record_batch({"gone": [1, 2], "k": [3, 4]})
    schema = pa.schema([("new", pa.list_(pa.int64())), ("k", pa.int64())])
    found = conformed(batch, schema, "p")
    assert found.to_pylist() == [{"new": None, "k": 3}, {"new": None, "k": 4}]


def test_an_empty_text_is_null_in_every_other_type() -> None:
    for new in (
        "bigint",
        "double",
        "boolean",
        "date",
        "timestamp_ntz",
        "decimal(5,2)",
        "binary",
        "array<int>",
    ):
        assert read(["", None, ""], "string", new) == [None, None, None]
    assert read(["", "5"], "string", "bigint") == [None, 5]
    assert read(["", "x"], pa.large_string(), "string") == ["", "x"]


@pytest.mark.parametrize("new", TYPES)
@pytest.mark.parametrize("old", TYPES)
def test_nothing_but_nulls_is_nothing_but_nulls_in_every_type(old: str, new: str) -> None:
    assert read([None, None], old, new) == [None, None]
    assert read([], old, new) == []


@pytest.mark.parametrize(
    ("values", "old", "new", "said"),
    [
        ([1, 2**31], "bigint", "int", "not in range"),
        ([2**53 + 1], "bigint", "double", "not in range"),
        ([1.0, 1.5], "double", "bigint", "truncated"),
        ([float("nan")], "double", "bigint", "truncated"),
        ([float("nan")], "double", "string", "no plain text"),
        ([datetime(2024, 1, 1), datetime(2024, 1, 1, 5)], "timestamp_ntz", "date", "a time of day"),
        ([datetime(2024, 1, 1, 5)], "timestamp_ntz", "string", "a time of day"),
        (["5", "05"], "string", "bigint", "'05' is not how"),
        (["1e3"], "string", "double", "'1e3' is not how"),
        (["True"], "string", "boolean", "'True' is not how"),
        (["2024-01-01 00:00:00"], "string", "timestamp_ntz", "2024-01-01 00:00:00"),
        (["1.5"], "string", "decimal(5,2)", "no value that is string is one that is decimal128"),
        (["x"], "string", "binary", "no value that is"),
        ([1], "bigint", "boolean", "no value that is"),
        ([1], "bigint", "timestamp_ntz", "no value that is"),
        ([1], "bigint", "decimal(5,0)", "no value that is"),
        ([True], "boolean", "bigint", "no value that is"),
        ([1.5], "float", "string", "no value that is"),
        ([Decimal("1.25")], "decimal(5,2)", "string", "no value that is"),
        ([Decimal("1.25")], "decimal(5,2)", "decimal(5,1)", "data loss"),
        ([datetime(2024, 1, 1)], "timestamp", "timestamp_ntz", "no value that is"),
        ([datetime(2024, 1, 1)], "timestamp", "string", "no value that is"),
        ([{"a": 1}], "struct<a:int>", "struct<a:string>", "no value that is"),
        ([{"a": 1}], "struct<a:int>", "struct<b:int>", "no value that is"),
        ([[1]], "array<int>", "string", "no value that is"),
    ],
)
def test_what_would_lose_something_is_refused_with_file_and_column(
    values: list[Any], old: str, new: str, said: str
) -> None:
    with pytest.raises(PartError, match=said) as caught:
        read(values, old, new)
    assert str(caught.value).startswith("part-1: column x is ")


def test_files_of_a_collection_are_read_as_ever() -> None:
    """Other widths, units and encodings of one sort of value."""
    assert read([1], pa.uint8(), pa.int64()) == [1]
    assert read(["a"], pa.dictionary(pa.int8(), pa.large_string()), pa.string()) == ["a"]
    at = datetime(2024, 1, 1, 1)
    assert read([at], pa.timestamp("s"), pa.timestamp("us")) == [at]
    assert read([1.5], pa.float32(), pa.float64()) == [1.5]
    assert read([date(2024, 1, 1)], pa.date64(), pa.date32()) == [date(2024, 1, 1)]
    assert read([[1]], pa.list_(pa.int32()), pa.list_(pa.int64())) == [[1]]
    assert read([None], pa.null(), pa.string()) == [None]
    assert read([5], pa.duration("s"), pa.duration("ms")) == [timedelta(seconds=5)]
