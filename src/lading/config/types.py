"""Types as people write them, in lading.yaml and in schema files: Spark's DDL, in one spelling each.

Other spellings that Spark takes (`long`, `INTEGER`) are read and turned into the one that the rest of lading
compares.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

VOID = "void"  # nothing but nulls: fits every type

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
