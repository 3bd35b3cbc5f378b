"""Zones from footers: what Parquet says, never more."""

from __future__ import annotations

import io
import math
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lading.model import Zone
from lading.parts.footer_zones import FooterZones, zones_of_footer
from lading.zones.bounds import zone_of


def footer(table: pa.Table, **options: Any) -> pq.FileMetaData:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    return pq.ParquetFile(buffer).metadata


def test_flat_columns_have_the_zones_of_their_values() -> None:
    table = pa.table(
        {
            "i": pa.array([3, None, 1], pa.int32()),
            "u": pa.array([1, 2**64 - 1, 5], pa.uint64()),
            "w": pa.array([1, 2**32 - 1, 5], pa.uint32()),
            "f": pa.array([1.5, math.nan, -2.0]),
            "d": pa.array([Decimal("1.5"), Decimal("-2"), None], pa.decimal128(38, 2)),
            "s": pa.array(["é", "z" * 100, "a"]),
            "b": pa.array([b"\xff", b"a", None]),
            "t": pa.array([1, 2, 3], pa.timestamp("ns")),
            "z": pa.array([1, 2, 3], pa.timestamp("us", "Europe/Paris")),
            "day": pa.array([1, 2, 3], pa.date32()),
            "clock": pa.array([1, 2, 3], pa.time64("ns")),
            "yes": pa.array([True, None, False]),
            "dict": pa.array(["x", "y", None]).dictionary_encode(),
        }
    )
    for options in ({}, {"row_group_size": 2}, {"store_decimal_as_integer": True}):
        assert zones_of_footer(footer(table, **options)) == {
            name: zone_of(table[name]) for name in table.schema.names
        }


def test_leaves_of_nested_columns_are_never_taken_for_columns() -> None:
    table = pa.table(
        {
            "a": pa.array([{"b": 100, "c": 200}]),
            "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "l": pa.array([[[5]]]),
            "a.b": pa.array([7]),
            "last": pa.array([8]),
        }
    )
    assert zones_of_footer(footer(table)) == {"a.b": Zone(7, 7, 0), "last": Zone(8, 8, 0)}


def test_missing_statistics_leave_everything_unknown() -> None:
    table = pa.table({"i": [1, 2], "s": ["a", "b"]})
    metadata = footer(table, write_statistics=False)
    assert zones_of_footer(metadata) == {}
    assert FooterZones(metadata).groups("i") == [None]


def test_a_row_group_of_nan_or_without_bounds_makes_the_file_unknown() -> None:
    table = pa.table({"f": [1.0, 2.0, math.nan, math.nan]})
    assert zones_of_footer(footer(table, row_group_size=2)) == {"f": Zone(None, None, 0)}


def test_a_row_group_of_nulls_only_adds_its_nulls() -> None:
    table = pa.table({"i": pa.array([1, 2, None, None], pa.int64()), "n": pa.array([None] * 4, pa.int64())})
    metadata = footer(table, row_group_size=2)
    assert zones_of_footer(metadata) == {"i": Zone(1, 2, 2), "n": Zone(None, None, 4)}


def test_bounds_in_another_unit_than_the_table_s_are_unknown() -> None:
    metadata = footer(pa.table({"t": pa.array([datetime(2024, 1, 1)], pa.timestamp("us")), "i": [1]}))
    schema = pa.schema([("t", pa.timestamp("ms")), ("i", pa.int32())])
    assert zones_of_footer(metadata, schema) == {"t": Zone(None, None, 0), "i": Zone(1, 1, 0)}


def test_a_column_that_the_file_does_not_have_is_null_in_every_row_group() -> None:
    metadata = footer(pa.table({"i": [1, 2]}), row_group_size=1)
    vector = FooterZones(metadata).vector("nope")
    assert vector is not None
    assert [vector.zone(at) for at in range(2)] == [Zone(None, None, 1)] * 2
