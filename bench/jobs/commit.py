"""commit: 500 commits of one file each, onto a table that holds many already; each is durable.

Everybody commits a hundred a turn, in five turns, and stops for good after 20 seconds; the figure is the
median of commits a second. lading syncs the log at each commit; deltalake and pyiceberg don't sync, and
DuckLake syncs its database. A file is described, not read: add actions for deltalake, manifest entries
for pyiceberg; DuckLake reads the footer of a tiny file (`ducklake_add_data_files`). The floor appends as
many bytes as lading's frame has to a file and syncs it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

from bench import fixtures
from bench.bars import Clause, at_least, at_least_floor, either, ratio
from bench.case import Case, Job, Kit, label
from bench.fixtures import MadeUp
from bench.harness import Contender, Turn
from bench.peers import delta, ducklake, iceberg
from lading.log.table import Table

SECONDS = 20.0  # for all commits of one contender onto one table


def measure(kit: Kit) -> Iterator[Case]:
    each = kit.pick(100, 20, 5)  # commits a turn
    sizes = kit.sizes([0, 10_000, 100_000], [0, 1_000], [0, 1_000])
    together = kit.contest_together(
        {size: _contenders(kit, size, each) for size in sizes}, what="all sizes", warm_up=False
    )
    empty: float | None = None
    for size, measured in together.items():
        case = Case(label(size), size, "/s", "higher", measured)
        bar: list[Clause] = [either(at_least(1_000, "≥ 1,000/s", unit="/s"), at_least_floor(0.4))]
        if size == 0:
            empty = case.lading
        elif empty and case.lading:
            bar.append(ratio("growth ≤ 1.2x", empty / case.lading, 1.2))
        yield replace(case, clauses=bar)


def _contenders(kit: Kit, size: int, each: int) -> list[Contender]:
    found = [Contender("lading", "lading", lambda: _lading(kit, size, each))]
    if kit.with_peers:
        found += [
            Contender("deltalake", "peer", lambda: _deltalake(kit, size, each), SECONDS),
            Contender("pyiceberg", "peer", lambda: _pyiceberg(kit, size, each), SECONDS),
            Contender("DuckLake", "peer", lambda: _ducklake(kit, size, each), SECONDS),
        ]
    return [*found, Contender("append + fsync", "floor", lambda: _append(kit, size, each))]


def _rate(commit: Callable[[MadeUp], object], each: int, start: int) -> Turn:
    """Commits a second; a turn ends early when its share of the time is over."""
    numbers = count(start)

    def turn() -> float:
        done, begun = 0, time.perf_counter()
        while True:
            commit(MadeUp(next(numbers), False))
            done += 1
            spent = time.perf_counter() - begun
            if done == each or spent > SECONDS / 5:
                return done / spent

    return turn


@contextmanager
def _lading(kit: Kit, size: int, each: int) -> Iterator[Turn]:
    folder = fixtures.copied(fixtures.collection(kit.data, size), kit.work / f"lading-{size}")
    table = Table.open(folder)
    yield _rate(lambda one: table.commit(fixtures.commit((one.member(),))), each, size)
    table.close()
    shutil.rmtree(folder)


@contextmanager
def _deltalake(kit: Kit, size: int, each: int) -> Iterator[Turn]:
    from deltalake import DeltaTable

    folder = fixtures.copied(delta.table(kit.data, size), kit.work / f"delta-{size}")
    opened = DeltaTable(folder)
    yield _rate(lambda one: delta.append(opened, [one]), each, size)
    shutil.rmtree(folder)


@contextmanager
def _pyiceberg(kit: Kit, size: int, each: int) -> Iterator[Turn]:
    """Built afresh: the paths in its metadata are absolute, so a copy would write to the original."""
    folder = kit.work / f"iceberg-{size}"
    folder.mkdir()
    iceberg.fill(folder, size)
    opened = iceberg.opened(folder)
    yield _rate(lambda one: iceberg.append(opened, [one]), each, size)
    opened.catalog.close()
    shutil.rmtree(folder)


@contextmanager
def _ducklake(kit: Kit, size: int, each: int) -> Iterator[Turn]:
    folder = kit.work / f"ducklake-{size}"
    folder.mkdir()
    ducklake.fill(folder, size)
    with closing(ducklake.connect()) as connection:
        ducklake.attach(connection, folder)

        def commit(one: MadeUp) -> None:
            file = folder / f"{one.number}.parquet"
            os.link(folder / "tiny.parquet", file)
            ducklake.append(connection, file)

        yield _rate(commit, each, size)
    shutil.rmtree(folder)


@contextmanager
def _append(kit: Kit, size: int, each: int) -> Iterator[Turn]:
    frame = os.urandom(_frame_bytes(kit.work))
    path = kit.work / f"floor-{size}.log"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def append(one: MadeUp) -> None:
        os.write(file, frame)
        os.fsync(file)

    yield _rate(append, each, 0)
    os.close(file)
    path.unlink()


def _frame_bytes(work: Path) -> int:
    """How long a frame of one member is."""
    folder = work / "one-frame"
    table = Table.create(folder, "t")
    before = (folder / "manifest.log").stat().st_size
    table.commit(fixtures.commit((MadeUp(0, False).member(),)))
    size = (folder / "manifest.log").stat().st_size - before
    table.close()
    shutil.rmtree(folder)
    return size


JOB = Job("commit", "Durable commits of one file", __doc__ or "", measure, budget=900)
