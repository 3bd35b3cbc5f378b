"""What a zone says of a column, in Iceberg's bytes: only what is certainly so.

A reader leaves a file out on the word of its bounds. So there are none for floats, whose zones leave NaN out
while engines count it as the greatest number, and none where the zone doesn't know.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from lading.iceberg.avro import blob, items, long
from lading.model import Member
from lading.parts.field_ids import field_id
from lading.zones.bounds import bound_kind, decimal_number

_INT, _LONG = struct.Struct("<i"), struct.Struct("<q")

Encode = Callable[[Any], bytes]


def encoder(dtype: pa.DataType) -> Encode | None:
    """From a bound to the bytes of Iceberg's single values; None for a type of which no bound is told."""
    kind = bound_kind(dtype)
    if kind is None or kind == "float":
        return None
    if kind == "bool":
        return lambda bound: b"\x01" if bound else b"\x00"
    if kind == "str":
        return lambda bound: bound.encode()
    if kind == "bytes":
        return bytes
    if kind.startswith("decimal"):
        return _decimal
    return _LONG.pack if pa.types.is_int64(dtype) or pa.types.is_timestamp(dtype) else _INT.pack


class Statistics:
    """The counts and bounds of a part's columns, as four maps of a manifest's entry."""

    def __init__(self, schema: pa.Schema) -> None:
        """`schema` is numbered."""
        self._columns = [
            (field.name, long(number), encoder(field.type))
            for field in schema
            if (number := field_id(field)) is not None and bound_kind(field.type) is not None
        ]

    def of(self, member: Member) -> Sequence[bytes]:
        """Value counts, null counts, lower and upper bounds."""
        values: list[bytes] = []
        nulls: list[bytes] = []
        lower: list[bytes] = []
        upper: list[bytes] = []
        rows = long(member.rows)
        zones = member.zones
        for (
            name,
            number,
            encode,
        ) in self._columns:  # in their order, so that the same part gives the same bytes
            zone = zones.get(name)
            if zone is None:
                continue
            values.append(number + rows)
            if zone.nulls is not None:
                nulls.append(number + long(zone.nulls))
            if encode is not None and zone.min is not None and zone.max is not None:
                lower.append(number + blob(encode(zone.min)))
                upper.append(number + blob(encode(zone.max)))
        return [items(one) for one in (values, nulls, lower, upper)]


def _decimal(bound: bytes) -> bytes:
    """The unscaled number in as few bytes as hold it."""
    number = decimal_number(bound)
    size = ((number if number >= 0 else ~number).bit_length() + 8) // 8
    return number.to_bytes(size, "big", signed=True)
