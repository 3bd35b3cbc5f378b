"""driver: what the driver has to do for ten times the bytes in the same number of files.

Files are read, digested, checked and written by tasks; the driver lists them, hands them out, commits and
publishes. So its work should grow with the number of files and not with what is in them. The figure is CPU
time of the Python driver for a whole first run; Spark's workers are other processes, and the JVM is another
one too. The floor is the same with a tenth of the bytes, which is still enough for several tasks and for a
second wave that folds what they wrote: what one task can do by itself needs neither.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import projects
from bench.bars import at_most_floor
from bench.case import Case, Job, Kit, label
from bench.fixtures import kept
from bench.harness import Contender, Turn
from bench.jobs.ingest import COLUMNS, make_csv, table_lines

FILES = 20
FLOOR = "a tenth of the bytes"


def measure(kit: Kit) -> Iterator[Case]:
    return (_case(kit, size) for size in kit.sizes([20_000_000], [10_000_000], [5_000]))


def _case(kit: Kit, size: int) -> Case:
    name = f"{label(size)} rows"
    kit.tell(f"{name}: fixtures")
    projects.start_session(kit.work)
    contenders = [
        Contender("lading", "lading", lambda: _driver(kit, size)),
        Contender(FLOOR, "floor", lambda: _driver(kit, size // 10)),
    ]
    measured = kit.contest(contenders, what=name, limit=600)
    return Case(name, size, "s", "lower", measured, [at_most_floor(1.2, FLOOR)])


@contextmanager
def _driver(kit: Kit, size: int) -> Iterator[Turn]:
    files: Path = kept(kit.data, f"driver-{size}", f"{size} 1", lambda at: make_csv(at, size, FILES))
    config = projects.make(kit.work / f"driver-{size}", COLUMNS, table_lines(size), files)

    def turn() -> float:
        projects.forget_table(config)
        begun = time.process_time()
        report = projects.run_once(config)
        seconds = time.process_time() - begun
        assert report.tables[0].rows == size and report.tables[0].published
        return seconds

    yield turn
    shutil.rmtree(config.project)


JOB = Job("driver", "The driver's work, by the bytes of its files", __doc__ or "", measure, budget=1_200)
