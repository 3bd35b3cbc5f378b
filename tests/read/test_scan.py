"""Scans read what they must, as little as they can, and say what they did."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.opened import opened_among

from lading.errors import ConfigError, NotFound, PartError, PredicateError
from lading.read.scan import scan

Make = Callable[..., Any]
SCHEMA = pa.schema([("key", pa.int64()), ("name", pa.string()), ("_source", pa.int64())])


def rows(first: int, count: int, source: int = 1) -> pa.Table:
    keys = list(range(first, first + count))
    return pa.table([keys, [f"n{key}" for key in keys], [source] * count], schema=SCHEMA)


def three_parts(make_table: Make, **options: Any) -> Any:
    return make_table(SCHEMA, [rows(0, 100), rows(100, 100), rows(200, 100)], row_group_size=10, **options)


def path_of(table: Any, member: int) -> Path:
    return Path(table.root, table.members[member].path)


def test_a_scan_opens_only_the_files_and_row_groups_that_may_match(make_table: Make) -> None:
    found = scan(three_parts(make_table), where="key between 150 and 154")
    assert found.to_table()["key"].to_pylist() == [150, 151, 152, 153, 154]
    assert (found.files_scanned, found.files_total) == (1, 3)
    assert (found.row_groups_scanned, found.row_groups_total) == (1, 10)
    assert found.rows == 5


@pytest.mark.parametrize("damage", ["deleted", "unreadable", "garbage"])
def test_a_ruled_out_member_is_never_opened(make_table: Make, damage: str) -> None:
    table = three_parts(make_table)
    for member in (0, 2):
        path = path_of(table, member)
        if damage == "unreadable":
            path.unlink()
            path.symlink_to(path)  # stops root too, unlike permissions
        elif damage == "garbage":
            path.write_bytes(b"not parquet")
        else:
            path.unlink()
    found = scan(table, where="key >= 120 and not name = 'n130' and key < 140")
    assert found.to_table()["key"].to_pylist() == [*range(120, 130), *range(131, 140)]
    assert found.files_scanned == 1


def test_a_ruled_out_member_is_not_even_looked_at(make_table: Make) -> None:
    table = three_parts(make_table)
    with opened_among(path_of(table, member) for member in range(3)) as opened:
        scan(table, where="key = 250").to_table()
    assert opened == {path_of(table, 2)}


def test_without_columns_all_come_lineage_included(make_table: Make) -> None:
    found = scan(three_parts(make_table), limit=1)
    assert found.schema == SCHEMA
    assert found.to_table().to_pylist() == [{"key": 0, "name": "n0", "_source": 1}]


def test_only_the_columns_asked_for_come_in_that_order(make_table: Make) -> None:
    found = scan(three_parts(make_table), where="key = 7", columns=["name", "_source"])
    assert found.to_table().to_pylist() == [{"name": "n7", "_source": 1}]
    assert found.schema.names == ["name", "_source"]


def test_only_the_needed_columns_are_read(make_table: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    real = pq.ParquetFile.iter_batches

    def recording(self: Any, *args: Any, **options: Any) -> Any:
        asked.append(options["columns"])
        return real(self, *args, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", recording)
    scan(three_parts(make_table), where="key = 7", columns=["name"]).to_table()
    scan(three_parts(make_table, minus=[(1,), (1,), (1,)]), columns=["key"]).to_table()
    assert asked == [["name", "key"], *[["key", "_source"]] * 3]


def test_a_limit_stops_reading_early(make_table: Make) -> None:
    table = three_parts(make_table)
    path_of(table, 1).unlink()
    found = scan(table, limit=100)
    assert found.files_scanned == 3  # what it would open
    assert found.to_table()["key"].to_pylist() == list(range(100))
    assert (found.files_scanned, found.rows) == (1, 100)
    assert scan(table, limit=0).to_table().num_rows == 0


def test_a_scan_that_is_left_early_counts_what_it_did(make_table: Make) -> None:
    found = scan(three_parts(make_table))
    for batch in found:
        assert found.rows == batch.num_rows
        break
    assert found.files_scanned == 1


def test_a_scan_can_be_read_again(make_table: Make) -> None:
    found = scan(three_parts(make_table), where="key < 5")
    assert found.to_table() == found.to_table()
    assert (found.rows, found.files_scanned, found.row_groups_scanned) == (5, 1, 1)


def test_rows_of_a_subtracted_source_are_left_out_even_when_lineage_is_not_asked_for(
    make_table: Make,
) -> None:
    part = pa.concat_tables([rows(0, 3, source=1), rows(3, 3, source=2), rows(6, 3, source=3)])
    table = make_table(SCHEMA, [part], minus=[(1, 3)])
    found = scan(table, columns=["key"])
    assert found.to_table().to_pylist() == [{"key": 3}, {"key": 4}, {"key": 5}]
    assert scan(table, where="key in (0, 4, 8)", columns=["name"]).to_table()["name"].to_pylist() == ["n4"]


def test_a_column_that_an_older_part_lacks_is_null_there(make_table: Make) -> None:
    older = rows(0, 2).drop_columns(["name"])
    table = make_table(SCHEMA, [older, rows(10, 1)])
    assert scan(table, columns=["name"]).to_table()["name"].to_pylist() == [None, None, "n10"]
    assert scan(table, where="name is null", columns=["key"]).to_table()["key"].to_pylist() == [0, 1]
    assert scan(table, where="not name = 'x'", columns=["key"]).to_table()["key"].to_pylist() == [10]


def test_a_part_with_a_narrower_type_is_read_in_the_table_s(make_table: Make) -> None:
    narrow = rows(0, 3).cast(
        pa.schema([("key", pa.int16()), ("name", pa.large_string()), ("_source", pa.int64())])
    )
    table = make_table(SCHEMA, [narrow, rows(10, 1)])
    found = scan(table, where="key >= 2")
    assert found.to_table().schema == SCHEMA
    assert found.to_table()["key"].to_pylist() == [2, 10]


def test_a_part_that_cannot_be_read_in_the_table_s_type_is_named(make_table: Make) -> None:
    strange = pa.table({"key": ["x"], "name": ["y"], "_source": [1]})
    table = make_table(SCHEMA, [strange], zones="none")
    with pytest.raises(PartError, match="column key is string in this file but int64 in the table"):
        scan(table).to_table()


@pytest.mark.parametrize("damage", ["missing", "garbage", "cut", "flipped"])
def test_a_damaged_part_is_named_with_a_remedy(make_table: Make, damage: str) -> None:
    table = three_parts(make_table, use_dictionary=False, compression="zstd")
    path = path_of(table, 1)
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "garbage":
        path.write_bytes(b"PAR1" + b"x" * 100)
    elif damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    else:
        path.write_bytes(data[:4] + b"\xff" * 40 + data[44:])
    found = scan(table)
    with pytest.raises(PartError) as caught:
        found.to_table()
    assert str(path) in caught.value.message
    assert caught.value.file == str(path)
    assert "lading run --full" in caught.value.hint


def test_a_member_path_never_leads_out_of_the_table(make_table: Make, tmp_path: Path) -> None:
    table = three_parts(make_table)
    pq.write_table(rows(0, 1), tmp_path / "secret.parquet")
    outside = os.path.relpath(tmp_path / "secret.parquet", table.root)
    for path in (outside, "bucket=0/../" + outside):
        table.members[0] = type(table.members[0])(path, 1, 1, 0, 0, 0, None, None, "2024-01-01T00:00:00Z", {})
        with pytest.raises(PartError, match="points outside"):
            scan(table).to_table()


def test_a_wrong_question_fails_before_anything_is_read(make_table: Make) -> None:
    table = three_parts(make_table)
    with pytest.raises(PredicateError, match="no such column"):
        scan(table, where="keyy = 1")
    with pytest.raises(PredicateError, match="expected a value"):
        scan(table, where="key =")
    with pytest.raises(NotFound) as caught:
        scan(table, columns=["key", "nome"])
    assert "there is no column nome" in caught.value.message
    assert "name (string)" in caught.value.hint
    with pytest.raises(ConfigError):
        scan(table, columns=[])
    with pytest.raises(ConfigError):
        scan(table, limit=-1)


def test_a_table_before_its_first_commit_is_empty(make_table: Make) -> None:
    table = make_table(SCHEMA, [])
    table.schema = b""
    assert scan(table).to_table().num_rows == 0


def test_dotted_and_nested_names_are_told_apart(make_table: Make) -> None:
    schema = pa.schema([("a", pa.struct([("b", pa.int64())])), ("a.b", pa.int64())])
    part = pa.Table.from_pylist([{"a": {"b": 1}, "a.b": 10}, {"a": {"b": 2}, "a.b": 20}], schema)
    table = make_table(schema, [part], row_group_size=1)
    found = scan(table, where='"a.b" = 20', columns=["a"])
    assert found.to_table().to_pylist() == [{"a": {"b": 2}}]
    assert scan(table, columns=["a.b"]).to_table()["a.b"].to_pylist() == [10, 20]


def test_large_parts_come_in_batches_and_in_order(make_table: Make) -> None:
    table = make_table(SCHEMA, [rows(0, 300_000)])
    batches = list(scan(table, where="not key = 5"))
    assert len(batches) > 1
    keys = [key for batch in batches for key in batch["key"].to_pylist()]
    assert keys == [key for key in range(300_000) if key != 5]
