"""A real run, killed for real at every phase boundary; then run again: equal to a rebuild."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.project import Project

PHASES = ["discover", "plan", "prepare", "ingest", "commit", "record", "publish", "clean", "done"]

# One session for all: a driver is forked for each kill, as it stands once Spark runs. That a driver which is
# killed takes a Spark of its own with it is asked in test_quarantine_sigkill.py.
DRIVERS = """
import os, signal, sys
from pathlib import Path
from lading.config.file import load as load_config
from lading.run import run
from lading.watch import Watch

class Kill(Watch):
    def __init__(self, at):
        self._at = at

    def phase(self, table, name):
        if name == self._at:
            os.kill(os.getpid(), signal.SIGKILL)

folder, phases = Path(sys.argv[1]), sys.argv[2:]
assert run(load_config(folder / "whole"), allow_vanish=True).error is None
for phase in phases:
    driver = os.fork()
    if driver == 0:
        run(load_config(folder / phase), allow_vanish=True, watch=Kill(phase))
        os._exit(0)
    _, status = os.waitpid(driver, 0)
    print(phase, os.waitstatus_to_exitcode(status), flush=True)
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


@pytest.fixture(scope="module")
def killed(changed, tmp_path_factory) -> Path:
    """A copy of the project for each phase, after a run that was killed there."""
    folder = tmp_path_factory.mktemp("killed")
    for name in ("whole", *PHASES):
        shutil.copytree(changed.folder, folder / name, symlinks=True)
    drivers = subprocess.run(
        [sys.executable, "-c", DRIVERS, str(folder), *PHASES], capture_output=True, text=True, timeout=600
    )
    expected = [f"{phase} {-signal.SIGKILL}" for phase in PHASES]
    assert drivers.stdout.splitlines() == expected, drivers.stderr[-2000:]
    return folder


@pytest.mark.parametrize("phase", PHASES)
def test_a_run_killed_at_a_phase_boundary_is_completed_by_the_next_one(changed, killed, phase):
    before = changed.seen()
    project = object.__new__(Project)
    project.__dict__.update(changed.__dict__, folder=killed / phase, data=killed / phase / "data")
    published = phase in ("clean", "done")
    assert project.seen() == (project.truth() if published else before)
    project.run()
    assert project.seen() == project.truth()
    assert not list((project.folder / ".lading_cache").glob("at_work/*")), (
        "the lock of a killed run is left behind"
    )
