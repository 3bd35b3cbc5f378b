"""formats: other formats than CSV, and a wide one, to sorted, bucketed Parquet.

As in `ingest`: lading's figure is a whole first run, the peer is what Spark does by itself with the same
files in the same session: read, sort, `partitionBy`. JSON has an object a line; Parquet is read with the
types that it has; Spark cuts fixed width out of lines of text by `substring` and casts. The wide table is CSV
with 1,200 columns and a hundredth of the rows.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from bench import projects
from bench.bars import better_than
from bench.case import Case, Job, Kit, label
from bench.fixtures import kept
from bench.harness import Contender, Turn

SPARK = "Spark's own"
FILES = 10
BUCKETS = 10
WIDE = 1_200
COLUMNS = {"id": "bigint", "status": "int", "ms": "double", "name": "string"}
FIELDS = {"id": (0, 10), "status": (10, 3), "ms": (13, 8), "name": (21, 10)}  # start and length


@dataclass(frozen=True, slots=True)
class Kind:
    """One format: how its files are made, what lading.yaml says of them, and how Spark reads them."""

    name: str
    columns: dict[str, str]
    table: tuple[str, ...]
    write: Callable[[Path, pa.Table], None]
    read: Callable[[Any, str], Any]
    share: int = 1  # of the rows


def measure(kit: Kit) -> Iterator[Case]:
    return (_case(kit, kind, size) for size in kit.sizes([2_000_000], [200_000], [2_000]) for kind in KINDS)


def _case(kit: Kit, kind: Kind, size: int) -> Case:
    rows = size // kind.share
    name = f"{kind.name}, {label(rows)} rows"
    kit.tell(f"{name}: fixtures")
    at = f"formats-{kind.name}-{size}"
    files = kept(kit.data, at.replace(" ", "-"), f"{rows} 1", lambda folder: _make(folder, kind, rows))
    projects.start_session(kit.work)
    contenders = [
        Contender("lading", "lading", lambda: _lading(kit, kind, files, rows)),
        Contender(SPARK, "peer", lambda: _native(kit, kind, files, rows)),
    ]
    measured = kit.contest(contenders, what=name, limit=300)
    return Case(name, size, "s", "lower", measured, [better_than(SPARK, 1)], panel=kind.name)


def _make(folder: Path, kind: Kind, rows: int) -> None:
    draw = np.random.default_rng(5)
    ids = draw.permutation(rows)
    for number, own in enumerate(np.array_split(ids, FILES)):
        table = pa.table(
            {
                "id": own,
                "status": draw.choice(np.array([200, 304, 404], np.int32), len(own)),
                "ms": draw.random(len(own)).round(6),
                "name": [f"name-{id % 9_991}" for id in own.tolist()],
            }
        )
        for column in list(kind.columns)[4:]:
            table = table.append_column(column, pa.array(draw.integers(0, 100_000, len(own))))
        kind.write(folder / f"part-{number:04d}", table)


def _csv(path: Path, table: pa.Table) -> None:
    pyarrow.csv.write_csv(table, f"{path}.csv", pyarrow.csv.WriteOptions(quoting_style="none"))


def _json(path: Path, table: pa.Table) -> None:
    line = '{{"id":{id},"status":{status},"ms":{ms},"name":"{name}"}}\n'
    Path(f"{path}.json").write_text("".join(line.format(**row) for row in table.to_pylist()))


def _parquet(path: Path, table: pa.Table) -> None:
    pq.write_table(table, f"{path}.parquet")


def _fixed(path: Path, table: pa.Table) -> None:
    line = "{id:>10d}{status:>3d}{ms:.6f}{name:<10}\n"
    Path(f"{path}.dat").write_text("".join(line.format(**row) for row in table.to_pylist()))


def _ddl(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {type}" for name, type in columns.items())


def _cut(spark: Any, files: str) -> Any:
    fields = (
        f"cast(trim(substring(value, {start + 1}, {length})) AS {COLUMNS[name]}) AS {name}"
        for name, (start, length) in FIELDS.items()
    )
    return spark.read.text(files).selectExpr(*fields)


_MORE = COLUMNS | {f"c{number}": "bigint" for number in range(WIDE - len(COLUMNS))}
KINDS: Sequence[Kind] = (
    Kind(
        "json",
        COLUMNS,
        ('path: "*.json"', "format: json"),
        _json,
        lambda spark, files: spark.read.schema(_ddl(COLUMNS)).json(files),
    ),
    Kind(
        "parquet",
        COLUMNS,
        ('path: "*.parquet"', "format: parquet"),
        _parquet,
        lambda spark, files: spark.read.parquet(files),
    ),
    Kind("fixed width", COLUMNS, ('path: "*.dat"', "format: fixed_width", "spec: layout.yaml"), _fixed, _cut),
    Kind(
        "wide csv",
        _MORE,
        ('path: "*.csv"', "format: csv"),
        _csv,
        lambda spark, files: spark.read.schema(_ddl(_MORE)).option("header", True).csv(files),
        share=100,
    ),
)


@contextmanager
def _lading(kit: Kit, kind: Kind, files: Path, rows: int) -> Iterator[Turn]:
    lines = (*kind.table, "order_by: id", f"bucket_size: {-(-rows // BUCKETS)}")
    folder = kit.work / "formats"
    folder.mkdir(parents=True, exist_ok=True)
    spec = (
        f"- {{name: {name}, start: {start}, length: {length}, type: {COLUMNS[name]}}}\n"
        for name, (start, length) in FIELDS.items()
    )
    (folder / "layout.yaml").write_text("columns:\n" + "".join(spec))
    config = projects.make(folder, kind.columns, lines, files)

    def turn() -> float:
        projects.forget_table(config)
        begun = time.perf_counter()
        report = projects.run_once(config)
        seconds = time.perf_counter() - begun
        assert report.tables[0].rows == rows and report.tables[0].published
        return seconds

    yield turn
    shutil.rmtree(config.project)


@contextmanager
def _native(kit: Kit, kind: Kind, files: Path, rows: int) -> Iterator[Turn]:
    spark = projects.start_session(kit.work)
    to = kit.work / "native"

    def turn() -> float:
        shutil.rmtree(to, ignore_errors=True)
        begun = time.perf_counter()
        found = kind.read(spark, str(files)).selectExpr("*", f"id div {-(-rows // BUCKETS)} AS bucket")
        ordered = found.sort("bucket", "id")
        ordered.write.option("compression", "zstd").partitionBy("bucket").parquet(str(to))
        seconds = time.perf_counter() - begun
        assert spark.read.parquet(str(to)).count() == rows
        return seconds

    yield turn
    shutil.rmtree(to, ignore_errors=True)


JOB = Job("formats", "Other formats to a sorted, bucketed table", __doc__ or "", measure, budget=1_800)
