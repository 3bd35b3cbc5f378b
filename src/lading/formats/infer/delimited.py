"""Columns of delimited text: every field as the reader gives it as text, classified in blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.formats.csv.head import top_of
from lading.formats.infer.fits import Fits
from lading.formats.infer.kinds import Kinds
from lading.formats.infer.trail import ColumnTrail, Step, shown
from lading.formats.opening import limits_of
from lading.formats.reader import WHOLE, Piece, ReadSpec
from lading.formats.registry import may_be_cut, reader_of
from lading.formats.source_file import SourceFile
from lading.model import Column, Format, FoundFile


@dataclass(frozen=True, slots=True)
class DelimitedLook:
    """How to look at the files of a table. `pinned` are columns that values are to be held against."""

    read_options: Mapping[str, Any]
    format: Format
    names: tuple[str, ...] | None = None  # of files that have no header
    pinned: Mapping[str, Column] = field(default_factory=dict)
    limit: int | None = None  # bytes of each file

    def at(self, found: FoundFile) -> DelimitedFile:
        """What one file holds. A row that is bad when it is read says nothing of the types."""
        file = SourceFile(found.key, found.path, found.size, limits=limits_of(found.path))
        names = self.names
        if self.read_options.get("header", True):
            names = top_of(file, ReadSpec(self.format, self.read_options, ())).names
        if names is None:
            return DelimitedFile()
        spec = ReadSpec(self.format, self.read_options, tuple(Column(name, "string") for name in names))
        looker = _Looker(self, names)
        taken = 0
        for block in reader_of(spec).rows(file, self._piece(spec, found)):
            looker.see(block.batch, block.records)
            taken += block.batch.nbytes
            if self.limit is not None and taken > self.limit:
                break
        return looker.file

    def _piece(self, spec: ReadSpec, found: FoundFile) -> Piece:
        if self.limit is None or not may_be_cut(spec, found.path):
            return WHOLE
        return Piece(0, min(self.limit, found.size))


@dataclass(slots=True)
class DelimitedFile:
    rows: int = 0
    trails: dict[str, ColumnTrail] = field(default_factory=dict)
    misfits: dict[str, Step] = field(default_factory=dict)  # by pinned column: the first of another type


class _Looker:
    """Goes through the blocks of one file."""

    def __init__(self, look: DelimitedLook, names: tuple[str, ...]) -> None:
        self.file = DelimitedFile(trails={name: ColumnTrail() for name in names if name not in look.pinned})
        self._look = look
        self._names = names
        self._kinds = Kinds.of(look.read_options)
        self._fits = Fits(self._kinds)

    def see(self, batch: pa.RecordBatch, records: np.ndarray) -> None:
        self.file.rows += batch.num_rows
        for position, name in enumerate(self._names):
            trail = self.file.trails.get(name)
            if trail is not None and trail.kind == "string":
                trail.values += len(_there(batch.column(position)))
            elif trail is not None or name not in self.file.misfits:
                self._see_column(name, trail, batch.column(position), records)

    def _see_column(
        self, name: str, trail: ColumnTrail | None, column: pa.Array, records: np.ndarray
    ) -> None:
        places = _there(column)
        values = column.take(places)

        def row_of(place: int) -> int:
            return int(records[places[place].as_py()])

        if trail is not None:
            trail.see(self._kinds, values, row_of)
            return
        at = self._fits.first_misfit(values, self._look.pinned[name])
        if at is not None:
            self.file.misfits[name] = Step("", row_of(at), shown(values[at]))


def _there(column: pa.Array) -> pa.Array:
    """The places of values; "" is none, whatever the type turns out to be."""
    return pc.indices_nonzero(pc.fill_null(pc.not_equal(column, ""), False))
