"""The order of rows is settled by their content alone, nested columns included."""

from __future__ import annotations

import random
from itertools import chain

import pyarrow as pa
import pytest

from lading.parts import sort, task
from lading.parts.runs import Run, merged
from lading.parts.sort import in_order, sort_keys

KINDS = {
    "k": pa.int64(),
    "_source": pa.int64(),
    "x": pa.float64(),
    "list": pa.list_(pa.int64()),
    "map": pa.map_(pa.string(), pa.int64()),
    "part": pa.struct({"a": pa.string(), "b": pa.list_(pa.float64())}),
}
SCHEMA = pa.schema(KINDS)


def rows_of(count: int, keys: int) -> list[dict[str, object]]:
    """Rows of which many are equal but for nested columns, or but for the sign of a zero."""
    pick = random.Random(count)
    return [
        {
            "k": pick.randrange(keys),
            "_source": pick.choice([1, 2]),
            "x": pick.choice([None, 0.0, -0.0, float("nan"), 1.0]),
            "list": pick.choice([None, [], [1], [1, 2], [2, 1]]),
            "map": pick.choice([None, [("a", 1), ("b", 2)], [("b", 2), ("a", 1)]]),
            "part": pick.choice([None, {"a": None, "b": None}, {"a": "z", "b": [pick.choice([0.0, -0.0])]}]),
        }
        for _ in range(count)
    ]


def shuffled(rows: list[dict[str, object]], seed: int) -> pa.Table:
    again = list(rows)
    random.Random(seed).shuffle(again)
    return pa.Table.from_pylist(again, SCHEMA)


def ordered(table: pa.Table, memory: int, keys: list[str] | None = None) -> str:
    keys = keys or sort_keys(SCHEMA, "k")
    tables = task.sorted_tables(iter(table.to_batches(max_chunksize=50)), SCHEMA, keys, memory)
    return repr(list(chain.from_iterable(one.to_pylist() for one in tables)))


def test_all_columns_are_keys_and_the_nested_ones_come_last():
    assert sort_keys(SCHEMA, "x") == ["x", "_source", "k", "list", "map", "part"]
    assert sort_keys(SCHEMA, None) == ["_source", "k", "x", "list", "map", "part"]


@pytest.mark.parametrize("keys", [1, 40])
def test_rows_come_in_the_same_order_however_they_arrive_and_whatever_memory_there_is(keys):
    rows = rows_of(1500, keys)
    first = ordered(shuffled(rows, 0), 1 << 30)
    for seed, memory in ((1, 1 << 30), (2, 60_000), (3, 6_000)):
        assert ordered(shuffled(rows, seed), memory) == first


def test_plain_columns_still_come_first():
    rows = shuffled(rows_of(900, 9), 1).combine_chunks()
    found = rows.take(in_order(rows, sort_keys(SCHEMA, "k"))).to_pylist()
    keys = [(one["k"], one["_source"], rank(one["x"])) for one in found]
    assert keys == sorted(keys)


def rank(x: float | None) -> tuple[int, float]:
    return (2, 0.0) if x is None else (1, 0.0) if x != x else (0, x)


def test_only_rows_that_nothing_else_tells_apart_are_looked_into(monkeypatch):
    seen: list[int] = []
    real = sort.digests

    def counted(table, columns, rows=None):
        seen.append(table.num_rows if rows is None else len(rows))
        return real(table, columns, rows)

    monkeypatch.setattr(sort, "digests", counted)
    table = pa.table({"k": [1, 1, 2, 2, 3], "_source": [1, 2, 7, 7, 1], "l": [[1], [1], [2], [1], [0]]})
    in_order(table, sort_keys(table.schema, "k"))
    assert seen == [2]
    in_order(table.drop_columns(["l"]), ["k", "_source"])
    in_order(table, ["k"])
    assert seen == [2]


def test_equal_rows_beyond_a_range_are_merged_in_order_and_no_column_is_added():
    rows = [{"k": 1, "_source": 1, "x": 0.5, "list": [number % 300]} for number in range(1200)]
    keys = sort_keys(SCHEMA, "k")
    runs = []
    for seed in range(3):
        run = shuffled(rows, seed).combine_chunks()
        runs.append(Run(run.take(in_order(run, keys))))
    found = list(merged(runs, keys, 100))
    assert all(table.schema == SCHEMA for table in found)
    assert max(table.num_rows for table in found) <= 200
    together = pa.concat_tables(found).combine_chunks()
    assert together.num_rows == 3600
    assert together.column("list") == together.take(in_order(together, keys)).column("list")
    assert list(merged([], keys, 100)) == []


def test_a_single_key_leaves_equal_rows_as_they_come():
    table = pa.table({"k": [0.0, -0.0, 0.0], "_source": [3, 2, 1], "l": [[3], [2], [1]]})
    assert in_order(table, ["k"]).to_pylist() == [0, 1, 2]
    halves = [Run(table.slice(0, 2)), Run(table.slice(2))]
    assert pa.concat_tables(merged(halves, ["k"], 1)).column("_source").to_pylist() == [3, 2, 1]


KEYS = {
    "wide": lambda pick, at: pick.randrange(-(2**63), 2**63),
    "narrow": lambda pick, at: pick.randrange(-3, 3),
    "two digits": lambda pick, at: pick.randrange(70_000) - 2**62,
    "ascending stretches": lambda pick, at: at % 900,
}


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us", "UTC"), pa.date32(), pa.int8()], ids=str)
@pytest.mark.parametrize("keys", KEYS)
def test_whole_numbers_are_sorted_without_comparing_and_equal_ones_stay_as_they_come(keys, kind):
    pick = random.Random(keys)
    width = kind.bit_width
    raw = [KEYS[keys](pick, at) for at in range(3000)]
    raw = [(one + 2 ** (width - 1)) % 2**width - 2 ** (width - 1) for one in raw]
    column = pa.array(raw, {8: pa.int8(), 32: pa.int32(), 64: pa.int64()}[width]).cast(kind)
    found = in_order(pa.table({"k": column}), ["k"]).to_pylist()
    assert found == sorted(range(3000), key=raw.__getitem__)
