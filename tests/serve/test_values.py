"""Values as bytes: equal rows are equal bytes, and what comes back is what went in."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.errors import GateFailed
from lading.serve.values import encoded_values, rank_bytes

ROWS = pa.RecordBatch.from_pydict(
    {
        "n": pa.array([1, None], pa.int32()),
        "text": pa.array(['say "ä"\n\\', None]),
        "ratio": pa.array([1.5, float("nan")]),
        "on": pa.array([True, None]),
        "day": pa.array([date(2024, 1, 2), None]),
        "at": pa.array([datetime(2024, 1, 2, 3, 4, 5), None], pa.timestamp("us")),
        "seen": pa.array([datetime(2024, 1, 2, 3, 4, 5, 6, UTC), None], pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal("12.30"), None], pa.decimal128(10, 2)),
        "raw": pa.array([b"\0\xff", None]),
        "tags": pa.array([["a", "b"], None]),
        "of": pa.array([[("x", 1)], None], pa.map_(pa.string(), pa.int64())),
        'odd "name"': pa.array([{"x": date(2024, 1, 1)}, None]),
    }
)


def test_json_holds_every_type_and_says_null() -> None:
    first, second = encoded_values(ROWS, "json").to_pylist()
    assert json.loads(first) == {
        "n": 1,
        "text": 'say "ä"\n\\',
        "ratio": 1.5,
        "on": True,
        "day": "2024-01-02",
        "at": "2024-01-02T03:04:05.000000",
        "seen": "2024-01-02T03:04:05.000006Z",
        "price": "12.30",
        "raw": "AP8=",
        "tags": ["a", "b"],
        "of": {"x": 1},
        'odd "name"': {"x": "2024-01-01"},
    }
    assert set(json.loads(second).values()) == {None}
    assert first.startswith(b'{"n":1,"text":')


def test_msgpack_holds_the_same_rows() -> None:
    first = msgspec.msgpack.decode(encoded_values(ROWS, "msgpack").to_pylist()[0])
    assert (first["n"], first["text"], first["raw"]) == (1, 'say "ä"\n\\', b"\0\xff")
    assert list(first) == ROWS.schema.names


_DAYS = st.dates() | st.sampled_from([date.min, date.max])
_TIMES = st.datetimes() | st.datetimes().map(lambda at: at.replace(microsecond=0))
_COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 300) | st.integers(-70_000, 70_000)),
    (pa.int64(), st.sampled_from([sign * 2**bits + off for bits in (5, 7, 8, 15, 16, 31, 32)
                                  for sign in (1, -1) for off in (-1, 0, 1)])),
    (pa.uint32(), st.integers(0, 2**32 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text(st.characters(exclude_categories=("Cs",)), max_size=40)),
    (pa.large_string(), st.sampled_from(["", "a" * 31, "a" * 32, "é" * 127, "é" * 128])),
    (pa.string(), st.sampled_from(["x" * 65_535, "x" * 65_536])),
    (pa.binary(), st.binary(max_size=300) | st.sampled_from([bytes(255), bytes(256), bytes(65_536)])),
    (pa.date32(), _DAYS),
    (pa.timestamp("us"), _TIMES),
    (pa.timestamp("us", "UTC"), _TIMES.map(lambda at: at.replace(tzinfo=UTC))),
    (pa.timestamp("ms"), _TIMES.map(lambda at: at.replace(microsecond=0))),
    (pa.decimal128(20, 3), st.decimals(-(10**15), 10**15, places=3)),
    (pa.list_(pa.string()), st.lists(st.text("aé", max_size=3), max_size=3)),
]  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(st.data())
@pytest.mark.parametrize("number", range(len(_COLUMNS)))
def test_msgpack_of_columns_is_msgpack_of_their_rows(number: int, data: st.DataObject) -> None:
    type, values = _COLUMNS[number]
    column = pa.array(data.draw(st.lists(st.none() | values, min_size=1, max_size=6)), type)
    column = column.slice(data.draw(st.integers(0, len(column) - 1)))
    rows = pa.RecordBatch.from_pydict({"a": pa.array(range(len(column))), "ä": column})
    one_by_one = [msgspec.msgpack.encode(row) for row in rows.to_pylist()]
    assert encoded_values(rows, "msgpack").to_pylist() == one_by_one


@settings(deadline=None)
@given(st.lists(st.none() | st.floats() | st.floats(width=32), max_size=9))
def test_json_of_a_column_of_numbers_is_json_of_each(numbers: list[float | None]) -> None:
    rows = pa.RecordBatch.from_pydict({"x": pa.array(numbers, pa.float64())})
    one_by_one = [b'{"x":' + msgspec.json.encode(number) + b"}" for number in numbers]
    assert encoded_values(rows, "json").to_pylist() == one_by_one


def test_msgpack_counts_its_columns() -> None:
    for count in (1, 15, 16, 300):
        rows = pa.RecordBatch.from_pydict({f"c{number}": [number] for number in range(count)})
        assert encoded_values(rows, "msgpack").to_pylist() == [msgspec.msgpack.encode(rows.to_pylist()[0])]


def test_raw_is_the_column_itself_and_never_nothing() -> None:
    for column in (pa.array(["ä"]), pa.array(["ä".encode()])):
        rows = pa.RecordBatch.from_arrays([column], ["v"])
        assert encoded_values(rows, "raw").to_pylist() == ["ä".encode()]
    with pytest.raises(GateFailed, match="1 row has no v"):
        encoded_values(pa.RecordBatch.from_pydict({"v": pa.array(["a", None])}), "raw")


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(st.characters(exclude_categories=("Cs",)))), min_size=1))
def test_a_text_is_the_same_bytes_whoever_its_neighbours_are(texts: list[str | None]) -> None:
    together = encoded_values(pa.RecordBatch.from_pydict({"t": pa.array(texts, pa.string())}), "json")
    for text, found in zip(texts, together.to_pylist(), strict=True):
        alone = encoded_values(pa.RecordBatch.from_pydict({"t": pa.array([text], pa.string())}), "json")
        assert found == alone.to_pylist()[0]
        assert json.loads(found) == {"t": text}


@pytest.mark.parametrize(
    ("values", "type"),
    [
        ([5, -3, 0, 2**62, -(2**63), 2**63 - 1], pa.int64()),
        ([5, -3, 0], pa.int8()),
        ([1.5, -2.5, 0.0, math.inf, -math.inf, 1e-300, -1e-300], pa.float64()),
        ([Decimal("1.50"), Decimal("-2.25"), Decimal("0"), Decimal("99999999.99")], pa.decimal128(38, 2)),
        ([date(2024, 1, 1), date(1960, 1, 1)], pa.date32()),
        ([datetime(2024, 1, 1), datetime(1960, 1, 1)], pa.timestamp("us")),
        ([True, False], pa.bool_()),
        (["b", "a", "é", "", "ab"], pa.string()),
        ([b"\xff", b"", b"\0"], pa.binary()),
    ],
)
def test_ranks_compare_as_values_do(values: list[Any], type: pa.DataType) -> None:
    ranks = rank_bytes(pa.array(values, type)).to_pylist()
    assert [value for _, value in sorted(zip(ranks, values, strict=True))] == sorted(values)


def test_equal_numbers_rank_equal() -> None:
    zeros = rank_bytes(pa.array([0.0, -0.0])).to_pylist()
    assert zeros[0] == zeros[1]


def test_ranks_of_a_slice_are_those_of_its_rows() -> None:
    whole = pa.array([Decimal(n) for n in range(9)], pa.decimal128(9, 0))
    assert rank_bytes(whole.slice(3, 2)).to_pylist() == rank_bytes(whole).to_pylist()[3:5]
