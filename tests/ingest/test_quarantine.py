"""`on_bad: quarantine`: what is set aside, with what it says, and how it comes and goes with its source."""

from __future__ import annotations

import gzip
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.checked import Checked
from support.machines import KillAt, Killed

from lading.cli.main import invoke
from lading.errors import BadRows, NotFound
from lading.ingest.quarantine import drop_aside, list_aside
from lading.layout.table import is_part_of
from lading.log.table import Table

ASIDE = "on_bad: quarantine\n"


def entries(ships: Checked) -> dict[str, dict[str, object]]:
    return json.loads((ships.folder / "manifest" / "ships.json").read_text())["files"]


def test_bad_rows_are_kept_with_file_line_column_reason_and_text(spark, tmp_path):
    ships = Checked(tmp_path / "p", ASIDE + "order_by: id\nchecks:\n  - {not_null: port, name: has a port}")
    ships.put("a.csv", '1,2.5,"oslo"', "", 'x,"3",bergen', ",4,oslo", "4,1,", "5,1", "x,1,x")
    ships.put("b.csv", "1,2.5,oslo")
    [table] = ships.good().tables
    assert (table.rows_rejected, table.files_rejected, table.rows) == (5, 0, 2)
    assert ships.aside() == [
        {
            "file": "a.csv",
            "record": 2,
            "line": 4,
            "column": "id",
            "reason": "'x' is not a bigint",
            "text": 'x,"3",bergen',
        },
        {
            "file": "a.csv",
            "record": 3,
            "line": 5,
            "column": "id",
            "reason": "the order column 'id' is null",
            "text": ",4,oslo",
        },
        {
            "file": "a.csv",
            "record": 4,
            "line": 6,
            "column": "port",
            "reason": "fails the check 'has a port'",
            "text": "4,1,",
        },
        {
            "file": "a.csv",
            "record": 5,
            "line": 7,
            "column": None,
            "reason": "has 2 fields, but the header has 3",
            "text": "5,1",
        },
        {
            "file": "a.csv",
            "record": 6,
            "line": 8,
            "column": "id",
            "reason": "'x' is not a bigint",
            "text": "x,1,x",
        },
    ]
    entry = entries(ships)["a.csv"]
    assert (entry["status"], entry["rows_rejected"], entry["metadata"]) == ("success", 5, {"row_count": 1})
    assert "rows_rejected" not in entries(ships)["b.csv"]


def test_what_is_set_aside_is_replaced_and_retracted_with_its_source(spark, tmp_path):
    ships = Checked(tmp_path / "p", ASIDE)
    ships.put("a.csv", "1,1,oslo", "x,1,oslo")
    ships.put("b.csv", "y,1,oslo", "z,1,oslo")
    ships.good()
    again = ships.good()
    assert not again.spark_started and again.tables[0].verdicts["unchanged"] == 2
    ships.put("a.csv", "1,1,oslo", "2,1,oslo")
    (ships.data / "b.csv").unlink()
    ships.good()
    assert sum(ships.rows().values()) == 2
    assert ships.aside() == [] and list_aside(ships.config, "ships") == []
    ships.put("a.csv", "1,1,oslo", "q,1,oslo")
    ships.good()
    Table.open(ships.table).checkpoint()
    assert [row["text"] for row in ships.aside()] == ["q,1,oslo"], "a checkpoint keeps it too"
    assert not ships.good().spark_started


