"""Columns come, go and change their type; history and diff say when and why, older readers see theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.world import SCHEMA, World

import lading
from lading.cli.main import invoke
from lading.snapshots.columns import ColumnChange, column_changes, in_words, recorded_changes
from lading.snapshots.history import Wanted, column_history, find, history
from lading.snapshots.manifest import BuildMeta, build_snapshot
from lading.snapshots.opening import build_meta_and_schema

WIDER = pa.schema(
    [("id", pa.int64()), ("note", pa.string()), ("tonnes", pa.int32()), ("_source", pa.int64())]
)
OTHER = pa.schema([("id", pa.int64()), ("tonnes", pa.float64()), ("_source", pa.int64())])
NEW = "column 'tonnes' (int) is new (b.csv)"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Five snapshots: a column comes and is noted, nothing, a type changes and a column goes, nothing."""
    made = World(tmp_path / "project")
    made.run()
    made.schema = WIDER
    made.run(replace=1, schema_changes=[NEW])
    made.run()
    made.schema = OTHER
    made.run(replace=2)
    made.run()
    (made.folder / "lading.yaml").write_text(
        "warehouse: warehouse\ntables:\n  t: {root: data, path: '*.csv', format: csv, order_by: id}\n"
    )
    return made


def schema_bytes(*fields: tuple[str, pa.DataType]) -> bytes:
    return bytes(pa.schema(list(fields)).serialize())


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ((), (), []),
        ((), (("x", pa.int64()),), ["column 'x' (bigint) is new"]),
        ((("x", pa.date32()),), (), ["column 'x' (date) is gone"]),
        ((("x", pa.int64()),), (("x", pa.string()),), ["column 'x' goes from bigint to string"]),
        (
            (("x", pa.int64()), ("y", pa.timestamp("us", "UTC"))),
            (("y", pa.timestamp("us")), ("z", pa.list_(pa.struct([("a b", pa.decimal128(5, 2))])))),
            [
                "column 'x' (bigint) is gone",
                "column 'y' goes from timestamp to timestamp_ntz",
                "column 'z' (array<struct<`a b`:decimal(5,2)>>) is new",
            ],
        ),
        ((("x", pa.int64()), ("y", pa.date32())), (("y", pa.date32()), ("x", pa.int64())), []),
        ((), (("x", pa.month_day_nano_interval()),), ["column 'x' (month_day_nano_interval) is new"]),
    ],
)
def test_changes_are_told_in_the_types_that_people_write(
    before: tuple[Any, ...], after: tuple[Any, ...], words: list[str]
) -> None:
    found = column_changes(schema_bytes(*before), schema_bytes(*after))
    assert [one.words for one in found] == words


def test_what_the_run_noted_is_said_instead() -> None:
    changes = (ColumnChange("x", None, "bigint"), ColumnChange("xy", "int", "string"))
    noted = ("column 'x' (bigint) is new (b.csv)",)
    assert in_words(changes, noted) == (*noted, "column 'xy' goes from int to string")
    assert in_words((), ()) == ()


@pytest.mark.parametrize("custom", [{}, {"schema_changes": 5}, {"schema_changes": {"a": 1}}])
def test_a_manifest_may_say_nothing_or_nonsense(custom: dict[str, Any]) -> None:
    assert recorded_changes(custom) == ()


def test_only_texts_are_taken() -> None:
    assert recorded_changes({"schema_changes": ["a", 5, None, "b"]}) == ("a", "b")


def test_history_says_when_columns_changed(world: World) -> None:
    told = history(world.store)
    assert [one.column_words for one in told] == [
        (),
        ("column 'note' (string) is gone", "column 'tonnes' goes from int to double"),
        (),
        (NEW,),
        (),
    ]
    assert told[3].columns == (ColumnChange("tonnes", None, "int"),)
    assert history(world.store, limit=2)[1].columns == told[1].columns


def test_a_table_without_a_snapshot_has_no_history(tmp_path: Path) -> None:
    assert history(World(tmp_path / "project").store) == []


