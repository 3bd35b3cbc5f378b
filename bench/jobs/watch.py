"""watch: from a file's rename into place to the moved pointer, with `lading watch` at work on a warm Spark.

The table has read many small files before. Each turn renames one more in among them and waits until
`_CURRENT` is another file: the hint, the look at the file, the tasks on Spark, the commit and the publish are
all in it. The next turn begins when the watcher has nothing left to do. The floor is what the system's
own word takes to get to a process that waits for it, and nothing more.
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import projects, sourced
from bench.bars import Clause, at_most, ratio
from bench.case import Case, Job, Kit, label
from bench.harness import Measured
from lading.config.file import load
from lading.config.project import Config
from lading.watcher.events import Event
from lading.watcher.hints import Silence, Watched, listening
from lading.watcher.loop import Options, Watcher

_PATIENCE = 60.0


def measure(kit: Kit) -> Iterator[Case]:
    projects.start_session(kit.work)
    for size in kit.sizes([1_000, 100_000], [1_000], [100]):
        yield _case(kit, size, kit.pick(100, 20, 3))


def _case(kit: Kit, size: int, turns: int) -> Case:
    name = f"{label(size)} files"
    kit.tell(f"{name}: fixtures")
    folder = kit.work / f"watched-{size}"
    shutil.copytree(sourced.project(kit.data, size).project, folder, symlinks=True)
    config = load(folder)
    projects.run_once(config)  # copies have times of their own
    kit.tell(f"{name}: lading")
    with _watched(config) as settled:
        took = [_turn(config, settled, number) for number in range(turns + 5)][5:]
    kit.tell(f"{name}: the floor")
    floor = _floor(folder / "data", turns)
    shutil.rmtree(folder)
    worst = statistics.quantiles(took, n=100)[98] if len(took) > 1 else took[0]
    measured = {
        "lading": Measured("lading", tuple(took)),
        "the operating system's word": Measured("floor", tuple(floor)),
    }
    return Case(name, size, "s", "lower", measured, bars(worst), extra={"p99, s": worst})


def bars(worst: float) -> list[Clause]:
    """`worst` is the 99th percentile, in seconds."""
    return [at_most(500, "p50 ≤ 500 ms", 1000, " ms"), ratio("p99 ≤ 1500 ms", worst * 1000, 1500, " ms")]


@contextmanager
def _watched(config: Config) -> Iterator[threading.Event]:
    """A watcher at work; the event is set whenever it has ended a run."""
    watcher = Watcher(config, options=Options(every=3_600.0), counts=False)
    settled = threading.Event()
    failed: list[Event] = []

    def heard(event: Event) -> None:
        if event.kind == "run failed":
            failed.append(event)
        if event.kind in ("run finished", "run failed"):
            settled.set()

    watcher.tell.listen(heard)
    thread = threading.Thread(target=watcher.watch, name="watcher")
    thread.start()
    try:
        assert settled.wait(_PATIENCE * 5), "the first run did not end"
        yield settled
    finally:
        watcher.stop()
        thread.join(_PATIENCE)
    if failed:
        raise failed[0].fields["error"]


def _turn(config: Config, settled: threading.Event, number: int) -> float:
    pointer = Path(str(config.place(projects.TABLE))) / "_CURRENT"
    before = _identity(pointer)
    ready = config.project / f"ready-{number}"
    ready.write_text(f"a\n{number}\n")
    time.sleep(0.05)
    settled.clear()
    target = config.project / "data" / f"{number % sourced.FOLDERS:04d}"
    target.mkdir(exist_ok=True)
    begun = time.perf_counter()
    os.rename(ready, target / f"watched-{number}.csv")
    while _identity(pointer) == before:
        time.sleep(0.0005)
        assert time.perf_counter() - begun < _PATIENCE, "the pointer did not move"
    took = time.perf_counter() - begun
    assert settled.wait(_PATIENCE)
    return took


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_mtime_ns


def _floor(root: Path, turns: int) -> list[float]:
    heard = Silence()
    took = []
    numbers = itertools.count()
    with listening((Watched("t", os.path.realpath(root), "**/*.csv"),), heard):
        for number in itertools.islice(numbers, turns):
            ready = root.parent / f"floor-{number}"
            ready.write_text("a\n1\n")
            begun = time.perf_counter()
            os.rename(ready, root / "0000" / f"floor-{number}.csv")
            assert heard.wait(_PATIENCE)
            took.append(time.perf_counter() - begun)
            while heard.wait(0.05):
                pass
    return took


JOB = Job("watch", "A file arrives while watching", __doc__ or "", measure, budget=1_800)
