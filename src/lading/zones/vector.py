"""The zones of one column over many members, as vectors.

Pruning 100,000 members must cost one comparison, not 100,000 decoded records, so minima, maxima and
null counts lie next to each other in a blob that numpy and Arrow read in place. A member whose bound
is unknown is marked in a mask; whatever stands in the vector at that place means nothing. The blob's bytes
are blob.py's.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from lading.late import np, pa, pc
from lading.model import Bound, Zone
from lading.zones.blob import DTYPES, KINDS, TEXTS, Kind, ZoneCursor, bound_bytes, header_bytes
from lading.zones.numbers import Mask, Packed, packed

if TYPE_CHECKING:
    import numpy.typing as npt

_INT64 = range(-(2**63), 2**63)
_MOST_TEXT = 2**31 - 1
_UNKNOWN = Zone(None, None, None)
_FILLERS: dict[str, Any] = {"int": 0, "float": 0.0, "str": "", "bytes": b""}


class ZoneVector(msgspec.Struct, frozen=True, eq=False):
    """One entry a member. `kind` "none" has null counts only; a mask of None means "all known"."""

    kind: Kind
    mins: Any  # int64 or float64 ndarray or Packed, Arrow string or binary array; None for kind "none"
    maxs: Any
    has_min: Mask | None
    has_max: Mask | None
    nulls: Any  # int64 ndarray or Packed; -1 unknown

    def __len__(self) -> int:
        return len(self.nulls)

    def to_blob(self) -> bytes:
        """The vector as bytes, for `from_blob`."""
        flags = (self.has_min is not None, self.has_max is not None)
        parts = [
            header_bytes(self.kind, *flags, len(self)),
            packed(self.nulls),
        ]
        if self.kind != "none":
            parts += [bound_bytes(self.kind, self.mins), bound_bytes(self.kind, self.maxs)]
        parts += [
            mask.astype(np.uint8).tobytes() for mask in (self.has_min, self.has_max) if mask is not None
        ]
        return b"".join(parts)

    @staticmethod
    def from_blob(blob: bytes, *, as_packed: bool = False) -> ZoneVector:
        """The vector that `to_blob` wrote; wide numbers and text in place, narrow ones `as_packed`: for who
        only compares them."""
        cursor = ZoneCursor(blob, as_packed)
        kind, has_min, has_max, count = cursor.header()
        nulls = cursor.numbers(count)
        mins = maxs = None
        if kind != "none":
            mins, maxs = cursor.values(kind, count), cursor.values(kind, count)
        low = cursor.mask(count) if has_min else None
        high = cursor.mask(count) if has_max else None
        cursor.end()
        return ZoneVector(kind, mins, maxs, low, high, nulls)

    def plain(self) -> ZoneVector:
        """With arrays of numbers, for who does more than compare them."""
        mins, maxs = (np.asarray(one) if isinstance(one, Packed) else one for one in (self.mins, self.maxs))
        return ZoneVector(self.kind, mins, maxs, self.has_min, self.has_max, np.asarray(self.nulls))

    def normal(self) -> ZoneVector:
        """The one of all vectors with these zones that `pack` would make: equal zones, equal bytes."""
        if self.kind == "none":
            return self
        low, high = _partly(self.has_min), _partly(self.has_max)
        if low is not None and high is not None and not (low.any() or high.any()):
            return _without_bounds(np.asarray(self.nulls))
        mins, maxs = _filled(self.kind, self.mins, low), _filled(self.kind, self.maxs, high)
        return ZoneVector(self.kind, mins, maxs, low, high, self.nulls)

    def part(self, which: slice) -> ZoneVector:
        """Some neighbours, of the same kind; nothing is copied."""
        mins = maxs = None
        if self.kind != "none":
            mins, maxs = self.mins[which], self.maxs[which]
        low = None if self.has_min is None else self.has_min[which]
        high = None if self.has_max is None else self.has_max[which]
        return ZoneVector(self.kind, mins, maxs, low, high, self.nulls[which])

    def take(self, indices: npt.NDArray[np.intp]) -> ZoneVector:
        """The entries at `indices`, in that order."""
        mins = maxs = None
        if self.kind in DTYPES:
            mins, maxs = self.mins[indices], self.maxs[indices]
        elif self.kind != "none":
            where = pa.array(indices, pa.int64())
            mins, maxs = self.mins.take(where), self.maxs.take(where)
        low = None if self.has_min is None else self.has_min[indices]
        high = None if self.has_max is None else self.has_max[indices]
        return ZoneVector(self.kind, mins, maxs, low, high, self.nulls[indices])

    @staticmethod
    def concat(vectors: Sequence[ZoneVector]) -> ZoneVector:
        """The vectors one after the other; kinds that differ leave only the null counts known."""
        if len(vectors) > 1:
            vectors = [vector for vector in vectors if len(vector)]
        if len(vectors) == 1:
            return vectors[0]
        if not vectors:
            return pack([])
        nulls = np.concatenate([vector.nulls for vector in vectors])
        kinds = {vector.kind for vector in vectors} - {"none"}
        if len(kinds) != 1:
            return _without_bounds(nulls)
        kind = kinds.pop()
        mins = _joined(kind, [(vector.mins, len(vector)) for vector in vectors])
        maxs = _joined(kind, [(vector.maxs, len(vector)) for vector in vectors])
        if mins is None or maxs is None:
            return _without_bounds(nulls)
        low = _joined_masks([(vector.has_min, vector) for vector in vectors])
        high = _joined_masks([(vector.has_max, vector) for vector in vectors])
        return ZoneVector(kind, mins, maxs, low, high, nulls)

    def zone(self, index: int) -> Zone | None:
        """One member's zone; None when nothing at all is known of it."""
        nulls = int(self.nulls[index])
        low = self._bound(self.mins, self.has_min, index)
        high = self._bound(self.maxs, self.has_max, index)
        if low is None and high is None and nulls < 0:
            return None
        return Zone(low, high, None if nulls < 0 else nulls)

    def _bound(self, values: Any, known: Mask | None, index: int) -> Bound | None:
        if values is None or (known is not None and not known[index]):
            return None
        value = values[index]
        bound: Bound = value.as_py() if isinstance(value, pa.Scalar) else value.item()
        return bound


