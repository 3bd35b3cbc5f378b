"""Rows by their source: those that count, or those of a few files.

Whoever reads a part leaves out the rows that no longer count before anything else is done with it: a row that
is dead may hold a value that the table's type of today has no room for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lading.layout.table import SOURCE


def columns_to_read(own: Sequence[str], wanted: Iterable[str], *, sources: bool) -> list[str]:
    """Those of the columns `wanted` that a part with the columns `own` has; with `sources` also where each
    row comes from. What the table no longer has stays unread."""
    found = [name for name in wanted if name in own]
    return [*found, SOURCE] if sources and SOURCE not in found else found


def without_sources(rows: pa.RecordBatch, sources: Iterable[int]) -> pa.RecordBatch:
    """The rows of all others; `rows` has to say where they come from unless there are none to leave out."""
    gone = pa.array(sources, pa.int64())
    if not len(gone):
        return rows
    dead = pc.is_in(rows.column(SOURCE), value_set=gone)
    return rows.filter(pc.invert(dead)) if dead.true_count else rows


def of_sources(rows: pa.RecordBatch, sources: Iterable[int]) -> pa.RecordBatch:
    """The rows of these alone."""
    return rows.filter(pc.is_in(rows.column(SOURCE), value_set=pa.array(sources, pa.int64())))
