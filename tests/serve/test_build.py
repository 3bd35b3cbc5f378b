"""Shards on a real Spark: every key where xxhash says, and every attempt accounted for."""

from __future__ import annotations

import json
import random
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from pyspark.sql import SparkSession

from lading.config.serve import Serve
from lading.errors import PartError, ShardCoverageError
from lading.serve.build import packets as shards_packets
from lading.serve.build import rows as shards_rows
from lading.serve.build.on_spark import build_on_spark, check_rows, touched_on_spark
from lading.serve.build.place import ShardPlace
from lading.serve.build.rows import PartRows
from lading.serve.build.task import BuiltShard, ShardJob, build_shards, route_parts
from lading.serve.keys import KeySpec, Kind
from lading.serve.routing import Router
from lading.serve.routing_arrays import shards_of
from lading.serve.spec import resolve
from lading.snapshots.manifest import HASH

MILLION = 1_000_000
SCHEMA = pa.schema([("imo", pa.int64()), ("name", pa.string()), ("_source", pa.int64())])


def spread(numbers: np.ndarray) -> np.ndarray:
    """0, 1, 2, … as keys all over the range of int64."""
    return (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)


@pytest.mark.parametrize("kind", ["int", "str", "bytes"])
def test_spark_sends_a_million_keys_where_xxhash_says(spark: SparkSession, kind: Kind) -> None:
    encoding: Any = {"int": "u64be", "str": "utf8", "bytes": "raw"}[kind]
    router = Router(KeySpec(("k",), (kind,), encoding), 1009, HASH)

    def column(numbers: np.ndarray) -> pa.Array:
        keys = spread(numbers)
        if kind == "int":
            return pa.array(keys)
        texts = [f"é{key:x}"[: 1 + key % 18] for key in keys.tolist()]
        return pa.array(texts) if kind == "str" else pa.array([text.encode() for text in texts], pa.binary())

    def routed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys = column(batch.column(0).to_numpy(zero_copy_only=False))
            shards = shards_of(router, pa.RecordBatch.from_arrays([keys], ["k"]))
            yield pa.RecordBatch.from_arrays([batch.column(0), pa.array(shards)], ["id", "db"])

    found = spark.range(0, MILLION, 1, 4).mapInArrow(routed, "id bigint, db int").toArrow()
    digest = xxhash.xxh3_64_intdigest
    keys = column(found.column("id").to_numpy()).to_pylist()
    pack = struct.Struct("<q").pack
    as_bytes = (pack(k) if kind == "int" else k.encode() if kind == "str" else k for k in keys)
    expected = np.fromiter((digest(key) % 1009 for key in as_bytes), np.int32, MILLION)
    assert np.array_equal(found.column("db").to_numpy(), expected)


def job_of(
    folder: Path, files: dict[str, list[tuple[int, str]]], shards: int = 3, **changes: Any
) -> ShardJob:
    for name, rows in files.items():
        imos, names = zip(*rows, strict=True)
        table = pa.table([pa.array(imos), pa.array(names), pa.array([0] * len(rows))], schema=SCHEMA)
        pq.write_table(table, folder / name)
    schema = SCHEMA.serialize().to_pybytes()
    serve = Serve(key=("imo",), value=("name",), encoding="raw", shards=shards)
    settings: dict[str, Any] = {
        "table_dir": str(folder),
        "schema": schema,
        "spec": resolve(serve, schema, 1, None, table="ships"),
        "place": ShardPlace(str(folder), "run-1"),
        "shards": tuple(range(shards)),
        "tasks": shards,
        "parts": tuple((PartRows(name),) for name in files),
    }
    return ShardJob(**(settings | changes))


def test_several_shards_may_share_a_task(tmp_path: Path, spark: SparkSession) -> None:
    rows = [(imo, f"ship {imo}") for imo in range(500)]
    alone = build_on_spark(spark, job_of(tmp_path, {"a": rows[:300], "b": rows[300:]}, shards=7))
    few = job_of(tmp_path, {"a": rows[:300], "b": rows[300:]}, shards=7, tasks=2,
                 place=ShardPlace(str(tmp_path), "run-2"))  # fmt: skip
    together = build_on_spark(spark, few)
    assert [one.checkpoint_id for one in alone.shards] == [one.checkpoint_id for one in together.shards]
    assert sum(one.row_count for one in alone.shards) == alone.rows == 500


