"""Tables to measure on, made once and kept below bench/.data until what makes them changes.

Planning asks for members, not for rows: members here are made of numbers and committed through the real
log and checkpoint, without a Parquet file behind them. Every peer gets the same members through its own
interfaces (see bench/peers/).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import lading
from lading.log.table import Table
from lading.model import Commit, Member, Zone

ROWS = 1_000  # of each member
RARE = 1_000  # one member in so many has a status of 404
BEHIND = 1_000  # frames behind the checkpoint
AT = "2024-01-01T00:00:00+00:00"
SCHEMA = pa.schema([("key", pa.int64()), ("status", pa.int32()), ("host", pa.string()), ("ms", pa.float64())])
KEY = 7 * ROWS + ROWS // 2  # is in a member that has a 404


def kept(data: Path, name: str, made_by: str, build: Callable[[Path], None]) -> Path:
    """The fixture `name`: built under another name, then renamed, so that a half one is never found. Of
    what `made_by` names differently, the old one goes."""
    mark = hashlib.sha256(made_by.encode()).hexdigest()[:12]
    folder = data / f"{name}-{mark}"
    if not folder.exists():
        data.mkdir(parents=True, exist_ok=True)
        for old in (*data.glob(f"{name}-????????????"), *data.glob(f".{name}.*")):
            shutil.rmtree(old)
        fresh = data / f".{name}.{os.getpid()}"
        fresh.mkdir()
        build(fresh)
        fresh.rename(folder)
    return folder


def code_of(*names: str) -> str:
    """A text that changes when any of these modules or folders of lading does."""
    root = Path(lading.__file__).parent
    digest = hashlib.sha256()
    for name in names:
        at = root / name
        for path in sorted(at.rglob("*.py")) if at.is_dir() else [at]:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def version_of(package: str) -> str:
    return f"{package} {importlib.metadata.version(package)}"


@dataclass(frozen=True, slots=True)
class MadeUp:
    """Member number `number`, as everybody is told of it."""

    number: int
    rare: bool

    @property
    def path(self) -> str:
        return f"bucket=000000/part-{self.number:08d}.parquet"

    @property
    def zones(self) -> dict[str, tuple[int | float | str, int | float | str]]:
        first = self.number * ROWS
        return {
            "key": (first, first + ROWS - 1),
            "status": (200, 404 if self.rare else 304),
            "host": (f"a{self.number % 50:03d}.example", f"z{self.number % 50:03d}.example"),
            "ms": (0.5, 100.0 + self.number % 7),
        }

    def member(self) -> Member:
        zones = self.zones
        first, last = zones["key"]
        return Member(
            path=self.path, rows=ROWS, bytes=100_000, bucket=0, tick_min=int(first), tick_max=int(last),
            key_min=first, key_max=last, created_at=AT,
            zones={name: Zone(low, high, 0) for name, (low, high) in zones.items()},
        )  # fmt: skip


def made_up(start: int, stop: int) -> Iterator[MadeUp]:
    return (MadeUp(number, number % RARE == KEY // ROWS) for number in range(start, stop))


def collection(data: Path, size: int, behind: int = 0) -> Path:
    """A collection of `size` members in its checkpoint, and `behind` more, one a frame, behind it. Those
    have no 404, so that the answer is the same with and without them."""
    made_by = code_of("model.py", "state", "log", "storage") + f"{size} {behind} 1"
    return kept(data, f"members-{size}-{behind}", made_by, lambda at: _fill(at, size, behind))


def _fill(at: Path, size: int, behind: int) -> None:
    table = Table.create(at, "t")
    table.commit(commit((), schema=SCHEMA.serialize().to_pybytes(), order_by="key"))
    step = 250_000
    for start in range(0, size, step):
        table.commit(commit(tuple(one.member() for one in made_up(start, min(size, start + step)))))
        table.checkpoint()
    table.checkpoint()
    for number in range(size, size + behind):
        table.commit(commit((MadeUp(number, False).member(),)))
    table.close()


def commit(add: tuple[Member, ...], schema: bytes | None = None, order_by: str | None = None) -> Commit:
    return Commit("c" * 32, "r" * 32, AT, "", add=add, schema=schema, order_by=order_by)


def copied(folder: Path, to: Path) -> Path:
    """A copy that may be written to."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder, to)
    return to
