"""Which members (or row groups) a predicate can't rule out, decided from their zones alone.

For every node two masks are computed: members with a row for which it *may be true*, and members
with one for which it *may be false*. `not` swaps them, so nothing needs to be rewritten, and each mask
errs only towards "may": an unknown bound, an unknown null count or a bound of another kind than the
literal's leaves both set. NaN lies outside min and max and fails every comparison but `!=`, so on
floats "may be false" is never ruled out by bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lading.format.bounds import next_prefix
from lading.format.expression import And, Compare, In, IsNull, Like, Not, Or, Predicate, like_prefix
from lading.format.zones import Mask, ZoneVector
from lading.model import Bound

_FEW = 16  # values of an `in` list that are compared one by one
_KINDS = {"int": int, "float": float, "str": str, "bytes": bytes}
_NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_ARROW: dict[str, Callable[[Any, Any], Any]] = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


class _May(NamedTuple):
    be_true: Mask
    be_false: Mask


Load = Callable[[str], ZoneVector | None]


def may_match(where: Predicate, load: Load, rows: npt.NDArray[np.int64]) -> Mask:
    """A mask over members: False only where no row can satisfy the bound predicate `where`.

    `load` gives a column's zones, or None when there are none; `rows` is the row count of each member.
    """
    return _may(where, load, rows).be_true


def _may(where: Predicate, load: Load, rows: npt.NDArray[np.int64]) -> _May:
    match where:
        case And(parts):
            each = [_may(part, load, rows) for part in parts]
            return _May(_all([m.be_true for m in each]), _any([m.be_false for m in each]))
        case Or(parts):
            each = [_may(part, load, rows) for part in parts]
            return _May(_any([m.be_true for m in each]), _all([m.be_false for m in each]))
        case Not(part):
            inner = _may(part, load, rows)
            return _May(inner.be_false, inner.be_true)
        case _:
            vector = load(where.column)
            return _anything(len(rows)) if vector is None else _leaf(where, vector, rows)


def _leaf(where: Compare | In | IsNull | Like, zones: ZoneVector, rows: npt.NDArray[np.int64]) -> _May:
    # Row counts and null counts are of the same rows; -1 (unknown) equals neither 0 nor a row count.
    some_value = zones.nulls != rows
    if isinstance(where, IsNull):
        return _May(zones.nulls != 0, some_value)
    match where:
        case Compare(_, op, value):
            may = _compare(zones, op, value)
        case In(_, values):
            may = _in(zones, values)
        case Like(_, pattern):
            may = _like(zones, pattern)
    return _May(may.be_true & some_value, may.be_false & some_value)


def _compare(zones: ZoneVector, op: str, value: Bound) -> _May:
    if not _comparable(zones, value):
        return _anything(len(zones))
    if op == "!=":
        equal = _compare(zones, "=", value)
        return _May(equal.be_false, equal.be_true)
    if op == "=":
        be_true = _low(zones, "<=", value) & _high(zones, ">=", value)
        # All values are equal to it only if both bounds are.
        be_false = _low(zones, "<", value) | _high(zones, ">", value)
    elif op in ("<", "<="):
        be_true = _low(zones, op, value)
        be_false = _high(zones, ">=" if op == "<" else ">", value)
    else:
        be_true = _high(zones, op, value)
        be_false = _low(zones, "<=" if op == ">" else "<", value)
    return _May(be_true, _with_nan(zones, be_false))


def _in(zones: ZoneVector, values: Sequence[Bound]) -> _May:
    if not values:
        return _May(np.zeros(len(zones), np.bool_), np.ones(len(zones), np.bool_))
    if not all(_comparable(zones, value) for value in values):
        return _anything(len(zones))
    if len(values) <= _FEW:
        each = [_compare(zones, "=", value) for value in values]
        return _May(_any([m.be_true for m in each]), _all([m.be_false for m in each]))
    ordered: list[Any] = sorted(values)
    inside = _low(zones, "<=", ordered[-1]) & _high(zones, ">=", ordered[0])
    if zones.kind in ("int", "float"):
        listed = np.array(ordered, zones.mins.dtype)
        # The least listed value at or above min must not be above max.
        at = np.searchsorted(listed, zones.mins)
        hit = (at < len(listed)) & (listed[np.minimum(at, len(listed) - 1)] <= zones.maxs)
        inside &= hit | ~_known(zones.has_min, len(zones)) | ~_known(zones.has_max, len(zones))
    return _May(inside, np.ones(len(zones), np.bool_))


def _like(zones: ZoneVector, pattern: str) -> _May:
    prefix, rest = like_prefix(pattern)
    if not rest:
        return _compare(zones, "=", prefix)
    if not _comparable(zones, prefix):
        return _anything(len(zones))
    above = next_prefix(prefix)
    be_true = _high(zones, ">=", prefix)
    be_false = _low(zones, "<", prefix)
    if above is not None:
        be_true &= _low(zones, "<", above)
        be_false |= _high(zones, ">=", above)
    return _May(be_true, be_false if rest == "%" else np.ones(len(zones), np.bool_))


def _comparable(zones: ZoneVector, value: Bound) -> bool:
    if type(value) is not _KINDS.get(zones.kind):
        return False
    # A vector holds 64 bits; older numpy compares more than that as floats.
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _low(zones: ZoneVector, op: str, value: Any) -> Mask:
    """Whether min `op` value may hold: yes where min is unknown."""
    return _holds(zones, zones.mins, zones.has_min, op, value)


def _high(zones: ZoneVector, op: str, value: Any) -> Mask:
    return _holds(zones, zones.maxs, zones.has_max, op, value)


def _holds(zones: ZoneVector, bounds: Any, known: Mask | None, op: str, value: Any) -> Mask:
    result: Mask
    if zones.kind in ("int", "float"):
        result = _NUMPY[op](bounds, value)
    else:
        result = _ARROW[op](bounds, pa.scalar(value, bounds.type)).to_numpy(zero_copy_only=False)
    return result if known is None else result | ~known


def _with_nan(zones: ZoneVector, mask: Mask) -> Mask:
    return np.ones(len(zones), np.bool_) if zones.kind == "float" else mask


def _known(mask: Mask | None, count: int) -> Mask:
    return np.ones(count, np.bool_) if mask is None else mask


def _anything(count: int) -> _May:
    return _May(np.ones(count, np.bool_), np.ones(count, np.bool_))


def _all(masks: Sequence[Mask]) -> Mask:
    result: Mask = np.logical_and.reduce(masks)
    return result


def _any(masks: Sequence[Mask]) -> Mask:
    result: Mask = np.logical_or.reduce(masks)
    return result
