"""publish: the table's state as an immutable snapshot with 64 shards, then the pointer.

lading's figure is everything from the state in memory to the moved pointer: the manifest is built, put
and synced, the pointer is swapped. Building it grows with the number of members and is shown apart. The
floor writes as many bytes as the manifest and the pointer have: write, fsync, rename, fsync of the
folder, twice.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from bench import fixtures
from bench.bars import Clause, at_least_floor
from bench.case import Case, Job, Kit, label
from bench.harness import Contender, Turn, timed
from lading.log.table import Table
from lading.snapshots.manifest import BuildMeta, ShardMeta, build_snapshot
from lading.snapshots.stores.files import LocalStore
from lading.state.tables import create_tables

SHARDS = 64
SMALL = 100


def measure(kit: Kit) -> Iterator[Case]:
    return (_case(kit, size) for size in kit.sizes([SMALL, 10_000, 100_000], [SMALL, 1_000], [SMALL]))


def _case(kit: Kit, size: int) -> Case:
    name = f"{label(size)} members, {SHARDS} shards"
    kit.tell(f"{name}: fixtures")
    table = Table.open(fixtures.collection(kit.data, size))
    building: list[float] = []
    contenders = [
        Contender("lading", "lading", lambda: _lading(kit, table, building)),
        Contender("2 x durable write", "floor", lambda: _floor(kit, payload_of(table, "r"))),
    ]
    measured = kit.contest(contenders, what=name)
    table.close()
    bar: list[Clause] = [at_least_floor(0.5)] if size == SMALL else []
    extra = {"of it building the manifest, s": statistics.median(building)} if building else {}
    return Case(name, size, "/s", "higher", measured, bar, extra=extra)


def payload_of(table: Table, run_id: str) -> bytes:
    """As the publish step builds it."""
    state = table.state
    meta = BuildMeta(
        run_id=run_id,
        created_at=datetime.now(UTC),
        num_dbs=SHARDS,
        key_col="key",
        custom={"table": "t", "table_id": table.table_id, "sequence": state.sequence},
    )
    shards = [
        ShardMeta(
            db_id=number,
            db_url=f"shards/run_id={run_id}/db={number:05d}/attempt=00",
            attempt=0,
            row_count=1_000,
            min_key=0,
            max_key=1_000_000,
            checkpoint_id="0" * 64,
            db_bytes=1 << 20,
        )
        for number in range(SHARDS)
    ]
    store = table.settle()
    return build_snapshot(meta, shards, lambda con: store.write_root(con, state.meta), tables=create_tables)


@contextmanager
def _lading(kit: Kit, table: Table, building: list[float]) -> Iterator[Turn]:
    root = kit.work / "published"
    numbers = iter(range(1 << 30))

    def publish(store: LocalStore) -> None:
        run_id = f"run-{next(numbers)}"
        begun = time.perf_counter()
        payload = payload_of(table, run_id)
        building.append(time.perf_counter() - begun)
        published = store.publish(payload, run_id, sequence=table.state.sequence)
        assert published.outcome == "current"

    def turn() -> float:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        store = LocalStore(root)
        return 1 / timed(lambda: publish(store), at_least=0.2)()

    yield turn
    shutil.rmtree(root, ignore_errors=True)


@contextmanager
def _floor(kit: Kit, payload: bytes) -> Iterator[Turn]:
    root = kit.work / "floor"
    root.mkdir()
    pointer = b"x" * 300

    def publish() -> None:
        _durably(root, "manifest", payload)
        _durably(root, "_CURRENT", pointer)

    turn = timed(publish, at_least=0.2)
    yield lambda: 1 / turn()
    shutil.rmtree(root)


def _durably(folder: Path, name: str, content: bytes) -> None:
    with open(folder / f".{name}", "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.rename(folder / f".{name}", folder / name)
    opened = os.open(folder, os.O_RDONLY)
    os.fsync(opened)
    os.close(opened)


JOB = Job("publish", "Publish a snapshot", __doc__ or "", measure, budget=600)
