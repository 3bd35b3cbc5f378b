"""Rewrites members without the rows of some sources. Plain Arrow in a few threads: no Spark, no JVM.

A changed or vanished file touches the members that hold its rows and no others, and those are read
once, a batch at a time, so neither the size of a member nor their number decides about memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import chain

import msgspec
import pyarrow as pa

from lading.errors import PartError
from lading.layout.table import is_passing
from lading.model import Member, Place
from lading.parts.footer import Origin
from lading.parts.live import columns_to_read, without_sources
from lading.parts.open import open_parquet, row_batches, shown_path
from lading.parts.passing import passing_batches
from lading.parts.schema import conformed
from lading.parts.write import ROW_GROUP, PartWriter

_THREADS = 4


def rewrite_members(
    table_dir: Place,
    members: Sequence[Member],
    drop: frozenset[int],
    *,
    table_id: str,
    run_id: str,
    commit_id: str,
    order_by: str | None,
    schema: bytes = b"",
) -> list[Member]:
    """The members that replace these: same rows in the same order, without those of `drop`. `schema` is the
    table's once they do, as Arrow IPC; without one they keep the columns that they have.

    A member of which nothing is left is replaced by none. The old files stay: they are still read.
    """
    origin = Origin(table_id, run_id, commit_id, order_by)
    table = pa.ipc.read_schema(pa.py_buffer(schema)) if schema else None
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        rewritten = pool.map(partial(_rewrite, table_dir, drop, origin, table), members)
        return [member for member in rewritten if member is not None]


def _rewrite(
    table_dir: Place, drop: frozenset[int], origin: Origin, table: pa.Schema | None, member: Member
) -> Member | None:
    leave_out = sorted(drop | set(member.minus))
    path = shown_path(table_dir, member.path)
    with _stored(table_dir, member, table) as (schema, stored):
        live = (without_sources(batch, leave_out) for batch in stored)
        kept = _row_groups((conformed(rows, schema, path) for rows in live if rows.num_rows), schema)
        first = next(kept, None)
        if first is None:
            return None
        writer = PartWriter(table_dir, member.bucket, schema, origin, replaces=[member.path])
        try:
            writer.write(first)
            for rows in kept:
                writer.write(rows)
        except BaseException:
            writer.abort()
            raise
    return msgspec.structs.replace(writer.close(), tier=member.tier)


@contextmanager
def _stored(
    table_dir: Place, member: Member, table: pa.Schema | None
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """The columns that a member's rows are to have, and the rows as they are stored."""
    if is_passing(member.path):
        batches = _told(table_dir, member, passing_batches(table_dir, member.path))
        first = next(batches)
        yield table or first.schema, chain([first], batches)
        return
    with _reading(table_dir, member):
        file = open_parquet(table_dir, member.path, member.bytes)
    with file:
        schema = file.schema_arrow.remove_metadata() if table is None else table
        columns = columns_to_read(file.schema_arrow.names, schema.names, sources=True)
        yield (
            schema,
            _told(table_dir, member, row_batches(table_dir, file, ROW_GROUP // 2, columns=columns)),
        )


def _told(table_dir: Place, member: Member, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with _reading(table_dir, member):
        yield from batches


@contextmanager
def _reading(table_dir: Place, member: Member) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        path = shown_path(table_dir, member.path)
        raise PartError(
            f"the part {path} can't be read: {error}",
            hint="`lading verify` lists what is damaged, `lading repair` has it read again from its sources",
            file=path,
        ) from error


def _row_groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Full row groups again, however few rows each batch has kept."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        while rows >= ROW_GROUP:
            table = pa.Table.from_batches(held, schema)
            yield table.slice(0, ROW_GROUP)
            rest = table.slice(ROW_GROUP)
            held, rows = rest.to_batches(), rest.num_rows
    if rows:
        yield pa.Table.from_batches(held, schema)
