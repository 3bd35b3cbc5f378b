"""One table whose columns changed while a part of it stayed, through every door that rows come out of."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.aging import Aging

import lading
from lading.checks.gate import ask_gate
from lading.checks.measure import null_count, repeats
from lading.config.gate import Gate, NullLimit
from lading.config.serve import Serve
from lading.errors import ConfigError, PartError
from lading.log.table import Table
from lading.model import Member
from lading.parts.fold import live_batches
from lading.parts.rewrite import rewrite_members
from lading.read.lookup import lookup
from lading.read.scan import scan, table_schema
from lading.serve.build.rows import PartRows, routed_rows, shards_touched
from lading.serve.spec import resolve
from lading.snapshots.diff import ColumnChange, diff
from lading.snapshots.opening import open_members
from lading.snapshots.stores.files import LocalStore
from lading.state.members import MemberStore
from lading.storage.place import place_of

BEFORE = {"a": pa.int64(), "b": pa.float64(), "c": pa.date32(), "gone": pa.string()}
AFTER = {"new": pa.bool_(), "c": pa.timestamp("us"), "b": pa.int64(), "a": pa.string()}
DAY = date(2024, 1, 2)
OLD_ROWS = [
    {"k": 1, "a": 9, "b": 4.0, "c": DAY, "gone": "x", "_source": 1},
    {"k": 2, "a": 10, "b": None, "c": None, "gone": None, "_source": 1},
    {"k": 3, "a": 2**60, "b": 1.5, "c": DAY, "gone": "y", "_source": 2},  # no bigint: read again before
]
ROWS = [
    {"k": 1, "new": None, "c": datetime(2024, 1, 2), "b": 4, "a": "9", "_source": 1},
    {"k": 2, "new": None, "c": None, "b": None, "a": "10", "_source": 1},
    {"k": 3, "new": True, "c": datetime(2024, 1, 2, 3), "b": 7, "a": "zz", "_source": 2},
]


class Changed(Aging):
    """The table after the change; `first` is the run of the snapshot before it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, **BEFORE)
        self.old = self._rows(OLD_ROWS)
        self.add(self.old)
        self.first = self.publish()
        self.schema = self.columns_now()
        fresh = self._rows(ROWS[2:])
        self.turn(fresh, minus=[(self.old.path, [2])], **AFTER)
        self.publish()

    def columns_now(self) -> pa.Schema:
        return pa.schema([("k", pa.int64()), *AFTER.items(), ("_source", pa.int64())])

    def _rows(self, rows: list[dict[str, Any]]) -> Member:
        values = {name: [row[name] for row in rows] for name in rows[0] if name not in ("k", "_source")}
        return self.part([row["_source"] for row in rows], [row["k"] for row in rows], **values)

    def snapshot(self, offset: int = 0) -> MemberStore:
        store = LocalStore(self.folder)
        listed = store.list_manifests()
        return open_members(store, listed[offset].ref, place_of(self.folder))


@pytest.fixture
def table(tmp_path: Path) -> Changed:
    return Changed(tmp_path)


def by_key(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["k"])


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("a = '9'", [1]),
        ("a < '9'", [2]),  # as text, 10 comes before 9
        ("b >= 4", [1, 3]),
        ("c = '2024-01-02'", [1]),
        ("c > '2024-01-01 12:00' and c < '2024-01-02 01:00'", [1]),
        ("new", [3]),
        ("new is null", [1, 2]),
        ("b is null", [2]),
        ("k > 2", [3]),
    ],
)
def test_a_scan_finds_rows_by_their_values_of_today(table: Changed, where: str, keys: list[int]) -> None:
    where = "new = true" if where == "new" else where
    with lading.open(table.folder) as reader:
        assert sorted(reader.scan(where=where).to_table()["k"].to_pylist()) == keys
    table.table.checkpoint()
    for members in (table.table.state, table.opened().state):
        assert sorted(scan(members, where=where).to_table()["k"].to_pylist()) == keys


def test_every_frame_has_the_rows_of_today(table: Changed) -> None:
    pytest.importorskip("pandas"), pytest.importorskip("polars"), pytest.importorskip("duckdb")
    with lading.open(table.folder) as reader:
        assert by_key(reader.scan().to_table().to_pylist()) == ROWS
        assert by_key(reader.to_arrow().read_all().to_pylist()) == ROWS
        assert by_key(reader.to_polars().collect().to_dicts()) == ROWS
        frame = reader.to_duckdb().order("k").fetchall()
        assert frame == [tuple(row.values()) for row in ROWS]
        assert sorted(reader.to_pandas()["a"]) == ["10", "9", "zz"]
        assert reader.scan(columns=["new"]).to_table()["new"].to_pylist().count(None) == 2


