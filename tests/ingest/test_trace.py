"""From a row to its file and line: the record that gave it, whatever the format and whatever happened."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.tables import Tables

import lading
from lading.cli.main import invoke
from lading.config.file import load
from lading.ingest.trace import Trace, trace

SMALL = {"in_process_below": "1GB"}


class Small(Tables):
    """Tables that are read in this process."""

    def configure(self, **changes: Any) -> None:
        super().configure(**changes)
        text = (self.folder / "lading.yaml").read_text()
        (self.folder / "lading.yaml").write_text(f"spark: {json.dumps(SMALL)}\n{text}")

    def traced(self, table: str, where: str | None = None, **which: Any) -> list[Trace]:
        with lading.open(self.folder / "warehouse" / table, **which) as reader:
            rows = reader.scan(where=where).to_table()
            return trace(load(self.folder), table, rows, reader.source)


@pytest.fixture
def tables(tmp_path: Path) -> Small:
    return Small(tmp_path / "project", t={"format": "csv", "order_by": "id"})


def test_every_row_is_found_on_its_own_line(tables: Small) -> None:
    lines = {"a.csv": ["id,x", "3,c", "", "1,a", "2,b"], "b.csv": ["x,id", "c,3", "zz,7"]}
    for name, text in lines.items():
        tables.put("t", name, "\n".join(text) + "\n")
    tables.succeed()
    found = tables.traced("t")
    assert len(found) == 5
    for one in found:
        assert one.found is not None and one.found.line is not None and one.note is None
        text = lines[one.file][one.found.line - 1]
        assert one.found.text == text
        values = sorted(text.split(","))
        assert values == sorted([str(one.row["id"]), one.row["x"]])
        assert one.path == str(tables.folder / "data" / "t" / one.file)


def test_neighbours_come_with_what_is_no_row(tables: Small) -> None:
    tables.configure(on_bad="quarantine")
    tables.put("t", "a.csv", "id,x\n1,a\n2,b\n3\n4,d\n5,e\n6,f\n7,g\n8,h\n")
    tables.succeed()
    [one] = tables.traced("t", "id = 5")
    assert [(line.line, line.text) for line in one.before] == [(3, "2,b"), (4, "3"), (5, "4,d")]
    assert [line.reason is None for line in one.before] == [True, False, True]
    assert [line.text for line in one.after] == ["6,f", "7,g", "8,h"]
    [first] = tables.traced("t", "id = 1")
    assert first.before == () and first.found is not None and first.found.record == 1
    [last] = tables.traced("t", "id = 8")
    assert last.after == () and [line.line for line in last.before] == [6, 7, 8]


def test_neighbours_reach_into_the_blocks_before_and_behind(
    tables: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.put("t", "a.csv", "id,x\n" + "".join(f"{n},{'v' * 40}\n" for n in range(200)))
    tables.succeed()
    from lading.formats.csv import rows as csv_rows

    real = csv_rows.CsvReader
    monkeypatch.setattr(csv_rows, "reader", lambda spec: real(spec, block=256))
    for number in range(200):
        [one] = tables.traced("t", f"id = {number}")
        near = range(max(0, number - 3), min(200, number + 4))
        shown = [int(line.text.split(",")[0]) for line in (*one.before, one.found, *one.after) if line]
        assert shown == list(near)
        assert one.found is not None and one.found.line == number + 2


def test_of_rows_that_are_alike_each_finds_one_that_gives_it(tables: Small) -> None:
    tables.put("t", "a.csv", "id,x\n1,\n1,nan\n1,a\n")
    tables.succeed()
    assert {one.found.line for one in tables.traced("t", "x is null") if one.found} == {2}
    assert {one.found.line for one in tables.traced("t", "x = 'a'") if one.found} == {4}


def test_a_number_that_is_none_and_values_in_values(tmp_path: Path) -> None:
    tables = Small(tmp_path / "project", t={"format": "json"})
    rows = [{"n": 1.5, "v": [1, {"a": 2}]}, {"n": 1.5, "v": [1, {"a": 3}]}, {"n": None, "v": []}]
    tables.put("t", "a.json", "".join(json.dumps(row) + "\n" for row in rows))
    tables.succeed()
    found = tables.traced("t")
    assert sorted(one.found.line for one in found if one.found and one.found.line) == [1, 2, 3]
    for one in found:
        assert one.found is not None and one.found.line is not None
        assert json.loads(one.found.text)["n"] == one.row["n"] == rows[one.found.line - 1]["n"]


def test_records_without_lines_have_numbers(tmp_path: Path) -> None:
    tables = Small(tmp_path / "project", t={"format": "parquet"})
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [5, 6, 7], "f": [1.0, float("nan"), None]}), sink)
    tables.put("t", "a.parquet", bytes(sink.getvalue()))
    tables.succeed()
    [one] = tables.traced("t", "id = 6")
    assert one.found is not None and (one.found.line, one.found.record) == (None, 2)
    assert one.row["f"] == "NaN"


def test_a_member_of_an_archive_is_traced_into_it(tmp_path: Path) -> None:
    tables = Small(tmp_path / "project", t={"format": "csv", "path": "*.zip", "inside": "*.csv"})
    packed = tables.folder / "data" / "t" / "all.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("one.csv", "id,x\n1,a\n2,b\n")
        archive.writestr("two.csv", "id,x\n3,c\n")
    os.utime(packed, (1_700_000_000, 1_700_000_000))
    tables.succeed()
    [one] = tables.traced("t", "id = 2")
    assert one.archive == "all.zip" and one.file.endswith("/one.csv")
    assert one.found is not None and (one.found.line, one.found.text) == (3, "2,b")
    assert one.note is None


def test_what_a_file_name_says_needs_no_column_in_the_file(tmp_path: Path) -> None:
    table = {"format": "csv", "columns_from_name": r"(?P<port>[a-z]+)_.*\.csv"}
    tables = Small(tmp_path / "project", t=table)
    tables.put("t", "oslo_1.csv", "id\n1\n2\n")
    tables.succeed()
    [one] = tables.traced("t", "id = 2")
    assert one.row["port"] == "oslo" and one.found is not None and one.found.line == 3


def test_a_file_that_changed_or_went_says_so(tables: Small) -> None:
    tables.put("t", "a.csv", "id,x\n1,a\n2,b\n")
    tables.put("t", "b.csv", "id,x\n5,e\n")
    tables.succeed()
    tables.put("t", "a.csv", "id,x\n1,a\n2,b\n", at=50)
    assert [one.note for one in tables.traced("t", "id < 3")] == [None, None], "touched, not changed"
    tables.put("t", "a.csv", "id,x\n7,x\n2,b\n", at=60)
    gone, stays = tables.traced("t", "id < 3")
    assert gone.found is None and gone.note == "the file has changed since it was read"
    assert stays.found is not None and stays.found.line == 3 and stays.note == gone.note
    (tables.folder / "data" / "t" / "b.csv").unlink()
    [lost] = tables.traced("t", "id = 5")
    assert lost.file == "b.csv" and lost.found is None and "no longer there" in (lost.note or "")


def test_an_older_snapshot_is_traced_as_it_was(tables: Small) -> None:
    tables.put("t", "a.csv", "id,x\n1,a\n")
    tables.succeed()
    tables.put("t", "a.csv", "id,x\n1,b\n", at=9)
    tables.succeed()
    [now] = tables.traced("t")
    [before] = tables.traced("t", offset=1)
    assert now.row["x"] == "b" and now.found is not None and now.found.text == "1,b"
    assert before.row["x"] == "a" and before.found is None and before.sha256 != now.sha256


def test_only_the_rows_own_file_is_asked_for(tables: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    from support.opened import opened_among

    for number in range(20):
        tables.put("t", f"{number}.csv", f"id\n{number}\n")
    tables.succeed()
    files = list((tables.folder / "data" / "t").iterdir())
    monkeypatch.setattr("lading.ingest.trace.discover_files", None)
    with opened_among(files) as opened:
        tables.traced("t", "id = 7")
    assert {file.name for file in opened} == {"7.csv"}


def test_a_transform_leaves_the_line_that_agrees_most(tables: Small) -> None:
    """Rows with other values than the file gives stand for any transform."""
    tables.put("t", "a.csv", "id,x,y\n1,a,q\n2,b,q\n3,c,q\n3,d,q\n")
    tables.succeed()
    (tables.folder / "t.py").write_text("def apply(rows, context):\n    return rows\n")
    tables.configure(transform="t.py:apply")
    with lading.open(tables.folder / "warehouse" / "t") as reader:
        rows = reader.scan(where="id = 2").to_table()
        changed = rows.set_column(rows.schema.get_field_index("x"), "x", pa.array(["B"]))
        [one] = trace(load(tables.folder), "t", changed, reader.source)
        assert one.found is not None and one.found.line == 3 and one.differs == ("x",)
        for value in (9, 3):  # agrees with none, and with two lines alike
            alike = changed.set_column(rows.schema.get_field_index("id"), "id", pa.array([value], pa.int64()))
            [none] = trace(load(tables.folder), "t", alike, reader.source)
            assert none.found is None and "t.py:apply" in (none.note or "")


def test_the_command_says_the_same(tables: Small, capfd: pytest.CaptureFixture[str]) -> None:
    tables.put("t", "a.csv", "id,x\n1,a\n2,<b>\n")
    tables.succeed()
    folder = str(tables.folder)
    assert invoke(["-C", folder, "trace", "t", "--where", "id = 2", "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    [row] = told["rows"]
    assert row["file"] == "a.csv" and row["found"] == {
        "record": 2,
        "line": 3,
        "text": "2,<b>",
        "reason": None,
    }
    assert row["row"] == {"id": 2, "x": "<b>", "_source": row["row"]["_source"]}
    assert invoke(["-C", folder, "trace", "t", "--where", "id = 2"]) == 0
    said = capfd.readouterr().out
    assert "a.csv, line 3" in said and ">      3  2,<b>" in said and "       2  1,a" in said
    assert invoke(["-C", folder, "trace", "t", "--where", "id = 99"]) == 0
    assert capfd.readouterr().out == "no row matches\n"


def test_a_row_of_a_query_names_its_slot(tmp_path: Path) -> None:
    tables = Small(tmp_path / "project", t={"format": "csv"})
    tables.put("t", "a.csv", "id,x\n1,a\n")
    tables.succeed()
    text = (tables.folder / "lading.yaml").read_text()
    made = "  d: {from: {t: {by: id}}, sql: select id from t, slots: 4}\n"
    (tables.folder / "lading.yaml").write_text(text + made)
    with lading.open(tables.folder / "warehouse" / "t") as reader:
        rows = reader.scan().to_table()
        source = reader.source(rows.column("_source")[0].as_py())
        assert source is not None
        slot = msgspec.structs.replace(source, key="slot=00003")
        [one] = trace(load(tables.folder), "d", rows, lambda _number: slot)
    assert one.file == "slot=00003" and "lading sources d --slot 00003" in (one.note or "")
