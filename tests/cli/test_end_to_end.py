"""The commands on real data, as scripts and people use them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lading
from lading.cli.main import invoke

CONFIG = """\
tables:
  voyages:
    root: data
    path: "voyages/**/*.csv"
    format: csv
    columns_from_name: "(?P<port>[a-z]+)_(?P<day>\\\\d{8})\\\\.csv"
    order_by: departed_at
    bucket_size: 30d
  events:
    root: data
    path: "events/*.jsonl"
    format: json
  ships:
    root: data
    path: "ships/*.parquet"
    format: parquet
    order_by: imo
"""


def put(path: Path, text: str, age: float = 100) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    stamp = path.stat().st_mtime - age
    os.utime(path, (stamp, stamp))
    return path


@pytest.fixture
def project(tmp_path, spark) -> Path:
    put(tmp_path / "lading.yaml", CONFIG)
    put(
        tmp_path / "data/voyages/oslo_20240101.csv",
        "ship,departed_at,cargo\nAnna,2024-01-01 08:00:00,12.5\nBert,2024-02-15T09:30:00.25,\n",
    )
    put(tmp_path / "data/voyages/x/kiel_20240102.csv", "cargo,ship,departed_at\n7,Cleo,2023-12-31 23:59:59\n")
    put(tmp_path / "data/events/a.jsonl", '{"id": 1, "tags": ["x", "y"]}\n{"id": 2, "tags": null}\n')
    pq.write_table(
        pa.table({"imo": pa.array([9000001, 9000002], pa.int64()), "name": ["Anna", None]}),
        put(tmp_path / "data/ships/s.parquet", ""),
    )
    return tmp_path


class Answer:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> dict:
        return json.loads(self.out.strip().splitlines()[-1])


@pytest.fixture
def cli(project, capfd):
    def call(*args: str) -> Answer:
        capfd.readouterr()
        code = invoke(["-C", str(project), *args])
        return Answer(code, *capfd.readouterr())

    return call


def rows(cli, table: str, *more: str) -> list[dict]:
    answer = cli("scan", table, "--format", "jsonl", *more)
    assert answer.code == 0, answer.err
    return [json.loads(line) for line in answer.out.splitlines()]


def test_plan_then_run_then_nothing_to_do(cli):
    before = cli("plan", "--json")
    assert before.code == 2
    tables = {table["table"]: table for table in before.json["tables"]}
    assert tables["voyages"]["verdicts"]["new"] == 2 and tables["voyages"]["parts_to_rewrite"] == 0
    assert {file["key"] for file in tables["voyages"]["files"]} == {
        "voyages/oslo_20240101.csv",
        "voyages/x/kiel_20240102.csv",
    }
    assert all({"key", "verdict", "reason"} <= file.keys() for file in tables["voyages"]["files"])

    run = cli("run", "--json")
    assert run.code == 0, run.out + run.err
    report = run.json
    assert report["spark_started"] is True and report["run_id"]
    assert [table["table"] for table in report["tables"]] == ["voyages", "events", "ships"]
    voyages = report["tables"][0]
    assert voyages["rows_added"] == voyages["rows"] == 3 and voyages["published"] is True
    assert {
        "verdicts", "rows_removed", "parts_added", "parts_removed", "sequence", "manifest_ref", "seconds",
    } <= voyages.keys()  # fmt: skip

    after = cli("plan", "--json")
    assert after.code == 0
    idle = cli("run", "--json").json
    assert idle["spark_started"] is False
    assert [(t["rows"], t["published"], t["parts_added"]) for t in idle["tables"]] == [
        (3, False, 0),
        (2, False, 0),
        (2, False, 0),
    ]


def test_rows_come_back_typed_with_names_and_lineage(cli, project):
    assert cli("run").code == 0
    found = {row["ship"]: row for row in rows(cli, "voyages")}
    assert found["Anna"]["departed_at"] == "2024-01-01T08:00:00"
    assert found["Bert"]["cargo"] is None and found["Anna"]["cargo"] == 12.5
    assert (found["Cleo"]["port"], found["Cleo"]["day"], found["Cleo"]["cargo"]) == ("kiel", "20240102", 7.0)
    sources = {one["source"]: one for one in cli("sources", "voyages", "--json").json["sources"]}
    assert sources[found["Cleo"]["_source"]]["key"] == "voyages/x/kiel_20240102.csv"
    assert sorted(one["rows"] for one in sources.values()) == [1, 2]
    assert [row["tags"] for row in rows(cli, "events", "--where", "id <= 2")] == [["x", "y"], None]
    assert rows(cli, "ships", "--columns", "name", "--where", "name is null") == [{"name": None}]
    with lading.open(project / "warehouse" / "voyages") as reader:
        scan = reader.scan(where="departed_at >= '2024-01-01'", columns=["ship"])
        assert sorted(scan.to_table()["ship"].to_pylist()) == ["Anna", "Bert"]
        assert (scan.files_total, scan.files_scanned, scan.rows) == (2, 2, 2)


def test_scan_reports_what_it_opened_and_lookup_finds_one(cli):
    assert cli("run").code == 0
    answer = cli("scan", "voyages", "--where", "departed_at < '2024-01-01'", "--format", "jsonl", "--stats")
    stats = json.loads(answer.err.strip().splitlines()[-1])
    assert (stats["files_total"], stats["files_scanned"], stats["rows"]) == (2, 1, 1)
    hit = cli("lookup", "ships", "9000002", "--json").json
    assert hit["found"] is True and hit["opened"] == 1 and hit["row"]["imo"] == 9000002 and hit["member"]
    miss = cli("lookup", "ships", "1", "--json").json
    assert (miss["found"], miss["row"]) == (False, None)


def test_status_says_what_is_there_and_what_is_pending(cli, project):
    assert cli("run").code == 0
    put(project / "data/events/b.jsonl", '{"id": 3}\n')
    tables = {table["table"]: table for table in cli("status", "--json").json["tables"]}
    assert {"rows", "parts", "buckets", "sources", "sequence", "current"} <= tables["voyages"].keys()
    assert tables["voyages"]["current"].keys() >= {"run_id", "published_at"}
    assert tables["voyages"]["rows"] == 3 and tables["voyages"]["buckets"] == 2
    assert tables["events"]["pending"] == {"new": 1}
    assert "b.jsonl" in cli("explain", str(project / "data/events/b.jsonl")).out
    (project / "lading.yaml").write_text(CONFIG[: CONFIG.index("  ships:")])
    dropped = {table["table"]: table for table in cli("status", "--json").json["tables"]}["ships"]
    assert dropped["rows"] == 2 and "not in lading.yaml" in dropped["note"]


def test_changed_and_vanished_files_are_replaced_and_retracted(cli, project):
    assert cli("run").code == 0
    put(
        project / "data/voyages/oslo_20240101.csv",
        "ship,departed_at,cargo\nDora,2024-01-03 08:00:00,1\n",
        age=50,
    )
    (project / "data/voyages/x/kiel_20240102.csv").unlink()
    report = cli("run", "voyages", "--json").json["tables"][0]
    assert (report["verdicts"]["changed"], report["verdicts"]["vanished"]) == (1, 1)
    assert (report["rows_added"], report["rows_removed"], report["rows"]) == (1, 3, 1)
    assert [row["ship"] for row in rows(cli, "voyages")] == ["Dora"]


def test_a_bad_row_is_named_by_file_line_column_and_text_and_nothing_is_committed(cli, project):
    assert cli("run").code == 0
    bad = put(
        project / "data/voyages/bergen_20240105.csv",
        "ship,departed_at,cargo\nEva,2024-01-05 10:00:00,3\nFay,2024-01-05 11:00:00,heavy\n",
    )
    answer = cli("run", "voyages", "--json")
    assert answer.code == 1
    error = answer.json["error"]
    assert error["kind"] == "BadRows" and error["table"] == "voyages" and error["hint"]
    assert error["file"] == "voyages/bergen_20240105.csv"
    for part in ("bergen_20240105.csv:3", "cargo", "heavy"):
        assert part in error["message"], error["message"]
    assert len(rows(cli, "voyages")) == 3
    [verdict] = [
        f for f in cli("plan", "voyages", "--json").json["tables"][0]["files"] if "bergen" in f["key"]
    ]
    assert verdict["verdict"] == "failed"
    put(bad, "ship,departed_at,cargo\nEva,2024-01-05 10:00:00,3\n")
    assert cli("run", "voyages").code == 0
    assert len(rows(cli, "voyages")) == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ship,departed_at,cargo\nEva,2024-01-05 10:00:00\n", ["gone_20240105.csv:2"]),
        ("ship,departed_at,cargo\nEva,2024-01-05 10:00:00,3,4\n", ["gone_20240105.csv:2"]),
        ("ship,departed_at,cargo\nEva,,3\n", ["gone_20240105.csv", "departed_at"]),
        ("ship,departed_at,freight\nEva,2024-01-05 10:00:00,3\n", ["gone_20240105.csv", "freight"]),
        ("ship,departed_at\nEva,2024-01-05 10:00:00\n", ["gone_20240105.csv", "cargo"]),
    ],
)
def test_rows_and_headers_that_do_not_fit_stop_the_table(cli, project, text, words):
    assert cli("run").code == 0
    put(project / "data/voyages/gone_20240105.csv", text)
    answer = cli("run", "--json")
    assert answer.code == 1
    for word in words:
        assert word in answer.json["error"]["message"], answer.json["error"]
    assert len(rows(cli, "voyages")) == 3
    assert [table.get("error") is None for table in answer.json["tables"]] == [False, True, True]


def test_bytes_that_are_not_utf8_are_named_by_line(cli, project):
    bad = put(project / "data/voyages/bad_20240105.csv", "")
    bad.write_bytes(b"ship,departed_at,cargo\nEva,2024-01-05 10:00:00,3\nR\xf8d,2024-01-05 10:00:00,3\n")
    message = cli("run", "voyages", "--json").json["error"]["message"]
    assert "bad_20240105.csv:3" in message


def test_a_name_that_does_not_match_is_an_error(cli, project):
    put(project / "data/voyages/Nowhere.csv", "ship,departed_at,cargo\n")
    error = cli("run", "voyages", "--json").json["error"]
    assert "Nowhere.csv" in error["message"]


def test_half_of_the_sources_gone_needs_a_word(cli, project):
    assert cli("run").code == 0
    for path in (project / "data/voyages").rglob("*.csv"):
        path.unlink()
    refused = cli("run", "voyages", "--json")
    assert refused.code == 1 and refused.json["error"]["kind"] == "VanishGuard"
    assert len(rows(cli, "voyages")) == 3
    assert cli("run", "voyages", "--allow-vanish").code == 0
    assert rows(cli, "voyages") == []
    (project / "data/voyages/x").rmdir()
    (project / "data/voyages").rmdir()
    os.rename(project / "data", project / "elsewhere")
    missing = cli("run", "ships", "--json")
    assert missing.code == 1 and missing.json["error"]["kind"] == "SourceError"
    assert len(rows(cli, "ships")) == 2


def test_a_table_is_never_fed_its_own_parts(cli, project):
    assert cli("run").code == 0
    (project / "lading.yaml").write_text('tables:\n  all:\n    path: "**/*.parquet"\n    format: parquet\n')
    error = cli("run", "--json")
    assert error.code == 3 and "lading wrote itself" in error.json["error"]["message"]


def test_an_idle_run_imports_no_spark_and_starts_no_jvm(cli, project):
    assert cli("run").code == 0
    code = (
        "import sys, os; from lading.cli.main import invoke; "
        f"code = invoke(['-C', {str(project)!r}, 'run', '--json']); "
        "assert 'pyspark' not in sys.modules; "
        "children = open(f'/proc/self/task/{os.getpid()}/children').read(); assert not children, children; "
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.strip().splitlines()[-1])["spark_started"] is False


def test_without_pyspark_the_extra_is_named(project):
    code = (
        "import sys; sys.modules['pyspark'] = None; from lading.cli.main import invoke; "
        f"sys.exit(invoke(['-C', {str(project)!r}, 'run', '--json']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    error = json.loads(done.stdout.strip().splitlines()[-1])["error"]
    assert error["kind"] == "MissingExtra" and "lading[spark]" in error["hint"]


def test_a_file_that_moves_while_it_is_read_keeps_its_old_rows(cli, project, monkeypatch):
    assert cli("run").code == 0
    moving = project / "data/voyages/oslo_20240101.csv"
    put(moving, "ship,departed_at,cargo\nDora,2024-01-03 08:00:00,1\n", age=50)
    put(project / "data/voyages/bergen_20240105.csv", "ship,departed_at,cargo\nEva,2024-01-05 10:00:00,3\n")
    import lading.ingest.read as reading

    real = reading.execute

    def slow(*args, **named):
        done = real(*args, **named)
        put(moving, "ship,departed_at,cargo\nDora,2024-01-03 08:00:00,1\nGro,2024-01-04 08:00:00,1\n", age=40)
        return done

    monkeypatch.setattr(reading, "execute", slow)
    answer = cli("run", "voyages", "--json")
    assert answer.code == 1 and "oslo_20240101.csv" in answer.json["error"]["message"]
    assert sorted(row["ship"] for row in rows(cli, "voyages")) == ["Anna", "Bert", "Cleo", "Eva"]
    monkeypatch.undo()
    assert cli("run", "voyages").code == 0
    assert sorted(row["ship"] for row in rows(cli, "voyages")) == ["Cleo", "Dora", "Eva", "Gro"]
    parts = {
        str(p.relative_to(project / "warehouse/voyages"))
        for p in project.glob("warehouse/voyages/bucket=*/*")
    }
    with lading.open(project / "warehouse/voyages") as reader:
        assert reader.info()["parts"] <= len(parts)
