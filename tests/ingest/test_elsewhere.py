"""Tasks on machines that don't see what the driver sees: no part is committed that nobody could read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lading.ingest.read as read
from lading.config.file import load as load_config
from lading.errors import LadingError, PipelineError, SourceError
from lading.run import run

CONFIG = """\
spark: {in_process_below: 1MB}
tables:
  ports: {root: data, path: "*.csv", format: csv, on_bad: quarantine}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("name\nOslo\n")
    (tmp_path / "lading.yaml").write_text(CONFIG)
    return tmp_path


def error_of(project: Path) -> LadingError:
    error = run(load_config(project)).error
    assert error is not None
    assert not list((project / "warehouse" / "ports").glob("_CURRENT"))
    return error


def around(
    monkeypatch: pytest.MonkeyPatch, before: Callable[[], object], after: Callable[[], object]
) -> None:
    """What happens to the files while tasks run."""
    execute = read.execute

    def executed(*args: Any, **options: Any) -> Any:
        before()
        found = execute(*args, **options)
        after()
        return found

    monkeypatch.setattr(read, "execute", executed)


def test_a_file_that_only_the_driver_sees_is_told_as_such(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, hidden = project / "data", project / "hidden"
    around(monkeypatch, lambda: data.rename(hidden), lambda: hidden.rename(data))
    error = error_of(project)
    assert type(error) is SourceError and error.file == "a.csv"
    assert error.message.startswith("a.csv is not there on the machine that reads it")
    assert "`root` must be the same path on every machine, or a bucket" in error.hint


def test_a_file_that_nobody_sees_any_more_has_vanished(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    around(monkeypatch, (project / "data" / "a.csv").unlink, lambda: None)
    error = run(load_config(project)).error
    assert type(error) is SourceError and error.file == "a.csv"
    assert error.message == "a.csv changed while it was being read; the rows it had before stay"


def test_parts_that_went_to_another_machines_folder_are_not_committed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = project / "warehouse" / "ports"
    around(monkeypatch, lambda: None, lambda: [shutil.rmtree(one) for one in table.glob("bucket=*")])
    error = error_of(project)
    assert type(error) is PipelineError and "is not on this machine" in error.message
    assert "`warehouse` must be the same path on every machine, or a bucket" in error.hint
