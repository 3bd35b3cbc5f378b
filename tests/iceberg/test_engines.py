"""What engines return of tables with every type, of parts without numbers, and by their own filters."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.iceberg import (
    ENGINES,
    assert_all_see_the_same,
    assert_tags_read_as_they_did,
    by_lading,
    connected,
    metadata_of,
    seen,
)
from support.shown import Shown, lines

from lading.parts import field_ids
from lading.snapshots.history import Wanted
from lading.upkeep.rollback import roll_back

TYPES = pa.schema(
    [
        ("id", pa.int64()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("whole", pa.int32()),
        ("single", pa.float32()),
        ("number", pa.float64()),
        ("yes", pa.bool_()),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", "UTC")),
        ("clock", pa.timestamp("us")),
        ("money", pa.decimal128(12, 2)),
        ("much", pa.decimal128(38, 4)),
        ("list", pa.list_(pa.int32())),
        ("struct", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
        ("map", pa.map_(pa.string(), pa.int64())),
    ]
)


def a_row(number: int) -> dict[str, object]:
    return {
        "id": number,
        "tiny": -number,
        "small": number * 100,
        "whole": number - 5,
        "single": number / 4,
        "number": math.nan if number % 7 == 3 else number / 3,
        "yes": number % 2 == 0,
        "text": f"{'ü' * (60 + number)}{number}" if number % 3 else "",
        "raw": bytes([255, number]) * 40,
        "day": date(1969, 12, 20 + number % 10),
        "moment": datetime(1969, 12, 31, 23, 59, number % 60, 999_999, UTC),
        "clock": datetime(2024, 2, 29, 10, number % 60),
        "money": Decimal(number - 10) / 100,
        "much": Decimal(-(10**30) + number),
        "list": [number, None, 3],
        "struct": {"x": number, "y": ["a", None]},
        "map": [("k", number), ("l", None)],
    }


def typed_file(numbers: range) -> bytes:
    rows = [a_row(number) for number in numbers]
    rows += [{name: number if name == "id" else None for name in TYPES.names} for number in (40, 41)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, TYPES), sink)
    return bytes(sink.getvalue())


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    shown = Shown(tmp_path_factory.mktemp("typed"), format="parquet")
    shown.put("a", typed_file(range(25)))
    shown.put("b", typed_file(range(5, 15)))
    shown.run()
    shown.put("b", typed_file(range(7, 12)))
    assert shown.run().notes == ()
    return shown


@pytest.mark.acceptance("I4")
def test_every_type_is_read_as_lading_reads_it(typed: Shown) -> None:
    assert_all_see_the_same(typed.table, but=("chdb",))  # has no bytes that aren't text


def test_only_pyiceberg_shows_lists_and_maps_of_structs_that_are_null_as_empty_ones(tmp_path: Path) -> None:
    """The guide says so. Once pyiceberg keeps them null, it goes from there."""
    inside = pa.struct([("x", pa.int32())])
    told = pa.schema([("id", pa.int64()), ("list", pa.list_(inside)), ("map", pa.map_(pa.string(), inside))])
    rows = [
        {"id": 1, "list": None, "map": None},
        {"id": 2, "list": [], "map": []},
        {"id": 3, "list": [None, {"x": 1}], "map": [("k", None), ("l", {"x": 1})]},
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, told), sink)
    shown = Shown(tmp_path, format="parquet")
    shown.put("a", bytes(sink.getvalue()))
    shown.run()
    wanted = by_lading(shown.table)
    assert wanted.to_pylist() == rows
    for name in ("duckdb", "polars"):
        assert seen(ENGINES[name](shown.table)) == seen(wanted), name
    found = ENGINES["pyiceberg"](shown.table).to_pylist()
    assert found == [rows[0] | {"list": [], "map": []}, *rows[1:]]


NO_NAMES = ("daft",)  # refuses parts without numbers

FILTERS = [
    "id > 20", "id = 3", "tiny <= -20", "small = 700", "whole < -3", "single >= 6.0", "number > 8.0",
    "number > 1e300", "yes", "text = ''", "text > 'ü'", "raw >= '\\xFF\\x10'::BLOB",
    "day < DATE '1969-12-22'", "moment > TIMESTAMPTZ '1969-12-31 23:59:20Z'",
    "clock = TIMESTAMP '2024-02-29 10:03:00'", "money < -0.05", "much < -999999999999999999999999999990",
    "text IS NULL", "number IS NOT NULL", "whole IS NULL AND id = 40",
]  # fmt: skip


@pytest.mark.acceptance("I5")
@pytest.mark.parametrize("where", FILTERS)
def test_bounds_never_hide_a_row(typed: Shown, where: str) -> None:
    """The same engine over the same rows: once it may leave files out, once it can't."""
    with connected() as connection:
        everything = by_lading(typed.table)
        connection.register("everything", everything)
        pruned = connection.execute(f"SELECT * FROM iceberg_scan('{typed.table}') WHERE {where}")
        found = seen(pruned.to_arrow_table())[1]
        wanted = seen(connection.execute(f"SELECT * FROM everything WHERE {where}").to_arrow_table())[1]
    assert found == wanted and sum(found.values()) < everything.num_rows


