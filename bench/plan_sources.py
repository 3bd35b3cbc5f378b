"""How planning and recording grow with the number of source files, against the floor: scandir and stat.

    python bench/plan_sources.py [1000 10000 100000]

Files are made, a table is committed that has read them all, and then the steps of a run with nothing to
do are timed, each the best of several: discover, the whole look (discover, source manifest, log, plan),
and recording. No Spark: none of these steps needs it. Prints one line a size, and the growth between.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from lading import config as lading_config
from lading.catalog.table import Table
from lading.config.project import Config
from lading.model import Commit, FoundFile, Source
from lading.plan import TablePlan
from lading.sources.discover import discover
from lading.sources.ids import source_id
from lading.steps.look import Look, look, recipe_of
from lading.steps.record import record_sources
from lading.steps.schema import pinned_columns
from lading.watch import Watch

CONFIG = """\
tables:
  t: {root: data, path: "**/*.csv", format: csv}
"""
SCHEMA = "columns:\n- {name: a, type: bigint}\n"
OLD = 1_600_000_000


def main() -> None:
    sizes = [int(text) for text in sys.argv[1:]] or [1_000, 10_000, 100_000]
    before: dict[str, float] = {}
    print(
        f"{'files':>8} {'floor':>9} {'discover':>9} {'no-op':>9} {'x floor':>8} {'record':>9} {'µs/file':>8}"
    )
    for size in sizes:
        folder = Path(tempfile.mkdtemp(prefix="lading-bench-"))
        try:
            times = measure(folder, size)
        finally:
            shutil.rmtree(folder)
        ratio = times["no-op"] / times["floor"]
        record = times["record"] * 1e6 / size
        shown = " ".join(f"{times[name] * 1e3:7.1f}ms" for name in ("floor", "discover", "no-op"))
        print(f"{size:8,} {shown} {ratio:7.2f}x {times['record'] * 1e3:7.1f}ms {record:8.2f}")
        for name, seconds in times.items() if before else ():
            growth = seconds / before[name]
            print(f"{'':8} {name}: {growth:.1f}x the time for {size / before['files']:.0f}x the files")
        before = times | {"files": size}


def measure(folder: Path, size: int) -> dict[str, float]:
    make_files(folder / "data", size)
    (folder / "lading.yaml").write_text(CONFIG)
    (folder / "schema").mkdir()
    (folder / "schema" / "t.yaml").write_text(SCHEMA)
    config = lading_config.load(folder)
    found = discover(folder / "data", "**/*.csv", now_ns=time.time_ns())
    table = commit(config, found)
    sources = {key: source for key, (source, _) in table.state.sources().items()}
    seen = look(config, "t", watch=Watch())

    def record() -> None:
        state = table.state
        record_sources(
            config,
            seen,
            table_id=table.table_id,
            sequence=state.sequence,
            sources=sources,
            failures={},
            recipe=state.meta.recipe,
        )

    record()
    assert plan_of(look(config, "t", watch=Watch())).idle, "the table must have nothing to do"
    work = {
        "floor": lambda: walk(str(folder / "data")),
        "discover": lambda: discover(folder / "data", "**/*.csv", now_ns=time.time_ns()),
        "no-op": lambda: look(config, "t", watch=Watch()),
        "record": record,
    }
    return best(work, 15 if size <= 10_000 else 9)


def plan_of(seen: Look) -> TablePlan:
    return seen.plan


def make_files(root: Path, size: int) -> None:
    for number in range(size):
        if number % 1000 == 0:
            below = root / f"year={number // 12_000}" / f"{number // 1000:04d}"
            below.mkdir(parents=True)
        path = below / f"data-{number:07d}.csv"
        path.write_bytes(b"a\n1\n")
        os.utime(path, (OLD, OLD))


def commit(config: Config, found: list[FoundFile]) -> Table:
    cfg = config.table("t")
    columns = pinned_columns(config, cfg)
    assert columns is not None
    table = Table.create(config.place("t"), "t")
    sources = tuple(
        Source(
            source_id(f.key),
            f.key,
            f.hash,
            "0" * 64,
            f.size,
            f.mtime_ns,
            1,
            False,
            "2024-01-01T00:00:00+00:00",
        )
        for f in found
    )
    table.commit(
        Commit("c", "r", "2024-01-01T00:00:00+00:00", recipe_of(config, cfg, columns), sources=sources)
    )
    table.checkpoint()
    return table


def walk(folder: str) -> int:
    """What nobody can do without: every name, and every file's size and time."""
    count = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                count += walk(entry.path)
            else:
                entry.stat()
                count += 1
    return count


def best(work: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The best of several rounds, in turns: what else the machine does then hits all of them alike."""
    times = dict.fromkeys(work, float("inf"))
    for _ in range(repeats):
        for name, one in work.items():
            start = time.perf_counter()
            one()
            times[name] = min(times[name], time.perf_counter() - start)
    return times


if __name__ == "__main__":
    main()
