"""What JSON holds, at any depth: its records a batch at a time, and of each place in them all values at once.

Text is classified by the same code that looks at delimited text; JSON has numbers and booleans of its own, so
'5' in quotes stays text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from types import NoneType
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from lading.config.names import EXACT, Naming
from lading.errors import SourceError
from lading.formats.evidence import ColumnEvidence, FileEvidence
from lading.formats.infer.kinds import LONG, Kinds
from lading.formats.infer.tally import Tally
from lading.formats.json.faults import on_fresh_stack
from lading.formats.json.path import path_of
from lading.formats.json.records import Records, records_of
from lading.formats.json.structure import is_too_deep
from lading.formats.magic import HEAD, refuse_no_text
from lading.formats.opening import READ_ERRORS, unreadable
from lading.formats.reader import WHOLE, Piece, ReadSpec
from lading.formats.source_file import SourceFile
from lading.formats.text_shapes import EXACT_DIGITS
from lading.model import ColumnRule

_LEVELS = 10  # of objects and lists in a column; the text below stays text, or Spark plans for minutes
_BATCH = 2_048  # records
_SPARSE = 8  # times as many keys as an object has, if it had all of its batch
_TOO_DEEP = "nested too deeply"


def look_at_json(file: SourceFile, spec: ReadSpec, limit: int | None) -> FileEvidence:
    """What is no object is a bad row when it is read, and says nothing of the types."""
    root = _Node(Kinds.of(spec.options))
    for rule in spec.rules:
        root.expect(rule, spec.options)
    rows = 0
    for batch in _batches(file, spec.options, limit):
        if spec.naming != EXACT:
            batch.respell(spec.naming)
        rows += len(batch.objects)
        root.see_objects(batch.objects, np.arange(len(batch.objects)), batch)
    return FileEvidence(rows, root.fields(rows))


def problem_of(file: SourceFile, options: Mapping[str, Any], limit: int | None) -> SourceError | None:
    """What is wrong with the first text that is no object."""
    problems = (batch.problem for batch in _batches(file, options, limit))
    return next((one for one in problems if one is not None), None)


@dataclass(slots=True)
class _Batch:
    """Records that follow each other."""

    objects: list[dict[str, Any]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    problem: SourceError | None = None
    _minus: np.ndarray | None = None

    def place(self, at: int) -> tuple[int, int]:
        return self.rows[at], self.lines[at]

    def respell(self, naming: Naming) -> None:
        """Give the objects the columns' names as their keys. One with two keys for the same is a bad row."""
        columns = {key: naming.column_of(key) for key in set(chain.from_iterable(self.objects))}
        named = [{columns[key]: value for key, value in one.items()} for one in self.objects]
        fine = [at for at, one in enumerate(named) if len(one) == len(self.objects[at])]
        self.objects = [named[at] for at in fine]
        self.rows, self.lines = [self.rows[at] for at in fine], [self.lines[at] for at in fine]
        self.texts = [self.texts[at] for at in fine]

    def minus_zero(self) -> np.ndarray:
        """Which of them may hold -0, an integer that is written in more than one way."""
        if self._minus is None:
            data = b"\0".join([*self.texts, b""])
            codes = np.frombuffer(data, np.uint8)
            found = np.flatnonzero((codes[:-1] == ord("-")) & (codes[1:] == ord("0")))
            found = found[~np.isin(codes[found + 2], np.frombuffer(b".eE", np.uint8))]
            found = found[np.isin(codes[found - 1], np.frombuffer(b" \t\r\n:,[", np.uint8))]
            ends = np.cumsum([len(text) + 1 for text in self.texts])
            self._minus = np.zeros(len(self.texts), bool)
            self._minus[np.searchsorted(ends, found, side="right")] = True
        return self._minus


