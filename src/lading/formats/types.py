"""Types as the schema files write them: Spark's DDL, in one spelling each.

`schema/<table>.yaml` is edited by people, so other spellings that Spark takes (`long`, `INTEGER`) are
read and turned into the one that the rest of lading compares.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

NO_VALUE = "string: no value in any file"  # the evidence for a column of which nothing was seen

_ATOMS = {
    "boolean": "boolean",
    "byte": "tinyint",
    "tinyint": "tinyint",
    "short": "smallint",
    "smallint": "smallint",
    "int": "int",
    "integer": "int",
    "long": "bigint",
    "bigint": "bigint",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "decimal": "decimal(10,0)",
    "dec": "decimal(10,0)",
    "numeric": "decimal(10,0)",
}
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|(\w+)|([<>(),:]))")


def canonical_type(text: str) -> str:
    """The one spelling of a type; ValueError says what is wrong with it."""
    tokens = _tokens(text)
    parsed = _parse(tokens)
    if tokens:
        raise ValueError(f"{tokens[0]!r} follows a complete type")
    if re.search(r"(?:^|[<,:])void(?:$|[>,])", parsed):
        raise ValueError(f"{VOID!r} can't be stored; use string")
    return parsed


def struct_type(fields: dict[str, str]) -> str:
    inner = ",".join(f"{_quoted(name)}:{kind}" for name, kind in fields.items())
    return f"struct<{inner}>"


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
VOID = "void"  # nothing but nulls: fits every type


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
    return "string"


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


def settled(kind: str) -> str:
    """A type that was seen, as one to be pinned: integers are bigint, nothing but nulls is string."""
    if is_nested(kind):
        return nested_type(kind, {name: settled(inner) for name, inner in inner_types(kind).items()})
    return "bigint" if kind in _INTEGERS else "string" if kind == VOID else kind


def without_void(kind: str) -> str:
    """A type that was seen, as one that can be stored: nothing but nulls is string."""
    if is_nested(kind):
        return nested_type(kind, {name: without_void(inner) for name, inner in inner_types(kind).items()})
    return "string" if kind == VOID else kind


def case_clash(names: Sequence[str]) -> tuple[str, str] | None:
    """The first two names that Spark takes for one."""
    seen: dict[str, str] = {}
    for name in names:
        if (low := name.lower()) in seen:
            return seen[low], name
        seen[low] = name
    return None


def _clash_text(one: str, other: str) -> str:
    if one == other:
        return f"the struct has two fields named {one!r}"
    return f"the struct has fields named {one!r} and {other!r}, which Spark can't tell apart"


def inner_types(kind: str) -> dict[str, str]:
    """The types inside a nested one, by field; those of arrays and maps by position."""
    tokens = _tokens(kind)
    shape = _next(tokens)
    if shape == "struct":
        return _fields(tokens)
    _expect(tokens, "<")
    inner = {"0": _parse(tokens)}
    if shape == "map":
        _expect(tokens, ",")
        inner["1"] = _parse(tokens)
    return inner


def _decimal_widens(narrow: str, wide: str) -> bool:
    sizes = [re.fullmatch(r"decimal\((\d+),(\d+)\)", text) for text in (narrow, wide)]
    if sizes[0] is None or sizes[1] is None:
        return False
    (p0, s0), (p1, s1) = ((int(size[1]), int(size[2])) for size in sizes if size)
    return s1 >= s0 and p1 - s1 >= p0 - s0


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else "`" + name.replace("`", "``") + "`"


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    stripped = text.rstrip()
    while at < len(stripped):
        match = _TOKEN.match(stripped, at)
        if match is None:
            raise ValueError(f"{stripped[at:].strip()[:1]!r} can't be part of a type")
        tokens.append(match[1] or match[2] or match[3])
        at = match.end()
    return tokens


def _next(tokens: list[str]) -> str:
    if not tokens:
        raise ValueError("it ends too early")
    return tokens.pop(0)


def _expect(tokens: list[str], wanted: str) -> None:
    token = _next(tokens)
    if token != wanted:
        raise ValueError(f"expected {wanted!r}, found {token!r}")


def _parse(tokens: list[str]) -> str:
    name = _next(tokens).lower()
    if name in ("decimal", "dec", "numeric") and tokens[:1] == ["("]:
        return _decimal(tokens)
    if name in _ATOMS:
        return _ATOMS[name]
    if name == VOID:
        return VOID
    if name == "array":
        _expect(tokens, "<")
        inner = _parse(tokens)
        _expect(tokens, ">")
        return f"array<{inner}>"
    if name == "map":
        _expect(tokens, "<")
        key = _parse(tokens)
        _expect(tokens, ",")
        value = _parse(tokens)
        _expect(tokens, ">")
        return f"map<{key},{value}>"
    if name == "struct":
        return _struct(tokens)
    raise ValueError(
        f"{name!r} is not a type; valid types are {', '.join(sorted(set(_ATOMS.values())))}, "
        "decimal(p,s), array<…>, map<…,…>, struct<name:…>"
    )


def _decimal(tokens: list[str]) -> str:
    _expect(tokens, "(")
    precision, scale = _number(tokens), 0
    if tokens[:1] == [","]:
        tokens.pop(0)
        scale = _number(tokens)
    _expect(tokens, ")")
    if not 1 <= precision <= 38 or scale > precision:
        raise ValueError(f"decimal({precision},{scale}) is outside 1 <= p <= 38, s <= p")
    return f"decimal({precision},{scale})"


def _number(tokens: list[str]) -> int:
    token = _next(tokens)
    if not token.isdecimal():
        raise ValueError(f"expected a number, found {token!r}")
    return int(token)


def _struct(tokens: list[str]) -> str:
    return struct_type(_fields(tokens))


def _fields(tokens: list[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    _expect(tokens, "<")
    while tokens[:1] != [">"]:
        if fields:
            _expect(tokens, ",")
        name = _next(tokens)
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        if (clash := case_clash([*fields, name])) is not None:
            raise ValueError(_clash_text(*clash))
        _expect(tokens, ":")
        fields[name] = _parse(tokens)
    tokens.pop(0)
    return fields
