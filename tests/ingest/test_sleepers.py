"""A run that slept until cleaning took it for dead, and its files too; found by the simulation. Whatever it
misses first when it wakes up, it plans again and finishes, or says that it was given up and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lading
import lading.run
import lading.upkeep.merge
from lading import ids
from lading.config.file import load as load_config
from lading.errors import GivenUp
from lading.log.table import Table
from lading.model import Commit
from lading.parts.write import PartWriter
from lading.run import run
from lading.upkeep.merge import merge_table

CONFIG = """\
spark: {in_process_below: 1MB}
tables:
  ports: {root: data, path: "*.csv", format: csv}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A table of two files, each in a part of its own."""
    (tmp_path / "data").mkdir()
    (tmp_path / "lading.yaml").write_text(CONFIG)
    for number in range(2):
        _write(tmp_path, number)
        assert run(load_config(tmp_path)).error is None
    return tmp_path


def _write(project: Path, number: int) -> None:
    (project / "data" / f"{number}.csv").write_text(f"id\n{number}\n")


def _ids(project: Path) -> list[int]:
    with lading.open(project / "warehouse" / "ports") as reader:
        return sorted(reader.scan().to_table().column("id").to_pylist())


def _cleaned(project: Path, origin: Any, pattern: str) -> None:
    """As cleaning does: the run is given up, then what nobody refers to goes."""
    table = Table.open(project / "warehouse" / "ports")
    table.commit(Commit(ids.fresh(), "clean", "", table.state.meta.recipe, expire=(origin.run_id,)))
    for path in (project / "warehouse" / "ports").glob(pattern):
        if not table.state.contains(str(path.relative_to(project / "warehouse" / "ports"))):
            path.unlink()
    table.close()


def _sleeps(monkeypatch: pytest.MonkeyPatch, step: str, missing: Callable[[Any], None], times: int) -> None:
    """A writer of parts sleeps before or after it closes its part."""
    real, begun = PartWriter.close, PartWriter.__init__
    left = [times]

    def init(self: Any, place: Any, bucket: int, schema: Any, origin: Any, **rest: Any) -> None:
        self.origin_seen = origin
        begun(self, place, bucket, schema, origin, **rest)

    def close(self: Any) -> Any:
        left[0] -= 1
        if step == "before" and left[0] >= 0:
            missing(self.origin_seen)
        member = real(self)
        if step == "after" and left[0] >= 0:
            missing(self.origin_seen)
        return member

    monkeypatch.setattr(PartWriter, "__init__", init)
    monkeypatch.setattr(PartWriter, "close", close)


# Its part went when it was whole, or while it was being written.
MISSING = [("after", "*/part-*.parquet"), ("before", "*/.part-*.tmp")]


@pytest.mark.parametrize(("step", "pattern"), MISSING)
def test_a_run_whose_parts_were_cleaned_away_plans_again_and_finishes(
    project: Path, monkeypatch: pytest.MonkeyPatch, step: str, pattern: str
) -> None:
    _write(project, 2)
    _sleeps(monkeypatch, step, lambda origin: _cleaned(project, origin, pattern), 1)
    assert run(load_config(project)).error is None
    assert _ids(project) == [0, 1, 2]


@pytest.mark.parametrize(("step", "pattern"), MISSING)
def test_a_run_that_sleeps_each_time_says_that_it_was_given_up(
    project: Path, monkeypatch: pytest.MonkeyPatch, step: str, pattern: str
) -> None:
    _write(project, 2)
    _sleeps(monkeypatch, step, lambda origin: _cleaned(project, origin, pattern), 100)
    error = run(load_config(project)).error
    assert isinstance(error, GivenUp) and "was declared dead" in error.message and "run again" in error.hint
    assert _ids(project) == [0, 1]


def test_a_merge_whose_part_was_cleaned_away_says_that_it_was_given_up(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _sleeps(monkeypatch, "before", lambda origin: _cleaned(project, origin, "*/.part-*.tmp"), 1)
    with pytest.raises(GivenUp, match="was declared dead"):
        merge_table(load_config(project), "ports")
    assert _ids(project) == [0, 1]
