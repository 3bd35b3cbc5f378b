"""memory: what the Python driver of a run takes, with as many sources and members as the size says.

A process of its own runs `lading.run.run` on a table in which one source file changed and one is new:
everything is listed, compared, planned, read on Spark, committed, recorded and published, for Iceberg readers
too. The figure is
the most that this process ever held (its resident set); the JVM and Spark's workers are other processes
and are not in it. The floor is a process that has PySpark and pyarrow imported and does nothing. The panel
`look` is a process of its own that lists, compares and plans the same, without Spark.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import projects, sourced
from bench.bars import at_most
from bench.case import Case, Job, Kit, label
from bench.harness import Contender, Turn, always
from lading.config.file import load
from lading.ingest.look import look
from lading.watch import Watch

ROOT = Path(__file__).resolve().parents[2]


def measure(kit: Kit) -> Iterator[Case]:
    for size in kit.sizes([1_000, 10_000, 100_000, sourced.MANY], [2_000], [50]):
        for panel in ("run", "look"):
            yield _case(kit, size, panel)


def _case(kit: Kit, size: int, panel: str) -> Case:
    name = f"{panel}, {label(size)} sources, {label(size)} members"
    kit.tell(f"{name}: fixtures")
    contenders = [
        Contender("lading", "lading", lambda: _lading(kit, size, panel)),
        imports_alone("lading.run, pyarrow.parquet, pyspark.sql, pandas"),
    ]
    measured = kit.contest(contenders, what=name, warm_up=False)
    return Case(name, size, "MB", "lower", measured, [at_most(500, "≤ 500 MB", unit=" MB")], panel)


@contextmanager
def _lading(kit: Kit, size: int, panel: str) -> Iterator[Turn]:
    """In place: the table goes on from run to run, and copying a million files takes minutes."""
    folder = sourced.project(kit.data, size, members=size).project
    with os.scandir(folder / "data" / f"{0:04d}") as entries:
        file = Path(min(entry.path for entry in entries))

    def turn() -> float:
        file.write_text(f"a\n{time.time_ns()}\n")
        (folder / "data" / "new.csv").write_text(f"a\n{time.time_ns()}\n")
        return peak(["-m", "bench.jobs.memory", panel, str(folder)])

    yield turn
    projects.run_once(load(folder))  # a look leaves the files as they are


def imports_alone(modules: str) -> Contender:
    """The floor: a process that imports and does nothing."""
    code = f"import {modules}; from bench.jobs.memory import tell_peak; tell_peak()"
    return Contender("imports alone", "floor", lambda: always(lambda: peak(["-c", code])), budget=1)


def peak(words: list[str]) -> float:
    """Megabytes, as a Python of its own with these arguments tells them."""
    said = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=ROOT)
    for line in said.stdout.splitlines():
        if line.startswith("peak "):
            return int(line.split()[1]) / 1024
    raise RuntimeError(said.stderr.strip().splitlines()[-1] if said.stderr.strip() else "it said nothing")


def run_and_tell(panel: str, project: Path) -> None:
    """In a process of its own."""
    if panel == "look":
        assert len(look(load(project), projects.TABLE, watch=Watch()).plan.read) == 2
    else:
        report = projects.run_once(load(project))
        [table] = report.tables
        assert report.spark_started and table.published and not table.notes, table.notes
    tell_peak()


def tell_peak() -> None:
    """Kilobytes. Not `ru_maxrss`: that one has what the parent held when it started this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            print("peak", line.split()[1])


JOB = Job("memory", "The driver's memory", __doc__ or "", measure, budget=1_200)

if __name__ == "__main__":
    run_and_tell(sys.argv[1], Path(sys.argv[2]))
