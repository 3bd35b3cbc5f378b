"""A disk that is full at any point of a run: an error that says so, readers whole, the other tables done, and
the next run completes it."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.project import Project

from lading.cli.main import invoke
from lading.config.file import load as load_config
from lading.errors import StorageError
from lading.run import run
from lading.storage import folder as local
from lading.watch import Watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Full(Watch):
    """From one phase of `events` on, nothing more can be written below its folder."""

    def __init__(self, patch: pytest.MonkeyPatch, phase: str, folder: Path) -> None:
        self._patch, self._phase, self._folder = patch, phase, folder
        self._write = local._write_synced

    def phase(self, table: str, name: str) -> None:
        if (table, name) == ("events", self._phase):
            self._patch.setattr(local, "_write_synced", self._refuse)

    def _refuse(self, path: str, data: bytes) -> None:
        if Path(path).is_relative_to(self._folder):
            raise OSError(errno.ENOSPC, "No space left on device", os.path.dirname(path))
        self._write(path, data)


@pytest.mark.parametrize("phase", ["prepare", "record", "publish"])
def test_a_full_disk_is_named_stops_one_table_and_the_next_run_completes_it(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    project = Project(tmp_path / "project")
    file = project.folder / "lading.yaml"
    file.write_text(file.read_text() + file.read_text().partition("tables:\n")[2].replace("events:", "zeta:"))
    shutil.copy(project.folder / "schema/events.yaml", project.folder / "schema/zeta.yaml")
    project.put("a.csv", [(i, 1, "x") for i in range(25)])
    project.run()
    before = project.seen()
    project.put("b.csv", [(i, 2, "y") for i in range(20, 40)])
    with monkeypatch.context() as patch:
        report = run(load_config(project.folder), watch=Full(patch, phase, project.table))
    events, zeta = report.tables
    assert isinstance(events.error, StorageError) and events.error.table == "events"
    assert "make room" in events.error.hint
    assert "No space left on device" in events.error.message
    assert zeta.error is None and zeta.published and zeta.rows == 45
    assert project.seen() == before
    project.run()
    assert project.seen() == project.truth()


def test_a_command_that_meets_a_full_disk_says_so_and_asks_for_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: str, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", os.path.dirname(path))

    from support.world import World

    world = World(tmp_path / "project")
    world.run()
    world.run()
    (world.folder / "lading.yaml").write_text("tables: {t: {root: data, path: '*.csv', format: csv}}\n")
    monkeypatch.setattr(local, "_write_synced", refuse)
    assert invoke(["-C", str(world.folder), "rollback", "t", "--offset", "1", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["error"]
    assert told["kind"] == "StorageError" and "No space left on device" in told["message"]
    assert "make room" in told["hint"] and "report" not in told["hint"]
    current = world.store.load_current()
    assert current is not None and not current.held
