"""record: write down what was read, the files being newly read: manifest/<table>.json, for people.

lading's figure is the `record` phase of a run that finds an empty source manifest and a log that has all
the files; what is shown is the cost of one file. The look before it has read the log's sources, and they are
not read again; a run that commits first reads those of the checkpoint again, which is not measured here. The
floor encodes the same document with msgspec and writes it once: write, fsync, rename.

The panel `one of them` is the `record` phase of a run in which one file among so many has another time.
Beyond 100,000 files what changed is appended to a file of its own. Its floor appends a line and syncs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from bench import projects, sourced
from bench.bars import at_most, ratio
from bench.case import Case, Job, Kit, label
from bench.harness import Contender, Turn, timed


def measure(kit: Kit) -> Iterator[Case]:
    sizes = kit.sizes([1_000, 10_000, 100_000], [1_000, 10_000], [200, 400])
    together = kit.contest_together({size: _contenders(kit, size) for size in sizes}, what="all sizes")
    first: float | None = None
    for size, measured in together.items():
        case = Case(f"{label(size)} files", size, "s a file", "lower", measured)
        found = case.lading / first if first and case.lading else 1.0
        first = first or case.lading
        yield replace(case, clauses=[ratio("a file costs ≤ 1.2x of one among the fewest", found, 1.2)])
    if kit.only is None:
        yield _one_of(kit, kit.pick(sourced.MANY, 2_000, 200))


def _one_of(kit: Kit, size: int) -> Case:
    name = f"one of {label(size)} files"
    contenders = [
        Contender("lading", "lading", lambda: _one_changed(kit, size)),
        Contender("append and fsync", "floor", lambda: _append(kit)),
    ]
    clauses = [at_most(100, "≤ 100 ms", scale=1_000, unit=" ms")] if size >= sourced.MANY else []
    measured = kit.contest(contenders, what=name)
    return Case(name, size, "s", "lower", measured, clauses, panel="one of them")


@contextmanager
def _one_changed(kit: Kit, size: int) -> Iterator[Turn]:
    config = sourced.shared(kit.data, size)
    with os.scandir(config.project / "data" / f"{0:04d}") as entries:
        path = max(entry.path for entry in entries)

    def turn() -> float:
        at = os.stat(path).st_mtime + 1
        os.utime(path, (at, at))
        phases = projects.Phases()
        projects.run_once(config, phases)
        return phases.seconds["record"]

    yield turn


@contextmanager
def _append(kit: Kit) -> Iterator[Turn]:
    path = kit.work / "append.jsonl"

    def append() -> None:
        with open(path, "ab") as file:
            file.write(b"x" * 800)
            file.flush()
            os.fsync(file.fileno())

    yield timed(append)


def _contenders(kit: Kit, size: int) -> list[Contender]:
    return [
        Contender("lading", "lading", lambda: _lading(kit, size)),
        Contender("one JSON write", "floor", lambda: _json(kit, size)),
    ]


@contextmanager
def _lading(kit: Kit, size: int) -> Iterator[Turn]:
    config = sourced.project(kit.data, size)
    manifest = config.source_manifest(projects.TABLE)
    whole, empty = manifest.stat().st_size, (config.project / sourced.EMPTY).read_bytes()

    def turn() -> float:
        manifest.write_bytes(empty)
        phases = projects.Phases()
        projects.run_once(config, phases)
        assert manifest.stat().st_size == whole
        return phases.seconds["record"] / size

    yield turn


@contextmanager
def _json(kit: Kit, size: int) -> Iterator[Turn]:
    config = sourced.project(kit.data, size)
    document = msgspec.json.decode(config.source_manifest(projects.TABLE).read_bytes())
    path = kit.work / f"record-{size}.json"
    turn = timed(lambda: _write(path, msgspec.json.encode(document)))
    yield lambda: turn() / size
    path.unlink()


def _write(path: Path, content: bytes) -> None:
    fresh = path.with_suffix(".tmp")
    with open(fresh, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.rename(fresh, path)


JOB = Job("record", "Record files that were newly read", __doc__ or "", measure, budget=600)
