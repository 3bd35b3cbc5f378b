"""Some rows of a part, chosen by one or two of its columns: those are read first, the others only of row
groups in which a row was chosen. Of few rows all is read at once.

Texts that repeat stay numbers into their dictionary until the rows are chosen, as the part has them: of five
million rows nobody wants five million texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lading.errors import PartError
from lading.layout.table import SOURCE
from lading.model import Member, Place
from lading.parts.live import columns_to_read
from lading.parts.open import open_parquet, row_batches, shown_path
from lading.parts.rows import unreadable
from lading.parts.schema import conformed
from lading.storage.place import storage_of

_BATCH_ROWS = 128 * 1024
_FEW = 4_096  # rows of which a second look would cost more than columns that are decoded in vain
_WHOLE = 1 << 20  # rows of a row group that may be read at once; parts of lading's own have fewer

# Which rows of a batch are wanted. A column of texts may come as a dictionary.
Choose = Callable[[pa.RecordBatch], np.ndarray]


def picked(
    root: Place,
    members: Iterable[Member],
    schema: pa.Schema,
    columns: Sequence[str],
    by: Sequence[str],
    choose: Choose,
) -> Iterator[pa.RecordBatch]:
    """The rows of some members that count and that `choose` wants by the columns `by`, with `columns`; in the
    table's `schema`."""
    opening = _Opening(root, schema, [*columns, *by])
    for member in members:
        path = shown_path(root, member.path)
        if ".." in member.path.split("/"):
            raise PartError(f"the member path {member.path} points outside {root}", file=path)
        try:
            with opening.opened(member) as file:
                part = _Part(root, file, member, schema, path)
                for group in range(file.metadata.num_row_groups):
                    yield from part.picked(group, list(columns), list(by), choose)
        except (OSError, pa.ArrowException) as error:
            raise unreadable(path, error) from error


class _Opening:
    """Opens parts, with those columns as dictionaries that are stored as some: mostly the same ones as in the
    part before. Of few rows it doesn't matter how they come."""

    def __init__(self, root: Place, schema: pa.Schema, columns: Sequence[str]) -> None:
        self._root = root
        there = (name for name in columns if name in schema.names)
        self._texts = frozenset(name for name in there if pa.types.is_string(schema.field(name).type))
        self._coded: list[str] = []  # of the part before

    def opened(self, member: Member) -> pq.ParquetFile:
        file = self._as_before(member)
        if member.rows <= _FEW:
            return file
        metadata = file.metadata
        coded = self._coded_in(metadata)
        if coded == self._coded:
            return file
        self._coded = coded
        file.close()
        return open_parquet(self._root, member.path, member.bytes, metadata=metadata, dictionaries=coded)

    def _as_before(self, member: Member) -> pq.ParquetFile:
        try:
            return open_parquet(self._root, member.path, member.bytes, dictionaries=self._coded)
        except KeyError:  # it is older than one of these columns
            self._coded = []
            return open_parquet(self._root, member.path, member.bytes)

    def _coded_in(self, metadata: pq.FileMetaData) -> list[str]:
        if not self._texts or not metadata.num_row_groups:
            return []
        first = metadata.row_group(0)
        chunks = (first.column(at) for at in range(metadata.num_columns))
        return [
            name
            for chunk in chunks
            if (name := chunk.path_in_schema) in self._texts and "RLE_DICTIONARY" in chunk.encodings
        ]


class _Part:
    """A part that is being read."""

    def __init__(
        self, root: Place, file: pq.ParquetFile, member: Member, schema: pa.Schema, path: str
    ) -> None:
        self._root, self._file, self._schema, self._path = root, file, schema, path
        self._names = file.schema_arrow.names
        self._minus = np.array(member.minus, np.int64)
        # From a bucket a second request costs more than columns that are fetched in vain.
        self._is_near = storage_of(root).folder is not None

    def picked(
        self, group: int, columns: list[str], by: list[str], choose: Choose
    ) -> Iterator[pa.RecordBatch]:
        rows = self._file.metadata.row_group(group).num_rows
        first = columns_to_read(self._names, by, sources=bool(len(self._minus)))
        if not self._is_near or not _FEW < rows <= _WHOLE or not first:
            for batch in self._batches(group, rows, columns, by):
                chosen = self._chosen(batch, by, choose)
                if len(chosen):
                    rest = batch if len(chosen) == batch.num_rows else batch.take(pa.array(chosen))
                    yield self._told(rest, columns)
            return
        batch = self._read(group, first)
        chosen = self._chosen(batch, by, choose)
        if not len(chosen):
            return
        at = pa.array(chosen)
        rest = [name for name in columns_to_read(self._names, columns, sources=False) if name not in first]
        # One by one: then the rows that nobody wants are never all there at once.
        more = [self._read(group, [name]).column(0).take(at) for name in rest]
        found = pa.RecordBatch.from_arrays([*batch.take(at).columns, *more], names=[*first, *rest])
        yield self._told(found, columns)

    def _batches(self, group: int, rows: int, columns: list[str], by: list[str]) -> Iterator[pa.RecordBatch]:
        names = list(dict.fromkeys([*columns, *by]))
        stored = columns_to_read(self._names, names, sources=bool(len(self._minus)))
        if stored and rows <= _FEW:
            yield self._read(group, stored)
            return
        if stored:
            yield from row_batches(self._root, self._file, _BATCH_ROWS, groups=[group], columns=stored)
            return
        # Older than all of these columns: that it has rows is all there is to say.
        empty = [pa.nulls(rows, self._schema.field(name).type) for name in names]
        yield pa.RecordBatch.from_arrays(empty, names=names)

    def _read(self, group: int, columns: list[str]) -> pa.RecordBatch:
        table = self._file.read_row_group(group, columns=columns, use_threads=False)
        return pa.RecordBatch.from_arrays([_in_one(table.column(name)) for name in columns], names=columns)

    def _chosen(self, batch: pa.RecordBatch, by: list[str], choose: Choose) -> np.ndarray:
        """The numbers of the rows that are wanted. Rows that no longer count are no rows. Where values have
        to be converted they go first: the table's types may have no room for theirs. Where not, only chosen
        rows are asked where they come from."""
        schema = self._as_coded(batch, by)
        if not len(self._minus):
            return np.flatnonzero(choose(conformed(batch, schema, self._path)))
        sources = batch.column(SOURCE).to_numpy(zero_copy_only=False)
        if batch.select([name for name in by if name in batch.schema.names]).schema.types == schema.types:
            chosen = np.flatnonzero(choose(conformed(batch, schema, self._path)))
            return chosen[~np.isin(sources[chosen], self._minus)]
        live = np.flatnonzero(~np.isin(sources, self._minus))
        return live[choose(conformed(batch.take(pa.array(live)), schema, self._path))]

    def _as_coded(self, batch: pa.RecordBatch, by: list[str]) -> pa.Schema:
        """The table's types, but dictionaries of them as they are."""
        fields = []
        for name in by:
            field = self._schema.field(name)
            at = batch.schema.get_field_index(name)
            if at >= 0 and _is_coded(batch.schema.field(at).type, field.type):
                field = pa.field(name, batch.schema.field(at).type)
            fields.append(field)
        return pa.schema(fields)

    def _told(self, batch: pa.RecordBatch, columns: list[str]) -> pa.RecordBatch:
        schema = pa.schema([self._schema.field(name) for name in columns])
        return conformed(batch, schema, self._path)


def _is_coded(dtype: pa.DataType, of: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(dtype) and dtype.value_type == of)


def _in_one(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
