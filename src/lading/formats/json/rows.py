"""The reader of JSON: strict, in one pass, a block at a time.

A record is one object and nothing behind it, with no key that the schema lacks and none twice, at any depth.
msgspec parses; whatever it refuses, and whatever does not fit, is a bad row, and only for those is anything
done in Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from lading.formats.arrow_types import arrow_schema
from lading.formats.json.columns import Struct, may_be_parsed, node_of, summed
from lading.formats.json.faults import (
    MISFIT,
    Fault,
    Pairs,
    fault,
    new_keys,
    on_fresh_stack,
    parsed,
)
from lading.formats.json.leaves import Values
from lading.formats.json.path import path_of
from lading.formats.json.records import BLOCK, Records, records_of
from lading.formats.json.structure import is_too_deep, keys_in, too_deep
from lading.formats.magic import HEAD, refuse_no_text
from lading.formats.opening import READ_ERRORS, compression, unreadable
from lading.formats.reader import WHOLE, Bad, Head, Piece, ReadSpec, Rows
from lading.formats.reasons import undecodable
from lading.formats.rules import Rules
from lading.formats.source_file import SourceFile

_CUT = 1 << 16  # characters of a text that runs to the end of its file
_LEARNED = 256  # keys that are left out quickly; more of them cost time


def reader(spec: ReadSpec, *, block: int = BLOCK) -> JsonReader:
    return JsonReader(spec, block)


def may_be_cut(spec: ReadSpec, path: str) -> bool:
    return not (spec.options.get("multiline") or path_of(spec.options)) and compression(path) is None


class JsonReader:
    def __init__(self, spec: ReadSpec, block: int) -> None:
        self._multiline = bool(spec.options.get("multiline"))
        self._path = path_of(spec.options)
        self._block = block
        self._columns = {column.name: column for column in spec.columns}
        self._schema = arrow_schema(spec.columns)
        self._rules = Rules(spec)
        takes_new = spec.policy.columns == "ignore"
        fields = {
            column.name: node_of(
                column,
                self._rules.texts(column.name),
                takes_new=takes_new,
                quoted=self._rules.quotes_numbers(column.name),
            )
            for column in spec.columns
        }
        naming = spec.naming.knowing(self._columns)
        self._root = Struct(fields, takes_new=takes_new, naming=naming)
        self._last = [name for name in fields if self._rules.sets_aside(name)]
        self._learned = 0
        aliases = {key for key, name in naming.columns if name in fields and key not in fields}
        self._learn((self._root, key) for key in sorted(aliases) if may_be_parsed(key))
        self._learned = 0

    def head(self, file: SourceFile) -> Head | None:
        return None

    def rows(self, file: SourceFile, piece: Piece = WHOLE) -> Iterator[Rows]:
        record = 1
        try:
            if piece.start == 0:
                with file.open() as stream:
                    refuse_no_text(file.key, stream.read(HEAD), "json")
            for found in records_of(
                file, multiline=self._multiline, path=self._path, piece=piece, block=self._block
            ):
                for part in found.parts():
                    yield self._rows(part, record)
                    record += len(part.texts)
        except READ_ERRORS as error:
            raise unreadable(file.key, error) from error

    def _rows(self, found: Records, record: int) -> Rows:
        texts = found.texts
        faults = {at: Fault(None, undecodable("UTF-8")) for at in found.not_utf8()}
        if found.broken is not None:
            faults[len(texts) - 1] = Fault(None, found.broken)
        good, objects, looked_at = self._parsed(texts, faults)
        own = texts if len(good) == len(texts) else [texts[at] for at in good]
        values, misfit, ignored = self._values(own, objects, looked_at)
        for at in np.flatnonzero(misfit).tolist():
            faults[int(good[at])] = fault(
                own[at], self._root, self._columns, self._blamed(values, at), MISFIT, self._last
            )
        arrays = [
            self._rules.filled(one.array, name) for name, one in zip(self._columns, values, strict=False)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if misfit.any():
            batch, good, ignored = batch.filter(pa.array(~misfit)), good[~misfit], ignored[~misfit]
        return Rows(
            batch,
            records=good + record,
            lines=found.lines[good],
            texts=lambda wanted: [_shown(texts[good[at]]) for at in wanted],
            bad=tuple(
                Bad(
                    record + at, int(found.lines[at]), fault.column, fault.reason, self._text(found, at),
                    fault.of_value and self._rules.sets_aside(fault.column),
                )
                for at, fault in sorted(faults.items())
            ),
            taken_records=len(texts),
            taken_lines=found.taken_lines,
            ignored=int(np.count_nonzero(ignored)),
        )  # fmt: skip

    def _values(
        self, texts: Sequence[bytes], objects: Sequence[Any], looked_at: Sequence[int]
    ) -> tuple[list[Values], np.ndarray, np.ndarray]:
        """The values of the columns, which objects don't fit, and which hold keys that are left out."""
        values = self._root.read_fields(objects)
        keys, misfit, ignored = summed(values, len(objects))
        twice = keys_in(texts, keys) != keys
        twice[looked_at], ignored[looked_at] = False, True
        misfit |= twice
        misfit[too_deep(texts)] = True
        return values, misfit, ignored

    def _blamed(self, values: Sequence[Values], at: int) -> list[str]:
        found = zip(self._columns, values, strict=False)
        return [name for name, one in found if one.misfit is not None and one.misfit[at]]

    def _text(self, found: Records, at: int) -> str:
        broken = found.broken is not None and at == len(found.texts) - 1
        return _shown(found.texts[at])[:_CUT] if broken else _shown(found.texts[at])

    def _parsed(
        self, texts: Sequence[bytes], faults: dict[int, Fault]
    ) -> tuple[np.ndarray, list[Any], list[int]]:
        """The places of the texts that are objects of the schema's shape, the objects, and the places among
        them of those whose keys were looked at one by one. What is wrong with others goes to `faults`."""
        if faults:
            texts = [b"" if at in faults else text for at, text in enumerate(texts)]
        objects: list[Any] = []
        skipped: list[int] = []
        looked_at: list[int] = []
        rest = iter(texts)
        while len(objects) + len(skipped) < len(texts):
            append, decode = objects.append, self._decode
            try:
                for text in rest:
                    append(decode(text))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                at = len(objects) + len(skipped)
                again, looked = self._again(text, error)
                if again is None:
                    skipped.append(at)
                    why = f"is not one JSON object: {error}"
                    faults[at] = faults.get(at) or fault(text, self._root, self._columns, (), why, self._last)
                else:
                    looked_at += [len(objects)] if looked else []
                    append(again)
        return np.delete(np.arange(len(texts)), skipped), objects, looked_at

    def _again(self, text: bytes, error: Exception) -> tuple[Any, bool]:
        """The object of a text that was refused, if there is more to it, and whether its keys were looked at:
        one that is nested deeply, and one with keys that are left out or spelled in another way."""
        root = self._root
        try:
            if isinstance(error, RecursionError) and not is_too_deep(text):
                return on_fresh_stack(self._decode, text), False
            if not (root.takes_new or root.respells) or not isinstance(error, msgspec.ValidationError):
                return None, False
            record = parsed(text)
            new = set(new_keys(record, root))
            if not isinstance(record, Pairs) or not new:
                return None, False
            unknown = [(struct, key) for struct, key in new if struct.field_of(key) is None]
            alike = any(root.alike(key) for struct, key in unknown if struct is root)
            if alike or (unknown and not root.takes_new):
                return None, False
            learnable = all(may_be_parsed(name) for _, name in new)
            if learnable and self._learned + len(new) <= _LEARNED:
                self._learn(new)
                return on_fresh_stack(self._decode, text), False
            if fault(text, root, self._columns, (), MISFIT) != Fault(None, MISFIT):
                return None, False
            return on_fresh_stack(self._skip, self._respelled(text)), bool(unknown)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None, False

    def _learn(self, new: Iterable[tuple[Struct, str]]) -> None:
        """Parse these keys from now on: as the field that they are, or to leave them out."""
        for struct, key in new:
            struct.learned[key] = struct.field_of(key)
            self._learned += 1
        self._decode = msgspec.json.Decoder(self._root.parsed(strict=True)).decode
        self._skip = msgspec.json.Decoder(self._root.parsed(strict=False)).decode

    def _respelled(self, text: bytes) -> bytes:
        """With the columns' names as its keys."""
        values = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        pairs = [(self._root.field_of(key) or key, bytes(value)) for key, value in values.items()]
        return b"{" + b",".join(msgspec.json.encode(key) + b":" + value for key, value in pairs) + b"}"


def _shown(text: bytes) -> str:
    return text.decode("utf-8", errors="replace")
