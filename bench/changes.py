"""Some of many source files change: what the jobs `change` and `chain` measure, and how.

The figure is a share: Spark's work for the run that follows the change, by Spark's work for building
everything in full. Work is the run time of all tasks, as Spark's own status store has it; the wall time of
the runs is shown beside it. The full build is what everybody else has to do; it counts as 1. A peer that can
be told by hand has a share of its own: the time that takes by the time that writing its tables in full takes.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench import projects, spark_work
from bench.bars import Clause, at_most
from bench.case import Case, Kit
from bench.harness import Contender, Measured, Turn
from lading.config.project import Config

_FILLS = 3  # of a peer's tables: the median counts


@dataclass(slots=True)
class RawFiles:
    """The source files. Which rows a file has is for the job to say."""

    folder: Path
    files: int
    rows: int
    spread: bool = True  # whether the rows of a file are in all buckets, or together
    versions: int = 0
    draw: np.random.Generator = field(default_factory=lambda: np.random.default_rng(4))

    def write(self, number: int) -> None:
        raise TypeError(f"{type(self).__name__} doesn't say which rows a file has")

    def read(self, number: int) -> pa.Table:
        """As a peer reads it, with the number as `source`."""
        raise TypeError(f"{type(self).__name__} doesn't say how a file is read")

    def path(self, number: int) -> Path:
        return self.folder / f"part-{number:04d}.csv"

    def write_all(self) -> None:
        self.folder.mkdir(exist_ok=True)
        for number in range(self.files):
            self.write(number)

    def change(self, count: int) -> list[int]:
        """Other values in `count` files, in different ones each time."""
        begin = self.versions
        self.versions += count
        numbers = [number % self.files for number in range(begin, begin + count)]
        for number in numbers:
            self.write(number)
        return numbers

    def sourced(self, number: int, table: pa.Table) -> pa.Table:
        return table.append_column("source", pa.array(np.full(len(table), number, np.int64)))

    def read_several(self, numbers: Sequence[int]) -> pa.Table:
        return pa.concat_tables([self.read(number) for number in numbers])


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run cost: seconds of tasks, and on the clock."""

    tasks: float
    wall: float


@dataclass(frozen=True, slots=True)
class Full:
    """What building everything in full costs."""

    each: list[Cost]

    @property
    def tasks(self) -> float:
        return statistics.median(one.tasks for one in self.each)

    @property
    def wall(self) -> float:
        return statistics.median(one.wall for one in self.each)

    @property
    def shares(self) -> Measured:
        return Measured("peer", tuple(one.tasks / self.tasks for one in self.each))


def full_builds(kit: Kit, config: Config, layout: str) -> Full:
    costs = []
    for number in range(kit.pick(4, 3, 2)):
        kit.tell(f"{layout}: full build {number}")
        projects.forget_table(config)
        costs.append(run_measured(config))
    return Full(costs[1:])  # the first has Spark's own start in it


def run_measured(config: Config) -> Cost:
    before = spark_work.stages()
    begun = time.perf_counter()
    projects.run_once(config)
    wall = time.perf_counter() - begun
    return Cost(spark_work.since(before).seconds, wall)


@dataclass(frozen=True, slots=True)
class Changes:
    """One project, its files, and what is compared."""

    raw: RawFiles
    config: Config
    full: Full
    layout: str
    bar: Clause  # for one file
    full_is: str  # "full build", or "full refresh" of several tables
    peer: str
    by_hand: Callable[[int], float]  # the peer's share for so many files

    def case(self, kit: Kit, count: int) -> Case:
        costs: list[Cost] = []

        def lading() -> float:
            self.raw.change(count)
            costs.append(run_measured(self.config))
            return costs[-1].tasks / self.full.tasks

        name = f"{count} of {self.raw.files:,} files, {self.layout}"
        contenders = [
            Contender("lading", "lading", ready(lading)),
            Contender(self.peer, "peer", ready(lambda: self.by_hand(count)), budget=30),
        ]
        measured = kit.contest(contenders, what=name)
        measured = {**measured, self.full_is: self.full.shares} if kit.with_peers else measured
        clauses: list[Clause] = [self.bar if count == 1 else at_most(1, f"≤ the {self.full_is}", unit="x")]
        unit = f"of a {self.full_is}"
        return Case(name, count, unit, "lower", measured, clauses, self.layout, self._extra(costs))

    def _extra(self, costs: Sequence[Cost]) -> dict[str, float]:
        turns = costs[1:]  # without the warm-up
        if not turns:
            return {}
        return {
            "Spark work, s": statistics.median(one.tasks for one in turns),
            f"{self.full_is}'s Spark work, s": self.full.tasks,
            "run, s": statistics.median(one.wall for one in turns),
            f"{self.full_is}, s": self.full.wall,
        }


def ready(turn: Turn) -> Callable[[], AbstractContextManager[Turn]]:
    """A contender that needs nothing to be made first."""
    return lambda: nullcontext(turn)


@contextmanager
def by_hand(
    folder: Path, raw: RawFiles, fill: Callable[[Path], None], follow: Callable[[Path, list[int]], None]
) -> Iterator[Callable[[int], float]]:
    """A function that brings a peer's tables up to date with so many files: the share that it took of writing
    them in full. They are made when it is first called, so that one that can't be made fails as a peer."""
    full: list[float] = []

    def share(count: int) -> float:
        while len(full) < _FILLS:
            full.append(_timed(lambda: fill(folder)))
        numbers = raw.change(count)
        return _timed(lambda: follow(folder, numbers)) / statistics.median(full)

    yield share
    shutil.rmtree(folder, ignore_errors=True)


def _timed(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
