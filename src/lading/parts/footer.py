"""Zones out of Parquet footers: what a file says of itself, taken only as far as it can be trusted.

Statistics are optional, may be bounds instead of values, and describe leaves, not columns. Whatever
is missing, nested, of a type whose order Parquet and Arrow might see differently, or in another unit
than the table's stays unknown, so that nothing is ruled out by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lading.model import Bound, Zone
from lading.state.zones import ZoneVector, pack
from lading.where.bounds import bound_kind, merge_zones, shorten, to_bound


class FooterZones:
    """The row groups of one file, column by column, on demand."""

    def __init__(self, metadata: pq.FileMetaData, schema: pa.Schema | None = None) -> None:
        """With the table's `schema`, a column whose bounds would mean something else there is unknown."""
        self._metadata = metadata
        own = metadata.schema.to_arrow_schema()
        self._leaves = _leaves(own, metadata.num_columns)
        self._types = {field.name: field.type for field in own if _agrees(field, schema)}

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
        count = self._metadata.num_row_groups
        if column not in self._types or column not in self._leaves:
            return [None] * count
        leaf, type = self._leaves[column], self._types[column]
        return [_zone(self._metadata.row_group(group).column(leaf), type) for group in range(count)]

    def vector(self, column: str) -> ZoneVector | None:
        """The same for `may_match`."""
        return pack(self.groups(column))


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


def _agrees(field: pa.Field, schema: pa.Schema | None) -> bool:
    kind = bound_kind(field.type)
    if kind is None or schema is None:
        return kind is not None
    at = schema.get_field_index(field.name)
    return at >= 0 and bound_kind(schema.field(at).type) == kind


def _leaves(schema: pa.Schema, total: int) -> Mapping[str, int]:
    """Where the flat columns stand among Parquet's leaves; names can't tell `a.b` from b inside of a."""
    at = 0
    found: dict[str, int] = {}
    repeated: set[str] = set()
    for field in schema:
        if not pa.types.is_nested(field.type):
            repeated |= {field.name} & found.keys()
            found[field.name] = at
        at += _leaf_count(field.type)
    if at != total:
        return {}
    return {name: leaf for name, leaf in found.items() if name not in repeated}


def _leaf_count(type: pa.DataType) -> int:
    if isinstance(type, pa.BaseExtensionType):
        return _leaf_count(type.storage_type)
    if not pa.types.is_nested(type):
        return 1
    if pa.types.is_map(type):
        return _leaf_count(type.key_type) + _leaf_count(type.item_type)
    if pa.types.is_struct(type):
        return sum(_leaf_count(type.field(i).type) for i in range(type.num_fields))
    return _leaf_count(type.value_type)


def _zone(column: pq.ColumnChunkMetaData, type: pa.DataType) -> Zone | None:
    statistics = column.statistics
    if statistics is None:
        return None
    nulls = statistics.null_count if statistics.has_null_count else None
    low = high = None
    if statistics.has_min_max:
        low = _bound(statistics, "min", type)
        high = _bound(statistics, "max", type)
    if low is None and high is None and nulls is None:
        return None
    return shorten(Zone(low, high, nulls))


def _bound(statistics: pq.Statistics, end: str, type: pa.DataType) -> Bound | None:
    if pa.types.is_dictionary(type):
        type = type.value_type
    kind = bound_kind(type) or ""
    raw: Any = getattr(statistics, f"{end}_raw")
    if kind in ("str", "bytes"):
        return _text(raw, end, kind)
    if kind == "float":
        # Half floats come as two bytes; a NaN says that the writer did not leave it out.
        return float(raw) if isinstance(raw, float) and not math.isnan(raw) else None
    if kind in ("int", "bool") or kind.startswith("decimal"):
        # Decoded: raw unsigned integers are signed, raw decimals are bytes.
        value = getattr(statistics, end)
        return to_bound(value, type) if _fits(value, type) else None
    # Dates, times, durations: the raw integer is in the type's own unit, what is decoded loses digits.
    return raw if isinstance(raw, int) else None


def _fits(value: Any, type: pa.DataType) -> bool:
    if pa.types.is_decimal(type):
        return isinstance(value, Decimal)
    return isinstance(value, int) and not (pa.types.is_unsigned_integer(type) and value < 0)


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
