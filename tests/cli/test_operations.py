"""Gate, history, rollback, cleaning, verify and repair as people use them, on real runs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import lading
from lading.cli.main import invoke
from lading.watch import Watch

CONFIG = """\
tables:
  ships:
    root: data
    path: "*.csv"
    format: csv
    order_by: id
    replace: rewrite
"""
GATE = """\
    gate:
      rows: {max_drop: 50%}
      nulls: {port: 40%}
      unique: id
      sql: ["tonnes >= 0", "count(*) > 0 and max(tonnes) < 1000"]
"""


def put(path: Path, rows: list[tuple[int, str, int]], age: float = 100) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{number},{port},{tonnes}" for number, port, tonnes in rows]
    path.write_text("\n".join(["id,port,tonnes", *lines]) + "\n")
    stamp = path.stat().st_mtime - age
    os.utime(path, (stamp, stamp))


class Answer:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> dict:
        return json.loads(self.out.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def built(tmp_path_factory, spark) -> Path:
    """A project whose table has two snapshots."""
    folder = tmp_path_factory.mktemp("operations") / "project"
    folder.mkdir()
    (folder / "lading.yaml").write_text(CONFIG)
    put(folder / "data/a.csv", [(n, "oslo", n) for n in range(10)], age=900)
    put(folder / "data/b.csv", [(n, "kiel", n) for n in range(10, 14)], age=900)
    assert invoke(["-C", str(folder), "run"]) == 0
    put(folder / "data/b.csv", [(n, "kiel", n) for n in range(10, 16)], age=800)
    put(folder / "data/c.csv", [(20, "bergen", 5)], age=800)
    assert invoke(["-C", str(folder), "run"]) == 0
    return folder


@pytest.fixture
def project(built, tmp_path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "project", symlinks=True))


@pytest.fixture
def cli(project, capfd):
    def call(*args: str) -> Answer:
        capfd.readouterr()
        code = invoke(["-C", str(project), *args])
        return Answer(code, *capfd.readouterr())

    return call


def rows(project: Path, **options) -> int:
    with lading.open(project / "warehouse/ships", **options) as reader:
        return reader.scan().to_table().num_rows


def run_ids(cli) -> list[str]:
    return [one["run_id"] for one in cli("history", "ships", "--json").json["snapshots"]]


def test_history_diff_and_reading_an_older_snapshot(cli, project):
    told = cli("history", "ships", "--json").json["snapshots"]
    assert [(one["rows"], one["change"], one["current"]) for one in told] == [
        (17, 3, True),
        (14, None, False),
    ]
    assert "current" in cli("history", "ships").out
    told = cli("diff", "ships", "~1", "current", "--json").json
    assert [
        (one["key"], one["change"], one["rows_before"], one["rows_after"]) for one in told["sources"]
    ] == [
        ("b.csv", "replaced", 4, 6),
        ("c.csv", "added", 0, 1),
    ]
    newest, oldest = run_ids(cli)
    assert cli("diff", "ships", oldest, newest, "--json").json == told
    assert "rows: 14 -> 17 (+3)" in cli("diff", "ships").out
    assert "rows: 17 -> 14 (-3)" in cli("diff", "ships", "current", "~1").out
    for options in (["--offset", "1"], ["--ref", oldest], ["--as-of", "2100-01-01", "--limit", "100"]):
        found = cli("scan", "ships", "--format", "jsonl", *options)
        assert len(found.out.splitlines()) == (17 if "--as-of" in options else 14)
    assert not cli("lookup", "ships", "20", "--offset", "1", "--json").json["found"]
    assert cli("lookup", "ships", "20", "--json").json["found"]
    assert len(cli("sources", "ships", "--offset", "1", "--json").json["sources"]) == 2
    assert cli("scan", "ships", "--as-of", "2001-01-01").code == 1
    assert cli("scan", "ships", "--ref", "x", "--offset", "1").code == 3


def test_a_rollback_holds_and_runs_go_on_committing(cli, project):
    assert cli("rollback", "ships").code == 3
    assert cli("rollback", "ships", "--offset", "1", "--run-id", "x").code == 3
    told = cli("rollback", "ships", "--offset", "1", "--json").json
    assert told["held"] and rows(project) == 14
    put(project / "data/d.csv", [(30, "oslo", 1)])
    [table] = cli("run", "--json").json["tables"]
    assert not table["published"] and table["rows"] == 18 and rows(project) == 14
    [before] = cli("status", "--json").json["tables"]
    assert before["note"] == "held: rolled back" and before["current"]["held"]
    manifests = len(list((project / "warehouse/ships/manifests").iterdir()))
    assert cli("run", "--json").code == 0
    assert len(list((project / "warehouse/ships/manifests").iterdir())) == manifests, "a no-op writes none"
    assert [one["held"] for one in cli("history", "ships", "--json").json["snapshots"]] == [
        False,
        False,
        True,
    ]
    assert cli("publish", "ships").code == 3
    assert cli("publish", "ships", "--release").code == 0
    assert rows(project) == 18
    assert cli("publish", "ships", "--release").code == 1
    assert "rollback" in cli("runs", "ships").out


def test_a_gate_keeps_a_bad_snapshot_from_readers_until_it_is_forced(cli, project):
    (project / "lading.yaml").write_text(CONFIG + GATE)
    put(project / "data/b.csv", [(1, "", 2000), (51, "", -3), (52, "", 1), (53, "", 1)], age=50)
    (project / "data/a.csv").unlink()
    told = cli("run", "--allow-vanish", "--json")
    assert told.code == 1 and told.json["error"]["kind"] == "GateFailed"
    message = told.json["error"]["message"]
    for part in ("rows dropped by 70.59%", "80% of port is null", "`tonnes >= 0`", "it is false"):
        assert part in message
    assert rows(project) == 17, "readers see what they saw"
    [table] = told.json["tables"]
    assert table["manifest_ref"] and not table["published"] and table["rows"] == 5
    run_id = told.json["run_id"]
    assert f"lading publish ships --run {run_id} --force" in told.json["error"]["hint"]
    [status] = cli("status", "--json").json["tables"]
    assert "refused by the gate" in status["note"] and status["last_run"]["state"] == "failed"
    planned = cli("plan", "--json")
    assert planned.code == 2 and "don't see the last commit" in planned.json["tables"][0]["publish"]
    again = cli("run", "--json")
    assert again.code == 1 and again.json["error"]["message"] == message and not again.json["spark_started"]
    snapshots = cli("history", "ships", "--json").json["snapshots"]
    assert len(snapshots) == 3 and snapshots[0]["failed"] and snapshots[1]["current"]
    assert "failed" in cli("history", "ships").out
    assert cli("publish", "ships", "--run", run_id).code == 1
    assert cli("publish", "ships", "--run", run_id, "--force").code == 0
    assert rows(project) == 5
    assert cli("run").code == 0, "what was forced is what readers see: nothing is left to refuse"
    assert cli("plan").code == 0


def test_a_gate_that_is_loosened_or_satisfied_lets_the_next_run_publish(cli, project):
    (project / "lading.yaml").write_text(CONFIG + "    gate: {rows: {max_grow: 10%}}\n")
    put(project / "data/d.csv", [(n, "oslo", 1) for n in range(100, 110)], age=50)
    assert cli("run").code == 1 and rows(project) == 17
    assert cli("merge", "ships").code in (0, 1) and rows(project) == 17, "a merge is no way around the gate"
    (project / "lading.yaml").write_text(CONFIG + "    gate: {rows: {max_grow: 100%}}\n")
    told = cli("run", "--json")
    assert told.code == 0 and not told.json["spark_started"] and rows(project) == 27
    (project / "lading.yaml").write_text(CONFIG + "    gate: {unique: id}\n")
    put(project / "data/e.csv", [(100, "oslo", 1)], age=50)
    assert "id=100" in cli("run", "--json").json["error"]["message"]
    (project / "data/e.csv").unlink()
    assert cli("run").code == 0 and rows(project) == 27


def test_clean_shows_first_and_deletes_only_what_it_showed(cli, project):
    ships = project / "warehouse/ships"
    parts = sorted(ships.glob("bucket=*/*.parquet"))
    told = cli("clean", "--keep-runs", "1", "--older-than", "0s", "--json").json
    [table] = told["tables"]
    assert not told["applied"] and table["bytes"] > 0 and sorted(ships.glob("bucket=*/*.parquet")) == parts
    assert (
        "Nothing was deleted. To delete these files, add --apply."
        in cli("clean", "--keep-runs", "1", "--older-than", "0s").out
    )
    assert cli("clean", "ships", "--json").json["tables"][0]["files"] == [], "24 hours of grace"
    assert cli("clean", "--older-than", "soon").code == 3
    assert cli("clean", "nope").code == 1
    applied = cli("clean", "--keep-runs", "1", "--older-than", "0s", "--apply", "--json").json["tables"][0]
    assert applied["deleted"] == len(table["files"]) and applied["bytes_deleted"] == table["bytes"]
    assert len(sorted(ships.glob("bucket=*/*.parquet"))) < len(parts)
    assert rows(project) == 17 and len(run_ids(cli)) == 1
    assert cli("verify").code == 0
    put(project / "data/f.csv", [(40, "x", 1)])
    assert cli("run").code == 0 and rows(project) == 18


def test_what_clean_keeps_is_said_in_the_project_and_on_the_line(cli, project):
    config = project / "lading.yaml"
    config.write_text("clean: {keep_runs: 1, grace: 0s}\n" + config.read_text())
    by_config = cli("clean", "--json").json["tables"][0]
    assert by_config["bytes"] > 0
    assert cli("clean", "--keep-runs", "2", "--json").json["tables"][0]["bytes"] < by_config["bytes"]
    assert cli("clean", "--older-than", "1h", "--json").json["tables"][0]["files"] == []
    config.write_text(config.read_text().replace("keep_runs", "keep_run"))
    told = cli("clean")
    assert told.code == 3 and "did you mean 'keep_runs'" in told.err


def test_verify_finds_and_repair_and_a_run_mend_a_lost_part(cli, project):
    assert cli("verify", "--json").json["ok"]
    lost = sorted((project / "warehouse/ships").glob("bucket=*/*.parquet"))
    with lading.open(project / "warehouse/ships") as reader:
        live = {reader.lookup(20).member}
    [part] = [path for path in lost if str(path.relative_to(project / "warehouse/ships")) in live]
    part.unlink()
    told = cli("verify", "--json")
    assert told.code == 1
    assert [one["file"] for one in told.json["tables"][0]["findings"] if one["level"] == "error"] == list(
        live
    )
    said = cli("verify").out
    assert "ships: damaged" in said and "lading repair" in said
    assert "still to do: lading run ships reads them" in cli("repair").out
    assert cli("run").code == 0
    assert rows(project) == 17 and "ships: intact (3 sources" in (said := cli("verify").out)
    assert ", 1 snapshot, " in said


def test_deep_verification_reads_sources_again_alone(cli, project, spark):
    told = cli("verify", "--deep", "--json")
    assert told.code == 0, told.out
    [table] = told.json["tables"]
    assert table["checked"]["sources read again"] == 3 and table["checked"]["sources read"] == 3
    assert cli("run").code == 0  # the project is a copy: from now on its files are known where they lie
    path = project / "data/c.csv"
    before = path.stat()
    path.write_text("id,port,tonnes\n20,bergen,6\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    told = cli("verify", "--deep", "--json")
    assert told.code == 1
    errors = [one["message"] for one in told.json["tables"][0]["findings"] if one["level"] == "error"]
    assert any("different content than was read" in one for one in errors)
    assert any("gives different rows: 1 that the table lacks" in one for one in errors)
    assert not list((project / ".lading_cache/verify").glob("*"))


def test_a_malformed_pointer_stops_a_run_and_repair_puts_it_back(cli, project):
    pointer = project / "warehouse/ships/_CURRENT"
    pointer.write_text('{"manifest_ref": ')
    put(project / "data/g.csv", [(41, "x", 1)])
    told = cli("run", "--json")
    assert told.code == 1 and told.json["error"]["kind"] == "ManifestParseError"
    assert "lading repair" in told.json["error"]["hint"]
    assert cli("status").code == 0
    assert "readers see the snapshot of run" in cli("repair", "--json").json["tables"][0]["done"][0]
    assert rows(project) == 17
    assert cli("run").code == 0 and rows(project) == 18


class Killed(BaseException):
    """Stands for a kill: nothing in the product may catch it."""


@pytest.mark.parametrize("write", ["before the manifest", "between the two", "after the pointer"])
def test_a_run_killed_around_the_two_writes_is_healed_by_the_next(project, monkeypatch, write):
    from lading.config.file import load as load_config
    from lading.run import run
    from lading.snapshots.stores.files import LocalStore

    put(project / "data/h.csv", [(42, "x", 1)])
    real = LocalStore.swap_current

    def kill(*args, **kwargs):
        if write == "after the pointer":
            assert real(*args, **kwargs)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "put_manifest" if write == "before the manifest" else "swap_current", kill)
        with pytest.raises(Killed):
            run(load_config(project), watch=Watch())
    assert rows(project) == (18 if write == "after the pointer" else 17)
    report = run(load_config(project), watch=Watch())
    assert report.error is None and not report.spark_started
    assert rows(project) == 18
