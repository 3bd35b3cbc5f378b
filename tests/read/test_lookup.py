"""Lookups open what can hold the key, and agree with a filter."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lading.errors import ConfigError, PartError, PredicateError
from lading.read.lookup import Hit, lookup

Make = Callable[..., Any]


def disjoint(make_table: Make, **options: Any) -> Any:
    parts = [
        pa.table({"key": range(start, start + 100), "name": [f"n{start}"] * 100}) for start in (0, 100, 200)
    ]
    return make_table(parts[0].schema, parts, order_by="key", row_group_size=10, **options)


def test_on_disjoint_members_exactly_one_file_is_opened(make_table: Make) -> None:
    table = disjoint(make_table)
    for member in (0, 2):
        Path(table.root, table.members[member].path).unlink()
    hit = lookup(table, 150)
    assert hit == Hit(True, table.members[1].path, [{"key": 150, "name": "n100"}], 1)
    assert hit.row == {"key": 150, "name": "n100"}


def test_only_the_row_group_that_can_hold_the_key_is_read(make_table: Make) -> None:
    table = disjoint(make_table, compression="zstd", use_dictionary=False)
    path = Path(table.root, table.members[1].path)
    data = bytearray(path.read_bytes())
    data[4:44] = b"\xff" * 40  # the first row group's pages
    path.write_bytes(data)
    assert lookup(table, 195).found
    with pytest.raises(PartError):
        lookup(table, 101)


def test_an_absent_key_is_an_answer(make_table: Make) -> None:
    table = disjoint(make_table)
    assert lookup(table, 1000) == Hit(False, None, [], 0)
    assert lookup(table, 5.5) == Hit(False, None, [], 0)
    assert lookup(table, 10**30).row is None


def test_overlapping_members_are_all_asked(make_table: Make) -> None:
    parts = [pa.table({"key": [1, 5, 9], "part": [at] * 3}) for at in range(2)] + [
        pa.table({"key": [4, 6], "part": [2, 2]})
    ]
    table = make_table(parts[0].schema, parts, order_by="key")
    hit = lookup(table, "5")
    assert hit.rows == [{"key": 5, "part": 0}, {"key": 5, "part": 1}]
    assert (hit.member, hit.opened) == (table.members[0].path, 3)


def test_rows_of_a_subtracted_source_are_not_found(make_table: Make) -> None:
    part = pa.table({"key": [1, 1, 2], "_source": [7, 8, 7]})
    table = make_table(part.schema, [part], order_by="key", minus=[(7,)])
    assert lookup(table, 1).rows == [{"key": 1, "_source": 8}]
    assert not lookup(table, 2).found


def test_a_table_without_an_order_column_says_so(make_table: Make) -> None:
    part = pa.table({"key": [1]})
    with pytest.raises(ConfigError) as caught:
        lookup(make_table(part.schema, [part]), 1)
    assert "order_by" in caught.value.hint


@pytest.mark.parametrize(
    ("type", "value", "keys"),
    [
        (pa.int32(), 5, ["5", 5, Decimal("5.0"), "5.0"]),
        (pa.float64(), 0.5, ["0.5", 0.5, Decimal("0.5"), "5e-1"]),
        (pa.decimal128(9, 2), Decimal("1.50"), ["1.5", Decimal("1.5"), 1.5]),
        (pa.string(), "5", ["5"]),
        (pa.binary(), b"ab", [b"ab", "ab"]),
        (pa.bool_(), True, [True, "true", "TRUE"]),
        (pa.date32(), date(2024, 1, 31), ["2024-01-31", date(2024, 1, 31), datetime(2024, 1, 31)]),
        (
            pa.timestamp("us"),
            datetime(2024, 1, 31, 6, 30),
            ["2024-01-31 06:30", "2024-01-31T06:30:00.000", datetime(2024, 1, 31, 6, 30)],
        ),
        (
            pa.timestamp("us", "UTC"),
            datetime(2024, 1, 31, 6, 30, tzinfo=UTC),
            ["2024-01-31 06:30", "2024-01-31T06:30:00Z", "2024-01-31T08:30+02:00"],
        ),
        (pa.dictionary(pa.int32(), pa.string()), "x", ["x"]),
    ],
)
def test_a_key_is_a_value_of_the_order_column_or_its_text(
    make_table: Make, type: pa.DataType, value: Any, keys: list[Any]
) -> None:
    part = pa.table({"key": pa.array([value], type)})
    table = make_table(part.schema, [part], order_by="key")
    for key in keys:
        assert lookup(table, key).rows == [{"key": value}], key


@pytest.mark.parametrize(
    ("type", "key"),
    [(pa.int64(), "five"), (pa.int64(), b"5"), (pa.date32(), "soon"), (pa.timestamp("us"), 5)],
)
def test_a_key_of_another_type_is_a_usage_error(make_table: Make, type: pa.DataType, key: Any) -> None:
    part = pa.table({"key": pa.array([1], type)})
    with pytest.raises(PredicateError) as caught:
        lookup(make_table(part.schema, [part], order_by="key"), key)
    assert f"the order column key is {type}" in caught.value.message
    assert caught.value.hint


def test_nanoseconds_do_not_need_pandas(make_table: Make) -> None:
    part = pa.table(
        {
            "key": [1, 2],
            "at": pa.array([1_000, 1_001], pa.timestamp("ns")),
            "span": pa.array([1_000, 2_000], pa.duration("ns")),
        }
    )
    table = make_table(part.schema, [part], order_by="key")
    exact = lookup(table, 1).row
    assert exact == {"key": 1, "at": datetime(1970, 1, 1, 0, 0, 0, 1), "span": timedelta(microseconds=1)}
    finer = lookup(table, 2).row
    assert finer is not None
    assert finer["at"] == "1970-01-01 00:00:00.000001001"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    parts=st.lists(st.lists(st.text("aé\U0010ffff", max_size=3), min_size=1, max_size=6), max_size=4),
    long=st.booleans(),
    key=st.text("aé\U0010ffff", max_size=3),
)
def test_a_lookup_equals_a_filter(make_table: Make, parts: list[list[str]], long: bool, key: str) -> None:
    start = "\U0010ffff" * 63 if long else ""
    schema = pa.schema([("key", pa.string()), ("row", pa.int64())])
    numbered = [
        [(start + text, 10 * at + n) for n, text in enumerate(sorted(part))] for at, part in enumerate(parts)
    ]
    tables = [
        pa.table([list(column) for column in zip(*part, strict=True)], schema=schema) for part in numbered
    ]
    table = make_table(schema, tables, order_by="key", row_group_size=2)
    hit = lookup(table, start + key)
    assert [row["row"] for row in hit.rows] == [
        n for part in numbered for text, n in part if text == start + key
    ]
    assert hit.found == bool(hit.rows)
