"""Every command that works on a project works on one whose warehouse is a bucket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.bucket_project import BucketProject
from support.servers import S3Server

from lading.cli.main import invoke

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MORE = """\
    on_bad: quarantine
    serve: {key: id, shards: 2}
    gate: {unique: id, sql: ["count(*) > 0", "id >= 0"]}
"""


@pytest.fixture
def project(
    tmp_path: Path, url: str, s3_server: S3Server, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> BucketProject:
    made = BucketProject(tmp_path / "project", url, s3_server.options(), MORE)
    monkeypatch.setenv("LADING_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(made.folder)
    return made


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert invoke([*arguments]) == code, capsys.readouterr()
    return json.loads(capsys.readouterr().out)


def test_a_project_lives_in_a_bucket_from_the_first_run_to_the_last_question(
    project: BucketProject, capsys: pytest.CaptureFixture[str]
) -> None:
    project.put("a.csv", [(i, 1, "x") for i in range(25)])
    assert told(capsys, "plan", "--json", code=2)["tables"][0]["verdicts"]["new"] == 1
    first = told(capsys, "run", "--json")
    assert first["tables"][0]["rows"] == 25
    project.put("b.csv", [(i, 2, "y") for i in range(30, 40)])
    (project.data / "c.csv").write_text("id,day,note\n50,2024-01-01,fine\nbad,2024-01-01,x\n")
    told(capsys, "run", "--json")
    [table] = told(capsys, "status", "--json")["tables"]
    assert (table["table"], table["rows"], table["sequence"]) == ("events", 36, 2)
    assert told(capsys, "lookup", "events", "33", "--json")["row"]["note"] == "y"
    assert told(capsys, "lookup", "events", "33", "--json", "--offset", "1")["found"] is False
    assert {one["key"] for one in told(capsys, "sources", "events", "--json")["sources"]} == {
        "a.csv", "b.csv", "c.csv",
    }  # fmt: skip
    assert (
        invoke(["scan", "events", "--where", "id > 30 and id < 34", "--format", "jsonl", "--columns", "id"])
        == 0
    )
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == [31, 32, 33]
    with project.open() as reader:
        assert reader.get(33, decode=True)["note"] == "y"
    assert len(told(capsys, "history", "events", "--json")["snapshots"]) == 2
    assert told(capsys, "quarantine", "list", "--json")["quarantine"][0]["rows"] == 1
    assert told(capsys, "quarantine", "show", "events", "--json")["rows"][0]["line"] == 3
    told(capsys, "rollback", "events", "--offset", "1", "--json")
    assert told(capsys, "lookup", "events", "33", "--json")["found"] is False
    told(capsys, "publish", "events", "--release", "--json")
    told(capsys, "merge", "events", "--json")
    assert told(capsys, "lookup", "events", "33", "--json")["found"] is True
    assert {name.split("/")[0].split("=")[0] for name in project.names()} == {
        "bucket", "log", "manifest.json", "manifests", "metadata", "quarantine", "runs", "shards", "_CURRENT",
    }  # fmt: skip
    assert not (project.folder / "warehouse").exists()


def test_a_table_in_a_bucket_is_verified_repaired_and_cleaned(
    project: BucketProject, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        project.put("a.csv", [(i, 1 + number, "x") for i in range(25)], age=100 - number)
        project.put("b.csv", [(i, 2, "y") for i in range(30, 30 + number)], age=100 - number)
        told(capsys, "run", "--json")
    diff = told(capsys, "diff", "events", "~2", "current", "--json")
    assert [(one["key"], one["rows_after"]) for one in diff["sources"]] == [("a.csv", 25), ("b.csv", 2)]
    history = told(capsys, "history", "events", "--json")["snapshots"]
    then = ("--as-of", history[-1]["published_at"])
    assert told(capsys, "lookup", "events", "30", "--json", *then)["found"] is False
    assert told(capsys, "get", "events", "31", "--json")["value"]["note"] == "y"
    assert [one["state"] for one in told(capsys, "runs", "events", "--json")["runs"]] == ["succeeded"] * 3

    verified = told(capsys, "verify", "--deep", "--json")
    assert verified["ok"] is True
    checked = verified["tables"][0]["checked"]
    assert checked["shards"] == 2 and checked["sources read again"] == 2 and checked["parts read"] > 0
    assert invoke(["repair"]) == 0 and "nothing to repair" in capsys.readouterr().out

    before = set(project.names())
    shown = told(capsys, "clean", "events", "--keep-runs", "1", "--older-than", "0s", "--json")["tables"][0]
    assert set(project.names()) == before and shown["deleted"] == 0
    done = told(capsys, "clean", "events", "--keep-runs", "1", "--older-than", "0s", "--apply", "--json")
    kinds = {one["kind"] for one in done["tables"][0]["files"]}
    assert kinds >= {"old run", "replaced part"} and done["tables"][0]["bytes_deleted"] > 0
    assert len(told(capsys, "history", "events", "--json")["snapshots"]) == 1
    assert len([name for name in project.names() if name.endswith("/shard.db")]) == 2
    assert told(capsys, "verify", "--deep", "--json")["ok"] is True
    assert project.seen() == project.truth()

    lost = next(name for name in project.names() if name.startswith("bucket=000003/part-"))
    project.storage.delete(lost)
    found = told(capsys, "verify", "--json", code=1)["tables"][0]["findings"]
    assert lost in [one["file"] for one in found] and all(one["remedy"] for one in found)
    mended = told(capsys, "repair", "--json")["tables"][0]
    assert "will be read again" in mended["done"][0] and mended["left"]
    told(capsys, "run", "--json")
    assert told(capsys, "verify", "--json")["ok"] is True and project.seen() == project.truth()
