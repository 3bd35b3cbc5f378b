"""A type as msgspec parses it and as Arrow holds it: objects, lists and maps of plain values.

msgspec checks the shape and gives plain values as they are written; they become Arrow's a column at a time,
at any depth. Every part counts the keys that it found, so that one which is written twice shows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET, UnsetType

from lading.config.names import EXACT, Naming
from lading.config.types import inner_types
from lading.errors import ConfigError
from lading.formats.arrow_types import arrow_type
from lading.formats.json.leaves import Leaf, Values, left_out
from lading.formats.json.structure import keys_in
from lading.formats.values import Texts
from lading.model import Column

_STRANGE = re.compile(r'["\\\x00-\x1f]')


def node_of(column: Column, texts: Texts, *, takes_new: bool, quoted: bool = False) -> Node:
    """The type of a column, with what was inferred all the way down. `quoted`: numbers may be in quotes."""

    def inner(dtype: str) -> Node:
        column_inside = Column(column.name, dtype, inferred=column.inferred)
        return node_of(column_inside, texts, takes_new=takes_new, quoted=quoted)

    dtype = column.type
    if dtype.startswith("struct<"):
        return Struct({name: inner(kind) for name, kind in inner_types(dtype).items()}, takes_new=takes_new)
    if dtype.startswith("array<"):
        return ListOf(inner(inner_types(dtype)["0"]), arrow_type(dtype))
    if dtype.startswith("map<"):
        kinds = inner_types(dtype)
        if kinds["0"] != "string":
            raise ConfigError(
                f"column {column.name!r} is {dtype}, but the keys of JSON objects are text",
                hint=f"make it map<string,{kinds['1']}> in the table's schema file",
            )
        return MapOf(inner(kinds["1"]), arrow_type(dtype))
    return Leaf(column, texts, quoted=quoted)


class Struct:
    """An object. With `takes_new` it may have keys that it does not name, and a `naming` says which field a
    key is that is spelled otherwise; keys of either kind that were `learned` are parsed too."""

    default: Any = UNSET

    def __init__(self, fields: dict[str, Node], *, takes_new: bool, naming: Naming | None = None) -> None:
        self.fields, self.takes_new = fields, takes_new
        self.learned: dict[str, str | None] = {}  # the field that a key is; None: it is left out
        self._naming = naming
        self.respells = naming is not None and naming != EXACT
        self._in_lower_case = {name.lower(): name for name in fields} if naming is not None else {}
        self.type: pa.DataType = pa.struct([pa.field(name, node.type) for name, node in fields.items()])
        self.by_hand = False
        if not all(map(may_be_parsed, fields)):
            _take_by_hand(self)

    def inside(self, name: str) -> Node | None:
        return self.fields.get(name)

    def field_of(self, key: str) -> str | None:
        if key in self.fields or self._naming is None:
            return key if key in self.fields else None
        name = self._naming.column_of(key)
        return name if name in self.fields else None

    def alike(self, key: str) -> str | None:
        """The column that a key which is none differs from only in case."""
        return self._in_lower_case.get(key.lower())

    def parsed(self, *, strict: bool) -> Any:
        """The class of msgspec's, which refuses other keys or skips them."""
        if self.by_hand:
            return dict[str, msgspec.Raw]
        known = [(name, _in_field(node, strict), node.default) for name, node in self.fields.items()]
        for key, name in self.learned.items():
            node = None if name is None else self.fields[name]
            of_field = (
                (msgspec.Raw, Leaf.default) if node is None else (_in_field(node, strict), node.default)
            )
            known.append((key, *of_field))
        fields = [
            (f"f{number}", kind, msgspec.field(default=default, name=name))
            for number, (name, kind, default) in enumerate(known)
        ]
        return msgspec.defstruct("Object", fields, forbid_unknown_fields=strict, gc=False)

    def read(self, values: Sequence[Any]) -> Values:
        there, missing, inner = _present(values)
        found = self.read_fields(inner)
        arrays = [one.array for one in found[: len(self.fields)]]
        if len(inner) < len(values):
            places = pa.array(np.cumsum(there) - 1, mask=~there)
            arrays = [array.take(places) for array in arrays]
        array = pa.Array.from_buffers(self.type, len(values), [_validity(there)], children=arrays)
        keys, misfit, ignored = (_spread(one, there) for one in summed(found, len(inner)))
        return Values(array, missing, misfit, keys, ignored)

    def read_fields(self, objects: Sequence[Any]) -> list[Values]:
        """The values of each field, and behind them those of keys that are left out."""
        if self.by_hand:
            if self.respells:
                objects = [{self.field_of(key) or key: text for key, text in one.items()} for one in objects]
            return [self._field_of(objects, name, node) for name, node in self.fields.items()] + [
                self._others_of(objects)
            ]
        # An object that was parsed before a key was learned lacks it.
        learned = list(enumerate(self.learned.values(), start=len(self.fields)))
        found = []
        for number, (name, node) in enumerate(self.fields.items()):
            values = list(map(attrgetter(f"f{number}"), objects))
            for other in (at for at, field in learned if field == name):
                values = [
                    getattr(one, f"f{other}", node.default) if value is node.default else value
                    for one, value in zip(objects, values, strict=True)
                ]  # of two that stand in an object, the one that is not taken shows in the number of keys
            found.append(node.read(values))
        for number in (at for at, field in learned if field is None):
            found.append(left_out([getattr(one, f"f{number}", Leaf.default) for one in objects]))
        return found

    def _field_of(self, objects: Sequence[dict[str, Any]], name: str, node: Node) -> Values:
        texts = [one.get(name, Leaf.default) for one in objects]
        if isinstance(node, Leaf):
            return node.read(texts)
        decode = msgspec.json.Decoder(_in_list(node, strict=True)).decode
        values: list[Any] = []
        failed = np.zeros(len(texts), bool)
        for at, text in enumerate(texts):
            try:
                values.append(decode(text) if len(text) else UNSET)
            except (msgspec.ValidationError, RecursionError):
                values.append(UNSET)
                failed[at] = True
        found = node.read(values)
        return replace(found, misfit=failed | (False if found.misfit is None else found.misfit))

    def _others_of(self, objects: Sequence[dict[str, Any]]) -> Values:
        """Of the keys that are no fields."""
        others = [{key: text for key, text in one.items() if key not in self.fields} for one in objects]
        keys = np.array([len(one) + int(keys_in([b",".join(one.values())])[0]) for one in others], np.int64)
        there = keys > 0
        alike = np.array([any(map(self.alike, one)) for one in others], bool)
        return Values(
            pa.nulls(len(objects)),
            missing=np.ones(len(objects), bool),
            misfit=alike if self.takes_new else there,
            keys=keys,
            ignored=there if self.takes_new else None,
        )


