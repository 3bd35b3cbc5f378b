"""What holds for all members of a page together: a predicate that rules it out rules out each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lading.late import np, pa, pc
from lading.model import Bound, Zone
from lading.zones.numbers import Mask
from lading.zones.vector import ZoneVector

if TYPE_CHECKING:
    import numpy.typing as npt


def summary_of(vector: ZoneVector, rows: npt.NDArray[np.int64]) -> Zone:
    """One zone for all rows of some members; `rows` are each member's."""
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