def built_here(job: ShardJob) -> list[BuiltShard]:
    """What Spark's tasks do, in one process; packets are sorted by shard as Spark sorts them."""
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(job.parts)))})
    packets = pa.Table.from_batches(route_parts(iter([numbers]), job), shards_packets.SCHEMA).sort_by("db")
    built = build_shards(iter(packets.to_batches(max_chunksize=3)), job)
    return [
        msgspec.msgpack.decode(data, type=BuiltShard) for one in built for data in one.column(0).to_pylist()
    ]


@pytest.mark.parametrize("encoding", ["u64be", "utf8"])
def test_a_shard_is_the_same_however_its_rows_travel(
    tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In large packets and in memory, or a few rows at a time and by way of the disk."""
    rng = random.Random(5)
    schema = pa.schema([("k", pa.string() if encoding == "utf8" else pa.int64()), ("day", pa.int64()),
                        ("v", pa.string()), ("_source", pa.int64())])  # fmt: skip
    rows = [
        (rng.randrange(300), rng.randrange(3), f"v{rng.randrange(3)}", rng.randrange(2)) for _ in range(2000)
    ]
    for name, some in (("a", rows[:700]), ("b", rows[700:])):
        keys, *others = zip(*some, strict=True)
        columns = [[f"k{key}" for key in keys] if encoding == "utf8" else keys, *others]
        pq.write_table(pa.table([list(one) for one in columns], schema=schema), tmp_path / name)
    data = schema.serialize().to_pybytes()
    serve = Serve(key=("k",), value=("v",), encoding="raw", shards=5, duplicates="latest")
    sources = {0: "z.csv", 1: "a.csv"}
    job = ShardJob(
        table_dir=str(tmp_path), schema=data, spec=resolve(serve, data, 1, "day", table="t"),
        place=ShardPlace(str(tmp_path), "large"), shards=(0, 1, 2, 3, 4), tasks=2,
        parts=((PartRows("a", sources=sources),), (PartRows("b", sources=sources),)),
    )  # fmt: skip
    large = built_here(job)
    monkeypatch.setattr(shards_packets, "_HELD", 1)
    monkeypatch.setattr(shards_packets, "_PACKET", 200)
    monkeypatch.setattr(shards_rows, "_BATCH", 100)
    small = built_here(replace(job, memory=500, place=ShardPlace(str(tmp_path), "small")))
    assert [one.meta.checkpoint_id for one in small] == [one.meta.checkpoint_id for one in large]
    assert sum(one.rows for one in small) == 2000 == sum(one.rows for one in large)

    best = {key: max((day, sources[source], v) for k, day, v, source in rows if k == key)[2]
            for key in {row[0] for row in rows}}  # fmt: skip
    found = {}
    for one in small:
        with closing(sqlite3.connect(tmp_path / str(one.meta.db_url) / "shard.db")) as con:
            found.update({job.spec.key.decoded(k): v.decode() for k, v in con.execute("SELECT k, v FROM kv")})
    assert found == {f"k{key}" if encoding == "utf8" else key: v for key, v in best.items()}
    assert sum(one.twice for one in small) == 2000 - len(best)


def test_rows_that_did_not_arrive_are_noticed(tmp_path: Path, spark: SparkSession) -> None:
    job = job_of(tmp_path, {"a": [(1, "x"), (2, "y")], "b": [(3, "z")]})
    half = build_on_spark(spark, ShardJob(**{**vars(job), "parts": job.parts[:1]}))
    with pytest.raises(ShardCoverageError, match="2 rows reached the shards, but the table has 3"):
        check_rows(half, 3)


def test_a_part_that_is_missing_is_named_as_such(tmp_path: Path, spark: SparkSession) -> None:
    job = job_of(tmp_path, {"a": [(1, "x")]}, parts=((PartRows("gone.parquet"),),))
    with pytest.raises(PartError, match=r"gone\.parquet can't be read"):
        build_on_spark(spark, job)


def test_spark_finds_the_touched_shards_as_well(tmp_path: Path, spark: SparkSession) -> None:
    job = job_of(tmp_path, {"a": [(1, "x"), (2, "y")], "b": [(3, "z")]}, shards=50)
    parts = [PartRows("a"), PartRows("b", only=(7,))]
    found = touched_on_spark(spark, str(tmp_path), parts, job.schema, job.spec.router)
    assert found == {job.spec.router.route(1), job.spec.router.route(2)}


RETRYING = """
import json, os, sys
from pathlib import Path
sys.path[:0] = [{tests!r}]
from test_build import job_of
from lading.spark.session import spark_session, stop_session
from lading.serve.build.on_spark import build_on_spark
from lading.serve.build.place import ShardPlace

folder = Path({folder!r})

class DiesOnce(ShardPlace):
    def keep(self, claim):
        mark = folder / "failed-once"
        if "db=00001" in claim.db_url and not mark.exists():
            mark.touch()
            os._exit(1)  # as if it were killed: nothing is tidied up
        return super().keep(claim)

spark = spark_session("local[2,3]", {{}}, folder / "cache")
place = DiesOnce(str(folder), "run-1")
built = build_on_spark(spark, job_of(folder, {{"a": [(n, str(n)) for n in range(100)]}}, place=place))
before = sorted(str(p.relative_to(folder)) for p in folder.glob("shards/*/*/*"))
dropped = place.drop_losers({{one.db_url for one in built.shards}})
after = sorted(str(p.relative_to(folder)) for p in folder.glob("shards/*/*/*"))
stop_session()
told = [[one.db_id, one.db_url, one.attempt, one.writer_info.attempt, one.row_count] for one in built.shards]
print(json.dumps(told))
print(json.dumps([before, dropped, after]))
"""


def test_a_worker_that_dies_once_is_made_good_and_its_remains_are_told_and_dropped(tmp_path: Path) -> None:
    script = RETRYING.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    shards, (before, dropped, after) = map(json.loads, done.stdout.strip().splitlines()[-2:])
    run = "shards/run_id=run-1"
    assert [one[:4] for one in shards] == [
        [0, f"{run}/db=00000/attempt=00", 0, 0],
        [1, f"{run}/db=00001/attempt=01", 1, 1],
        [2, f"{run}/db=00002/attempt=00", 0, 0],
    ]
    assert sum(one[4] for one in shards) == 100
    assert set(before) - {one[1] for one in shards} == {f"{run}/db=00001/attempt=00"}
    assert dropped == 1
    assert after == [one[1] for one in shards]


def test_an_attempt_never_writes_where_another_has_been(tmp_path: Path) -> None:
    place = ShardPlace(str(tmp_path), "run-1")
    first, second = place.claim(3, 0), place.claim(3, 0)
    assert (first.attempt, second.attempt) == (0, 1)
    assert first.path.parent != second.path.parent


def test_losers_are_only_looked_for_in_the_runs_own_folder(tmp_path: Path) -> None:
    for run in ("run-1", "run-2"):
        place = ShardPlace(str(tmp_path), run)
        claim = place.claim(0, 0)
        claim.path.write_bytes(b"x")
        place.keep(claim)
    assert ShardPlace(str(tmp_path), "run-1").drop_losers(()) == 1
    assert (tmp_path / "shards/run_id=run-2/db=00000/attempt=00/shard.db").exists()
    assert not (tmp_path / "shards/run_id=run-1").exists()


def test_a_shard_for_a_bucket_is_built_where_spark_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    place = ShardPlace("s3://b/t", "run-1", url="s3://b/t")
    claim = place.claim(0, 0)
    assert tmp_path in claim.path.parents
    place.give_up(claim)
    assert list(tmp_path.iterdir()) == []