class ListOf:
    default: Any = UNSET

    def __init__(self, element: Node, kind: pa.DataType) -> None:
        self.element, self.type = element, kind

    def read(self, values: Sequence[Any]) -> Values:
        there, missing, inner = _present(values)
        found = self.element.read(list(chain.from_iterable(inner)))
        return _gathered(self.type, found.array, found, _lengths(there, inner), there, missing)


class MapOf:
    default: Any = UNSET
    takes_new = False

    def __init__(self, value: Node, kind: pa.DataType) -> None:
        self.value, self.type = value, kind

    def inside(self, name: str) -> Node | None:
        return self.value

    def read(self, values: Sequence[Any]) -> Values:
        there, missing, inner = _present(values)
        names = pa.array(list(chain.from_iterable(inner)), pa.string())
        found = self.value.read(list(chain.from_iterable(one.values() for one in inner)))
        fields = [self.type.key_field, self.type.item_field]
        entries = pa.StructArray.from_arrays([names, found.array], fields=fields)
        keys = np.ones(len(names), np.int64) + (0 if found.keys is None else found.keys)
        found = replace(found, keys=keys)
        return _gathered(self.type, entries, found, _lengths(there, inner), there, missing)


Node = Leaf | Struct | ListOf | MapOf


def may_be_parsed(name: str) -> bool:
    """Whether msgspec takes it for the name of a field."""
    return not _STRANGE.search(name)


def _take_by_hand(node: Node) -> None:
    """Objects with strange names, and those inside of them, are taken apart here."""
    if isinstance(node, Struct):
        node.by_hand = True
        for inner in node.fields.values():
            _take_by_hand(inner)
    elif isinstance(node, ListOf):
        _take_by_hand(node.element)
    elif isinstance(node, MapOf):
        _take_by_hand(node.value)


def summed(found: Sequence[Values], count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the fields of `count` objects: how many keys each has inside, whether any of its values is a misfit,
    and whether any key is left out."""
    keys = np.full(count, len(found), np.int64)
    misfit, ignored = np.zeros(count, bool), np.zeros(count, bool)
    for one in found:
        keys -= one.missing
        if one.keys is not None:
            keys += one.keys
        if one.misfit is not None:
            misfit |= one.misfit
        if one.ignored is not None:
            ignored |= one.ignored
    return keys, misfit, ignored


def _in_field(node: Node, strict: bool) -> Any:
    return node.annotation if isinstance(node, Leaf) else _in_list(node, strict) | UnsetType


def _in_list(node: Node, strict: bool) -> Any:
    if isinstance(node, Leaf):
        return node.annotation
    if isinstance(node, ListOf):
        return list[_in_list(node.element, strict)] | None  # type: ignore[misc]
    if isinstance(node, MapOf):
        return dict[str, _in_list(node.value, strict)] | None  # type: ignore[misc]
    return node.parsed(strict=strict) | None


def _present(values: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """Where there is a value, where not even a key, and the values."""
    inner = [one for one in values if one is not None and one is not UNSET]
    if len(inner) == len(values):
        return np.ones(len(values), bool), np.zeros(len(values), bool), inner
    missing = np.fromiter((one is UNSET for one in values), bool, len(values))
    null = np.fromiter((one is None for one in values), bool, len(values))
    return ~(missing | null), missing, inner


def _lengths(there: np.ndarray, inner: Sequence[Any]) -> np.ndarray:
    lengths = np.zeros(len(there), np.int64)
    lengths[there] = np.fromiter(map(len, inner), np.int64, len(inner))
    return lengths


def _gathered(
    kind: pa.DataType,
    child: pa.Array,
    found: Values,
    lengths: np.ndarray,
    there: np.ndarray,
    missing: np.ndarray,
) -> Values:
    """Lists of the values that were found, each of its length."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [_validity(there), pa.py_buffer(offsets)]
    array = pa.Array.from_buffers(kind, len(lengths), buffers, children=[child])
    owners = np.repeat(np.arange(len(lengths)), lengths)

    def any_in(flags: np.ndarray | None) -> np.ndarray | None:
        return None if flags is None else np.bincount(owners[flags], minlength=len(lengths)) > 0

    keys = None
    if found.keys is not None:
        keys = np.zeros(len(lengths), np.int64)
        np.add.at(keys, owners, found.keys)
    return Values(array, missing, any_in(found.misfit), keys, any_in(found.ignored))


def _spread(inner: np.ndarray, there: np.ndarray) -> np.ndarray | None:
    """What is known of the values, for all places."""
    if not inner.any():
        return None
    if len(inner) == len(there):
        return inner
    full = np.zeros(len(there), inner.dtype)
    full[there] = inner
    return full


def _validity(there: np.ndarray) -> pa.Buffer | None:
    return None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
