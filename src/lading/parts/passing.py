"""Parts that only pass: the sorted rows of one task in a folder, on their way to a fold of the same run.

They lie on disk as Arrow has them in memory, so that writing them encodes nothing and reading them maps them.
Nobody but that run ever opens one. Their names are those of temporary files: what a killed run leaves of them
is known for what it is. In a bucket, where bytes cost more than encoding them, such parts are Parquet
(write.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from lading.layout.table import passing_path
from lading.model import Bound, Member, Place
from lading.parts.facts import Facts
from lading.parts.footer import Origin
from lading.parts.write import ROW_GROUP, Described
from lading.storage.folder import make_dirs
from lading.storage.place import storage_of
from lading.zones.bounds import to_bound


class PassingWriter(Described):
    """One part under construction, as PartWriter is."""

    def __init__(self, table_dir: Place, bucket: int, schema: pa.Schema, origin: Origin) -> None:
        super().__init__(passing_path(bucket, origin.run_id), bucket, schema, origin, zones=False)
        self._file = Path(_path(table_dir, self.path))
        make_dirs(self._file.parent)
        self._sink = pa.OSFile(str(self._file), "wb")
        self._writer = pa.ipc.new_file(self._sink, schema)

    @property
    def bytes(self) -> int:
        return int(self._sink.tell())

    def write(self, table: pa.Table, facts: Facts | None = None) -> None:
        self._writer.write_table(table, max_chunksize=ROW_GROUP)
        self.describe(table, facts)

    def close(self) -> Member:
        try:
            self._writer.close()
            size = self.bytes
            self._sink.close()
        except BaseException:
            self.abort()
            raise
        return self.member(size)

    def abort(self) -> None:
        try:
            self._sink.close()
        finally:
            self._file.unlink(missing_ok=True)


def passes_in(table_dir: Place) -> bool:
    """Whether parts that pass are written like this there."""
    return storage_of(table_dir).folder is not None


def passing_batches(table_dir: Place, path: str) -> Iterator[pa.RecordBatch]:
    """The rows of one, in their order."""
    with pa.memory_map(_path(table_dir, path)) as source:
        reader = pa.ipc.open_file(source)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def passing_marks(table_dir: Place, path: str, key: str) -> list[tuple[Bound, int]]:
    """The first key of each batch, and its rows."""
    firsts = ((batch.column(key)[0], batch.num_rows) for batch in passing_batches(table_dir, path))
    bounds = ((to_bound(first, first.type), rows) for first, rows in firsts)
    return [(bound, rows) for bound, rows in bounds if bound is not None]


def _path(table_dir: Place, path: str) -> str:
    folder = storage_of(table_dir).folder
    assert folder is not None, path
    return os.path.join(folder, path)
