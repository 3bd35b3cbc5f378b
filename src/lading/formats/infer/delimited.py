"""What delimited text holds: every field as the reader gives it as text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lading.formats.csv.head import top_of, width_of
from lading.formats.evidence import FileEvidence
from lading.formats.infer.kinds import Kinds
from lading.formats.infer.tally import Place, Tally
from lading.formats.opening import READ_ERRORS, unreadable
from lading.formats.reader import WHOLE, Piece, ReadSpec
from lading.formats.registry import may_be_cut, reader_of
from lading.formats.source_file import SourceFile
from lading.model import Column


def look_at_delimited(file: SourceFile, spec: ReadSpec, limit: int | None) -> FileEvidence:
    """Columns of the spec are those of a file without a header, if somebody gave them names. A row that is
    bad whatever the types are says nothing of them."""
    names = _names(file, spec)
    if names is None:
        return FileEvidence(0, ())
    spec = replace(spec, columns=tuple(Column(name, "string") for name in names))
    rules = {rule.name: rule for rule in spec.rules}
    tallies = [Tally(Kinds.of(spec.options, rules.get(name))) for name in names]
    rows, taken = 0, 0
    for block in reader_of(spec).rows(file, _piece(file, spec, limit)):
        assert block.lines is not None
        place = _places(block.records, block.lines)
        for tally, column in zip(tallies, block.batch.columns, strict=True):
            tally.see_cells(column, place)
        rows += block.batch.num_rows
        taken += block.batch.nbytes
        if limit is not None and taken > limit:
            break
    return FileEvidence(rows, tuple(t.evidence(name) for name, t in zip(names, tallies, strict=True)))


def _places(records: np.ndarray, lines: np.ndarray) -> Place:
    return lambda at: (int(records[at]), int(lines[at]))


def _names(file: SourceFile, spec: ReadSpec) -> tuple[str, ...] | None:
    """None for a file without a record."""
    try:
        if spec.options.get("header", True):
            return top_of(file, spec).names
        if spec.columns:
            return tuple(column.name for column in spec.columns)
        width = width_of(file, spec)
    except READ_ERRORS as error:
        raise unreadable(file.key, error) from error
    return None if width is None else numbered(width)


def numbered(width: int) -> tuple[str, ...]:
    """Of files without a header that nobody gave names."""
    return tuple(f"column_{place}" for place in range(1, width + 1))


def _piece(file: SourceFile, spec: ReadSpec, limit: int | None) -> Piece:
    if limit is None or not may_be_cut(spec, file.path):
        return WHOLE
    return Piece(0, min(limit, file.size))