def test_files_that_do_not_do_are_set_aside_whole_and_the_others_load(spark, tmp_path):
    ships = Checked(tmp_path / "p", ASIDE)
    (ships.folder / "lading.yaml").write_text(
        (ships.folder / "lading.yaml").read_text().replace("'*.csv'", "'*.csv*'")
    )
    ships.put("good.csv", "1,1,oslo")
    ships.put("drifted.csv", "1,1", header="id,tonnes")
    ships.put("bytes.csv", "1,1,oslo").write_bytes(b"id,tonnes,port\n1,1,oslo\n2,1,\xff\xfe\n")
    whole = gzip.compress(b"id,tonnes,port\n" + b"".join(b"%d,1,oslo\n" % n for n in range(20_000)))
    (ships.data / "cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    for name in ("bytes.csv", "cut.csv.gz"):
        os.utime(ships.data / name, (10**9, 10**9))
    [table] = ships.good().tables
    assert (table.rows, table.rows_rejected, table.files_rejected) == (2, 1, 2)
    reasons = {one.file: one.whole for one in list_aside(ships.config, "ships") if one.whole}
    assert reasons["drifted.csv"] == "column 'port' is missing"
    assert "end-of-stream marker" in str(reasons["cut.csv.gz"])
    assert reasons.keys() == {"drifted.csv", "cut.csv.gz"}
    [row] = ships.aside("bytes.csv")
    assert (row["line"], row["reason"]) == (3, "bytes that are not UTF-8")
    assert row["text"].startswith("2,1,")
    assert {entries(ships)[key]["status"] for key in reasons} == {"quarantined"}
    verdicts = ships.good().tables[0].verdicts
    assert (verdicts["quarantined"], verdicts["unchanged"], verdicts["new"]) == (2, 2, 0)
    ships.put("drifted.csv", "7,1,x")
    (ships.data / "cut.csv.gz").unlink()
    ships.good()
    assert sorted(key for *_, key in ships.rows()) == ["bytes.csv", "drifted.csv", "good.csv"]
    assert [one.file for one in list_aside(ships.config, "ships")] == ["bytes.csv"]


@pytest.mark.parametrize("format", ["csv", "json"])
def test_a_file_that_cannot_be_read_is_set_aside_by_the_very_first_run(spark, tmp_path, format):
    """There is no schema yet, and that file has nothing to say about it."""
    ships = Checked(tmp_path / "p", ASIDE)
    (ships.folder / "schema" / "ships.yaml").unlink()
    text = (ships.folder / "lading.yaml").read_text()
    text = text.replace("'*.csv'", "'*'").replace("format: csv", f"format: {format}")
    (ships.folder / "lading.yaml").write_text(text)
    record = "1,1,oslo\n" if format == "csv" else '{"id": 1, "tonnes": 1.0, "port": "oslo"}\n'
    head = "id,tonnes,port\n" if format == "csv" else ""
    (ships.data / f"good.{format}").write_text(head + record)
    whole = gzip.compress((head + record * 20_000).encode())
    (ships.data / f"cut.{format}.gz").write_bytes(whole[: len(whole) // 2])
    [table] = ships.good().tables
    assert (table.rows, table.files_rejected) == (1, 1)
    [aside] = list_aside(ships.config, "ships")
    assert aside.file == f"cut.{format}.gz"
    assert str(aside.whole).startswith(f"cut.{format}.gz can't be read: "), "by its key, not by its path"
    if format == "csv":
        (ships.data / f"good.{format}").unlink()
        (ships.folder / "schema" / "ships.yaml").unlink()
        report = ships.run(full=True)
        assert f"cut.{format}.gz can't be read" in str(report.error), "nothing else could give the columns"


def test_a_file_that_spark_cannot_read_to_its_end_is_set_aside_and_the_others_are_read_again(spark, tmp_path):
    """Its footer is fine, so nobody notices before Spark does."""
    ships = Checked(tmp_path / "p", ASIDE)
    text = (ships.folder / "lading.yaml").read_text().replace("csv", "parquet")
    (ships.folder / "lading.yaml").write_text(text)
    rows = {"id": list(range(9_000)), "tonnes": [float(one) for one in range(9_000)], "port": ["x"] * 9_000}
    for name in ("cut", "good"):
        pq.write_table(pa.table(rows), ships.data / f"{name}.parquet")
    whole = bytearray((ships.data / "cut.parquet").read_bytes())
    whole[200:4_000] = bytes(3_800)
    (ships.data / "cut.parquet").write_bytes(whole)
    [table] = ships.good().tables
    assert (table.rows, table.rows_rejected, table.files_rejected) == (9_000, 0, 1)
    [aside] = list_aside(ships.config, "ships")
    assert aside.file == "cut.parquet"
    assert str(aside.whole).startswith("cut.parquet can't be read as Parquet: ")
    assert not list(ships.table.glob("bucket=*/.*")), "the attempt that failed left nothing"


def test_a_file_in_another_encoding_that_ends_too_early_is_set_aside(spark, tmp_path):
    ships = Checked(tmp_path / "p", ASIDE + "read_options: {encoding: latin-1}")
    (ships.folder / "lading.yaml").write_text(
        (ships.folder / "lading.yaml").read_text().replace("'*.csv'", "'*.csv*'")
    )
    ships.put("good.csv", "1,1,oslo", "x,1,oslo")
    whole = gzip.compress(b"id,tonnes,port\n" + b"".join(b"%d,1,oslo\n" % n for n in range(20_000)))
    (ships.data / "cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    os.utime(ships.data / "cut.csv.gz", (10**9, 10**9))
    [table] = ships.good().tables
    assert (table.rows, table.rows_rejected, table.files_rejected) == (1, 1, 1)
    assert [(one.file, one.whole is None) for one in list_aside(ships.config, "ships")] == [
        ("cut.csv.gz", False),
        ("good.csv", True),
    ]


def test_a_table_of_nothing_but_bad_files_commits_what_it_set_aside(spark, tmp_path):
    ships = Checked(tmp_path / "p", ASIDE)
    ships.put("a.csv", "1", header="id")
    assert ships.good().tables[0].published and ships.rows() == {}, "empty, as when good files turn bad"
    assert entries(ships)["a.csv"]["status"] == "quarantined"
    assert not ships.good().spark_started
    ships.put("b.csv", "1,1,oslo")
    ships.good()
    assert sum(ships.rows().values()) == 1


def test_behind_a_transform_the_row_itself_is_kept(spark, tmp_path):
    ships = Checked(tmp_path / "p", ASIDE + "transform: t.py:f\nchecks:\n  - sql: heavy")
    (ships.folder / "t.py").write_text(
        "def f(df, context):\n    return df.withColumn('heavy', df.tonnes > 5)\n"
    )
    ships.put("a.csv", "1,9,oslo", "2,1,oslo", "x,9,oslo")
    ships.good()
    rows = {row["text"]: row for row in ships.aside()}
    assert rows["x,9,oslo"]["line"] == 4, "what could not be read never came to the transform"
    row = rows['{"id": 2, "tonnes": 1.0, "port": "oslo", "heavy": false}']
    assert (row["line"], row["record"], row["reason"]) == (None, None, "fails the check 'sql heavy'")


def test_with_a_transform_over_the_whole_table_only_what_cannot_be_read_is_set_aside(spark, tmp_path):
    ships = Checked(tmp_path / "p", ASIDE + "transform: t.py:f\nper: table\norder_by: id")
    (ships.folder / "t.py").write_text("def f(df, context):\n    return df.drop('_source').distinct()\n")
    ships.put("a.csv", "1,9,oslo", "x,1,oslo")
    ships.put("b.csv", "1,9,oslo", "2,9,oslo")
    assert ships.good().tables[0].rows == 2
    assert [(row["file"], row["line"]) for row in ships.aside()] == [("a.csv", 3)]
    ships.put("b.csv", ",9,oslo")
    assert "the order column 'id' is null" in str(ships.run().error)


def test_a_file_whose_name_gives_no_columns_is_set_aside(spark, tmp_path):
    ships = Checked(tmp_path / "p", ASIDE + r"columns_from_name: '(?P<year>\d+)\.csv'")
    with open(ships.folder / "schema" / "ships.yaml", "a") as schema:
        schema.write("  - {name: year, type: string}\n")
    ships.put("2024.csv", "1,9,oslo")
    ships.put("notes.csv", "2,9,oslo")
    ships.good()
    assert list(ships.rows()) == [(1, 9.0, "oslo", "2024.csv")]
    assert [one.file for one in list_aside(ships.config, "ships")] == ["notes.csv"]


def test_beyond_a_threshold_the_failing_rows_of_that_file_are_set_aside(spark, tmp_path):
    ships = Checked(tmp_path / "p", ASIDE + "checks:\n  - {not_null: port, threshold: 1}\n  - sql: id != 9")
    ships.put("a.csv", "1,1,", "2,1,oslo")
    ships.put("b.csv", "3,1,", "4,1,", "5,1,oslo", "9,1,oslo")
    [table] = ships.good().tables
    assert (table.rows, table.rows_added, table.rows_rejected) == (3, 3, 3)
    assert sorted(ships.rows()) == [
        (1, 1.0, None, "a.csv"),
        (2, 1.0, "oslo", "a.csv"),
        (5, 1.0, "oslo", "b.csv"),
    ]
    assert [(row["file"], row["line"]) for row in ships.aside()] == [("b.csv", 2), ("b.csv", 3), ("b.csv", 5)]
    parts = list(ships.table.glob("bucket=*/*"))
    assert len(parts) == table.parts_added, "the parts of the first reading are gone"


@pytest.mark.parametrize(("limit", "stops"), [("2", False), ("1", True), ("50%", False), ("49%", True)])
def test_max_bad_stops_the_run_before_anything_is_committed(spark, tmp_path, limit, stops):
    ships = Checked(tmp_path / "p", ASIDE + f"max_bad: {limit}\nchecks:\n  - not_null: port")
    ships.put("a.csv", "1,1,oslo", "2,1,", "x,1,oslo", "4,1,oslo")
    report = ships.run()
    assert isinstance(report.error, BadRows) == stops
    if stops:
        assert f"max_bad allows ({limit})" in report.error.message
        assert "1 row not fitting the schema, 1 row failing 'not_null port'" in report.error.message
        assert Table.open(ships.table).state.sequence == 0
        assert ships.aside_files() == [] and not list(ships.table.glob("bucket=*/*"))


def test_a_share_of_max_bad_is_of_all_that_the_table_has_read(spark, tmp_path, capsys):
    ships = Checked(tmp_path / "p", ASIDE + "max_bad: 5%")
    ships.put("a.csv", *(f"{n},1,oslo" for n in range(50)))
    ships.good()
    ships.put("b.csv", "50,1,oslo", "x,1,oslo")  # half of the run, two of a hundred of the table
    ships.good()
    assert ships.good().tables[0].verdicts["unchanged"] == 2
    ships.put("c.csv", "y,1,oslo", "z,1,oslo", "z,1,oslo")
    message = str(ships.run().error)
    assert "max_bad allows (5%): 3 rows not fitting the schema, 1 row set aside before" in message
    ships.put("c.csv", "y,1,oslo", "z,1,oslo")  # 3 of 54
    assert "max_bad allows" in str(ships.run().error)
    ships.put("c.csv", "y,1,oslo", *(f"{n},1,oslo" for n in range(60, 70)))
    ships.good()
    assert len(ships.aside()) == 2
    capsys.readouterr()
    assert invoke(["-C", str(ships.folder), "explain", "data/c.csv"]) == 0
    assert ": 10 rows, 1 set aside, success" in capsys.readouterr().out
    assert invoke(["-C", str(ships.folder), "explain", "data/c.csv", "--json"]) == 0
    [answer] = json.loads(capsys.readouterr().out)["tables"]
    assert (answer["recorded"]["rows"], answer["recorded"]["rows_rejected"]) == (10, 1)
    assert invoke(["-C", str(ships.folder), "explain", "data/a.csv"]) == 0
    assert ": 50 rows, success" in capsys.readouterr().out


def test_max_bad_counts_whole_files_too(spark, tmp_path):
    ships = Checked(tmp_path / "p", ASIDE + "max_bad: 40%")
    ships.put("a.csv", "1,1,oslo")
    ships.put("b.csv", "1", header="id")
    assert "1 whole file (b.csv: column 'tonnes' is missing" in str(ships.run().error)


def test_a_loosened_check_reads_only_what_was_set_aside(spark, tmp_path):
    ships = Checked(tmp_path / "p", ASIDE + "checks:\n  - range: {column: tonnes, min: 0, max: 10}")
    ships.put("a.csv", "1,11,oslo", "2,-1,oslo", "3,5,oslo")
    ships.put("b.csv", "4,5,oslo")
    ships.good()
    ships.configure(ASIDE + "checks:\n  - range: {column: tonnes, min: 0, max: 20}")
    [table] = ships.good().tables
    assert (table.verdicts["reread"], table.verdicts["unchanged"], table.rows_rejected) == (1, 1, 1)
    assert {row[0] for row in ships.rows()} == {1, 3, 4}
    ships.configure(ASIDE + "checks:\n  - range: {column: tonnes, min: 0, max: 4}")
    assert ships.good().tables[0].verdicts["reread"] == 2, "a tightened one is asked of every row"
    assert ships.rows() == {} and len(ships.aside()) == 4


def test_when_nothing_may_be_set_aside_any_more_what_was_fails_the_run(spark, tmp_path):
    ships = Checked(tmp_path / "p", ASIDE)
    ships.put("a.csv", "1,1,oslo", "x,1,oslo")
    ships.put("b.csv", "2,1,oslo")
    ships.good()
    ships.configure()
    report = ships.run()
    assert isinstance(report.error, BadRows) and "a.csv:3" in report.error.message
    assert report.tables[0].verdicts["reread"] == 1


def test_replay_reads_what_was_set_aside_and_drop_forgets_it(spark, tmp_path):
    ships = Checked(tmp_path / "p", ASIDE)
    ships.put("a.csv", "1,1,oslo", "x,1,oslo")
    ships.put("b.csv", "2,1,oslo", "y,1,oslo")
    ships.put("c.csv", "3,1,oslo")
    ships.good()
    [table] = ships.good(replay=("a.csv",)).tables
    assert (table.verdicts["reread"], table.verdicts["unchanged"]) == (1, 2)
    with pytest.raises(NotFound, match=r"nothing of c\.csv is set aside"):
        ships.good(replay=("c.csv",))
    assert [one.file for one in drop_aside(ships.config, "ships", "a.csv")] == ["a.csv"]
    assert [row["file"] for row in ships.aside()] == ["b.csv"]
    assert [(one.file, one.rows, one.kept) for one in list_aside(ships.config, "ships")] == [
        ("a.csv", 1, False),
        ("b.csv", 1, True),
    ]
    report = ships.good()
    assert not report.spark_started and entries(ships)["a.csv"]["rows_rejected"] == 1
    assert "quarantine" not in entries(ships)["a.csv"]
    [table] = ships.good(replay=()).tables
    assert table.verdicts["reread"] == 2, "the rows are gone, the file still has them"
    assert [row["file"] for row in ships.aside()] == ["a.csv", "b.csv"]
    assert drop_aside(ships.config, "ships") and not drop_aside(ships.config, "ships")
    live = {source.quarantine for source, _ in Table.open(ships.table).state.sources().values()}
    assert live == {None}


@pytest.mark.parametrize("phase", ["quarantine", "commit", "record"])
def test_a_kill_around_the_commit_leaves_nothing_half_done(spark, tmp_path, phase):
    ships = Checked(tmp_path / "p", ASIDE)
    ships.put("a.csv", "1,1,oslo", "x,1,oslo")
    with pytest.raises(Killed):
        ships.run(watch=KillAt(phase))
    left = ships.aside_files()
    [run_id] = [path.name.split("run_id=")[1].rsplit("_", 1)[0] for path in ships.table.glob("runs/*")]
    assert len(left) == 1
    assert all(is_part_of(name, run_id) for name in left), "recognised as that run's by its name"
    if phase == "commit":
        assert ships.aside() == [], "what no commit took up is not shown"
    ships.good()
    assert [(row["line"], row["text"]) for row in ships.aside()] == [(3, "x,1,oslo")]
    assert sum(ships.rows().values()) == 1
