"""How types (config/types.py) relate: which is read as which, and what two of them have in common."""

from __future__ import annotations

import re

from lading.config.names import case_clash
from lading.config.types import VOID, inner_types, struct_type

NO_VALUE = "string: no value in any file"  # the evidence for a column of which nothing was seen

_WIDER = {
    "tinyint": ("smallint", "int", "bigint", "double"),
    "smallint": ("int", "bigint", "double"),
    "int": ("bigint", "double"),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}


def widens(narrow: str, wide: str) -> bool:
    """Whether values of type `narrow` are read as `wide` without losing anything."""
    if narrow in (wide, VOID) or wide in _WIDER.get(narrow, ()) or _decimal_widens(narrow, wide):
        return True
    if not (is_nested(narrow) and narrow.partition("<")[0] == wide.partition("<")[0]):
        return False
    these, those = inner_types(narrow), inner_types(wide)
    return list(these) == list(those) and all(widens(these[name], those[name]) for name in these)


_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = frozenset({*_INTEGERS, "float", "double"})
_DIGITS = 38  # of the widest decimal


def is_nested(kind: str) -> bool:
    return kind.startswith(("array<", "map<", "struct<"))


def joined(one: str, other: str) -> str | None:
    """The narrowest type that both can be read as; None when there is none.

    Numbers go from int over bigint to double, everything else that differs to string; structs get the
    fields of both.
    """
    if one == other or other == VOID or widens(other, one):
        return one
    if one == VOID or widens(one, other):
        return other
    if is_nested(one) or is_nested(other):
        return _joined_nested(one, other)
    if "binary" in (one, other):
        return None
    if one in _NUMBERS and other in _NUMBERS:
        return "double"
    return _joined_decimals(one, other) or "string"


def _joined_nested(one: str, other: str) -> str | None:
    shape = one.partition("<")[0]
    if other.partition("<")[0] != shape:
        return None
    (these, those) = (inner_types(one), inner_types(other))
    found: dict[str, str] = {}
    names = [*these, *(name for name in those if name not in these)]
    if case_clash(names) is not None:
        return None
    for name in names:
        inner = joined(these.get(name, VOID), those.get(name, VOID))
        if inner is None:
            return None
        found[name] = inner
    return nested_type(one, found)


def nested_type(like: str, inner: dict[str, str]) -> str:
    """A type of the shape of `like`, with other types inside."""
    shape = like.partition("<")[0]
    return struct_type(inner) if shape == "struct" else f"{shape}<{','.join(inner.values())}>"


def without_void(kind: str) -> str:
    """A type that was seen, as one that can be stored: nothing but nulls is string."""
    if is_nested(kind):
        return nested_type(kind, {name: without_void(inner) for name, inner in inner_types(kind).items()})
    return "string" if kind == VOID else kind


def _decimal_widens(narrow: str, wide: str) -> bool:
    return _joined_decimals(narrow, wide) == wide


def _joined_decimals(one: str, other: str) -> str | None:
    """The narrowest that holds both; None where one is no decimal, or that would have too many digits."""
    sizes = [re.fullmatch(r"decimal\((\d+),(\d+)\)", text) for text in (one, other)]
    if sizes[0] is None or sizes[1] is None:
        return None
    (p0, s0), (p1, s1) = ((int(size[1]), int(size[2])) for size in sizes if size)
    before, after = max(p0 - s0, p1 - s1), max(s0, s1)
    return f"decimal({before + after},{after})" if before + after <= _DIGITS else None
