"""What is wrong with a record that can't be read: the column to blame, if one is, and the reason.

Asked of bad records only, one at a time, with Python's own parser, which keeps a key that occurs twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from lading.formats.json.columns import ListOf, MapOf, Node, Struct
from lading.formats.json.structure import is_too_deep
from lading.formats.reasons import is_not, undecodable
from lading.model import Column


class Fault(NamedTuple):
    column: str | None
    reason: str
    of_value: bool = False  # whether it is a value's, which is none of its column's type


MISFIT = "does not fit the schema"
TOO_DEEP = "is nested too deeply to be read"

_REASON = 300  # characters of it
_HALF = re.compile("[\ud800-\udfff]")
_T = TypeVar("_T")


class Pairs(list[tuple[str, Any]]):
    """An object with all its keys, as often as they are written."""


class Number(str):
    """As it is written."""


def parsed(text: bytes) -> Any:
    """ValueError for what is not JSON, RecursionError for what is nested too deeply."""
    if is_too_deep(text):
        raise RecursionError
    return on_fresh_stack(_DECODER.decode, text.decode())


def on_fresh_stack(function: Callable[[Any], _T], value: Any) -> _T:
    """How deep a text may be nested must not depend on who calls."""
    try:
        return function(value)
    except RecursionError:
        with ThreadPoolExecutor(1) as fresh:
            return fresh.submit(function, value).result()


def fault(
    text: bytes,
    root: Struct,
    columns: dict[str, Column],
    misfits: Collection[str],
    why: str,
    last: Collection[str] = (),
) -> Fault:
    """`misfits` are columns with a value that is none of their type; `why` is for what looks well; the `last`
    columns are only to blame if no other is."""
    found = _fault(text, root, columns, misfits, last) or Fault(None, why)
    return found if len(found.reason) <= _REASON else found._replace(reason=f"{found.reason[:_REASON]}…")


def _fault(
    text: bytes, root: Struct, columns: dict[str, Column], misfits: Collection[str], last: Collection[str]
) -> Fault | None:
    try:
        record = parsed(text)
    except UnicodeDecodeError:
        return Fault(None, undecodable("UTF-8"))
    except ValueError as error:
        return Fault(None, f"is not one JSON object: {error}")
    except RecursionError:
        return Fault(None, TOO_DEEP)
    if not isinstance(record, Pairs):
        return Fault(None, "is not a JSON object")
    seen: dict[str, str] = {}
    for key, _ in record:
        name = root.field_of(key)
        other = root.alike(key)
        if name is None and (other is not None or not root.takes_new):
            near = "" if other is None else f" (there is {other!r}, which differs only in case)"
            return Fault(key, f"the key {key!r} is not in the schema{near}")
        if name is not None and key != (other := seen.get(name, key)):
            return Fault(name, f"has the keys {other!r} and {key!r}, which both mean the column {name!r}")
        if (name or key) in seen:
            return Fault(key, f"has the key {key!r} twice")
        seen[name or key] = key
    found = _misfits(record, root, columns, misfits)
    return min(found, key=lambda one: one.column in last, default=None)


def _misfits(
    record: Pairs, root: Struct, columns: dict[str, Column], misfits: Collection[str]
) -> Iterator[Fault]:
    """What is wrong with the values."""
    for key, value in record:
        name = root.field_of(key)
        if name is None:
            continue
        inside = _inside(value, root.fields[name], columns[name].type)
        if inside is _NOT_OF_ITS_TYPE or (inside is None and name in misfits):
            shown = _shown(value)
            said = f"{shown} {is_not(value if isinstance(value, str) else shown, columns[name])}"
            yield Fault(name, said, of_value=True)
        elif inside is not None:
            yield Fault(name, f"{key!r} {inside}", of_value=True)


def new_keys(value: Any, node: Node) -> Iterator[tuple[Struct, str]]:
    """The keys in a value that its type lacks, each with the part of the type that lacks it."""
    if isinstance(node, Struct) and isinstance(value, Pairs):
        for key, inner in value:
            name = node.field_of(key)
            if key not in node.fields:
                yield node, key
            if name is not None:
                yield from new_keys(inner, node.fields[name])
    elif isinstance(node, MapOf) and isinstance(value, Pairs):
        for _, inner in value:
            yield from new_keys(inner, node.value)
    elif isinstance(node, ListOf) and type(value) is list:
        for inner in value:
            yield from new_keys(inner, node.element)


_NOT_OF_ITS_TYPE = "is of another shape"
_HALVED = "has half of a character: an escape like \\ud800 without its other half"


def _inside(value: Any, node: Node, dtype: str) -> str | None:
    """What is wrong with the keys and the shape of a value in a column of the type."""
    if value is None:
        return None
    if isinstance(node, Struct | MapOf):
        return _inside_object(value, node, dtype)
    if isinstance(node, ListOf):
        if type(value) is not list:
            return _NOT_OF_ITS_TYPE
        return next((found for inner in value if (found := _inside(inner, node.element, dtype))), None)
    return _HALVED if _halved(value) else None


def _inside_object(value: Any, node: Struct | MapOf, dtype: str) -> str | None:
    if not isinstance(value, Pairs):
        return _NOT_OF_ITS_TYPE
    seen: set[str] = set()
    for name, inner in value:
        kind = node.inside(name)
        if kind is None and not node.takes_new:
            return f"has a key that is not in its type {dtype}"
        if name in seen:
            return f"has the key {name!r} twice"
        if _halved(name):
            return _HALVED
        seen.add(name)
        found = None if kind is None else _inside(inner, kind, dtype)
        if found is not None:
            return found
    return None


def _halved(value: Any) -> bool:
    if isinstance(value, str):
        return _HALF.search(value) is not None
    if isinstance(value, Pairs):
        return any(_halved(name) or _halved(inner) for name, inner in value)
    return isinstance(value, list) and any(map(_halved, value))


def _shown(value: Any) -> str:
    try:
        return _written(value)
    except RecursionError:
        return "what is nested so deeply"


def _written(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, Pairs):
        return "{" + ", ".join(f"{_written(name)}: {_written(inner)}" for name, inner in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return json.dumps(value, ensure_ascii=isinstance(value, str) and _halved(value))


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=Pairs, parse_int=Number, parse_float=Number, parse_constant=_refuse
)
