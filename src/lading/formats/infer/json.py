"""Columns of JSON, nested ones included.

Every value is shown to a node of a tree. Text is kept aside and classified in batches by the same code
that looks at delimited text; JSON has numbers and booleans of its own, so '5' in quotes stays text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from lading.errors import SourceError
from lading.formats.infer.kinds import LONG, NULL, Kinds, spark_type
from lading.formats.json.path import path_of
from lading.formats.json.records import records_of
from lading.formats.opening import READ_ERRORS, limits_of, unreadable
from lading.formats.reader import WHOLE, Piece
from lading.formats.source_file import SourceFile
from lading.formats.types import NO_VALUE, VOID, case_clash, inner_types, struct_type
from lading.model import FoundFile

_BATCH = 4_096
_SHOWN = 40  # characters of a value
_INTEGERS = (("tinyint", 7), ("smallint", 15), ("int", 31), ("bigint", 64))
_EXACT_IN_DOUBLE = 10**15
_LEVELS = 10  # of objects and lists in a column; the text below stays text, or Spark plans for minutes
_TOO_DEEP = "nested too deeply"


@dataclass(slots=True)
class JsonSeen:
    """What was seen of all files."""

    root: _Node
    rows: int = 0
    problem: SourceError | None = None  # the first text that is no record; reading it says so again
    unread: int = 0  # files that can't be read to their end

    def types(self) -> dict[str, str]:
        return {name: child.type() for name, child in (self.root.fields or {}).items()}

    def raw_types(self) -> dict[str, str]:
        """As narrow as the values allow: `void` for nothing but nulls, `int` for small integers."""
        return {name: child.type(raw=True) for name, child in (self.root.fields or {}).items()}

    def because(self) -> dict[str, str]:
        return {name: child.because() for name, child in (self.root.fields or {}).items()}

    def decided(self, name: str) -> str:
        """The value that made a column what it is, for people."""
        return (self.root.fields or {})[name].decided()


def json_look(
    files: Sequence[FoundFile],
    read_options: Mapping[str, Any],
    *,
    limit: int | None,
    tolerant: bool = False,
    known: Mapping[str, str] | None = None,
) -> JsonSeen:
    """Look at all files; at `limit` bytes of each. `tolerant` passes over those that can't be read. `known`
    are types that were inferred before: what they were inferred from counts as seen."""
    place = _Place()
    seen = JsonSeen(_Node(Kinds.of(read_options), place))
    for name, dtype in (known or {}).items():
        seen.root.know(name, dtype)
    for found in files:
        place.key, place.row = found.key, 0
        records = _records(found, read_options, limit)
        try:
            for record in records:
                place.row += 1
                if isinstance(record, SourceError):
                    seen.problem = seen.problem or record
                else:
                    seen.root.see(record)
        except SourceError as error:
            if not tolerant:
                raise
            seen.problem = seen.problem or error
            seen.unread += 1
        seen.rows += place.row
    return seen


class _Place:
    """Where the record comes from that is being looked at."""

    __slots__ = ("key", "row")
    key: str
    row: int


class _Node:
    """What was seen at one place of the records: a kind of scalar, fields of objects, items of arrays."""

    __slots__ = (
        "_bits",
        "_grew",
        "_kind",
        "_kinds",
        "_level",
        "_place",
        "_step",
        "_texts",
        "_where",
        "fields",
        "items",
    )

    def __init__(self, kinds: Kinds, place: _Place, level: int = 0) -> None:
        self._level = level
        self._kinds = kinds
        self._place = place
        self._kind = NULL
        self._bits = 0  # of the largest integer
        self._texts: list[str] = []
        self._where: list[tuple[str, int]] = []  # of each text
        self._step: tuple[str, int, str] | None = None  # file, row and value that decided the kind
        self._grew = False
        self.fields: dict[str, _Node] | None = None
        self.items: _Node | None = None

    def know(self, name: str, dtype: str) -> None:
        """A field whose values so far made it this type."""
        child = _Node(self._kinds, self._place)
        self.fields = {**(self.fields or {}), name: child}
        if dtype.startswith("struct<"):
            child.fields = {}
            for inner, kind in inner_types(dtype).items():
                child.know(inner, kind)
        elif dtype.startswith("array<"):
            child.know("", inner_types(dtype)["0"])
            assert child.fields is not None
            child.items, child.fields = child.fields[""], None
        else:
            child._kind = dtype

    def see(self, value: Any) -> None:
        # Exact types, commonest first: this runs once a value.
        kind = type(value)
        if kind is str:
            if self._kind != "string":
                self._texts.append(value)
                self._where.append((self._place.key, self._place.row))
                if len(self._texts) >= _BATCH:
                    self._settle()
        elif self._level > _LEVELS and (kind is dict or kind is list):
            self._grow("string", self._place.key, self._place.row, _TOO_DEEP)
        elif kind is dict:
            fields = self.fields
            if fields is None:
                fields = self.fields = {}
            for name, inner in value.items():
                child = fields.get(name)
                if child is None:
                    child = fields[name] = _Node(self._kinds, self._place, self._level + 1)
                child.see(inner)
        elif kind is list:
            if self.items is None:
                self.items = _Node(self._kinds, self._place, self._level + 1)
            for inner in value:
                self.items.see(inner)
        elif value is not None:
            scalar = _scalar(value)
            if kind is int:
                self._bits = max(self._bits, value.bit_length())
            if scalar != self._kind:
                self._grow(scalar, self._place.key, self._place.row, str(value))

    def type(self, *, raw: bool = False) -> str:
        self._settle()
        if self._shapes() > 1:
            return "string"
        if self.items is not None:
            return f"array<{self.items.type(raw=raw)}>"
        if self.fields and case_clash(list(self.fields)) is None:
            return struct_type({name: child.type(raw=raw) for name, child in self.fields.items()})
        if self.fields:
            return "string"
        if raw and self._kind == NULL:
            return VOID
        if raw and self._kind == "bigint":
            return next(kind for kind, bits in _INTEGERS if self._bits <= bits)
        return spark_type(self._kind)

    def because(self) -> str:
        kind = self.type()
        if self._shapes() > 1:
            return "string: a mix of objects, lists and plain values"
        if self.fields and (clash := case_clash(list(self.fields))) is not None:
            return f"string: Spark can't tell apart its keys {clash[0]!r} and {clash[1]!r}"
        if self.items is not None or self.fields:
            return f"{kind}: as the values are"
        if self._step is None:
            return NO_VALUE
        if kind == "string" or self._grew:
            return f"{kind} because of {self.decided()}"
        return f"{kind} in all its values"

    def decided(self) -> str:
        if self._step is None:
            return "its values"
        key, row, value = self._step
        return f"row {row:,} of {key}: {value[:_SHOWN]!r}"

    def _shapes(self) -> int:
        return (self._kind != NULL) + (self.fields is not None) + (self.items is not None)

    def _grow(self, seen: str, key: str, row: int, value: str) -> None:
        grown = self._kinds.join(self._kind, seen)
        if grown != self._kind:
            self._grew = self._grew or self._kind != NULL
            self._kind, self._step = grown, (key, row, value)

    def _settle(self) -> None:
        if not self._texts:
            return
        values = pa.array(self._texts, pa.string())
        grown = self._kinds.join(self._kind, self._kinds.of_text(values, numbers=False))
        if grown != self._kind:
            at = self._first(values, grown)
            self._grow(grown, *self._where[at], self._texts[at])
        self._texts.clear()
        self._where.clear()

    def _first(self, values: pa.Array, grown: str) -> int:
        """The end of the shortest head of `values` that makes the kind what all of them make it."""
        least, most = 0, len(values) - 1
        while least < most:
            middle = (least + most) // 2
            head = self._kinds.of_text(values.slice(0, middle + 1), numbers=False)
            if self._kinds.join(self._kind, head) == grown:
                most = middle
            else:
                least = middle + 1
        return least


def _scalar(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "double"
    if -_EXACT_IN_DOUBLE < value < _EXACT_IN_DOUBLE:
        return "bigint"
    return LONG if -(1 << 63) <= value < 1 << 63 else "string"


def _records(
    found: FoundFile, read_options: Mapping[str, Any], limit: int | None
) -> Iterator[dict[str, Any] | SourceError]:
    """The objects of a file; what is none is a bad row when it is read, and says nothing of the types."""
    decode = msgspec.json.Decoder().decode
    multiline, path = bool(read_options.get("multiline")), path_of(read_options)
    piece = WHOLE if multiline or path else Piece(0, limit)
    file = SourceFile(found.key, found.path, found.size, limits=limits_of(found.path))
    try:
        for records in records_of(file, multiline=multiline, path=path, piece=piece):
            last = len(records.texts) - 1
            for at, text in enumerate(records.texts):
                line = int(records.lines[at])
                if records.broken is not None and at == last:
                    yield _not_json(found, line, records.broken)
                    continue
                try:
                    record = decode(text)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    yield _not_json(found, line, f"is not a JSON object: {_why(error)}")
                    continue
                if isinstance(record, dict):
                    yield record
                else:
                    yield _not_json(found, line, f"is not a JSON object: {_what(record)}")
    except READ_ERRORS as error:
        raise unreadable(found.path, error) from error


def _why(error: Exception) -> str:
    return _TOO_DEEP if isinstance(error, RecursionError) else str(error)


def _what(value: Any) -> str:
    return "it is an array" if isinstance(value, list) else "it is a single value"


def _not_json(found: FoundFile, line: int, why: str) -> SourceError:
    return SourceError(
        f"{found.key}, line {line}, {why}",
        hint="each record must be one object; fix the file, or set read_options: {multiline: true} if it is "
        "one array, or has objects that span lines, or read_options.records if its rows lie deeper",
        file=found.key,
    )