def test_a_snapshot_that_can_not_be_read_hides_no_other(world: World) -> None:
    listed = world.store.list_manifests()
    (world.root / listed[2].ref).write_bytes(b"nonsense")
    told = history(world.store)
    assert told[2].problem and [len(one.columns) for one in told] == [0, 0, 0, 1, 0]


def test_no_schema_is_decoded_where_none_changed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    real = pa.ipc.read_schema
    monkeypatch.setattr(pa.ipc, "read_schema", lambda data: decoded.append(1) or real(data))
    history(world.store, limit=1)
    assert decoded == []
    history(world.store)
    assert len(decoded) == 4


def test_a_diff_says_which_run_changed_the_columns(world: World) -> None:
    first, last = (find(world.store, Wanted(offset=offset), world.where) for offset in (4, 0))
    between = column_history(world.store, first, last)
    assert [one.column_words for one in between] == [
        (NEW,),
        ("column 'note' (string) is gone", "column 'tonnes' goes from int to double"),
    ]
    assert column_history(world.store, last, first) == []
    assert column_history(world.store, last, last) == []
    second = find(world.store, Wanted(offset=3), world.where)
    assert [one.column_words for one in column_history(world.store, second, last)] == [
        between[1].column_words
    ]


def test_the_commands_say_so_too(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> str:
        assert invoke(["-C", str(world.folder), *words]) == 0
        return capsys.readouterr().out

    runs = [one.run_id for one in world.store.list_manifests()]
    out = said("history", "t")
    assert f"{runs[3]}: {NEW}\n" in out and f"{runs[1]}: column 'note' (string) is gone\n" in out
    snapshots = json.loads(said("history", "t", "--json"))["snapshots"]
    assert snapshots[3]["schema_changes"] == [NEW] and snapshots[0]["schema_changes"] == []
    assert snapshots[1]["columns"][1] == {"name": "tonnes", "before": "int", "after": "double"}
    out = said("diff", "t", "~4", "current")
    assert "column tonnes: none -> double\n" in out and f"UTC, run {runs[3]}: {NEW}\n" in out
    found = json.loads(said("diff", "t", "~4", "current", "--json"))
    assert [one["run_id"] for one in found["schema_changes"]] == [runs[3], runs[1]]
    assert found["schema_changes"][0]["changes"] == [NEW]
    assert json.loads(said("diff", "t", "~1", "current", "--json"))["schema_changes"] == []


@pytest.mark.parametrize(("offset", "schema"), [(0, OTHER), (1, OTHER), (2, WIDER), (3, WIDER), (4, SCHEMA)])
def test_a_reader_of_an_older_snapshot_sees_its_schema(world: World, offset: int, schema: pa.Schema) -> None:
    with lading.open(world.root, offset=offset) as reader:
        table = reader.scan().to_table()
        assert table.schema.equals(schema)
        assert all(column.null_count == 0 for column in table.columns)
        where = "tonnes >= 1" if "tonnes" in schema.names else "id >= 1"
        assert reader.scan(where=where).to_table().num_rows == table.num_rows * 2 // 3


def test_a_manifest_of_another_writer_has_no_schema(world: World) -> None:
    meta = BuildMeta(run_id="theirs", created_at=world.now)
    world.store.publish(build_snapshot(meta), "theirs", sequence=99, now=world.now)
    ref = world.store.list_manifests()[0].ref
    assert build_meta_and_schema(world.store, ref)[1] is None
    assert history(world.store)[0].column_words == ()


def test_a_part_in_two_snapshots_is_read_in_the_schema_of_each(tmp_path: Path) -> None:
    world = World(tmp_path / "project")
    world.run(rows=2)
    world.schema = WIDER
    world.run(rows=2)
    with lading.open(world.root) as reader, lading.open(world.root, offset=1) as older:
        assert sorted(reader.scan().to_table()["tonnes"].to_pylist(), key=str) == [0, 1, None, None]
        assert older.scan().to_table().schema.equals(SCHEMA) and older.rows == 2
