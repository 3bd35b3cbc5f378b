"""spread: the same files with one executor and with two, of one core each.

A cluster on one machine (`local-cluster`): executors are processes of their own that talk to the driver as
they would over a network. The figure is the wall time of a whole first run in a session that has run before;
each turn has a session of its own, since Spark has one at a time.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import projects
from bench.bars import better_than
from bench.case import Case, Job, Kit, label
from bench.fixtures import kept
from bench.harness import Contender, Turn
from bench.jobs.ingest import COLUMNS, make_csv, table_lines

ONE = "one executor"
FILES = 20
_TURN = 600.0  # seconds that one may take


def measure(kit: Kit) -> Iterator[Case]:
    return (_case(kit, size) for size in kit.sizes([10_000_000], [2_000_000], [5_000]))


def _case(kit: Kit, size: int) -> Case:
    name = f"{label(size)} rows"
    kit.tell(f"{name}: fixtures")
    contenders = [
        Contender("lading", "lading", lambda: _executors(kit, size, 2)),
        Contender(ONE, "peer", lambda: _executors(kit, size, 1)),
    ]
    measured = kit.contest(contenders, what=name, limit=1_200)
    return Case(name, size, "s", "lower", measured, [better_than(ONE, 1.7)])


@contextmanager
def _executors(kit: Kit, size: int, count: int) -> Iterator[Turn]:
    files: Path = kept(kit.data, f"csv-{size}", f"{size} 1", lambda at: make_csv(at, size, FILES))
    config = projects.make(kit.work / f"spread-{count}", COLUMNS, table_lines(size), files)

    def turn() -> float:
        projects.forget_table(config)
        command = [sys.executable, "-m", "bench.jobs.spread", str(config.project), str(count), str(size)]
        told = subprocess.run(command, capture_output=True, text=True, timeout=_TURN, check=False)
        if told.returncode:
            raise RuntimeError(told.stderr.strip().splitlines()[-1])
        return float(told.stdout.split()[-1])

    yield turn
    shutil.rmtree(config.project)


def _run(project: Path, executors: int, size: int) -> float:
    """One turn, in a process of its own."""
    import time

    from lading.config.file import load
    from lading.spark.session import spark_session

    config = load(project)
    spark_session(f"local-cluster[{executors},1,1024]", {"spark.ui.enabled": "false"}, project / "session")
    projects.run_once(config)  # executors start, Python's workers too
    projects.forget_table(config)
    begun = time.perf_counter()
    report = projects.run_once(config)
    seconds = time.perf_counter() - begun
    assert report.tables[0].rows == size and report.tables[0].published
    return seconds


JOB = Job("spread", "Files over one executor and over two", __doc__ or "", measure, budget=2_400)

if __name__ == "__main__":
    print(_run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
