"""Files that somebody already has, as members: what their footers say, and nothing else is read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from lading.errors import PartError
from lading.format.bounds import bound_kind
from lading.format.footer import zones_of_footer
from lading.format.unify import unified
from lading.model import Bound, Member

_THREADS = 8
_BUCKET = re.compile(r"bucket=(-?[0-9]+)/[^/]+")
_MICROSECONDS = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}

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
        value = (self.metadata.metadata or {}).get(f"lading.{name}".encode())
        return None if value is None else value.decode()

    def sort_column(self) -> str | None:
        """The column that the file declares to be sorted by, if it says so of every row group."""
        noted = self.said("order_by")
        if noted is not None:
            return noted or None
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


def read_footer(place: Path, recorded: str) -> Footer:
    """The footer of the Parquet file at `place`; PartError if there is none."""
    try:
        with open(place, "rb") as file:
            status = os.fstat(file.fileno())
            metadata = pq.read_metadata(pa.PythonFile(file, "r"))
    except (OSError, pa.ArrowException) as error:
        what = (
            "is not there" if isinstance(error, FileNotFoundError) else f"can't be read as Parquet: {error}"
        )
        raise PartError(
            f"{place} {what}", hint="name Parquet files, one by one; nothing was added", file=str(place)
        ) from error
    written = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="microseconds")
    return Footer(recorded, metadata, status.st_size, written)


def joint_schema(table: pa.Schema | None, footers: Sequence[Footer]) -> pa.Schema:
    """The schema of a collection that takes up these files."""
    for footer in footers:
        table = unified(table, footer.schema, footer.path)
    return table if table is not None else pa.schema([])


def member_of(footer: Footer, schema: pa.Schema, key: str | None) -> Member:
    """A file as a member: key range and zones from its statistics, as far as they can be trusted."""
    zones = zones_of_footer(footer.metadata, schema)
    zone = zones.get(key) if key is not None else None
    low, high = (zone.min, zone.max) if zone is not None else (None, None)
    if low is None or high is None:
        low = high = None
    bucket = _BUCKET.fullmatch(footer.path)
    return Member(
        path=footer.path,
        rows=footer.metadata.num_rows,
        bytes=footer.bytes,
        bucket=int(bucket[1]) if bucket else 0,
        tick_min=_tick(low, schema, key),
        tick_max=_tick(high, schema, key),
        key_min=low,
        key_max=high,
        created_at=footer.written_at,
        zones=zones,
    )


def _tick(bound: Bound | None, schema: pa.Schema, key: str | None) -> int:
    if not isinstance(bound, int) or key is None:
        return 0
    type = schema.field(key).type
    if pa.types.is_timestamp(type):
        multiply, divide = _MICROSECONDS[type.unit]
        return bound * multiply // divide
    return bound if bound_kind(type) in ("int", "date") else 0