def pack(zones: Sequence[Zone | None]) -> ZoneVector:
    """Zones as a vector."""
    if None in zones:
        zones = [_UNKNOWN if zone is None else zone for zone in zones]
    known: Sequence[Zone] = zones  # type: ignore[assignment]
    return pack_bounds(
        [zone.min for zone in known], [zone.max for zone in known], [zone.nulls for zone in known]
    )


def pack_bounds(
    mins: Sequence[Bound | None], maxs: Sequence[Bound | None], nulls: Sequence[int | None]
) -> ZoneVector:
    """Bounds of different kinds in one column, and ints beyond 64 bits: unknown."""
    counts = np.array([-1 if one is None else one for one in nulls] if None in nulls else nulls, np.int64)
    if {*map(type, mins), *map(type, maxs)} == {int}:  # the most common column: no look at each in Python
        with suppress(OverflowError):  # beyond 64 bits
            return ZoneVector("int", np.array(mins, "<i8"), np.array(maxs, "<i8"), None, None, counts)
    mins, maxs = [_storable(bound) for bound in mins], [_storable(bound) for bound in maxs]
    kind = _kind_of(mins, maxs)
    if kind == "none":
        return _without_bounds(counts)
    return ZoneVector(kind, _pack(kind, mins), _pack(kind, maxs), _known(mins), _known(maxs), counts)


def _without_bounds(nulls: npt.NDArray[np.int64]) -> ZoneVector:
    return ZoneVector("none", None, None, None, None, nulls)


def _storable(bound: Bound | None) -> Bound | None:
    if isinstance(bound, int):
        return int(bound) if bound in _INT64 else None
    if isinstance(bound, float) and bound != bound:
        return None
    return bound


def _kind_of(mins: Sequence[Bound | None], maxs: Sequence[Bound | None]) -> Kind:
    types = {type(bound) for bounds in (mins, maxs) for bound in bounds} - {type(None)}
    if len(types) != 1:
        return "none"
    name = types.pop().__name__
    kind = next(kind for kind in KINDS if kind == name)
    if kind in TEXTS and max(_text_size(mins), _text_size(maxs)) > _MOST_TEXT:
        return "none"
    return kind


def _text_size(bounds: Sequence[Any]) -> int:
    # 4 bytes a character is the most that UTF-8 takes.
    return sum(
        4 * len(bound) if isinstance(bound, str) else len(bound) for bound in bounds if bound is not None
    )


def _pack(kind: Kind, bounds: Sequence[Bound | None]) -> Any:
    filler = _FILLERS[kind]
    filled = [filler if bound is None else bound for bound in bounds]
    return np.array(filled, DTYPES[kind]) if kind in DTYPES else pa.array(filled, TEXTS[kind])


def _known(bounds: Sequence[Bound | None]) -> Mask | None:
    if None not in bounds:
        return None
    return np.array([bound is not None for bound in bounds], np.bool_)


def _partly(known: Mask | None) -> Mask | None:
    return None if known is None or known.all() else known


def _filled(kind: Kind, values: Any, known: Mask | None) -> Any:
    """With the same in all places that mean nothing."""
    if known is None:
        return values
    if kind in DTYPES:
        return np.where(known, values, _FILLERS[kind]).astype(DTYPES[kind])
    return pc.if_else(pa.array(known), values, pa.scalar(_FILLERS[kind], TEXTS[kind]))


def _joined(kind: Kind, parts: Sequence[tuple[Any, int]]) -> Any:
    if kind in DTYPES:
        dtype = DTYPES[kind]
        return np.concatenate([np.zeros(n, dtype) if part is None else part for part, n in parts])
    if sum(0 if part is None else part.nbytes for part, _ in parts) > _MOST_TEXT:
        return None
    return pa.concat_arrays(
        [pa.repeat(pa.scalar(_FILLERS[kind], TEXTS[kind]), n) if part is None else part for part, n in parts]
    )


def _joined_masks(parts: Sequence[tuple[Mask | None, ZoneVector]]) -> Mask | None:
    if all(mask is None and vector.kind != "none" for mask, vector in parts):
        return None
    return np.concatenate(
        [
            mask if mask is not None else np.full(len(vector), vector.kind != "none", np.bool_)
            for mask, vector in parts
        ]
    )
