"""Parquet: types from the footer, rows by row groups.

A piece of a file is the row groups whose middle lies in it. Damage shows as an error, since pages that have
checksums are checked, and never as rows. Times of 96 bits (int96.py) are instants, as Spark writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lading.errors import SourceError
from lading.formats.file_types import columns_of
from lading.formats.int96 import IN_MICROSECONDS, declared_schema, has_int96, settled
from lading.formats.reader import WHOLE, Head, Piece, ReadSpec, Rows
from lading.formats.source_file import SourceFile
from lading.formats.text_shapes import EXACT_DIGITS
from lading.formats.typed import FileTypes, Stored, rows_of

_BLOCK = 16 << 20  # bytes of a batch
_ROWS = 1 << 16  # of a batch, at most
_BUFFERS = 64 << 20  # bytes of all columns that are read ahead
_LONG = 10**EXACT_DIGITS  # an integer of more digits than a double surely holds
_PLAIN = 4  # bytes that a text which stands in its page takes at least: its length


def reader(spec: ReadSpec) -> ParquetReader:
    return ParquetReader(spec)


def may_be_cut(spec: ReadSpec, path: str) -> bool:
    return True


def types(file: SourceFile) -> FileTypes:
    """From the footer."""
    with _opened(file) as opened:
        columns = columns_of(file.key, declared_schema(opened))
        integers = {name for name, kind in columns.items() if kind == "bigint"}
        return FileTypes(columns, opened.metadata.num_rows, _short(opened.metadata, integers))


@dataclass(frozen=True, slots=True)
class ParquetReader:
    spec: ReadSpec
    block: int = _BLOCK

    def head(self, file: SourceFile) -> Head:
        with _opened(file) as opened:
            return Stored.of(file.key, declared_schema(opened), self.spec).head

    def rows(self, file: SourceFile, piece: Piece = WHOLE) -> Iterator[Rows]:
        with _opened(file) as opened:
            stored = Stored.of(file.key, declared_schema(opened), self.spec)
            groups = _groups(opened.metadata, piece, file.size)
        yield from rows_of(self.spec, stored, self._batches(file, groups, stored.wanted(self.spec)))

    def _batches(self, file: SourceFile, groups: list[int], wanted: list[str]) -> Iterator[pa.RecordBatch]:
        with _opened(file) as opened:
            metadata = opened.metadata
            leaves = {name: _leaves(metadata, name) for name in wanted}
            repeated = [
                name for name in wanted if _repeats(opened.schema_arrow, metadata, name, leaves[name])
            ]
            old = [name for name in wanted if has_int96(metadata, leaves[name])]
        buffer = max(1 << 16, min(8 << 20, _BUFFERS // max(1, metadata.num_columns)))
        places = [place for found in leaves.values() for place in found]
        with (
            _opened(file, read_dictionary=repeated, buffer_size=buffer) as opened,
            _opened(file, buffer_size=buffer, **IN_MICROSECONDS) if old else nullcontext() as coarse,
        ):
            for group in groups:
                rows = self._batch_rows(metadata.row_group(group), places)
                how = {"row_groups": [group], "use_threads": False}
                batches = opened.iter_batches(rows, columns=wanted, **how)
                if coarse is not None:
                    batches = settled(file.key, batches, coarse.iter_batches(rows, columns=old, **how))
                for batch in batches:
                    yield from self._bounded(batch)

    def _batch_rows(self, group: Any, places: list[int]) -> int:
        unpacked = sum(group.column(place).total_uncompressed_size for place in places)
        a_row = max(1, unpacked // max(1, group.num_rows))
        return int(max(1, min(_ROWS, self.block // a_row)))

    def _bounded(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """A long text that stands in the file once, and in many rows, is many long texts in memory."""
        a_row = 1
        for values in batch.columns:
            if pa.types.is_dictionary(values.type) and _is_bytes(values.type.value_type):
                a_row += pc.max(pc.binary_length(values.dictionary)).as_py() or 0
        step = max(1, self.block // a_row)
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)


def _short(metadata: Any, names: set[str]) -> frozenset[str]:
    """Of columns of integers, those with at most 15 digits by the statistics of all row groups."""
    places = [
        (place, name)
        for place in range(metadata.num_columns)
        if (name := metadata.schema.column(place).path) in names
    ]
    short = set(names)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place, name in places:
            column = group.column(place)
            known = column.statistics
            if column.num_values == 0 or (known is not None and known.null_count == column.num_values):
                continue
            if known is None or not known.has_min_max or max(abs(known.min), abs(known.max)) >= _LONG:
                short.discard(name)
    return frozenset(short)


def _groups(metadata: Any, piece: Piece, size: int) -> list[int]:
    """The row groups of a piece."""
    end = size if piece.end is None else piece.end
    return [
        number
        for number in range(metadata.num_row_groups)
        if piece.start <= min(_middle(metadata.row_group(number)), size - 1) < end
    ]


def _middle(group: Any) -> int:
    starts, length = [], 0
    for place in range(group.num_columns):
        column = group.column(place)
        starts.append(column.data_page_offset)
        if column.has_dictionary_page and column.dictionary_page_offset:
            starts.append(column.dictionary_page_offset)
        length += column.total_compressed_size
    return int(max(0, min(starts, default=0)) + length // 2)


def _leaves(metadata: Any, name: str) -> list[int]:
    """The places of what a column is stored as: itself, or the fields inside of it."""
    schema = metadata.schema
    return [
        place
        for place in range(metadata.num_columns)
        if schema.column(place).path == name or schema.column(place).path.startswith(f"{name}.")
    ]


def _repeats(schema: pa.Schema, metadata: Any, name: str, leaves: list[int]) -> bool:
    """Whether the texts of a column take less room in the file than they would if each stood for itself: then
    what they take in memory is known only once they are read, as the few that there are."""
    kind = schema.field(name).type
    if not _is_bytes(kind) or len(leaves) != 1:
        return False
    for number in range(metadata.num_row_groups):
        column = metadata.row_group(number).column(leaves[0])
        if not column.has_dictionary_page:
            continue
        texts = max(0, column.data_page_offset - column.dictionary_page_offset)
        if column.total_compressed_size - texts < _PLAIN * column.num_values:
            return True
    return False


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


@contextmanager
def _opened(file: SourceFile, **options: Any) -> Iterator[pq.ParquetFile]:
    """What is wrong with the file is said of it, wherever in it that shows."""
    try:
        where = file.on_disk() or file.seekable()
        with pq.ParquetFile(where, page_checksum_verification=True, **options) as opened:
            yield opened
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise SourceError(
            f"{file.key} can't be read as Parquet: {error}",
            hint="check that the file is complete and that the table's `format` is right",
            file=file.key,
        ) from error
