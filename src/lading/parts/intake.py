"""Files that somebody already has, as members: what their footers say, and nothing else is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lading.errors import PartError
from lading.layout.table import bucket_of
from lading.model import Member
from lading.parts.footer import noted
from lading.parts.footer_zones import zones_of_footer
from lading.parts.open import open_parquet, row_batches, shown_path
from lading.parts.schema import unified
from lading.storage.place import Where, located
from lading.zones.bounds import tick_of

_THREADS = 8
_BATCH = 1 << 16  # rows

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True, slots=True)
class Footer:
    """One file as it describes itself."""

    path: str  # as the log records it
    metadata: pq.FileMetaData
    bytes: int
    written_at: str

    @property
    def schema(self) -> pa.Schema:
        return self.metadata.schema.to_arrow_schema()

    def said(self, name: str) -> str | None:
        """What lading's own writer noted under this name."""
        return noted(self.metadata, name)

    def sort_column(self) -> str | None:
        """The column that the file declares to be sorted by, if it says so of every row group."""
        declared = self.said("order_by")
        if declared is not None:
            return declared or None
        groups = [self.metadata.row_group(i) for i in range(self.metadata.num_row_groups)]
        first = {group.sorting_columns[0] if group.sorting_columns else None for group in groups}
        if len(first) != 1 or (column := first.pop()) is None or column.descending:
            return None
        name: str = self.metadata.schema.column(column.column_index).path
        return name if name in self.schema.names else None


def in_parallel(work: Callable[[_In], _Out], items: Iterable[_In]) -> list[_Out]:
    """Opening files is waiting: several at a time."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(work, items))


def footer_of(where: Where, path: str) -> Footer:
    """The footer of a member, at `path` below `where`; FileNotFoundError if there is no such file."""
    storage, name = located(where, path)
    try:
        found = storage.head(name)
        with open_parquet(where, path, found.size) as opened:
            metadata = opened.metadata
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise PartError(
            f"{shown_path(where, path)} can't be read as Parquet: {error}", hint="restore it", file=path
        ) from error
    return Footer(path, metadata, found.size, found.modified.isoformat(timespec="microseconds"))


def footer_to_add(where: Where, path: str) -> Footer:
    """The same for a file that somebody named; PartError if it isn't there or isn't Parquet."""
    hint = "name Parquet files, one by one; nothing was added"
    try:
        return footer_of(where, path)
    except FileNotFoundError as error:
        at = shown_path(where, path)
        raise PartError(f"{at} is not there", hint=hint, file=at) from error
    except PartError as error:
        raise PartError(error.message, hint=hint, file=error.file) from error


def joint_schema(table: pa.Schema | None, footers: Sequence[Footer]) -> pa.Schema:
    """The schema of a collection that takes up these files."""
    for footer in footers:
        table = unified(table, footer.schema, footer.path)
    return table if table is not None else pa.schema([])


def is_sorted(where: Where, path: str, key: str) -> bool:
    """Whether the rows of a file go up by `key`, as the rows have it: for one that doesn't declare it. Nulls
    may be anywhere; a file that can't be read is not sorted."""
    last: pa.Scalar | None = None
    try:
        with open_parquet(where, path) as file:
            if key not in file.schema_arrow.names:
                return False
            for batch in row_batches(where, file, _BATCH, columns=[key]):
                column = batch.column(0).drop_null()
                if not len(column):
                    continue
                ascends = pc.all(pc.less_equal(column[:-1], column[1:])).as_py() is not False
                if not ascends or (last is not None and not pc.less_equal(last, column[0]).as_py()):
                    return False
                last = column[-1]
    except (OSError, pa.ArrowException):
        return False
    return True


def member_of(footer: Footer, schema: pa.Schema, key: str | None, *, ascends: bool) -> Member:
    """A file as a member: key range and zones from its statistics, as far as they can be trusted. `ascends`:
    it is sorted by `key`; one that isn't has no key range, and is found by its zones."""
    zones = zones_of_footer(footer.metadata, schema)
    zone = zones.get(key) if key is not None else None
    low, high = (zone.min, zone.max) if zone is not None else (None, None)
    if low is None or high is None:
        low = high = None
    return Member(
        path=footer.path,
        rows=footer.metadata.num_rows,
        bytes=footer.bytes,
        bucket=bucket_of(footer.path) or 0,
        tick_min=0 if key is None else tick_of(low, schema.field(key).type),
        tick_max=0 if key is None else tick_of(high, schema.field(key).type),
        key_min=low if ascends else None,
        key_max=high if ascends else None,
        created_at=footer.written_at,
        zones=zones,
    )
