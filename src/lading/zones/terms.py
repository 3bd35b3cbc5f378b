"""Zones of a column whose type has changed since, in terms of its type of today.

A bound has no type of its own: 19,000 may be a number, a day or a moment, and is compared as whatever the
column is. So it is turned into what its value is read as today where that keeps the order, and forgotten
where it doesn't: as text, 10 comes before 9. What is rounded is rounded outwards, so that it stays a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from lading.late import np, pa
from lading.model import Member
from lading.zones.blob import Kind
from lading.zones.bounds import bound_kind
from lading.zones.numbers import Mask
from lading.zones.vector import ZoneVector, pack

if TYPE_CHECKING:
    import numpy.typing as npt

_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_EXACT = 2**53  # whole numbers up to here are doubles as they are

_Array = Any  # of numpy
_Turn = Callable[[_Array, bool], tuple[_Array, Mask]]  # minima or not -> bounds, and which of them are known


Terms = dict[str, tuple[Any, Any]]  # column -> what its Arrow type was and is, None if it left


def other_terms(old: bytes, new: bytes) -> Terms:
    """The columns whose bounds mean something else under `new`; None: they have left. Both are Arrow IPC
    schemas, b"" before there is one."""
    if old == new or not old or not new:
        return {}
    before, after = ({field.name: field.type for field in _schema(one)} for one in (old, new))
    return {
        name: (dtype, after.get(name))
        for name, dtype in before.items()
        if name not in after or bound_kind(dtype) != bound_kind(after[name])
    }


def rezoned(members: Sequence[Member], terms: Terms) -> list[Member]:
    """Members with their zones in other terms; of a column that has left, without."""
    zones = [dict(member.zones) for member in members]
    rows = np.array([member.rows for member in members], np.int64)
    for name, (old, new) in terms.items():
        known = [one.pop(name, None) for one in zones]
        if new is None:
            continue
        turned = in_terms_of(new, old, pack(known), rows)
        for number, one in enumerate(zones):
            if (zone := turned.zone(number)) is not None:
                one[name] = zone
    return [msgspec.structs.replace(one, zones=own) for one, own in zip(members, zones, strict=True)]


def in_terms_of(
    new: pa.DataType, old: pa.DataType, vector: ZoneVector, rows: npt.NDArray[np.int64]
) -> ZoneVector:
    """The zones of a column that is `new` and was `old`; `rows` are each member's."""
    if bound_kind(old) == bound_kind(new):
        return vector
    vector = vector.plain()
    nulls = vector.nulls
    if bound_kind(old) == "str":
        # An empty text is null in any other type: only where all are null there are no more than before.
        nulls = np.where(nulls == rows, nulls, -1)
    turn = _turn(old, new)
    if turn is None or vector.kind == "none":
        return ZoneVector("none", None, None, None, None, nulls)
    mins, low = turn(vector.mins, True)
    maxs, high = turn(vector.maxs, False)
    kind: Kind = "float" if mins.dtype.kind == "f" else "int"
    return ZoneVector(kind, mins, maxs, _both(low, vector.has_min), _both(high, vector.has_max), nulls)


def _turn(old: pa.DataType, new: pa.DataType) -> _Turn | None:
    """How a bound of one becomes one of the other; None where their order differs, or no value of one is
    read as the other."""
    kinds = (bound_kind(old), bound_kind(new))
    if kinds == ("int", "float"):
        return _to_float
    if kinds == ("float", "int"):
        return _to_int
    if kinds[0] == "date" and _is_clock(new):
        return lambda days, _: _to_moments(days, _PER_DAY[new.unit])
    if _is_clock(old) and kinds[1] == "date":
        return lambda moments, _: (moments // _PER_DAY[old.unit], np.ones(len(moments), np.bool_))
    return None


def _to_float(numbers: _Array, down: bool) -> tuple[_Array, Mask]:
    found = numbers.astype(np.float64)
    large = (numbers > _EXACT) | (numbers < -_EXACT)
    outwards = np.nextafter(found, -np.inf if down else np.inf)
    return np.where(large, outwards, found), np.ones(len(numbers), np.bool_)


def _to_int(numbers: _Array, down: bool) -> tuple[_Array, Mask]:
    whole = np.floor(numbers) if down else np.ceil(numbers)
    known = (whole >= -(2.0**63)) & (whole < 2.0**63)
    return np.where(known, whole, 0).astype(np.int64), known


def _to_moments(days: _Array, per_day: int) -> tuple[_Array, Mask]:
    most = (2**63 - 1) // per_day
    known = (days <= most) & (days >= -most)
    return np.where(known, days, 0) * per_day, known


def _schema(data: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))


def _both(one: Mask, other: Mask | None) -> Mask | None:
    found = one if other is None else one & other
    return None if found.all() else found


def _is_clock(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(dtype) and dtype.tz is None)