def test_a_lookup_gives_the_row_of_today(table: Changed) -> None:
    for row in ROWS:
        hit = lookup(table.table.state, row["k"])
        assert hit.rows == [row] and hit.opened <= 2
    with lading.open(table.folder) as reader:
        assert reader.lookup(2).row == ROWS[1]


def test_readers_of_an_older_snapshot_see_its_columns(table: Changed) -> None:
    with lading.open(table.folder, offset=1) as reader:
        assert by_key(reader.scan().to_table().to_pylist()) == OLD_ROWS
        assert reader.scan(where="a = 9 and gone = 'x' and b = 4").to_table()["k"].to_pylist() == [1]
    with lading.open(table.folder) as reader, lading.open(table.folder, offset=1) as older:
        # One part, asked by turns under both schemas: what is kept of its footer must not be mixed up.
        for _ in range(2):
            assert reader.scan(where="c = '2024-01-02' and a = '9'").to_table().num_rows == 1
            assert older.scan(where="c = '2024-01-02' and a = 9").to_table().num_rows == 1


def test_a_diff_says_which_columns_came_went_and_changed(table: Changed) -> None:
    found = diff(table.snapshot(1), table.snapshot())
    assert set(found.columns) == {
        ColumnChange("a", "int64", "string"),
        ColumnChange("b", "double", "int64"),
        ColumnChange("c", "date32[day]", "timestamp[us]"),
        ColumnChange("gone", "string", None),
        ColumnChange("new", None, "bool"),
    }
    assert (found.rows_before, found.rows_after, found.same) == (3, 3, False)
    assert [one["name"] for one in found.as_json()["columns"]] == ["a", "b", "c", "gone", "new"]


def test_merging_settles_the_columns_for_good(table: Changed) -> None:
    table.merge()
    [member] = table.table.state.candidates(None)
    assert pq.read_schema(table.folder / member.path).remove_metadata() == table.columns_now()
    assert by_key(scan(table.table.state).to_table().to_pylist()) == ROWS
    assert member.minus == () and table.table.state.find(member.path)[0].zones["a"].max == "zz"


def test_a_part_that_is_rewritten_gets_the_columns_of_now(table: Changed) -> None:
    old = msgspec.structs.replace(table.old, minus=(2,))
    [new] = rewrite_members(
        place_of(table.folder), [old], frozenset(), table_id="t", run_id="r", commit_id="c", order_by="k",
        schema=table.table.state.schema,
    )  # fmt: skip
    assert pq.read_schema(table.folder / new.path).remove_metadata() == table.columns_now()
    assert pq.read_table(table.folder / new.path, partitioning=None).to_pylist() == ROWS[:2]
    assert (new.zones["a"].min, new.zones["a"].max, new.zones["new"].nulls) == ("10", "9", 2)


def test_rows_on_their_way_to_spark_are_those_of_today(table: Changed) -> None:
    members = table.table.state.candidates(None)
    rows = live_batches(place_of(table.folder), members, table_schema(table.table.state))
    assert by_key([row for batch in rows for row in batch.to_pylist()]) == ROWS


def test_a_dead_row_that_no_longer_fits_is_an_error_only_where_it_counts(table: Changed) -> None:
    """Without its `minus`, the very same part can't be read."""
    table.minus()
    alive = msgspec.structs.replace(table.old, minus=())
    with pytest.raises(PartError, match=r"column b is double in this file but int64 in the table: .*1.5"):
        list(live_batches(place_of(table.folder), [alive], table_schema(table.table.state)))


@pytest.mark.parametrize("value", [None, ("a", "b", "new")])
def test_shards_hold_the_values_of_today(table: Changed, value: tuple[str, ...] | None) -> None:
    state = table.table.state
    spec = resolve(Serve(key=("k",), value=value, shards=2), state.schema, 3, "k", table="t")
    schema = table_schema(state)
    parts = [PartRows(member.path, without=member.minus) for member in state.candidates(None)]
    found = routed_rows(place_of(table.folder), parts, schema, spec, np.zeros(2, np.int32))
    values = {
        key: json.loads(stored)
        for _, batch in found
        for key, stored in zip(batch["k"].to_pylist(), batch["v"].to_pylist(), strict=True)
    }
    assert {key: (one["a"], one["b"], one["new"]) for key, one in values.items()} == {
        row["k"]: (row["a"], row["b"], row["new"]) for row in ROWS
    }
    gone = [PartRows(table.old.path, only=(1,))]
    assert set(shards_touched(place_of(table.folder), gone, schema, spec.router)) <= {0, 1}


