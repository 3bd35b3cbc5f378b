"""Zones out of Parquet footers: what a file says of itself, taken only as far as it can be trusted.

Statistics are optional, may be bounds instead of values, and describe leaves, not columns. Whatever
is missing, nested, of a type whose order Parquet and Arrow might see differently, or in another unit
than the table's stays unknown, so that nothing is ruled out by it.
"""

from __future__ import annotations

import math
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lading.model import Bound, Member, Place, Zone
from lading.parts.open import open_parquet
from lading.storage.place import storage_of
from lading.where.bind import Predicate
from lading.where.prune import may_match
from lading.zones.bounds import bound_kind, merge_zones, shorten, to_bound
from lading.zones.terms import in_terms_of
from lading.zones.vector import ZoneVector, pack


class FooterZones:
    """The row groups of one file, column by column, on demand."""

    def __init__(self, metadata: pq.FileMetaData, schema: pa.Schema | None = None) -> None:
        """With the table's `schema`, zones are in terms of its types, and of its columns only."""
        self._metadata = metadata
        own = metadata.schema.to_arrow_schema()
        self._leaves = _leaves(own, metadata.num_columns)
        self._own = {field.name: field.type for field in own}
        table = self._own if schema is None else {field.name: field.type for field in schema}
        self._types = {name: table[name] for name in self._own if name in table}

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """Rows of each row group."""
        groups = range(self._metadata.num_row_groups)
        return np.array([self._metadata.row_group(group).num_rows for group in groups], np.int64)

    def columns(self) -> list[str]:
        """The columns that may have a zone."""
        return [name for name in self._types if name in self._leaves]

    def groups(self, column: str) -> list[Zone | None]:
        """A column's zone in each row group; None where nothing is known."""
        own, dtype = self._own.get(column), self._types.get(column)
        zones = self._stored(column)
        if own is None or dtype is None or bound_kind(own) == bound_kind(dtype):
            return zones
        turned = in_terms_of(dtype, own, pack(zones), self.rows)
        return [turned.zone(group) for group in range(len(zones))]

    def vector(self, column: str) -> ZoneVector | None:
        """The same for `may_match`."""
        return pack(self.groups(column))

    def _stored(self, column: str) -> list[Zone | None]:
        """In terms of the file's own type."""
        if column not in self._own:  # it is older than the column
            return [Zone(None, None, rows) for rows in self.rows.tolist()]
        groups = range(self._metadata.num_row_groups)
        dtype = self._own[column]
        if column not in self._types or column not in self._leaves or bound_kind(dtype) is None:
            return [None for _ in groups]
        leaf = self._leaves[column]
        return [_zone(self._metadata.row_group(group).column(leaf), dtype) for group in groups]


def zones_of_footer(metadata: pq.FileMetaData, schema: pa.Schema | None = None) -> dict[str, Zone]:
    """The zones of a whole file, from its row groups' statistics; a column that says nothing is absent.

    Pass the table's schema for a file that becomes a member of it: bounds are in the units of its types.
    """
    footer = FooterZones(metadata, schema)
    rows = footer.rows
    zones: dict[str, Zone] = {}
    for column in footer.columns():
        zone = _whole(footer.groups(column), rows)
        if zone is not None:
            zones[column] = zone
    return zones


def _whole(groups: list[Zone | None], rows: npt.NDArray[np.int64]) -> Zone | None:
    # A row group of nulls only has no bounds to add, and none to take away from the others.
    empty = [zone for zone, n in zip(groups, rows, strict=True) if zone is not None and zone.nulls == n]
    nulls = sum(zone.nulls or 0 for zone in empty)
    valued = [zone for zone, n in zip(groups, rows, strict=True) if zone is None or zone.nulls != n]
    if not valued:
        return Zone(None, None, nulls)
    together = merge_zones(valued)
    if together is None or together == Zone(None, None, None):
        return None
    return Zone(together.min, together.max, None if together.nulls is None else together.nulls + nulls)


def _leaves(schema: pa.Schema, total: int) -> Mapping[str, int]:
    """Where the flat columns stand among Parquet's leaves; names can't tell `a.b` from b inside of a."""
    at = 0
    found: dict[str, int] = {}
    repeated: set[str] = set()
    for column in schema:
        if not pa.types.is_nested(column.type):
            repeated |= {column.name} & found.keys()
            found[column.name] = at
        at += _leaf_count(column.type)
    if at != total:
        return {}
    return {name: leaf for name, leaf in found.items() if name not in repeated}


def _leaf_count(dtype: pa.DataType) -> int:
    if isinstance(dtype, pa.BaseExtensionType):
        return _leaf_count(dtype.storage_type)
    if not pa.types.is_nested(dtype):
        return 1
    if pa.types.is_map(dtype):
        return _leaf_count(dtype.key_type) + _leaf_count(dtype.item_type)
    if pa.types.is_struct(dtype):
        return sum(_leaf_count(dtype.field(i).type) for i in range(dtype.num_fields))
    return _leaf_count(dtype.value_type)


