"""Excel and its kin (xlsx, xls, ods): a sheet, or a part of one, as a table.

Cells have types, so nothing is guessed from text; formulas count by the values that were saved with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from lading.errors import SourceError
from lading.formats.arrow_types import arrow_schema
from lading.formats.drift import check_columns
from lading.formats.excel.cells import Cell, Misfit, array_of, text_of, value_of
from lading.formats.excel.sheet import Row, open_sheet
from lading.formats.reader import WHOLE, Bad, Head, Piece, ReadSpec, Rows
from lading.formats.reasons import is_not
from lading.formats.source_file import SourceFile
from lading.model import Column

_ROWS = 5_000  # of a block
_SHOWN = 64  # characters of a value in a reason


def reader(spec: ReadSpec) -> ExcelReader:
    return ExcelReader(spec)


def may_be_cut(spec: ReadSpec, path: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Table:
    """The records of a sheet."""

    names: tuple[str, ...] | None  # None: the sheet has no header
    left: int  # where the first column is, in the cells of a row
    rows: Iterator[Row]


@dataclass(frozen=True, slots=True)
class ExcelReader:
    spec: ReadSpec
    block: int = _ROWS

    def head(self, file: SourceFile) -> Head | None:
        table = open_table(file, self.spec.options)
        if table is None:
            return None
        names = self._names(table)
        return Head(dict.fromkeys(names), self._ignored(file, names))

    def rows(self, file: SourceFile, piece: Piece = WHOLE) -> Iterator[Rows]:
        assert piece.start == 0, "a workbook is read whole"
        table = open_table(file, self.spec.options)
        if table is None:
            return
        names = self._names(table)
        self._ignored(file, names)
        taken, lines = 0, 0
        while rows := list(islice(table.rows, self.block)):
            yield self._block(table, names, rows, taken, rows[-1].number - lines)
            taken, lines = taken + len(rows), rows[-1].number

    def _names(self, table: Table) -> tuple[str, ...]:
        return table.names if table.names is not None else tuple(column.name for column in self.spec.columns)

    def _ignored(self, file: SourceFile, names: Sequence[str]) -> tuple[str, ...]:
        return check_columns(
            file.key, names, self.spec.columns, self.spec.name_columns, policy=self.spec.policy
        )

    def _block(self, table: Table, names: tuple[str, ...], rows: list[Row], before: int, lines: int) -> Rows:
        width = len(names)
        cells = [_padded(row.cells[table.left :], width) for row in rows]
        faults = {
            place: fault
            for place, row in enumerate(rows)
            if (fault := _stray(row, table.left, width) or self._error(row, table.left, names))
        }
        clean = Clean.of(self.spec.options)
        values = {name: [clean(row[at]) for row in cells] for at, name in enumerate(names)}
        schema = arrow_schema(self.spec.columns)
        for column in self.spec.columns:
            if column.name in values:
                for place, fault in _misfits(values[column.name], column):
                    faults.setdefault(place, fault)
        places = [place for place in range(len(rows)) if place not in faults]
        arrays = [
            array_of([values[column.name][place] for place in places], column)
            if column.name in values
            else pa.nulls(len(places), schema.field(column.name).type)
            for column in self.spec.columns
        ]

        def text(place: int) -> str:
            return _text(names, cells[place], rows[place], table.left)

        return Rows(
            pa.RecordBatch.from_arrays(arrays, schema=schema),
            np.array(places, dtype=np.int64) + (before + 1),
            np.array([rows[place].number for place in places], dtype=np.int64),
            lambda wanted: [text(places[one]) for one in wanted],
            tuple(
                Bad(before + place + 1, rows[place].number, *faults[place], text(place))
                for place in sorted(faults)
            ),
            len(rows),
            lines,
        )

    def _error(self, row: Row, left: int, names: tuple[str, ...]) -> tuple[str | None, str] | None:
        wanted = {column.name for column in self.spec.columns}
        for place, error in sorted(row.errors.items()):
            if names[place - left] in wanted:
                what = "a formula without a saved value" if error.startswith("=") else f"the error {error}"
                return names[place - left], f"the cell holds {what}"
        return None


def open_table(file: SourceFile, options: Mapping[str, Any]) -> Table | None:
    """The records below the header; None for a sheet without anything."""
    sheet = open_sheet(file, options)
    rows = (row for row in sheet.rows() if row.number > options.get("skip", 0))
    header = options.get("header", True)
    if header is False:
        return Table(None, 0, rows)
    wanted = header if header is not True else None
    first = next((row for row in rows if wanted is None or row.number >= wanted), None)
    if first is None:
        return None
    if wanted is not None and first.number != wanted:
        raise SourceError(
            f"{file.key}: row {wanted:,}, which is to be the header, is empty",
            hint="set `header` in the table's read_options to the number of the row that names the columns",
            file=file.key,
        )
    left = next(place for place, cell in enumerate(first.cells) if cell is not None or place in first.errors)
    return Table(_header(file, first, left, options), left, rows)


def _header(file: SourceFile, row: Row, left: int, options: Mapping[str, Any]) -> tuple[str, ...]:
    cells = row.cells[left:]
    while cells[-1] is None:
        cells.pop()
    names: list[str] = []
    for number, cell in enumerate(cells, start=1):
        name = "" if cell is None else text_of(cell)
        name = name.strip() if options.get("trim") else name
        if not name.strip():
            if options.get("unnamed") != "name":
                raise SourceError(
                    f"{file.key}:{row.number}: column {number} of the header has no name",
                    hint="name it, set read_options: {unnamed: name}, or say which row is the `header` and "
                    "which `range` holds the table",
                    file=file.key,
                )
            name = _free(f"column_{number}", names)
        if name in names:
            if options.get("duplicates") != "rename":
                raise SourceError(
                    f"{file.key}:{row.number}: the header has two columns named {name!r}",
                    hint="rename one of them, or set read_options: {duplicates: rename}",
                    file=file.key,
                )
            name = next(one for at in range(2, len(names) + 3) if (one := f"{name}_{at}") not in names)
        names.append(name)
    return tuple(names)


def _free(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "_"
    return name


@dataclass(frozen=True, slots=True)
class Clean:
    """Spaces around texts, and texts that mean null."""

    trim: bool
    nulls: frozenset[str]

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Clean:
        null = options.get("null")
        return cls(bool(options.get("trim")), frozenset([null] if isinstance(null, str) else null or ()))

    def __call__(self, cell: Cell | None) -> Cell | None:
        if not isinstance(cell, str):
            return cell
        text = cell.strip() if self.trim else cell
        return None if text in self.nulls or not text else text


def _padded(cells: list[Cell | None], width: int) -> list[Cell | None]:
    return cells[:width] + [None] * (width - len(cells))


def _stray(row: Row, left: int, width: int) -> tuple[str | None, str] | None:
    """A cell beside the table, which would be left out without a word."""
    beside = [
        place
        for place, cell in enumerate(row.cells)
        if (cell is not None or place in row.errors) and not left <= place < left + width
    ]
    if not beside:
        return None
    cell = row.cells[beside[0]]
    what = row.errors[beside[0]] if cell is None else text_of(cell)
    return None, f"has {what[:_SHOWN]!r} beside the columns that the header names"


def _misfits(cells: list[Cell | None], column: Column) -> Iterator[tuple[int, tuple[str | None, str]]]:
    try:
        array_of(cells, column)
        return
    except (Misfit, pa.ArrowInvalid):
        pass
    for place, cell in enumerate(cells):
        if cell is None:
            continue
        try:
            value_of(cell, column)
        except Misfit:
            text = text_of(cell)
            yield place, (column.name, f"{text[:_SHOWN]!r} {is_not(text, column)}")


def _text(names: tuple[str, ...], cells: list[Cell | None], row: Row, left: int) -> str:
    """A row as JSON, without its empty cells."""
    found: dict[str, Any] = {}
    for place, name in enumerate(names):
        cell = cells[place]
        if place + left in row.errors:
            found[name] = row.errors[place + left]
        elif cell is not None:
            found[name] = json.loads(text_of(cell)) if isinstance(cell, (int, float)) else text_of(cell)
    return json.dumps(found, ensure_ascii=False)
