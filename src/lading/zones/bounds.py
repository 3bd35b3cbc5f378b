"""Column values in the form that zones keep: plain, comparable, and small.

A zone is compared far more often than it is made, by numpy and by SQLite as well as by Python, so a
bound is an int, a float, a str or bytes whose own order is the column's order. Two bounds compare
only if their types have the same `bound_kind`: days are not microseconds, and a decimal of scale 2 is
not one of scale 3. Whatever isn't certain is `None`, "unknown", and rules nothing out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from lading.late import pa, pc
from lading.model import Bound, Zone

LONGEST = 64  # characters (strings) or bytes (binary) of a bound
_SURROGATES = (0xD800, 0xDFFF)
_LAST_CODE_POINT = 0x10FFFF
_MICROSECONDS = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}


def bound_kind(dtype: pa.DataType) -> str | None:
    """What the bounds of this type mean; None for a type without an order (list, struct, map, …)."""
    if pa.types.is_dictionary(dtype):
        return bound_kind(dtype.value_type)
    for test, kind in _PLAIN_KINDS:
        if getattr(pa.types, test)(dtype):
            return kind
    if pa.types.is_timestamp(dtype):
        return f"timestamp[{dtype.unit}]" + (" with zone" if dtype.tz else "")
    if pa.types.is_time(dtype):
        return f"time[{dtype.unit}]"
    if pa.types.is_duration(dtype):
        return f"duration[{dtype.unit}]"
    if pa.types.is_decimal(dtype):
        return f"decimal{_decimal_width(dtype)}[{dtype.scale}]"
    return None


def tick_of(bound: Bound | None, dtype: pa.DataType) -> int:
    """The tick of an order value: an int as it is, days, microseconds; 0 for what has none."""
    if not isinstance(bound, int):
        return 0
    if pa.types.is_timestamp(dtype):
        multiply, divide = _MICROSECONDS[dtype.unit]
        return bound * multiply // divide
    return bound if bound_kind(dtype) in ("int", "date") else 0


def comparable_type(dtype: pa.DataType) -> pa.DataType:
    """The type to compare a column in, without loss: pyarrow has no kernels for some."""
    if pa.types.is_dictionary(dtype):
        return comparable_type(dtype.value_type)
    if pa.types.is_string_view(dtype):
        return pa.string()
    if pa.types.is_binary_view(dtype):
        return pa.binary()
    if pa.types.is_float16(dtype):
        return pa.float32()
    if pa.types.is_duration(dtype):
        return pa.int64()
    if pa.types.is_date64(dtype):
        return pa.date32()
    if pa.types.is_decimal(dtype) and dtype.bit_width < 128:
        return pa.decimal128(dtype.precision, dtype.scale)
    return dtype


def to_bound(value: Any, dtype: pa.DataType) -> Bound | None:
    """A value of `type` (a Python value or an Arrow scalar) as a bound; None for null, NaN, no order."""
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    kind = bound_kind(dtype)
    if kind is None:
        return None
    scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value, dtype)
    if pa.types.is_dictionary(scalar.type):
        scalar = scalar.cast(dtype)
    if not scalar.is_valid:
        return None
    return _scalar_bound(scalar, dtype, kind)


def from_bound(bound: Bound, dtype: pa.DataType) -> pa.Scalar:
    """The Arrow scalar that a bound of `type` stands for (of the value type, for a dictionary)."""
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    if pa.types.is_boolean(dtype):
        return pa.scalar(bool(bound), dtype)
    if pa.types.is_date64(dtype):
        assert isinstance(bound, int)
        return pa.scalar(bound * 86_400_000, dtype)
    if pa.types.is_decimal(dtype):
        assert isinstance(bound, bytes)
        return pa.scalar(_scaled(decimal_number(bound), dtype.scale), dtype)
    return pa.scalar(bound, dtype)


def zone_of(column: pa.ChunkedArray | pa.Array) -> Zone | None:
    """The exact zone of a column; None for a type without an order. NaN is left out of min and max."""
    dtype = column.type
    if bound_kind(dtype) is None:
        return None
    comparable = comparable_type(dtype)
    if comparable != dtype:
        column = column.cast(comparable, safe=False)
    ends = pc.min_max(column)
    return shorten(Zone(to_bound(ends["min"], dtype), to_bound(ends["max"], dtype), column.null_count))


def merge_zones(zones: Iterable[Zone | None]) -> Zone | None:
    """The zone of all these together. A zone whose rows are all null must be left out by the caller."""
    together: Zone | None = None
    for zone in zones:
        if zone is None:
            return None
        together = zone if together is None else _merged(together, zone)
    return together


def shorten(zone: Zone) -> Zone:
    """Cut long strings and bytes: min down to a prefix, max up to the next prefix, or to unknown."""
    return Zone(_cut_down(zone.min), _cut_up(zone.max), zone.nulls)


def next_prefix(prefix: str | bytes) -> str | bytes | None:
    """The least value above everything that starts with `prefix`; None when there is none."""
    if isinstance(prefix, bytes):
        kept = prefix.rstrip(b"\xff")
        return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
    text = prefix.rstrip(chr(_LAST_CODE_POINT))
    if not text:
        return None
    code = ord(text[-1]) + 1
    if _SURROGATES[0] <= code <= _SURROGATES[1]:
        code = _SURROGATES[1] + 1
    return text[:-1] + chr(code)


def decimal_bound(unscaled: int, dtype: pa.DataType) -> bytes:
    """An unscaled decimal as bytes in numeric order: big-endian, moved up by half the range."""
    width = _decimal_width(dtype)
    return (unscaled + (1 << (8 * width - 1))).to_bytes(width, "big")


def decimal_number(bound: bytes) -> int:
    """The unscaled number that `decimal_bound` wrote."""
    return int.from_bytes(bound, "big") - (1 << (8 * len(bound) - 1))


_PLAIN_KINDS = (
    ("is_boolean", "bool"),
    ("is_integer", "int"),
    ("is_floating", "float"),
    ("is_date", "date"),
    ("is_string", "str"),
    ("is_large_string", "str"),
    ("is_string_view", "str"),
    ("is_binary", "bytes"),
    ("is_large_binary", "bytes"),
    ("is_binary_view", "bytes"),
    ("is_fixed_size_binary", "bytes"),
)


def _decimal_width(dtype: pa.DataType) -> int:
    return 33 if pa.types.is_decimal256(dtype) else 17


def _scaled(unscaled: int, scale: int) -> Decimal:
    # Built from digits: arithmetic would round to the decimal context's 28 digits.
    sign, digits = int(unscaled < 0), tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((sign, digits, -scale))


def _scalar_bound(scalar: pa.Scalar, dtype: pa.DataType, kind: str) -> Bound | None:
    if kind == "date":
        days = scalar.value if pa.types.is_date32(scalar.type) else scalar.value // 86_400_000
        return int(days)
    if kind.startswith(("timestamp", "time", "duration")):
        return int(scalar.as_py() if pa.types.is_integer(scalar.type) else scalar.value)
    value = scalar.as_py()
    if kind.startswith("decimal"):
        return decimal_bound(int(Fraction(value) * Fraction(10) ** dtype.scale), dtype)
    if kind == "float":
        number = float(value)
        return None if math.isnan(number) else number
    if kind in ("bool", "int"):
        return int(value)
    kept: Bound = value
    return kept


def _merged(one: Zone, two: Zone) -> Zone:
    unknown_nulls = one.nulls is None or two.nulls is None
    return Zone(
        _least(one.min, two.min),
        _greatest(one.max, two.max),
        None if unknown_nulls else (one.nulls or 0) + (two.nulls or 0),
    )


def _least(one: Any, two: Any) -> Any:
    return None if one is None or two is None else min(one, two)


def _greatest(one: Any, two: Any) -> Any:
    return None if one is None or two is None else max(one, two)


def _cut_down(bound: Bound | None) -> Bound | None:
    return bound[:LONGEST] if isinstance(bound, (str, bytes)) else bound


def _cut_up(bound: Bound | None) -> Bound | None:
    if not isinstance(bound, (str, bytes)) or len(bound) <= LONGEST:
        return bound
    return next_prefix(bound[:LONGEST])