def _zone(column: pq.ColumnChunkMetaData, dtype: pa.DataType) -> Zone | None:
    statistics = column.statistics
    if statistics is None:
        return None
    nulls = statistics.null_count if statistics.has_null_count else None
    low = high = None
    if statistics.has_min_max:
        low = _bound(statistics, "min", dtype)
        high = _bound(statistics, "max", dtype)
    if low is None and high is None and nulls is None:
        return None
    return shorten(Zone(low, high, nulls))


def _bound(statistics: pq.Statistics, end: str, dtype: pa.DataType) -> Bound | None:
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    kind = bound_kind(dtype) or ""
    raw: Any = getattr(statistics, f"{end}_raw")
    if kind in ("str", "bytes"):
        return _text(raw, end, kind)
    if kind == "float":
        # Half floats come as two bytes; a NaN says that the writer did not leave it out.
        return float(raw) if isinstance(raw, float) and not math.isnan(raw) else None
    if kind in ("int", "bool") or kind.startswith("decimal"):
        # Decoded: raw unsigned integers are signed, raw decimals are bytes.
        value = getattr(statistics, end)
        return to_bound(value, dtype) if _fits(value, dtype) else None
    # Dates, times, durations: the raw integer is in the type's own unit, what is decoded loses digits.
    return raw if isinstance(raw, int) else None


def _fits(value: Any, dtype: pa.DataType) -> bool:
    if pa.types.is_decimal(dtype):
        return isinstance(value, Decimal)
    return isinstance(value, int) and not (pa.types.is_unsigned_integer(dtype) and value < 0)


def _text(raw: Any, end: str, kind: str) -> str | bytes | None:
    if not isinstance(raw, bytes):
        return None
    if kind == "bytes":
        return raw
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        # Cut inside a character by a writer that counts bytes: the part before it is still a lower bound.
        return raw[: error.start].decode() if end == "min" else None


_MOST = 1 << 16  # column chunks that the kept footers describe, some hundred bytes each

_Identity = tuple[int, int, int]


@dataclass
class OpenPart:
    """What one file says of itself."""

    metadata: pq.FileMetaData
    names: list[str]  # of its columns
    # The table's schema that was asked with last, and zones in its terms; replaced at once, since readers of
    # two snapshots may ask at the same time.
    _zones: tuple[pa.Schema | None, dict[str, ZoneVector | None]] = field(default_factory=lambda: (None, {}))
    _rows: npt.NDArray[np.int64] | None = None

    @property
    def chunks(self) -> int:
        return max(1, int(self.metadata.num_columns * self.metadata.num_row_groups))

    def groups(self, where: Predicate, schema: pa.Schema) -> list[int]:
        """The row groups that a predicate on the table can't rule out."""
        asked, zones = self._zones
        if asked is None or not asked.equals(schema):
            zones = {}
            self._zones = (schema, zones)
        footer: FooterZones | None = None

        def load(column: str) -> ZoneVector | None:
            nonlocal footer
            if column not in zones:
                footer = footer or FooterZones(self.metadata, schema)
                zones[column] = footer.vector(column)
            return zones[column]

        if self._rows is None:
            self._rows = FooterZones(self.metadata, schema).rows
        return np.flatnonzero(may_match(where, load, self._rows)).tolist()


class Footers:
    """The footers read last; safe for many threads."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._kept: OrderedDict[str, tuple[_Identity, OpenPart]] = OrderedDict()
        self._chunks = 0
        self._lock = threading.Lock()

    def open(self, root: Place, member: Member) -> tuple[pq.ParquetFile, OpenPart]:
        folder = storage_of(root).folder
        if folder is None:
            file = open_parquet(root, member.path, member.bytes)
            return file, OpenPart(file.metadata, file.schema_arrow.names)
        path = os.path.join(folder, member.path)
        status = os.stat(path)
        identity = (status.st_ino, status.st_size, status.st_mtime_ns)
        with self._lock:
            kept, part = self._kept.get(path, (None, None))
        if part is not None and kept == identity:
            with self._lock:
                if path in self._kept:
                    self._kept.move_to_end(path)
            return open_parquet(root, member.path, metadata=part.metadata), part
        file = open_parquet(root, member.path)
        part = OpenPart(file.metadata, file.schema_arrow.names)
        self._keep(path, identity, part)
        return file, part

    def _keep(self, path: str, identity: _Identity, part: OpenPart) -> None:
        with self._lock:
            _, old = self._kept.pop(path, (None, None))
            self._kept[path] = (identity, part)
            self._chunks += part.chunks - (old.chunks if old is not None else 0)
            while self._chunks > self._most and len(self._kept) > 1:
                _, (_, dropped) = self._kept.popitem(last=False)
                self._chunks -= dropped.chunks


FOOTERS = Footers()
