"""publish: the table's state as an immutable snapshot, then the pointer.

`100 members, 64 shards` publishes a small table that is served by key: everything from the state in memory to
the moved pointer. Its floor writes as many bytes as the manifest and the pointer have: write, fsync, rename,
fsync of the folder, twice.

`after one changed file` commits one member in place of another, somewhere, and then publishes; the
figure is the publish alone: pages that changed, the checkpoint that names them, the Iceberg files, the
manifest, the pointer, then Iceberg's metadata and hint. Its floor is nine durable writes of that kind: two
pages, checkpoint, Iceberg's manifest and list, manifest, pointer, metadata, hint. The peers add one file to a
table of as many, which is less: nothing is replaced, and nothing is synced.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from bench import fixtures
from bench.bars import Clause, at_least_floor, at_most, ratio
from bench.case import Case, Job, Kit, label
from bench.fixtures import MadeUp
from bench.harness import Contender, Turn, timed
from bench.peers import delta, iceberg
from lading.iceberg.follow import follow
from lading.iceberg.pages import pages_of
from lading.iceberg.snapshot import Record, Shown, write_snapshot
from lading.log.table import Table
from lading.model import Source
from lading.snapshots.manifest import BuildMeta, ShardMeta, build_snapshot
from lading.snapshots.stores.files import LocalStore
from lading.state.tables import create_tables

SHARDS = 64
SMALL = 100
KEPT = 10  # snapshots
PEERS_UP_TO = 100_000
SECONDS = 20


def measure(kit: Kit) -> Iterator[Case]:
    smallest: float | None = None
    for size in kit.sizes([SMALL, 1_000, 100_000, 1_000_000], [SMALL, 1_000, 10_000], [SMALL, 1_000]):
        if size == SMALL:
            yield _case(kit, SMALL)
            continue
        case = _changed(kit, size)
        bar: list[Clause] = [at_most(50, "≤ 50 ms", 1e3, " ms")] if size >= 100_000 else []
        if smallest and case.lading:
            bar.append(ratio("growth ≤ 2x", case.lading / smallest, 2))
        smallest = smallest or case.lading
        yield replace(case, clauses=bar)


def _changed(kit: Kit, size: int) -> Case:
    name = f"{label(size)} members, after one changed file"
    kit.tell(f"{name}: fixtures")
    iceberg_took: list[float] = []
    contenders = [
        Contender("lading", "lading", lambda: _after_a_change(kit, size, iceberg_took)),
        Contender("9 x durable write", "floor", lambda: _nine(kit)),
    ]
    if size <= PEERS_UP_TO and kit.with_peers:
        contenders += [
            Contender("deltalake", "peer", lambda: _deltalake(kit, size), SECONDS),
            Contender("pyiceberg", "peer", lambda: _pyiceberg(kit, size), SECONDS),
        ]
    measured = kit.contest(contenders, what=name)
    extra = {"of it for Iceberg, s": statistics.median(iceberg_took)} if iceberg_took else {}
    return Case(name, size, "s", "lower", measured, [], panel="after one changed file", extra=extra)


@contextmanager
def _after_a_change(kit: Kit, size: int, iceberg_took: list[float]) -> Iterator[Turn]:
    folder = fixtures.copied(fixtures.collection(kit.data, size), kit.work / f"changed-{size}")
    table, store = Table.open(folder), LocalStore(folder)
    numbers, draw = count(), random.Random(size)

    def turn() -> float:
        number = next(numbers)
        old = MadeUp(draw.randrange(size), False).member()
        new = msgspec.structs.replace(old, path=f"{old.path}-{number}")
        gone = (old.path,) if table.state.contains(old.path) else ()
        source = Source(number, f"{number}.csv", "h", "s", 1, 1, 1, False, fixtures.AT)
        table.commit(msgspec.structs.replace(fixtures.commit((new,)), remove=gone, sources=(source,)))
        return publish(f"run-{number}")

    before: Record | None = None

    def publish(run_id: str) -> float:
        nonlocal before
        state = table.state
        begun = time.perf_counter()
        table.settle()
        settled = time.perf_counter()
        pages = pages_of(state)
        shown = Shown(
            table.place, table.table_id, run_id, state.sequence, state.schema, state.order_by, pages
        )
        before = write_snapshot(shown, before)
        written = time.perf_counter()
        payload = payload_of(table, run_id, iceberg=msgspec.to_builtins(before))
        store.publish(payload, run_id, sequence=state.sequence)
        published = time.perf_counter()
        follow(store, table.place, keep=KEPT)
        done = time.perf_counter()
        iceberg_took.append(done - published + written - settled)
        return done - begun

    turn()  # the first one brings checkpoint and manifests up to date
    iceberg_took.clear()
    yield turn
    table.close()
    shutil.rmtree(folder)


@contextmanager
def _deltalake(kit: Kit, size: int) -> Iterator[Turn]:
    from deltalake import DeltaTable

    folder = fixtures.copied(delta.table(kit.data, size), kit.work / f"delta-{size}")
    opened, numbers = DeltaTable(folder), count(size)
    yield timed(lambda: delta.append(opened, [MadeUp(next(numbers), False)]))
    shutil.rmtree(folder)


@contextmanager
def _pyiceberg(kit: Kit, size: int) -> Iterator[Turn]:
    folder = kit.work / f"iceberg-{size}"
    folder.mkdir()
    iceberg.fill(folder, size)
    opened, numbers = iceberg.opened(folder), count(size)
    yield timed(lambda: iceberg.append(opened, [MadeUp(next(numbers), False)]))
    opened.catalog.close()
    shutil.rmtree(folder)


@contextmanager
def _nine(kit: Kit) -> Iterator[Turn]:
    root = kit.work / "nine"
    root.mkdir()
    sizes = (1 << 20, 1 << 20, 50_000, 1 << 20, 5_000, 50_000, 300, 50_000, 2)
    contents = [b"x" * length for length in sizes]

    def write() -> None:
        for number, content in enumerate(contents):
            _durably(root, str(number), content)

    yield timed(write, at_least=0.2)
    shutil.rmtree(root)


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
    bar: list[Clause] = [at_least_floor(0.5)]
    extra = {"of it building the manifest, s": statistics.median(building)} if building else {}
    return Case(name, size, "/s", "higher", measured, bar, extra=extra)


def payload_of(table: Table, run_id: str, iceberg: dict[str, Any] | None = None) -> bytes:
    """As the publish step builds it."""
    state = table.state
    meta = BuildMeta(
        run_id=run_id,
        created_at=datetime.now(UTC),
        num_dbs=SHARDS,
        key_col="key",
        custom={"table": "t", "table_id": table.table_id, "sequence": state.sequence, "iceberg": iceberg},
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
    numbers, turns = count(), count()

    def publish(store: LocalStore) -> None:
        run_id = f"run-{next(numbers)}"
        begun = time.perf_counter()
        payload = payload_of(table, run_id)
        building.append(time.perf_counter() - begun)
        published = store.publish(payload, run_id, sequence=table.state.sequence)
        assert published.outcome == "current"

    def turn() -> float:
        """Each into a folder of its own: what the disk owes for clearing up would be paid by the next."""
        store = LocalStore(root / str(next(turns)))
        publish(store)  # makes the folders
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
