"""Members in blocks: what is asked of all of them is answered for whole blocks first.

A state numbers its members in key order, and cuts every vector into blocks of the same members. For each
block there is one summary entry: a zone that holds for all of its members together. A predicate that rules
out a block's summary rules out its members, so what is read grows with what is asked for, not with the
table; and a block has a checksum of its own, so what isn't read needn't be checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lading.late import np, pa, pc
from lading.model import Bound, Zone
from lading.zones.numbers import Mask, Numbers
from lading.zones.vector import ZoneVector, pack

if TYPE_CHECKING:
    import numpy.typing as npt

BLOCK = 8192  # members
SUMMARY = -1  # the number that a vector's summary has instead of a block's


def block_count(members: int) -> int:
    return -(-members // BLOCK)


def blocks(members: int) -> Iterator[tuple[int, slice]]:
    """The number of each block and its members."""
    return ((number, span(number, members)) for number in range(block_count(members)))


def place_of(member: int) -> tuple[int, int]:
    """The block of a member, and its place there."""
    return divmod(member, BLOCK)


def span(block: int, members: int) -> slice:
    return slice(block * BLOCK, min((block + 1) * BLOCK, members))


def start_of(block: int) -> int:
    """The number of its first member."""
    return block * BLOCK


def numbers_at(chosen: Sequence[int], places: Numbers) -> Numbers:
    """The members at these places of some blocks laid end to end. Their numbers rise: only the last block of
    all may be short."""
    found: Numbers = np.asarray(chosen, np.int64)[places // BLOCK] * BLOCK + places % BLOCK
    return found


def summary_of(vector: ZoneVector, rows: npt.NDArray[np.int64]) -> ZoneVector:
    """One zone a block: what holds for all rows of its members."""
    whole = (_whole(vector.part(part), rows[part]) for _, part in blocks(len(vector)))
    return pack(list(whole))


def _whole(vector: ZoneVector, rows: npt.NDArray[np.int64]) -> Zone:
    nulls = int(vector.nulls.sum()) if (vector.nulls >= 0).all() else None
    # A member without a value has no bounds to add, and none to take away from the others.
    valued = vector.nulls != rows
    low = _end(vector.mins, vector.has_min, valued, "min")
    return Zone(low, _end(vector.maxs, vector.has_max, valued, "max"), nulls)


def _end(bounds: Any, known: Mask | None, valued: Mask, end: str) -> Bound | None:
    """The least or greatest of the bounds; None if one of them isn't known, or there is none."""
    if bounds is None or not valued.any() or (known is not None and (valued & ~known).any()):
        return None
    if isinstance(bounds, np.ndarray):
        found: Bound = (bounds[valued].min() if end == "min" else bounds[valued].max()).item()
        return found
    ends = pc.min_max(bounds.filter(pa.array(valued)))
    text: Bound = ends[end].as_py()
    return text
