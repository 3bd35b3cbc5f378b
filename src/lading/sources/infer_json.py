"""Columns of JSON, nested ones included.

Every value is shown to a node of a tree. Text is kept aside and classified in batches by the same code
that looks at delimited text; JSON has numbers and booleans of its own, so '5' in quotes stays text.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from lading.errors import SourceError
from lading.model import FoundFile
from lading.sources.kinds import LONG, NULL, Kinds, spark_type
from lading.sources.opening import READ_ERRORS, open_plain, unreadable
from lading.sources.spark_types import struct_type

_BATCH = 4_096
_EXACT_IN_DOUBLE = 10**15


def json_columns(
    files: Sequence[FoundFile], read_options: Mapping[str, Any], *, limit: int | None
) -> dict[str, str]:
    """Names and types over all files; `limit` bytes of each are looked at."""
    root = _Node(Kinds.of(read_options))
    for found in files:
        records = _documents(found) if read_options.get("multiline") else _lines(found, limit)
        for record in records:
            root.see(record)
    return {name: child.type() for name, child in (root.fields or {}).items()}


class _Node:
    """What was seen at one place: a kind of scalar, fields of objects, items of arrays."""

    __slots__ = ("_kind", "_kinds", "_texts", "fields", "items")

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._kind = NULL
        self._texts: list[str] = []
        self.fields: dict[str, _Node] | None = None
        self.items: _Node | None = None

    def see(self, value: Any) -> None:
        # Exact types, commonest first: this runs once a value.
        kind = type(value)
        if kind is str:
            if self._kind != "string":
                self._texts.append(value)
                if len(self._texts) >= _BATCH:
                    self._settle()
        elif kind is dict:
            fields = self.fields
            if fields is None:
                fields = self.fields = {}
            for name, inner in value.items():
                child = fields.get(name)
                if child is None:
                    child = fields[name] = _Node(self._kinds)
                child.see(inner)
        elif kind is list:
            if self.items is None:
                self.items = _Node(self._kinds)
            for inner in value:
                self.items.see(inner)
        elif value is not None:
            scalar = _scalar(value)
            if scalar != self._kind:
                self._kind = self._kinds.join(self._kind, scalar)

    def type(self) -> str:
        self._settle()
        shapes = (self._kind != NULL) + (self.fields is not None) + (self.items is not None)
        if shapes > 1:
            return "string"
        if self.items is not None:
            return f"array<{self.items.type()}>"
        if self.fields:
            return struct_type({name: child.type() for name, child in self.fields.items()})
        return spark_type(self._kind)

    def _settle(self) -> None:
        if self._texts:
            kind = self._kinds.of_text(pa.array(self._texts, pa.string()), numbers=False)
            self._kind = self._kinds.join(self._kind, kind)
            self._texts.clear()


def _scalar(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "double"
    if -_EXACT_IN_DOUBLE < value < _EXACT_IN_DOUBLE:
        return "bigint"
    return LONG if -(1 << 63) <= value < 1 << 63 else "string"


def _lines(found: FoundFile, limit: int | None) -> Iterator[dict[str, Any]]:
    decode = msgspec.json.Decoder().decode
    seen = 0
    try:
        with open_plain(found.path) as plain:
            for number, line in enumerate(plain, start=1):
                seen += len(line)
                if limit is not None and seen > limit and number > 1:
                    return
                text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                if text.isspace() or not text:
                    continue
                try:
                    record = decode(text)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise _not_json(found, number, str(error)) from error
                if not isinstance(record, dict):
                    raise _not_json(found, number, "it is not an object")
                yield record
    except READ_ERRORS as error:
        raise unreadable(found.path, error) from error


def _documents(found: FoundFile) -> Iterator[dict[str, Any]]:
    """One document a file: an object, or an array of them."""
    try:
        with open_plain(found.path) as plain:
            data = plain.read().removeprefix(codecs.BOM_UTF8)
    except READ_ERRORS as error:
        raise unreadable(found.path, error) from error
    if not data.strip():
        return
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SourceError(
            f"{found.key} is not JSON: {error}",
            hint="fix the file; without `multiline` each line is a document of its own",
            file=found.key,
        ) from error
    for position, record in enumerate(document if isinstance(document, list) else [document], start=1):
        if not isinstance(record, dict):
            raise SourceError(
                f"{found.key}: element {position} is not an object",
                hint="each record has to be an object with the columns as keys",
                file=found.key,
            )
        yield record


def _not_json(found: FoundFile, line: int, why: str) -> SourceError:
    return SourceError(
        f"{found.key}, line {line}, is not a JSON object: {why}",
        hint="each line has to be one object; fix the line, or set read_options: {multiline: true}",
        file=found.key,
    )