def test_pyiceberg_prunes_by_our_bounds_and_loses_nothing(typed: Shown) -> None:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(metadata_of(typed.table))
    everything = by_lading(typed.table)
    for where, wanted in (
        ("id > 20", everything.filter(pa.compute.greater(everything["id"], 20))),
        ("money < -0.05", everything.filter(pa.compute.less(everything["money"], Decimal("-0.05")))),
        ("text = ''", everything.filter(pa.compute.equal(everything["text"], ""))),
    ):
        scan = table.scan(row_filter=where)
        assert seen(scan.to_arrow())[1] == seen(wanted)[1], where
    assert len(list(table.scan(row_filter="id > 20").plan_files())) < len(list(table.scan().plan_files()))


@pytest.mark.acceptance("I6")
def test_parts_from_before_there_were_numbers_are_read_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Shown(tmp_path)
    with monkeypatch.context() as patch:
        for room in ("lading.ingest.tasks.execute", "lading.ingest.commit"):
            patch.setattr(f"{room}.numbered", lambda schema, known=b"": schema)
        shown.put("a", lines(range(25), "id,a,b", a=lambda n: f"{n},x{n}"))
        shown.put("b", lines(range(25)))
        shown.run()
    parts = list(shown.table.glob("bucket=*/*.parquet"))
    stored = pq.ParquetFile(parts[0]).schema_arrow
    assert all(field_ids.field_id(field) is None for field in stored)
    assert_all_see_the_same(shown.table, but=NO_NAMES)
    shown.put("b", lines(range(25), "id,a", a=lambda n: n + 2**40))  # a: bigint before, too
    shown.put("c", lines(range(3), "id,c"))
    shown.run()
    assert_all_see_the_same(shown.table, but=NO_NAMES)
    assert assert_tags_read_as_they_did(shown.table) == 2
    shown.put("a", lines(range(25), "id,a"))  # column b goes; old parts still have it
    shown.run()
    assert_all_see_the_same(shown.table, but=NO_NAMES)
    assert assert_tags_read_as_they_did(shown.table) == 3
    shown.put("c", lines(range(3), "id,b,a", a=lambda n: f"{n},{n}.5"))  # b is back, of another type
    shown.run()
    assert_all_see_the_same(shown.table, but=NO_NAMES)
    assert assert_tags_read_as_they_did(shown.table) == 1, "by today's numbers the older ones would be null"
    roll_back(shown.config, "t", Wanted(offset=2))
    assert_all_see_the_same(shown.table, but=NO_NAMES)
    assert_tags_read_as_they_did(shown.table)


@pytest.mark.acceptance("I7")
def test_a_snapshot_that_was_published_before_is_a_tag(tmp_path: Path) -> None:
    shown = Shown(tmp_path)
    shown.put("a", lines(range(25)))
    shown.run()
    shown.put("a", lines(range(5), "id,a,b", a=lambda n: f"{n}.5,{n}"))
    shown.run()
    [run_id] = [one.run_id for one in store_runs(shown)][1:]
    from pyiceberg.table import StaticTable

    assert StaticTable.from_metadata(metadata_of(shown.table)).snapshot_by_name(run_id) is not None
    assert assert_tags_read_as_they_did(shown.table) == 2


def store_runs(shown: Shown) -> list[object]:
    from lading.snapshots.stores.by_url import store_of

    return list(store_of(shown.config, "t").list_manifests())


def test_a_table_without_rows_is_empty_for_everybody(tmp_path: Path) -> None:
    shown = Shown(tmp_path)
    shown.put("a", lines(range(5)))
    shown.run()
    shown.drop("a")
    shown.run()
    wanted = by_lading(shown.table)
    assert wanted.num_rows == 0
    for name, engine in ENGINES.items():
        assert engine(shown.table).num_rows == 0, name
