"""ingest: 10 million rows of CSV to sorted, bucketed Parquet.

lading's figure is a whole first run of `lading.run.run`: files are found and hashed, read, given their
lineage, checked, sorted, written, committed, recorded and published. The peers are what Spark does by
itself, in the same session, with the same schema, buckets and compression: `sort` by bucket and key, then
`partitionBy`; and `repartition` by the bucket with a sort inside of each task. Spark is warm: the first
round doesn't count.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from bench import projects
from bench.bars import better_than
from bench.case import Case, Job, Kit, label
from bench.fixtures import kept
from bench.harness import Contender, Turn

BUCKETS = 10
NATIVE = "sort, partitionBy"
COLUMNS = {"id": "bigint", "status": "int", "ms": "double", "name": "string"}


def measure(kit: Kit) -> Iterator[Case]:
    return (_case(kit, size) for size in kit.sizes([10_000_000], [1_000_000], [5_000]))


def _case(kit: Kit, size: int) -> Case:
    name = f"{label(size)} rows"
    kit.tell(f"{name}: fixtures")
    files = kept(kit.data, f"csv-{size}", f"{size} 1", lambda at: make_csv(at, size, 20))
    projects.start_session(kit.work)
    contenders = [
        Contender("lading", "lading", lambda: _lading(kit, files, size)),
        Contender(NATIVE, "peer", lambda: _native(kit, files, size, spread=False)),
        Contender("repartition, partitionBy", "peer", lambda: _native(kit, files, size, spread=True), 120),
    ]
    measured = kit.contest(contenders, what=name, limit=600)
    return Case(name, size, "s", "lower", measured, [better_than(NATIVE, 5)])


def make_csv(at: Path, size: int, files: int) -> None:
    """Ids in no order, spread over all files."""
    draw = np.random.default_rng(3)
    ids = draw.permutation(size)
    each = -(-size // files)
    for number in range(files):
        own = ids[number * each : (number + 1) * each]
        write_csv(at / f"part-{number:04d}.csv", own, draw)


def write_csv(path: Path, ids: np.ndarray, draw: np.random.Generator) -> None:
    table = pa.table(
        {
            "id": ids,
            "status": draw.choice(np.array([200, 304, 404], np.int32), len(ids)),
            "ms": draw.random(len(ids)).round(6),
            "name": pa.array([f"name-{id % 99_991}" for id in ids.tolist()]),
        }
    )
    pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(quoting_style="none"))


def table_lines(size: int) -> tuple[str, ...]:
    return ('path: "*.csv"', "format: csv", "order_by: id", f"bucket_size: {-(-size // BUCKETS)}")


@contextmanager
def _lading(kit: Kit, files: Path, size: int) -> Iterator[Turn]:
    config = projects.make(kit.work / "ingest", COLUMNS, table_lines(size), files)

    def turn() -> float:
        projects.forget_table(config)
        begun = time.perf_counter()
        report = projects.run_once(config)
        seconds = time.perf_counter() - begun
        assert report.tables[0].rows == size and report.tables[0].published
        return seconds

    yield turn
    shutil.rmtree(config.project)


@contextmanager
def _native(kit: Kit, files: Path, size: int, *, spread: bool) -> Iterator[Turn]:
    spark = projects.start_session(kit.work)
    to = kit.work / "native"

    def turn() -> float:
        shutil.rmtree(to, ignore_errors=True)
        begun = time.perf_counter()
        _write(_rows(spark, files, size), to, spread=spread)
        seconds = time.perf_counter() - begun
        assert spark.read.parquet(str(to)).count() == size
        return seconds

    yield turn
    shutil.rmtree(to, ignore_errors=True)


def _rows(spark: Any, files: Path, size: int) -> Any:
    schema = ", ".join(f"{name} {type}" for name, type in COLUMNS.items())
    rows = spark.read.schema(schema).option("header", True).csv(str(files))
    return rows.selectExpr("*", f"id div {-(-size // BUCKETS)} AS bucket")


def _write(rows: Any, to: Path, *, spread: bool) -> None:
    if spread:
        ordered = rows.repartition("bucket").sortWithinPartitions("bucket", "id")
    else:
        ordered = rows.sort("bucket", "id")
    ordered.write.option("compression", "zstd").partitionBy("bucket").parquet(str(to))


JOB = Job("ingest", "From CSV to a sorted, bucketed table", __doc__ or "", measure, budget=2_400)
