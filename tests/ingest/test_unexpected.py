"""What nobody expects, in one table: the others go on, what was committed is published, and it is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lading
import lading.run
import lading.upkeep.merge
from lading.cli.main import invoke
from lading.config.file import load as load_config
from lading.errors import Unexpected
from lading.log.table import Table
from lading.run import run
from lading.upkeep.merge import merge_table
from lading.watch import Watch

CONFIG = """\
warehouse: warehouse
tables:
  one: {root: data, path: "one*.csv", format: csv}
  two: {root: data, path: "two*.csv", format: csv}
"""


class Surprise(Exception):
    """No error of lading's."""


class Killed(BaseException):
    """Nothing catches it."""


class KilledAt(Watch):
    def __init__(self, phase: str) -> None:
        self._phase = phase

    def phase(self, table: str, name: str) -> None:
        if name == self._phase:
            raise Killed


@pytest.fixture
def project(spark: object, tmp_path: Path) -> Path:
    (tmp_path / "lading.yaml").write_text(CONFIG)
    (tmp_path / "data").mkdir()
    for name in ("one", "two"):
        (tmp_path / "data" / f"{name}.csv").write_text("id\n1\n2\n")
    return tmp_path


def rows(project: Path, table: str) -> int:
    with lading.open(project / "warehouse" / table) as reader:
        return reader.rows


def surprised_by(monkeypatch: pytest.MonkeyPatch, name: str, table: str) -> None:
    """Let a step of one table's run raise what it never should."""
    real = getattr(lading.run, name)

    def step(*args: object, **kwargs: object) -> object:
        if any(_table_of(one) == table for one in args):
            raise Surprise("what now?")
        return real(*args, **kwargs)

    monkeypatch.setattr(lading.run, name, step)


def _table_of(one: object) -> object:
    return one.state.meta.table if isinstance(one, Table) else getattr(one, "name", one)


@pytest.mark.parametrize("step", ["look", "prepare", "commit_rows", "write_table_manifest", "release"])
def test_a_surprise_in_one_table_does_not_stop_the_others(
    project: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    surprised_by(monkeypatch, step, "one")
    report = run(load_config(project))
    first, second = report.tables
    assert isinstance(first.error, Unexpected) and "Surprise: what now?" in first.error.message
    assert isinstance(first.error.__cause__, Surprise) and first.error.table == "one"
    assert second.error is None and rows(project, "two") == 2
    monkeypatch.undo()
    assert run(load_config(project)).error is None and rows(project, "one") == 2
    parts = list((project / "warehouse" / "one").glob("bucket=*/*.parquet"))
    assert len(parts) == 1, "what the failed run wrote and did not commit is gone"


def test_nothing_comes_between_a_commit_and_its_publish(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The people's copies can't be written; readers see the new rows all the same."""
    config = load_config(project)
    assert run(config).error is None
    (project / "data" / "one-b.csv").write_text("id\n3\n")
    surprised_by(monkeypatch, "write_table_manifest", "one")
    report = run(config)
    assert isinstance(report.error, Unexpected)
    assert rows(project, "one") == 3
    monkeypatch.undo()
    again = run(config)
    assert again.error is None and not again.spark_started, "only what was not recorded is made good"
    entries = json.loads((project / "manifest" / "one.json").read_text())["files"]
    assert set(entries) == {"one.csv", "one-b.csv"}
    told = json.loads((project / "warehouse" / "one" / "manifest.json").read_text())
    assert sum(one["row_count"] for one in told["partitions"].values()) == 3


def test_the_command_says_it_keeps_the_traceback_and_goes_on(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    surprised_by(monkeypatch, "prepare", "one")
    assert invoke(["-C", str(project), "run", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["error"]["kind"] == "Unexpected" and "lading.jsonl" in told["error"]["hint"]
    assert [table["rows"] for table in told["tables"]] == [0, 2]
    lines = (project / "logs" / "lading.jsonl").read_text().splitlines()
    assert any("Traceback" in json.loads(line).get("traceback", "") for line in lines)


def test_nothing_comes_between_what_a_killed_run_committed_and_its_publish(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No row changes any more, so the next run has only to record and to publish: the one fails, the other
    is done all the same."""
    config = load_config(project)
    assert run(config).error is None
    (project / "data" / "one-b.csv").write_text("id\n3\n")
    with pytest.raises(Killed):
        run(config, ["one"], watch=KilledAt("record"))
    assert rows(project, "one") == 2
    surprised_by(monkeypatch, "write_table_manifest", "one")
    report = run(config)
    assert isinstance(report.error, Unexpected) and not report.spark_started
    assert rows(project, "one") == 3
    monkeypatch.undo()
    assert run(config).error is None
    told = json.loads((project / "warehouse" / "one" / "manifest.json").read_text())
    assert sum(one["row_count"] for one in told["partitions"].values()) == 3


@pytest.mark.parametrize("step", ["write_table_manifest", "tidy"])
def test_nothing_comes_between_a_merge_and_its_publish(
    project: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    config = load_config(project)
    assert run(config).error is None
    (project / "data" / "one-b.csv").write_text("id\n3\n")
    assert run(config).error is None

    def surprise(*args: object) -> None:
        raise Surprise("what now?")

    monkeypatch.setattr(lading.upkeep.merge, step, surprise)
    with pytest.raises(Surprise):
        merge_table(config, "one")
    with lading.open(project / "warehouse" / "one") as reader:
        assert (reader.info()["parts"], reader.rows) == (1, 3)
