"""From files of one shape to a table: read as text to see how values are written, then as a run reads them.

What the look at the beginning of a file concluded is tried on all of it. Rows that don't come out right are a
reason to read it in another way, if one does better, and are said otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import pyarrow as pa

from lading.formats.dialect import header_names
from lading.formats.infer.columns import Inferred, infer, limit_of
from lading.formats.reader import WHOLE, Bad, Piece, ReadSpec
from lading.formats.reasons import NEVER_CLOSED
from lading.formats.registry import reader_of
from lading.formats.sniff.values import Values, ValuesLook
from lading.formats.source_file import SourceFile
from lading.ingest.add.group import Group
from lading.ingest.add.look import FileLook
from lading.model import DELIMITERS, Column, Format, FoundFile

PREVIEW = 5
_KEPT = 5  # bad rows that are shown
_FIELDS = re.compile(r"has (\d+) fields?, but the header has (\d+)")
_ARROW_STRING = pa.string()


@dataclass(frozen=True, slots=True)
class TableLook:
    """A table that can be written down. `names` are the columns of files without a header."""

    files: tuple[FoundFile, ...]
    format: Format
    options: dict[str, Any]
    because: dict[str, str]
    inferred: Inferred
    names: tuple[str, ...] | None
    rows: pa.Table  # the first ones
    bad: tuple[tuple[str, Bad], ...] = ()  # with the key of the file; the first ones
    bad_count: int = 0
    remarks: tuple[str, ...] = ()


@dataclass(slots=True)
class _Pass:
    """What reading all the files as text gave."""

    values: ValuesLook
    count: int = 0
    bad: list[tuple[str, Bad]] = field(default_factory=list)
    short: int = 0  # bad for having too few fields, but more than one
    misfits: int = 0  # bad for having one field, or too many
    unclosed: int = 0

    def add(self, key: str, bad: Bad) -> None:
        self.count += 1
        if len(self.bad) < _KEPT:
            self.bad.append((key, bad))
        fields = _FIELDS.search(bad.reason)
        if fields is not None:
            self.short += 1 < int(fields[1]) < int(fields[2])
            self.misfits += int(fields[1]) == 1
        self.unclosed += bad.reason == NEVER_CLOSED


def table_of(group: Group) -> TableLook:
    """SourceError where the files can't be read after all."""
    if group.first.format in DELIMITERS:
        return _delimited(group)
    inferred = infer([look.found for look in group.files], fmt=group.first.format, read_options=group.options)
    made = TableLook(
        tuple(look.found for look in group.files), group.first.format, group.options, group.because,
        inferred, None, pa.table({}),
    )  # fmt: skip
    return replace(made, rows=_preview(made))


def _delimited(group: Group) -> TableLook:
    options, because = dict(group.options), dict(group.because)
    options, seen = _best(group, options, because)
    found = seen.values.found()
    options |= _options_of(found)
    because |= found.because
    names = group.first.names if not options["header"] else None
    files = [look.found for look in group.files]
    remarks = list(found.remarks)
    if seen.count:
        remarks.append(_said(seen))
    inferred = infer(files, fmt=group.first.format, read_options=options, names=names)
    made = TableLook(
        tuple(files), group.first.format, options, because, inferred, names, pa.table({}),
        tuple(seen.bad), seen.count, tuple(remarks),
    )  # fmt: skip
    return replace(made, rows=_preview(made))


def _best(group: Group, options: dict[str, Any], because: dict[str, str]) -> tuple[dict[str, Any], _Pass]:
    """The options with which the fewest rows are bad; those that were added are given their evidence."""
    seen = _read_as_text(group, options)
    if seen.unclosed and not options.get("multiline"):
        key, bad = next(one for one in seen.bad if one[1].reason == NEVER_CLOSED)
        other = _read_as_text(group, options | {"multiline": True})
        if other.count < seen.count:
            options, seen = options | {"multiline": True}, other
            because["multiline"] = (
                f"a quote that is opened in line {bad.line} of {key} is closed further down"
            )
    if seen.short and not seen.misfits:
        key, bad = next(one for one in seen.bad if _FIELDS.search(one[1].reason))
        other = _read_as_text(group, options | {"ragged": "pad"})
        if other.count < seen.count:
            because["ragged"] = f"line {bad.line} of {key} {bad.reason}; {_rows(seen.short)} short"
            options, seen = options | {"ragged": "pad"}, other
    return options, seen


def _rows(count: int) -> str:
    return "1 row is" if count == 1 else f"{count:,} rows are"


def _said(seen: _Pass) -> str:
    key, bad = seen.bad[0]
    where = f"line {bad.line} of {key} {bad.reason}"
    more = f"; {seen.count:,} rows are bad in all" if seen.count > 1 else ""
    return f"{where}{more}: a run stops there unless `on_bad: quarantine` is set"


def _read_as_text(group: Group, options: dict[str, Any]) -> _Pass:
    limit = limit_of([look.found for look in group.files])
    names = _names(group, options)
    seen = _Pass(ValuesLook(names))
    columns = tuple(Column(name, "string") for name in names)
    reader = reader_of(ReadSpec(group.first.format, options, columns))
    for look in group.files:
        file, piece = _opened(look, limit)
        taken = 0
        for block in reader.rows(file, piece):
            for name, column in zip(names, block.batch.columns, strict=True):
                seen.values.see(name, column)
            for bad in block.bad:
                seen.add(look.found.key, bad)
            taken += block.batch.nbytes
            if limit is not None and taken > limit:
                break
    return seen


def _names(group: Group, options: dict[str, Any]) -> tuple[str, ...]:
    """The columns as the reader calls them."""
    if not options["header"]:
        return group.first.names
    return header_names(group.first.found.key, group.first.names, options)


def _opened(look: FileLook, limit: int | None) -> tuple[SourceFile, Piece]:
    file = _file(look.found)
    whole = limit is None or file.compression is not None or look.found.size <= limit
    return file, WHOLE if whole else Piece(0, limit)


def _file(found: FoundFile) -> SourceFile:
    return SourceFile(found.key, found.path, found.size)


def _options_of(found: Values) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if found.null:
        options["null"] = _one_or_all(found.null)
    if found.decimal is not None:
        options["decimal"] = found.decimal
    if found.trim:
        options["trim"] = True
    if found.date_format:
        options["date_format"] = _one_or_all(found.date_format)
    if found.timestamp_format:
        options["timestamp_format"] = _one_or_all(found.timestamp_format)
    return options


def _one_or_all(texts: Sequence[str]) -> str | list[str]:
    return texts[0] if len(texts) == 1 else list(texts)


def _preview(made: TableLook) -> pa.Table:
    """The first rows, as a run will read them."""
    spec = ReadSpec(made.format, made.options, made.inferred.columns)
    reader = reader_of(spec)
    batches: list[pa.RecordBatch] = []
    left = PREVIEW
    for found in made.files:
        for block in islice(reader.rows(_file(found)), 8):
            batches.append(block.batch.slice(0, left))
            left -= batches[-1].num_rows
            if left <= 0:
                break
        if left <= 0:
            break
    return pa.Table.from_batches(batches) if batches else _nothing(made.inferred)


def _nothing(inferred: Inferred) -> pa.Table:
    return pa.table({column.name: pa.array([], _ARROW_STRING) for column in inferred.columns})
