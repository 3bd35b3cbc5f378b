"""evolve: one of 1,000 source files brings another column, a wider type, or takes a column away with it.

The table follows its files (`drift: evolve`). The figure is a share, as in `change`: Spark's work for the run
that takes in the file, by Spark's work for building the table in full; the time on the clock is shown beside
it, and has the look at the files in it. The file is new each time, and what it brought is undone between
the turns; for the column that goes, the file that is alone in having it vanishes. The full build is what
everybody else has to do; it counts as 1.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path

from bench import projects
from bench.bars import at_most
from bench.case import Case, Job, Kit
from bench.changes import Cost, full_builds, ready, run_measured
from bench.harness import Contender
from bench.jobs.change import Files
from bench.jobs.ingest import table_lines
from lading.config.project import Config

HEADER = "id,status,ms,name"
# What the file holds beside a row like any other: its header, and a row in the table's types or not.
BRINGS = {
    "a new column": (f"{HEADER},flag", "{id},200,1.5,x,MT"),
    "a wider number": (HEADER, "{id},200.5,1.5,x"),
    "text among numbers": (HEADER, "{id},n/a,1.5,x"),
}
GOES = "a column goes"


def measure(kit: Kit) -> Iterator[Case]:
    files, rows = kit.pick(1_000, 100, 10), kit.pick(5_000, 500, 50)
    projects.start_session(kit.work)
    kit.tell("files")
    raw = Files(kit.work / "raw", files, rows, spread=False)
    raw.write_all()
    lines = [*table_lines(files * rows), "drift: evolve"]
    config = projects.make(kit.work / "evolve", {}, lines, raw.folder)
    (config.project / "schema" / f"{projects.TABLE}.yaml").unlink()  # the files say what they hold
    full = full_builds(kit, config, "evolve")
    rebuild = full.shares
    odd = _Odd(raw.folder / "part-odd.csv", config, files * rows)
    for number, what in enumerate([*BRINGS, GOES], start=1):
        walls: list[float] = []
        tasks: list[float] = []

        def lading(what: str = what, walls: list[float] = walls, tasks: list[float] = tasks) -> float:
            cost = odd.goes() if what == GOES else odd.comes(what)
            walls.append(cost.wall)
            tasks.append(cost.tasks)
            return cost.tasks / full.tasks

        measured = kit.contest([Contender("lading", "lading", ready(lading))], what=what)
        extra = {
            "Spark work, s": statistics.median(tasks[1:] or [0.0]),
            "full build's Spark work, s": full.tasks,
            "run, s": statistics.median(walls[1:] or [0.0]),
            "full build, s": full.wall,
        }
        yield Case(
            f"{what}, 1 of {files:,} files",
            number,
            "of a full build",
            "lower",
            {**measured, "full rebuild": rebuild} if kit.with_peers else measured,
            [at_most(2, "≤ 2 % of the full build's Spark work", 100, " %")],
            "",
            extra if walls else {},
        )
    shutil.rmtree(config.project)
    shutil.rmtree(raw.folder)


class _Odd:
    """The file that is unlike the others."""

    def __init__(self, path: Path, config: Config, number: int) -> None:
        self._path, self._config, self._id = path, config, number

    def comes(self, what: str) -> Cost:
        self._put(what)
        cost = run_measured(self._config)
        self._path.unlink()
        projects.run_once(self._config)
        return cost

    def goes(self) -> Cost:
        self._put("a new column")
        projects.run_once(self._config)
        self._path.unlink()
        return run_measured(self._config)

    def _put(self, what: str) -> None:
        header, row = BRINGS[what]
        self._path.write_text(f"{header}\n{row.format(id=self._id)}\n")


JOB = Job("evolve", "The files change their columns", __doc__ or "", measure, budget=1_800)