class _Node:
    """What was seen at one place of the records."""

    __slots__ = (
        "_expected",
        "_fields",
        "_items",
        "_kinds",
        "_level",
        "_objects",
        "_quoted",
        "_tally",
        "values",
    )

    def __init__(self, kinds: Kinds, level: int = 0, *, quoted: bool = False) -> None:
        """`quoted`: numbers may stand in quotes."""
        self._expected: dict[str, _Node] = {}
        self._kinds = kinds
        self._quoted = quoted
        self._level = level
        self._tally = Tally(kinds)
        self._fields: dict[str, _Node] = {}
        self._items: _Node | None = None
        self._objects = 0
        self.values = 0  # that are not null

    def expect(self, rule: ColumnRule, options: Mapping[str, Any]) -> None:
        """What lading.yaml says of a field, should there be one."""
        quoted = rule.decimal is not None
        self._expected[rule.name] = _Node(Kinds.of(options, rule), self._level + 1, quoted=quoted)

    def see(self, values: Sequence[Any], places: np.ndarray, batch: _Batch) -> None:
        """`places` are those of the records in the batch that the values stand in."""
        kinds = set(map(type, values))
        if len(kinds) == 1:
            self._see(kinds.pop(), values, places, batch)
            return
        for kind in sorted(kinds, key=lambda kind: (kind is not str, kind.__name__)):
            some = [at for at, value in enumerate(values) if type(value) is kind]
            self._see(kind, [values[at] for at in some], places[some], batch)

    def _see(self, kind: type, values: Sequence[Any], places: np.ndarray, batch: _Batch) -> None:
        nulls = self._kinds.texts.nulls
        if kind is str and nulls:
            some = [at for at, value in enumerate(values) if value not in nulls]
            self._tally.nulls += len(values) - len(some)
            values, places = [values[at] for at in some], places[some]
        if kind is NoneType:
            self._tally.nulls += len(values)
        if kind is NoneType or not values:
            return
        self.values += len(values)
        if kind is str:
            texts = pa.array(values, pa.string())
            self._tally.see_texts(texts, lambda at: batch.place(places[at]), numbers=self._quoted)
        elif kind is int:
            self._integers(values, places, batch)
        elif kind is float or kind is bool:
            # How a fraction was written is forgotten by now.
            name = "boolean" if kind is bool else "double"
            self._tally.add(name, len(values), _first(values, places, batch), plain=kind is bool)
        elif self._level > _LEVELS:
            self._tally.add_strings(len(values), *batch.place(places[0]), _TOO_DEEP)
        elif kind is dict:
            self._tally.add("struct", len(values), _first(values, places, batch))
            self.see_objects(values, places, batch)
        else:
            self._tally.add("array", len(values), _first(values, places, batch))
            self._see_lists(values, places, batch)

    def see_objects(self, objects: Sequence[dict[str, Any]], places: np.ndarray, batch: _Batch) -> None:
        self._objects += len(objects)
        names = dict.fromkeys(chain.from_iterable(objects))
        if len(names) * len(objects) > _SPARSE * sum(map(len, objects)):
            self._see_sparse(names, objects, places, batch)
            return
        for name in names:
            there = places
            try:
                values = list(map(itemgetter(name), objects))
            except KeyError:
                there = places[[name in one for one in objects]]
                values = [one[name] for one in objects if name in one]
            self._field(name).see(values, there, batch)

    def _see_sparse(
        self,
        names: Iterable[str],
        objects: Sequence[dict[str, Any]],
        places: np.ndarray,
        batch: _Batch,
    ) -> None:
        """Of objects that have few of the keys each: in time that grows with the keys that there are."""
        found: dict[str, tuple[list[Any], list[int]]] = {name: ([], []) for name in names}
        for at, one in enumerate(objects):
            for name, inner in one.items():
                values, owners = found[name]
                values.append(inner)
                owners.append(at)
        for name, (values, owners) in found.items():
            self._field(name).see(values, places[owners], batch)

    def _field(self, name: str) -> _Node:
        known = self._fields.get(name)
        if known is None:
            known = self._expected.get(name) or _Node(self._kinds, self._level + 1, quoted=self._quoted)
            self._fields[name] = known
        return known

    def _see_lists(self, lists: Sequence[list[Any]], places: np.ndarray, batch: _Batch) -> None:
        if self._items is None:
            self._items = _Node(self._kinds, self._level + 1, quoted=self._quoted)
        owners = np.repeat(places, list(map(len, lists)))
        self._items.see(list(chain.from_iterable(lists)), owners, batch)

    def _integers(self, values: Sequence[int], places: np.ndarray, batch: _Batch) -> None:
        try:
            numbers = pa.array(values, pa.int64()).to_numpy()
        except (OverflowError, pa.ArrowInvalid):
            here = np.array([-(1 << 63) <= value < 1 << 63 for value in values])
            beyond = [value for value, fits in zip(values, here.tolist(), strict=True) if not fits]
            self._tally.add_strings(len(beyond), *batch.place(places[~here][0]), str(beyond[0]))
            if here.any():
                some = [value for value, fits in zip(values, here.tolist(), strict=True) if fits]
                self._integers(some, places[here], batch)
            return
        exact = (numbers > -(10**EXACT_DIGITS)) & (numbers < 10**EXACT_DIGITS)
        zeros = places[numbers == 0]
        plain = not len(zeros) or not batch.minus_zero()[zeros].any()
        for kind, where in (("bigint", exact), (LONG, ~exact)):
            count = int(np.count_nonzero(where))
            if count:
                at = int(where.argmax())
                first = _first(values[at:], places[at:], batch)
                self._tally.add(kind, count, first, plain=plain or kind == LONG)

    def evidence(self, name: str) -> ColumnEvidence:
        items = None if self._items is None else self._items.evidence("")
        return self._tally.evidence(name, self.fields(self._objects), items)

    def fields(self, objects: int) -> tuple[ColumnEvidence, ...]:
        """A key that an object lacks is null there."""
        for one in self._fields.values():
            one._tally.nulls = objects - one.values
        return tuple(one.evidence(name) for name, one in self._fields.items())


