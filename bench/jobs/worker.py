"""worker: the most memory that one task takes for a file that only one task can read.

A task reads, checks, sorts and writes all of a large file in one process: here the one that asks, so that the
figure is the resident set of that process at its greatest, with Python, Arrow and lading's own side of the
run in it. The files: CSV of 4 GiB, gzip that has 4 GiB before anything is unpacked (about twice that as
text), and JSON of 1 GiB that is a single array. Each has as many rows as it takes to fill it, in no order.

The floor is a process that has lading and pyarrow imported and does nothing.
"""

from __future__ import annotations

import json
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.csv

from bench import projects
from bench.bars import at_most
from bench.case import Case, Job, Kit
from bench.fixtures import kept
from bench.harness import Contender, Turn
from bench.jobs.memory import imports_alone, peak, tell_peak
from lading.config.file import load

COLUMNS = {"id": "bigint", "status": "int", "ms": "double", "name": "string"}
BUCKETS = 10
IDS = 1 << 40
_ROWS = 500_000  # made at once
_MIB = 1 << 20


def measure(kit: Kit) -> Iterator[Case]:
    for size in kit.sizes([4_096], [512], [1]):
        for suffix, (write, share) in _KINDS.items():
            yield _case(kit, suffix, write, max(1, size // share))


def _case(kit: Kit, suffix: str, write: Callable[[IO[bytes], int], int], size: int) -> Case:
    name = f"{suffix}, {size:,} MiB"
    kit.tell(f"{name}: fixtures")
    data = kept(kit.data, f"worker-{suffix}-{size}", f"{size} 1", partial(_make, suffix, write, size))
    contenders = [
        # One turn: it takes minutes, and comes out the same within a few megabytes.
        Contender("lading", "lading", lambda: _lading(kit, suffix, data), budget=1),
        imports_alone("lading.run, pyarrow.parquet"),
    ]
    measured = kit.contest(contenders, what=name, warm_up=False, limit=1_800)
    return Case(name, size, "MB", "lower", measured, [at_most(1_024, "≤ 1,024 MB", unit=" MB")], suffix)


@contextmanager
def _lading(kit: Kit, suffix: str, data: Path) -> Iterator[Turn]:
    lines = [f'path: "*.{suffix}"', "order_by: id", f"bucket_size: {IDS // BUCKETS}"]
    lines += ["format: json", "read_options: {multiline: true}"] if suffix == "json" else ["format: csv"]
    config = projects.make(kit.work / "worker", COLUMNS, lines, data, in_process_below="1TB")

    def turn() -> float:
        projects.forget_table(config)
        return peak(["-m", "bench.jobs.worker", str(config.project), (data / "rows").read_text()])

    yield turn
    shutil.rmtree(config.project)


def _make(suffix: str, write: Callable[[IO[bytes], int], int], size: int, folder: Path) -> None:
    """One file of so many MiB, and beside it how many rows that took."""
    with (folder / f"all.{suffix}").open("wb") as file:
        rows = write(file, size * _MIB)
    (folder / "rows").write_text(str(rows))


def _tables() -> Iterator[pa.Table]:
    draw = np.random.default_rng(7)
    while True:
        ids = draw.integers(0, IDS, _ROWS)
        names = ids * 2_654_435_761 % 1_000_000_007
        yield pa.table(
            {
                "id": ids,
                "status": draw.choice(np.array([200, 304, 404], np.int32), _ROWS),
                "ms": draw.random(_ROWS).round(6),
                "name": pa.array([f"name-{name:x}" for name in names.tolist()]),
            }
        )


def _text(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    pyarrow.csv.write_csv(table, sink, options)
    return bytes(sink.getvalue())


def _csv(file: IO[bytes], size: int) -> int:
    rows = 0
    file.write((",".join(COLUMNS) + "\n").encode())
    for table in _tables():
        taken = _fitting(table, _text, size - file.tell())
        file.write(_text(taken))
        rows += taken.num_rows
        if taken.num_rows < table.num_rows:
            break
    return rows


def _gz(file: IO[bytes], size: int) -> int:
    packing = zlib.compressobj(1, wbits=31)
    file.write(packing.compress((",".join(COLUMNS) + "\n").encode()))
    rows = 0
    for table in _tables():
        few = table.slice(0, max(1, min(table.num_rows, (size - file.tell()) // 16)))
        file.write(packing.compress(_text(few)))
        rows += few.num_rows
        if file.tell() >= size - 1_024:
            break
    file.write(packing.flush())
    return rows


def _json(file: IO[bytes], size: int) -> int:
    rows = 0
    for table in _tables():
        taken = _fitting(table, _objects, size - file.tell())
        file.write((b"," if rows else b"[") + _objects(taken))
        rows += taken.num_rows
        if taken.num_rows < table.num_rows:
            break
    file.write(b"]")
    return rows


def _objects(table: pa.Table) -> bytes:
    return json.dumps(table.to_pylist(), separators=(",", ":"))[1:-1].encode()


def _fitting(table: pa.Table, text: Callable[[pa.Table], bytes], room: int) -> pa.Table:
    """As many of the rows as there is room for, at least one."""
    each = len(text(table.slice(0, 1_000))) / 1_000
    return table.slice(0, max(1, min(table.num_rows, int(room / each))))


_KINDS = {"csv": (_csv, 1), "csv.gz": (_gz, 1), "json": (_json, 4)}


def run_and_tell(project: Path, rows: int) -> None:
    """In a process of its own."""
    report = projects.run_once(load(project))
    assert not report.spark_started and report.tables[0].rows == rows
    tell_peak()


JOB = Job("worker", "A worker's memory", __doc__ or "", measure, budget=2_400)

if __name__ == "__main__":
    run_and_tell(Path(sys.argv[1]), int(sys.argv[2]))
