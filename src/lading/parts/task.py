"""What a task does with its rows: hold them, sort them, write them as parts.

Mostly in Spark's Python workers, on Arrow batches. A task that Spark runs twice writes other files the second
time; only the winner's are spoken of, and the loser's parts are recognised by the run's token in their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lading.errors import TransformError
from lading.layout.table import SOURCE
from lading.model import Member, Place
from lading.parts.cut import Cutter, Limits
from lading.parts.footer import Origin
from lading.parts.runs import SortedRuns, merged
from lading.parts.sort import in_order, sort_keys

# Bytes of rows that a task sorts at once. It holds some of them several times: with all that is around them,
# a worker stays below 1 GiB (`make bench JOB=worker`).
MEMORY = 160 << 20


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """All that a task has to know; travels to the workers."""

    table_dir: Place
    origin: Origin
    schema: bytes  # Arrow IPC schema of the parts
    bucket_size: int | None  # ticks; None: everything in bucket 0
    memory: int  # bytes of rows held before a sorted run goes to disk
    limits: Limits
    bucket: int = 0  # where everything goes without a bucket_size
    replaces: tuple[str, ...] = ()  # members whose rows these are, when parts are made from parts
    passing: bool = False  # whether the parts are folded by the same run: by the key alone, then, and quickly


def written(batches: Iterator[pa.RecordBatch], spec: TaskSpec) -> list[Member]:
    """Turn a task's rows into parts."""
    cutter = Cutter(
        spec.table_dir,
        _schema(spec),
        spec.origin,
        spec.bucket_size,
        spec.limits,
        bucket=spec.bucket,
        replaces=spec.replaces,
        passing=spec.passing,
    )
    try:
        for table in _sorted_rows(with_sources(batches, _schema(spec)), spec):
            cutter.add(table)
        return cutter.finish()
    except BaseException:
        cutter.abort()
        raise


def with_sources(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches, every row of which says where it comes from: without that it could never be replaced."""
    at = schema.get_field_index(SOURCE)
    for batch in batches:
        if at >= 0 and batch.column(at).null_count:
            raise TransformError(
                f"the transform returned a row whose {SOURCE!r} is null",
                hint=f"keep {SOURCE!r} as it is in every row; an outer join or a union adds rows without one",
            )
        yield batch


def _sorted_rows(batches: Iterator[pa.RecordBatch], spec: TaskSpec) -> Iterator[pa.Table]:
    """The task's rows in order, a table at a time."""
    schema = _schema(spec)
    keys = sort_keys(schema, spec.origin.order_by)
    if spec.passing:
        keys = keys[:1]
    # Parts of an unordered table may overlap: no merging.
    merge = spec.origin.order_by is not None
    return sorted_tables(batches, schema, keys, spec.memory, merge=merge)


def sorted_tables(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, keys: list[str], memory: int, *, merge: bool = True
) -> Iterator[pa.Table]:
    """Rows in the order of `keys`, a table at a time; what exceeds `memory` goes to disk in sorted runs.
    Without `merge` each run is sorted by itself."""
    runs = SortedRuns()
    try:
        held: list[pa.RecordBatch] = []
        size = rows = 0
        for batch in batches:
            held.append(_with_schema(batch, schema))
            size += batch.nbytes
            rows += batch.num_rows
            if size >= memory:
                full, held, size = held, [], 0
                if merge:
                    runs.add(_sorted(full, keys))
                else:
                    yield from _sorted(full, keys)
        if not len(runs):
            yield from _sorted(held, keys)
            return
        runs.add(_sorted(held, keys))
        opened = runs.opened()
        row_bytes = max(1, sum(run.rows.nbytes for run in opened) // max(1, rows))
        yield from merged(opened, keys, max(1, memory // 2 // row_bytes))
    finally:
        runs.close()


def _with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    return pa.RecordBatch.from_arrays(batch.columns, names=schema.names).cast(schema)


def _sorted(batches: list[pa.RecordBatch], keys: list[str]) -> Iterator[pa.Table]:
    """The rows of `batches` (emptied on the way) in order. One column after the other, so that no more than
    one of them is there twice."""
    if not batches:
        return
    schema = batches[0].schema
    columns = [[batch.column(place) for batch in batches] for place in range(len(schema))]
    batches.clear()
    table = pa.Table.from_arrays(_each(columns, pa.concat_arrays), schema=schema)
    order = in_order(table, keys)
    columns = table.columns
    del table
    yield pa.Table.from_arrays(_each(columns, lambda column: column.take(order)), schema=schema)


def _each(columns: list[Any], done: Callable[[Any], Any]) -> list[Any]:
    """`columns` (emptied on the way), each as it is done."""
    columns.reverse()
    return [done(columns.pop()) for _ in range(len(columns))]


def _schema(spec: TaskSpec) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(spec.schema))