def _first(values: Sequence[Any], places: np.ndarray, batch: _Batch) -> Callable[[], tuple[int, int, str]]:
    return lambda: (*batch.place(places[0]), _shown(values[0]))


def _shown(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        return _TOO_DEEP


def _batches(file: SourceFile, options: Mapping[str, Any], limit: int | None) -> Iterator[_Batch]:
    multiline, path = bool(options.get("multiline")), path_of(options)
    piece = WHOLE if multiline or path else Piece(0, limit)
    row = 0
    try:
        with file.open() as stream:
            refuse_no_text(file.key, stream.read(HEAD), "json")
        for found in records_of(file, multiline=multiline, path=path, piece=piece):
            for records in found.parts(_BATCH):
                yield _parsed(file.key, records, row)
                row += len(records.texts)
    except READ_ERRORS as error:
        raise unreadable(file.key, error) from error


_decode = msgspec.json.Decoder().decode


def _parsed(key: str, records: Records, before: int) -> _Batch:
    whole = _all_parsed(records)
    if whole is not None:
        rows = list(range(before + 1, before + 1 + len(whole)))
        return _Batch(whole, rows, records.lines.tolist(), records.texts)
    batch = _Batch()
    last = len(records.texts) - 1
    for at, text in enumerate(records.texts):
        line = int(records.lines[at])
        if records.broken is not None and at == last:
            batch.problem = batch.problem or _not_json(key, line, records.broken)
            continue
        record, why = _record(text)
        if record is None:
            batch.problem = batch.problem or _not_json(key, line, f"is not a JSON object: {why}")
            continue
        batch.objects.append(record)
        batch.rows.append(before + at + 1)
        batch.lines.append(line)
        batch.texts.append(text)
    return batch


def _all_parsed(records: Records) -> list[dict[str, Any]] | None:
    """The objects, if each of the records is one, as nearly all are."""
    if records.broken is not None:
        return None
    try:
        objects = list(map(_decode, records.texts))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return objects if set(map(type, objects)) <= {dict} else None


def _record(text: bytes) -> tuple[dict[str, Any] | None, str]:
    """The object, or what the text is instead."""
    try:
        record = _decode(text)
    except RecursionError:
        if is_too_deep(text):
            return None, _TOO_DEEP
        record = on_fresh_stack(_decode, text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return None, str(error)
    if isinstance(record, dict):
        return record, ""
    return None, "it is an array" if isinstance(record, list) else "it is a single value"


def _not_json(key: str, line: int, why: str) -> SourceError:
    return SourceError(
        f"{key}, line {line}, {why}",
        hint="each record must be one object; fix the file, or set read_options: {multiline: true} if it is "
        "one array, or has objects that span lines, or read_options.records if its rows lie deeper",
        file=key,
    )
