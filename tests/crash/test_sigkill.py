"""A real run, killed for real at every phase boundary; then run again: equal to a rebuild."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys

import pytest
from support.project import Project

PHASES = ["discover", "plan", "prepare", "ingest", "commit", "record", "publish", "clean", "done"]

CHILD = """
import os, signal, sys
from pathlib import Path
from lading.config.file import load as load_config
from lading.run import run
from lading.watch import Watch

class Kill(Watch):
    def phase(self, table, name):
        if name == sys.argv[2]:
            os.kill(os.getpid(), signal.SIGKILL)

run(load_config(Path(sys.argv[1])), allow_vanish=True, watch=Kill())
"""


@pytest.fixture(scope="module")
def changed(tmp_path_factory, spark) -> Project:
    """A published table whose sources were edited, deleted and added to since."""
    project = Project(tmp_path_factory.mktemp("crash") / "project")
    for number, key in enumerate(["a.csv", "b.csv", "c.csv"]):
        project.put(key, [(i + number, 1 + number, "x") for i in range(0, 40, 7)], age=1000)
    project.run()
    project.put("a.csv", [(3, 9, "edited")], age=500)
    (project.data / "b.csv").unlink()
    project.put("d.csv", [(33, 4, "added")], age=500)
    return project


@pytest.mark.parametrize("phase", PHASES)
def test_a_run_killed_at_a_phase_boundary_is_completed_by_the_next_one(changed, tmp_path, phase):
    shutil.copytree(changed.folder, tmp_path / "project", symlinks=True)
    project = object.__new__(Project)
    project.__dict__.update(changed.__dict__, folder=tmp_path / "project", data=tmp_path / "project" / "data")
    before = project.seen()
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(project.folder), phase],
        capture_output=True,
        timeout=300,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()[-2000:]
    published = phase in ("clean", "done")
    assert project.seen() == (project.truth() if published else before)
    project.run()
    assert project.seen() == project.truth()
    assert not list((project.folder / ".lading_cache").glob("at_work/*")), (
        "the lock of a killed run is left behind"
    )
