"""What people ask for in the source manifest while a run is under way is not lost when the run writes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.project import Project

from lading.config.file import load as load_config
from lading.run import plan_tables, run
from lading.watch import Watch


class AtCommit(Watch):
    def __init__(self, do: Callable[[], object]) -> None:
        self._do = do

    def phase(self, table: str, name: str) -> None:
        if name == "commit":
            self._do()


@pytest.fixture
def project(spark: object, tmp_path: Path) -> Project:
    made = Project(tmp_path / "project")
    for key in ("a.csv", "b.csv", "c.csv"):
        made.put(key, [(1, 1, "x")], age=1000)
    made.run()
    made.put("a.csv", [(2, 1, "y")], age=500)
    return made


def wanted(project: Project) -> dict[str, str | None]:
    """What the next run would read, and why."""
    [plan] = plan_tables(load_config(project.folder))
    return {one.key: one.reason for one in plan.files if one.verdict not in ("unchanged", "touched")}


def test_an_entry_that_is_removed_while_a_run_is_under_way_is_read_by_the_next(project: Project) -> None:
    manifest = project.folder / "manifest" / "events.json"

    def remove() -> None:
        content = json.loads(manifest.read_text())
        del content["files"]["c.csv"]
        manifest.write_text(json.dumps(content))

    assert run(load_config(project.folder), watch=AtCommit(remove)).error is None
    asked = wanted(project)
    assert set(asked) == {"c.csv"} and "its entry was removed" in str(asked["c.csv"])
    project.run()
    assert wanted(project) == {} and project.seen() == project.truth()


def test_a_manifest_that_is_removed_while_a_run_is_under_way_resets_the_table(project: Project) -> None:
    manifest = project.folder / "manifest" / "events.json"
    assert run(load_config(project.folder), watch=AtCommit(manifest.unlink)).error is None
    assert project.seen() == project.truth()
    [plan] = plan_tables(load_config(project.folder))
    assert plan.again is not None and "is missing" in plan.again.why
    project.run()
    assert wanted(project) == {} and project.seen() == project.truth()
