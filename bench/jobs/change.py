"""change: some of 1,000 source files change, and their rows are replaced in the table.

The figure is a share: Spark's work for the change, by Spark's work for building the table in full. Work
is the run time of all tasks, as Spark's own status store has it; the wall time of the runs is shown
beside it. Once with the rows of a file in one bucket, once spread over all of them. Each turn rewrites
the files with other values and runs. The full build is what everybody else has to do; it counts as 1.
delta-rs can say it too, as an overwrite of the rows whose source is among the files: its share is the
time that takes by the time that writing its table in full takes, files parsed in both.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from bench import projects, spark_work
from bench.bars import Clause, at_most
from bench.case import Case, Job, Kit
from bench.harness import Contender, Measured, Turn
from bench.jobs.ingest import BUCKETS, COLUMNS, table_lines, write_csv
from lading.config.project import Config

LAYOUTS = {"one bucket": False, "all buckets": True}


def measure(kit: Kit) -> Iterator[Case]:
    files, rows = kit.pick(1_000, 100, 10), kit.pick(5_000, 500, 50)
    projects.start_session(kit.work)
    for layout, spread in LAYOUTS.items():
        kit.tell(f"{layout}: files")
        raw = RawFiles(kit.work / "raw", files, rows, spread)
        for number in range(files):
            raw.write(number)
        config = projects.make(kit.work / "change", COLUMNS, table_lines(files * rows), raw.folder)
        full = full_builds(kit, config, layout)
        rebuild = Measured("peer", tuple(one.tasks / full.tasks for one in full.each))
        changes = kit.sizes([1, 10, 100], [1, 10], [1])
        with _delta_table(kit, raw) as delta:
            for count in changes:
                yield _case(kit, raw, config, full, rebuild, delta, layout, count)
        shutil.rmtree(config.project)
        shutil.rmtree(raw.folder)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run cost: seconds of tasks, and on the clock."""

    tasks: float
    wall: float


@dataclass(frozen=True, slots=True)
class Full:
    each: list[Cost]

    @property
    def tasks(self) -> float:
        return statistics.median(one.tasks for one in self.each)

    @property
    def wall(self) -> float:
        return statistics.median(one.wall for one in self.each)


@dataclass(slots=True)
class RawFiles:
    """The source files: each has ids of its own, that lie together or are spread over the whole range."""

    folder: Path
    files: int
    rows: int
    spread: bool
    versions: int = 0
    draw: np.random.Generator = field(default_factory=lambda: np.random.default_rng(4))

    def write(self, number: int) -> None:
        self.folder.mkdir(exist_ok=True)
        own = np.arange(self.rows, dtype=np.int64)
        ids = own * self.files + number if self.spread else number * self.rows + own
        write_csv(self.path(number), self.draw.permutation(ids), self.draw)

    def change(self, count: int) -> list[int]:
        """Other values in `count` files, in different ones each time."""
        begin = self.versions
        self.versions += count
        numbers = [number % self.files for number in range(begin, begin + count)]
        for number in numbers:
            self.write(number)
        return numbers

    def path(self, number: int) -> Path:
        return self.folder / f"part-{number:04d}.csv"

    def read(self, number: int) -> pa.Table:
        types = {"id": pa.int64(), "status": pa.int32(), "ms": pa.float64(), "name": pa.string()}
        options = pyarrow.csv.ConvertOptions(column_types=types)
        table = pyarrow.csv.read_csv(self.path(number), convert_options=options)
        size = -(-self.files * self.rows // BUCKETS)
        bucket = pa.array(table["id"].to_numpy() // size)
        source = pa.array(np.full(len(table), number, np.int64))
        return table.append_column("bucket", bucket).append_column("source", source)


def full_builds(kit: Kit, config: Config, layout: str) -> Full:
    costs = []
    for number in range(kit.pick(4, 3, 2)):
        kit.tell(f"{layout}: full build {number}")
        projects.forget_table(config)
        costs.append(run_measured(config))
    return Full(costs[1:])  # the first has Spark's own start in it


def _case(
    kit: Kit,
    raw: RawFiles,
    config: Config,
    full: Full,
    rebuild: Measured,
    delta: Any,
    layout: str,
    count: int,
) -> Case:
    walls: list[float] = []
    tasks: list[float] = []

    def lading() -> float:
        raw.change(count)
        cost = run_measured(config)
        walls.append(cost.wall)
        tasks.append(cost.tasks)
        return cost.tasks / full.tasks

    @contextmanager
    def ready(turn: Turn) -> Iterator[Turn]:
        yield turn

    contenders = [
        Contender("lading", "lading", lambda: ready(lading)),
        Contender("deltalake overwrite", "peer", lambda: ready(lambda: delta(count)), budget=30),
    ]
    name = f"{count} of {raw.files:,} files, {layout}"
    measured = kit.contest(contenders, what=name)
    measured = {**measured, "full rebuild": rebuild} if kit.with_peers else measured
    bar: list[Clause] = [at_most(1, "≤ the full build", unit="x")]
    if count == 1:
        bar = [at_most(2, "≤ 2 % of the full build's Spark work", 100, " %")]
    extra = {
        "Spark work, s": statistics.median(tasks[1:] or [0.0]),  # without the warm-up
        "full build's Spark work, s": full.tasks,
        "run, s": statistics.median(walls[1:] or [0.0]),
        "full build, s": full.wall,
    }
    return Case(name, count, "of a full build", "lower", measured, bar, layout, extra if walls else {})


def run_measured(config: Config) -> Cost:
    before = spark_work.stages()
    begun = time.perf_counter()
    projects.run_once(config)
    wall = time.perf_counter() - begun
    return Cost(spark_work.since(before).seconds, wall)


@contextmanager
def _delta_table(kit: Kit, raw: RawFiles) -> Iterator[Any]:
    """A function that replaces the rows of so many files: the share that it took of a full write. Made
    when it is first called, so that one that can't be made fails as a peer does."""
    folder = kit.work / "delta-change"
    full: list[float] = []

    def fill() -> None:
        from deltalake import write_deltalake

        begun = time.perf_counter()
        rows = pa.concat_tables([raw.read(number) for number in range(raw.files)]).sort_by("id")
        write_deltalake(folder, rows, mode="overwrite", partition_by=["bucket"])
        full.append(time.perf_counter() - begun)

    def replace(count: int) -> float:
        from deltalake import write_deltalake

        if not full:
            for _ in range(3):
                fill()
        numbers = raw.change(count)
        begun = time.perf_counter()
        rows = pa.concat_tables([raw.read(number) for number in numbers])
        predicate = f"source IN ({', '.join(map(str, numbers))})"
        write_deltalake(folder, rows, mode="overwrite", predicate=predicate)
        return (time.perf_counter() - begun) / statistics.median(full)

    yield replace
    shutil.rmtree(folder, ignore_errors=True)


JOB = Job("change", "Some source files change", __doc__ or "", measure, budget=2_400)
