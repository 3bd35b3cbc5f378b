"""Avro's container files: types from the schema in the header, rows by blocks.

lading walks the blocks itself, so that what a block unpacks to is bounded and a piece of a file is the
blocks that begin in it; fastavro turns their bytes into values.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa

from lading.errors import MissingExtra, SourceError
from lading.formats.avro.blocks import Header, blocks, read_header
from lading.formats.avro.schema import Field, fields_of
from lading.formats.file_types import columns_of
from lading.formats.opening import READ_ERRORS, BeyondBounds, unreadable
from lading.formats.reader import WHOLE, Head, Piece, ReadSpec, Rows
from lading.formats.source_file import SourceFile
from lading.formats.typed import FileTypes, Stored, rows_of

_BLOCK = 8 << 20  # bytes of a batch, as they stand in the file
_ROWS = 1 << 16  # of a batch, at most


def reader(spec: ReadSpec) -> AvroReader:
    return AvroReader(spec)


def may_be_cut(spec: ReadSpec, path: str) -> bool:
    return True


def types(file: SourceFile) -> FileTypes:
    """From the header."""
    with _named(file), file.open_raw() as raw:
        return FileTypes(columns_of(file.key, _schema(_fields(file, read_header(raw)))))


@dataclass(frozen=True, slots=True)
class AvroReader:
    spec: ReadSpec
    block: int = _BLOCK

    def head(self, file: SourceFile) -> Head:
        with _named(file), file.open_raw() as raw:
            return Stored.of(file.key, _schema(_fields(file, read_header(raw))), self.spec).head

    def rows(self, file: SourceFile, piece: Piece = WHOLE) -> Iterator[Rows]:
        with _named(file):
            with file.open_raw() as raw:
                header = read_header(raw)
                fields = _fields(file, header)
                stored = Stored.of(file.key, _schema(fields), self.spec)
                wanted = stored.wanted(self.spec)
                if piece.start <= header.length:
                    batches = self._batches(file, raw, header, fields, piece, wanted)
                    yield from rows_of(self.spec, stored, batches)
                    return
            # From where a marker begins that the piece's first block may follow.
            with file.open_raw(piece.start - len(header.sync)) as raw:
                batches = self._batches(file, raw, header, fields, piece, wanted)
                yield from rows_of(self.spec, stored, batches)

    def _batches(
        self,
        file: SourceFile,
        raw: IO[bytes],
        header: Header,
        fields: list[Field],
        piece: Piece,
        wanted: Sequence[str],
    ) -> Iterator[pa.RecordBatch]:
        kept = [field for field in fields if field.name in wanted]
        decode = _decoder(fields)
        rows: list[dict[str, Any]] = []
        taken = 0
        for count, data in blocks(raw, header, piece, file.size, file.limits):
            a_row = len(data) // count
            for row in decode(count, data):
                rows.append(row)
                taken += a_row
                if taken >= self.block or len(rows) >= _ROWS:
                    yield _batch(kept, rows)
                    rows, taken = [], 0
        if rows:
            yield _batch(kept, rows)


def _batch(kept: list[Field], rows: list[dict[str, Any]]) -> pa.RecordBatch:
    arrays = [field.array([row[field.key] for row in rows]) for field in kept]
    if not arrays:
        return pa.RecordBatch.from_pylist([{}] * len(rows), pa.schema([]))
    return pa.RecordBatch.from_arrays(arrays, names=[field.name for field in kept])


def _decoder(fields: list[Field]) -> Callable[[int, bytes], Iterator[dict[str, Any]]]:
    """fastavro gets a schema that says how values are stored; what they mean is Arrow's to say."""
    try:
        import fastavro
    except ImportError as error:
        raise MissingExtra("format: avro needs fastavro", hint="pip install 'lading[formats]'") from error
    stored = [{"name": field.key, "type": field.stored} for field in fields]
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": stored})

    def decode(count: int, data: bytes) -> Iterator[dict[str, Any]]:
        block = io.BytesIO(data)
        for _ in range(count):
            row: Any = fastavro.schemaless_reader(
                block, schema, None, handle_unicode_errors="surrogateescape"
            )
            yield row
        if block.tell() != len(data):
            raise ValueError(f"a block has {len(data):,} bytes, its {count:,} records {block.tell():,}")

    return decode


def _fields(file: SourceFile, header: Header) -> list[Field]:
    try:
        return fields_of(header.schema)
    except (ValueError, RecursionError) as error:
        why = "its schema is nested too deeply" if isinstance(error, RecursionError) else error
        raise SourceError(
            f"{file.key} can't be read: {why}",
            hint="write the file with a schema that is a record of columns, each of one type or null",
            file=file.key,
        ) from error


def _schema(fields: list[Field]) -> pa.Schema:
    return pa.schema([(field.name, field.declared) for field in fields])


@contextmanager
def _named(file: SourceFile) -> Iterator[None]:
    """What is wrong with the file is said of it, wherever in it that shows."""
    try:
        yield
    except BeyondBounds as error:
        raise unreadable(file.key, error) from error
    except (*READ_ERRORS, ValueError, IndexError, KeyError, OverflowError, RecursionError) as error:
        raise SourceError(
            f"{file.key} can't be read as Avro: {error}",
            hint="check that the file is complete and that the table's `format` is right",
            file=file.key,
        ) from error