def test_questions_about_the_whole_table_are_about_the_rows_of_today(table: Changed) -> None:
    members = table.snapshot()
    assert {name: null_count(members, name) for name in ("a", "b", "c", "new")} == {
        "a": 0, "b": 1, "c": 1, "new": 2,
    }  # fmt: skip
    twice = repeats(members, members.members(None), ["a", "b"], _no_spark, shown=1, asked="x")
    assert twice.rows == 0


def test_a_gate_compares_with_a_snapshot_that_had_other_columns(table: Changed) -> None:
    new, seen = table.snapshot(), table.snapshot(1)
    limits = {name: NullLimit(max_increase=0.0) for name in ("a", "b", "c", "new")}
    gate = Gate(nulls=limits, unique=("a",), sql=("a != 'nobody'",))
    # `new` has no nulls to rise from; one row of b more than before is null, since its file changed.
    assert ask_gate(gate, new, seen, {"unique": ["a"]}, _no_spark).failures == []
    told = ask_gate(Gate(nulls={"gone": NullLimit(0.5)}), new, seen, {}, _no_spark).failures
    assert told == [
        "the column gone is gone, which gate.nulls asks about: no source file has it any more, or the schema "
        "file leaves it out"
    ]
    told = ask_gate(Gate(unique=("k", "gone")), new, seen, {"unique": ["k", "gone"]}, _no_spark).failures
    assert [one[:18] for one in told] == ["the column gone is"]
    with pytest.raises(ConfigError, match="gate.nulls names 'nope'"):
        ask_gate(Gate(nulls={"nope": NullLimit(0.5)}), new, seen, {}, _no_spark)


def test_keys_that_were_unique_are_asked_again_when_their_type_changed(tmp_path: Path) -> None:
    """Only here are they the same: what was unique then need not be now."""
    table = Aging(tmp_path, x=pa.string())
    table.add(table.part(1, [1, 2], x=["5", ""]))
    table.publish()
    seen = open_members(LocalStore(table.folder), _newest(table), place_of(table.folder))
    table.turn(x=pa.int64())
    table.publish()
    new = open_members(LocalStore(table.folder), _newest(table), place_of(table.folder))
    (table.folder / new.members(None)[0].path).unlink()
    with pytest.raises(PartError, match="missing"):
        ask_gate(Gate(unique=("x",)), new, seen, {"unique": ["x"]}, _no_spark)
    assert ask_gate(Gate(unique=("k",)), new, seen, {"unique": ["k"]}, _no_spark).failures == []


def test_a_part_that_lacks_a_column_is_not_read_for_it(tmp_path: Path) -> None:
    table = Aging(tmp_path, x=pa.int64())
    table.add(table.part(1, [1, 2], x=[5, 6]))
    table.turn(x=pa.int64(), y=pa.int64())
    found = scan(table.table.state, where="y = 5")
    assert found.to_table().num_rows == 0
    assert (found.row_groups_scanned, found.row_groups_total) == (0, 1)
    assert scan(table.table.state, where="y is null", columns=["y"]).to_table().num_rows == 2


def test_a_column_that_left_and_came_back_as_something_else_is_pruned_by_nothing_old(tmp_path: Path) -> None:
    """Days are no microseconds, also if nobody looked at them in between."""
    for checkpoint in (0, 1, 2):
        table = Aging(tmp_path / str(checkpoint), x=pa.date32())
        table.add(table.part(1, [1], x=[DAY]))
        if checkpoint == 1:
            table.table.checkpoint()
        table.turn()
        if checkpoint == 2:
            table.table.checkpoint()
        table.turn(x=pa.timestamp("us"))
        for members in (table.table.state, Table.open(table.folder).state):
            assert scan(members, where="x = '2024-01-02'").to_table()["k"].to_pylist() == [1]
        [member] = table.table.state.with_zones()
        assert member.zones == table.table.state.find(member.path)[0].zones


def _newest(table: Aging) -> str:
    return LocalStore(table.folder).list_manifests()[0].ref


def _no_spark() -> Any:
    raise AssertionError("Spark was asked for")
