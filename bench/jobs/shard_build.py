"""shard build: 5 million keys with values of 100 bytes, from the table's parts to 8 durable shards.

lading's figure is the `shard` phase of a run that finds a table without a snapshot: parts are read,
routed, sorted and written on Spark. The peer is what one would write by hand for Spark: repartition by a
hash of the key, sort, and insert into SQLite in `foreachPartition`, from the same parts. Both use all
cores; the figure is keys a second and core. The floor has sorted rows in memory and inserts them with
`executemany` into 8 files, on one core.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bench import projects, served
from bench.bars import at_least, at_least_floor, either
from bench.case import Case, Job, Kit, label
from bench.harness import Contender, Turn
from bench.served import SHARDS
from lading.config.project import Config

_DDL = "CREATE TABLE kv(k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID"


def measure(kit: Kit) -> Iterator[Case]:
    return (_case(kit, size) for size in kit.sizes([5_000_000], [500_000], [2_000]))


def _case(kit: Kit, size: int) -> Case:
    name = f"{label(size)} keys, {SHARDS} shards"
    kit.tell(f"{name}: fixtures")
    config = served.project(kit, size)
    projects.start_session(kit.work)
    contenders = [
        Contender("lading", "lading", lambda: _lading(config, size)),
        Contender("foreachPartition", "peer", lambda: _by_hand(kit, config, size)),
        Contender("executemany", "floor", lambda: _executemany(kit, size)),
    ]
    bar = [either(at_least(250_000, "≥ 250k keys/s a core", unit="/s"), at_least_floor(0.8))]
    return Case(name, size, "keys/s a core", "higher", kit.contest(contenders, what=name), bar)


@contextmanager
def _lading(config: Config, size: int) -> Iterator[Turn]:
    folder = served.table(config)

    def turn() -> float:
        for name in ("manifests", "shards"):
            shutil.rmtree(folder / name, ignore_errors=True)
        (folder / "_CURRENT").unlink(missing_ok=True)
        phases = projects.Phases()
        report = projects.run_once(config, phases)
        assert report.tables[0].published and report.tables[0].rows == size
        return size / phases.seconds["shard"] / projects.CORES

    yield turn


@contextmanager
def _by_hand(kit: Kit, config: Config, size: int) -> Iterator[Turn]:
    spark = projects.start_session(kit.work)
    parts = str(served.table(config) / "bucket=*")
    to = kit.work / "by-hand"

    def turn() -> float:
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir()
        folder = str(to)
        begun = time.perf_counter()
        rows = spark.read.parquet(parts).selectExpr("key", "v", f"pmod(hash(key), {SHARDS}) AS s")
        spread = rows.repartition(SHARDS, "s").sortWithinPartitions("s", "key")
        spread.foreachPartition(lambda partition: _insert(partition, folder))
        seconds = time.perf_counter() - begun
        assert sum(map(_rows_of, to.glob("*.db"))) == size
        return size / seconds / projects.CORES

    yield turn
    shutil.rmtree(to, ignore_errors=True)


def _insert(partition: Iterable[Any], folder: str) -> None:
    """Runs in Spark's workers."""
    for shard, rows in itertools.groupby(partition, key=lambda row: row["s"]):
        path = f"{folder}/{shard}.db"
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(_DDL)
        pairs = ((row["key"].to_bytes(8, "big"), row["v"].encode()) for row in rows)
        connection.executemany("INSERT INTO kv VALUES (?, ?)", pairs)
        connection.commit()
        connection.close()
        with open(path, "rb") as file:
            os.fsync(file.fileno())


def _rows_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM kv").fetchone()[0])


@contextmanager
def _executemany(kit: Kit, size: int) -> Iterator[Turn]:
    to = kit.work / "executemany"
    shards: list[list[tuple[bytes, bytes]]] = [[] for _ in range(SHARDS)]
    for keys, texts in served.rows(size):
        encoded = (text.encode() for text in texts.to_pylist())
        for key, value in zip(keys.tolist(), encoded, strict=True):
            shards[key % SHARDS].append((key.to_bytes(8, "big"), value))

    def turn() -> float:
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir()
        begun = time.perf_counter()
        for number, rows in enumerate(shards):
            path = to / f"{number}.db"
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("PRAGMA journal_mode = OFF")
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute(_DDL)
                connection.executemany("INSERT INTO kv VALUES (?, ?)", rows)
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        return size / (time.perf_counter() - begun)

    yield turn
    shutil.rmtree(to, ignore_errors=True)


JOB = Job("shard_build", "Shards from a table's parts", __doc__ or "", measure, budget=1_500)
