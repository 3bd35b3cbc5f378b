"""Rows that were set aside, as Parquet: one file a source, with each row's place and what is wrong with it.

A file that several tasks read in pieces has its bad rows in as many files at first, numbered from the start
of each piece; `joined` makes one of them, with the numbers that hold for the whole file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lading.layout.table import SOURCE, quarantine_path
from lading.model import Member, Place
from lading.parts.footer import Origin
from lading.parts.open import open_parquet
from lading.parts.write import PartWriter

ASIDE = pa.schema(
    [
        pa.field(SOURCE, pa.int64()),
        pa.field("file", pa.string()),
        pa.field("record", pa.int64()),  # from 1; the header, blank lines and comments don't count
        pa.field("line", pa.int64()),  # from 1, where the record begins
        pa.field("column", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("text", pa.string()),
    ]
)

_CHUNK = 4096  # rows written at a time


class AsidePiece(msgspec.Struct, frozen=True):
    """Bad rows of a piece of a file: where they are kept, and what to add to their numbers."""

    path: str
    rows: int
    records: int = 0
    lines: int = 0


def write_aside(rows: Iterator[dict[str, Any]], table_dir: Place, origin: Origin) -> Member | None:
    """A file of rows that were set aside; None if there are none."""
    return _written((pa.Table.from_pylist(chunk, ASIDE) for chunk in _chunks(rows)), table_dir, origin)


def joined(pieces: Sequence[AsidePiece], table_dir: Place, origin: Origin) -> Member | None:
    """One file of all pieces, which come in the order of their file."""
    return _written((rows for piece in pieces for rows in _moved(piece, table_dir)), table_dir, origin)


def _moved(piece: AsidePiece, table_dir: Place) -> Iterator[pa.Table]:
    with open_parquet(table_dir, piece.path) as file:
        for batch in file.iter_batches(_CHUNK):
            rows = pa.Table.from_batches([batch])
            for name, before in (("record", piece.records), ("line", piece.lines)):
                at = ASIDE.get_field_index(name)
                rows = rows.set_column(at, ASIDE.field(at), pc.add(rows.column(at), before))
            yield rows


def _written(tables: Iterator[pa.Table], table_dir: Place, origin: Origin) -> Member | None:
    writer: PartWriter | None = None
    origin = replace(origin, order_by=None)
    try:
        for table in tables:
            writer = writer or PartWriter(table_dir, 0, ASIDE, origin, path=quarantine_path(origin.run_id))
            writer.write(table)
    except BaseException:
        if writer is not None:
            writer.abort()
        raise
    return None if writer is None else writer.close()


def _chunks(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while chunk := list(islice(rows, _CHUNK)):
        yield chunk
