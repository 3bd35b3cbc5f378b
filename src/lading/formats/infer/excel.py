"""Columns of a workbook, from what its cells are: nothing is guessed from text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lading.formats.excel.cells import Cell, Misfit, kind_of, text_of, value_of
from lading.formats.excel.rows import Clean, open_table
from lading.formats.infer.kinds import Kinds
from lading.formats.infer.trail import ColumnTrail, Step
from lading.formats.source_file import SourceFile
from lading.model import Column, FoundFile

_SHOWN = 40  # characters of a value
_KINDS = Kinds()


@dataclass(slots=True)
class ExcelFile:
    """What one workbook holds."""

    rows: int = 0
    trails: dict[str, ColumnTrail] = field(default_factory=dict)
    misfits: dict[str, Step] = field(default_factory=dict)  # by pinned column: the first cell that is none


@dataclass(frozen=True, slots=True)
class ExcelLook:
    """How to look at the workbooks of a table, each of them whole. `pinned` are columns that cells are to be
    held against."""

    read_options: Mapping[str, Any]
    names: tuple[str, ...] | None = None  # of sheets that have no header
    pinned: Mapping[str, Column] = field(default_factory=dict)

    def at(self, found: FoundFile) -> ExcelFile:
        file = ExcelFile()
        table = open_table(SourceFile(found.key, found.path, found.size), self.read_options)
        if table is None:
            return file
        clean = Clean.of(self.read_options)
        names = table.names if table.names is not None else self.names or ()
        file.trails = {name: ColumnTrail() for name in names if name not in self.pinned}
        for row in table.rows:
            file.rows += 1
            for name, cell in zip(names, row.cells[table.left :], strict=False):
                value = clean(cell)
                if value is None:
                    continue
                if name in file.trails:
                    _see(file.trails[name], value, file.rows)
                elif name not in file.misfits and not _fits(value, self.pinned[name]):
                    file.misfits[name] = Step("", file.rows, text_of(value)[:_SHOWN])
        return file


def _fits(cell: Cell, column: Column) -> bool:
    try:
        value_of(cell, column)
    except Misfit:
        return False
    return True


def _see(trail: ColumnTrail, cell: Cell, row: int) -> None:
    trail.values += 1
    if trail.kind == "string":
        return
    grown = _KINDS.join(trail.kind, kind_of(cell))
    if grown != trail.kind:
        trail.steps.append(Step(grown, row, text_of(cell)[:_SHOWN]))
        trail.kind = grown
