"""Members for people: bounds as values of their columns' types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lading.late import pa
from lading.log.state import TableState
from lading.model import Bound
from lading.zones.bounds import from_bound


def listed(state: TableState) -> Iterator[dict[str, Any]]:
    """One record a live member, in key order; `rows` are those that count."""
    schema = pa.ipc.read_schema(pa.py_buffer(state.schema)) if state.schema else pa.schema([])
    types = {field.name: field.type for field in schema}
    for member in state.with_zones():
        yield {
            "path": member.path,
            "rows": member.live_rows,
            "bytes": member.bytes,
            "tier": member.tier,
            "key_min": _value(member.key_min, types.get(state.order_by or "")),
            "key_max": _value(member.key_max, types.get(state.order_by or "")),
            "zones": {
                name: {
                    "min": _value(zone.min, types.get(name)),
                    "max": _value(zone.max, types.get(name)),
                    "nulls": zone.nulls,
                }
                for name, zone in sorted(member.zones.items())
            },
        }


def _value(bound: Bound | None, dtype: pa.DataType | None) -> Any:
    if bound is None or dtype is None:
        return None
    scalar = from_bound(bound, dtype)
    try:
        return scalar.as_py()
    except (ValueError, OverflowError, ImportError):  # beyond Python's years, or nanoseconds without pandas
        return str(scalar.cast(pa.string()))
