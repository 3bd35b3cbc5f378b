"""memory: what the Python driver of a run takes, with as many sources and members as the size says.

A process of its own runs `lading.run.run` on a table in which one source file changed and one is new:
everything is listed, compared, planned, read on Spark, committed, recorded and published. The figure is
the most that this process ever held (its resident set); the JVM and Spark's workers are other processes
and are not in it. The floor is a process that has PySpark and pyarrow imported and does nothing.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import projects, sourced
from bench.bars import at_most
from bench.case import Case, Job, Kit, label
from bench.harness import Contender, Turn, always
from lading.config.file import load

ROOT = Path(__file__).resolve().parents[2]
_FLOOR = "import lading.run, pyarrow.parquet, pyspark.sql, pandas; "
_FLOOR += "from bench.jobs.memory import tell_peak; tell_peak()"


def measure(kit: Kit) -> Iterator[Case]:
    return (_case(kit, size) for size in kit.sizes([1_000, 10_000, 100_000], [2_000], [50]))


def _case(kit: Kit, size: int) -> Case:
    name = f"{label(size)} sources, {label(size)} members"
    kit.tell(f"{name}: fixtures")
    contenders = [
        Contender("lading", "lading", lambda: _lading(kit, size)),
        Contender("imports alone", "floor", lambda: always(lambda: _peak(["-c", _FLOOR]))),
    ]
    measured = kit.contest(contenders, what=name, warm_up=False)
    return Case(name, size, "MB", "lower", measured, [at_most(500, "≤ 500 MB", unit=" MB")])


@contextmanager
def _lading(kit: Kit, size: int) -> Iterator[Turn]:
    original = sourced.project(kit.data, size, members=size).project
    folder = kit.work / "memory"
    shutil.copytree(original, folder)  # copy2: times stay, and with them the fingerprints
    files = sorted((folder / "data").glob("*/*.csv"))
    numbers = iter(range(1 << 30))

    def turn() -> float:
        number = next(numbers)
        files[number].write_text(f"a\n{number + 2}\n")
        (folder / "data" / f"new-{number}.csv").write_text("a\n3\n")
        return _peak(["-m", "bench.jobs.memory", str(folder)])

    yield turn
    shutil.rmtree(folder)


def _peak(words: list[str]) -> float:
    """Megabytes."""
    said = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=ROOT)
    for line in said.stdout.splitlines():
        if line.startswith("peak "):
            return int(line.split()[1]) / 1024
    raise RuntimeError(said.stderr.strip().splitlines()[-1] if said.stderr.strip() else "it said nothing")


def run_and_tell(project: Path) -> None:
    """In a process of its own."""
    report = projects.run_once(load(project))
    assert report.spark_started and report.tables[0].published
    tell_peak()


def tell_peak() -> None:
    """Kilobytes. Not `ru_maxrss`: that one has what the parent held when it started this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            print("peak", line.split()[1])


JOB = Job("memory", "The driver's memory", __doc__ or "", measure, budget=1_200)

if __name__ == "__main__":
    run_and_tell(Path(sys.argv[1]))
