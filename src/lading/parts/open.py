"""A part, opened where it lies: a file on disk, or an object that is read by ranges.

From an object only the footer and the row groups that are asked for are fetched. Its length is known
from the log, so opening one costs a single request where the footer is small.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from lading.storage.place import Where, located, storage_of
from lading.storage.ranged import RangedFile

_ALONE = 1 << 18  # values that are decoded sooner than threads are set to work


def open_parquet(
    root: Where,
    path: str,
    size: int | None = None,
    *,
    metadata: pq.FileMetaData | None = None,
    dictionaries: Sequence[str] = (),
) -> pq.ParquetFile:
    """The file at `path`, relative to `root` or absolute; `size` in bytes saves a question if it is known,
    `metadata` reading it. Columns of `dictionaries` are given as such."""
    storage, name = located(root, path)
    told = {"metadata": metadata, "read_dictionary": dictionaries or None}
    if storage.folder is not None:
        # Each column is read when it is decoded: a thread that reads ahead costs more than a small part.
        return pq.ParquetFile(os.path.join(storage.folder, name), memory_map=False, pre_buffer=False, **told)
    file = RangedFile(storage, name, size)
    # Ranges that lie close together are fetched as one: a request costs more than the bytes between.
    return pq.ParquetFile(pa.PythonFile(file, mode="r"), pre_buffer=True, **told)


def row_batches(
    root: Where,
    file: pq.ParquetFile,
    rows: int,
    *,
    groups: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of at most `rows` rows. From a bucket one row group after the other: what is asked for at once
    is fetched at once, and whoever stops early should not have paid for the rest."""
    if storage_of(root).folder is not None:
        threads = groups is None or _values(file, groups, columns) > _ALONE
        yield from file.iter_batches(rows, row_groups=groups, columns=columns, use_threads=threads)
        return
    for group in range(file.metadata.num_row_groups) if groups is None else groups:
        yield from file.iter_batches(rows, row_groups=[group], columns=columns)


def shown_path(root: Where, path: str) -> str:
    """The file's whole name, for people."""
    return path if "://" in path else os.path.join(str(root), path)


def _values(file: pq.ParquetFile, groups: Sequence[int], columns: Sequence[str] | None) -> int:
    wide = file.metadata.num_columns if columns is None else len(columns)
    return wide * sum(int(file.metadata.row_group(group).num_rows) for group in groups)
