"""Which members (or row groups) a predicate can't rule out, decided from their zones alone.

Asked is for which members there *may be a row* for which a node is true, or for which it is false: `not`
asks its part the other way round, so nothing needs to be rewritten. A mask errs only towards "may": an
unknown bound, an unknown null count or a bound of another kind than the literal's leaves it set. NaN lies
outside min and max and fails every comparison but `!=`, which bounds of floats therefore never rule out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any

from lading.late import np, pa, pc
from lading.model import Bound
from lading.where.tree import And, Compare, In, IsNull, Like, Not, Or, Predicate, like_prefix
from lading.zones.bounds import next_prefix
from lading.zones.numbers import COMPARED, Mask, Numbers, Packed, both, differ, either, same
from lading.zones.vector import ZoneVector

_FEW = 16  # values of an `in` list that are compared one by one
_KINDS = {"int": int, "float": float, "str": str, "bytes": bytes}
_ARROW = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}


_NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", "<=": ">", ">": "<="}

Load = Callable[[str], ZoneVector | None]
Rows = Numbers | Packed


def may_match(where: Predicate, load: Load, rows: Rows) -> Mask:
    """A mask over members: False only where no row can satisfy the bound predicate `where`.

    `load` gives a column's zones, or None when there are none; `rows` is the row count of each member.
    """
    return _may_be(True, where, load, rows)


def _may_be(truth: bool, where: Predicate, load: Load, rows: Rows) -> Mask:
    match where:
        case Not(part):
            return _may_be(not truth, part, load, rows)
        case And(parts) | Or(parts):
            # What makes all of them true, or one of an `or` false.
            together = both if isinstance(where, And) == truth else either
            return _joined((_may_be(truth, part, load, rows) for part in parts), together)
        case _:
            vector = load(where.column)
            return _all_of(rows) if vector is None else _leaf(truth, where, vector, rows)


def _leaf(truth: bool, where: Compare | In | IsNull | Like, zones: ZoneVector, rows: Rows) -> Mask:
    # Row counts and null counts are of the same rows; -1 (unknown) equals neither 0 nor a row count.
    if isinstance(where, IsNull):
        return differ(zones.nulls, 0 if truth else rows)
    found: Mask
    match where:
        case Compare(_, op, value):
            found = _compare(truth, zones, op, value)
        case In(_, values):
            found = _in(truth, zones, values)
        case Like(_, pattern):
            found = _like(truth, zones, pattern)
    return both(found, differ(zones.nulls, rows))


def _compare(truth: bool, zones: ZoneVector, op: str, value: Bound) -> Mask:
    if not _comparable(zones, value):
        return _all_of(zones)
    # A NaN may be there: it makes `!=` true, and every other comparison false.
    if zones.kind == "float" and (op == "!=") == truth:
        return _all_of(zones)
    if not truth:
        op = _NEGATED[op]
    if op == "=":
        return both(_low(zones, "<=", value), _high(zones, ">=", value))
    if op == "!=":  # all values are equal to it only if both bounds are
        return either(_low(zones, "<", value), _high(zones, ">", value))
    return _low(zones, op, value) if op in ("<", "<=") else _high(zones, op, value)


def _in(truth: bool, zones: ZoneVector, values: Sequence[Bound]) -> Mask:
    if not values:
        return same(len(zones), not truth)
    if not all(_comparable(zones, value) for value in values):
        return _all_of(zones)
    if len(values) <= _FEW:
        each = (_compare(truth, zones, "=", value) for value in values)
        return _joined(each, either if truth else both)
    if not truth:
        return _all_of(zones)
    ordered: list[Any] = sorted(values)
    inside = both(_low(zones, "<=", ordered[-1]), _high(zones, ">=", ordered[0]))
    if zones.kind in ("int", "float"):
        mins, maxs = np.asarray(zones.mins), np.asarray(zones.maxs)
        listed = np.array(ordered, mins.dtype)
        # The least listed value at or above min must not be above max.
        at = np.searchsorted(listed, mins)
        hit = (at < len(listed)) & (listed[np.minimum(at, len(listed) - 1)] <= maxs)
        unknown = ~_known(zones.has_min, len(zones)) | ~_known(zones.has_max, len(zones))
        inside = both(inside, hit | unknown)
    return inside


def _like(truth: bool, zones: ZoneVector, pattern: str) -> Mask:
    prefix, rest = like_prefix(pattern)
    if not rest:
        return _compare(truth, zones, "=", prefix)
    if not _comparable(zones, prefix):
        return _all_of(zones)
    above = next_prefix(prefix)
    if truth:
        found = _high(zones, ">=", prefix)
        return found if above is None else both(found, _low(zones, "<", above))
    if rest != "%":
        return _all_of(zones)
    found = _low(zones, "<", prefix)
    return found if above is None else either(found, _high(zones, ">=", above))


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
    if isinstance(bounds, Packed):
        result = bounds.holds(op, value)
    elif zones.kind in ("int", "float"):
        result = COMPARED[op](bounds, value)
    else:
        compared = pc.call_function(_ARROW[op], [bounds, pa.scalar(value, bounds.type)])
        result = compared.to_numpy(zero_copy_only=False)
    return result if known is None else result | ~known


def _known(mask: Mask | None, count: int) -> Mask:
    return np.ones(count, np.bool_) if mask is None else mask


def _all_of(members: Sized) -> Mask:
    return same(len(members), True)


def _joined(masks: Iterator[Mask], together: Callable[[Mask, Mask], Mask]) -> Mask:
    """Once nothing is possible any more, what is left isn't looked at, nor its zones loaded."""
    found = next(masks)
    while together is either or found.any():
        mask = next(masks, None)
        if mask is None:
            break
        found = together(found, mask)
    return found
