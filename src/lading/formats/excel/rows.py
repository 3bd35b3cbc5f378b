"""Excel and its kin (xlsx, xls, ods): a sheet, or a part of one, as a table.

Cells have types, so nothing is guessed from text; formulas count by the values that were saved with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from lading.config.names import EXACT, Naming
from lading.errors import SourceError
from lading.formats.arrow_types import arrow_schema
from lading.formats.dialect import RENAME
from lading.formats.drift import check_columns
from lading.formats.excel.cells import Cell, Misfit, array_of, text_of, value_of
from lading.formats.excel.sheet import Row, open_sheet
from lading.formats.header import renamed, table_names
from lading.formats.reader import WHOLE, Bad, Head, Piece, ReadSpec, Rows
from lading.formats.reasons import is_not
from lading.formats.rules import Fault, Rules
from lading.formats.source_file import SourceFile
from lading.formats.values import Texts
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
        table = open_table(file, self.spec.options, self._naming)
        if table is None:
            return None
        names = self._names(table)
        return Head(dict.fromkeys(names), self._ignored(file, names))

    def rows(self, file: SourceFile, piece: Piece = WHOLE) -> Iterator[Rows]:
        assert piece.start == 0, "a workbook is read whole"
        table = open_table(file, self.spec.options, self._naming)
        if table is None:
            return
        names = self._names(table)
        self._ignored(file, names)
        taken, lines = 0, 0
        while rows := list(islice(table.rows, self.block)):
            yield self._block(table, names, rows, taken, rows[-1].number - lines)
            taken, lines = taken + len(rows), rows[-1].number

    @property
    def _naming(self) -> Naming:
        return self.spec.naming.knowing(column.name for column in self.spec.columns)

    def _names(self, table: Table) -> tuple[str, ...]:
        return table.names if table.names is not None else tuple(column.name for column in self.spec.columns)

    def _ignored(self, file: SourceFile, names: Sequence[str]) -> tuple[str, ...]:
        return check_columns(file.key, names, self.spec)

    def _block(self, table: Table, names: tuple[str, ...], rows: list[Row], before: int, lines: int) -> Rows:
        width = len(names)
        cells = [_padded(row.cells[table.left :], width) for row in rows]
        rules = Rules(self.spec)
        faults: dict[int, Fault] = {}
        for place, row in enumerate(rows):
            for fault in _stray(row, table.left, width) or self._errors(row, table.left, names):
                rules.blame(faults, place, fault)
        values = {}
        for column in self.spec.columns:
            if column.name in names:
                clean, at = Clean.of(self.spec.options, rules.nulls(column.name)), names.index(column.name)
                values[column.name] = [clean(row[at]) for row in cells]
                for place, fault in _misfits(values[column.name], column, rules.of_texts(column.name)):
                    rules.blame(faults, place, fault)
        places = [place for place in range(len(rows)) if place not in faults]
        schema = arrow_schema(self.spec.columns)
        arrays = [
            rules.filled(
                array_of(
                    [values[column.name][place] for place in places], column, rules.of_texts(column.name)
                ),
                column.name,
            )
            if column.name in values
            else rules.lacking(column, len(places))
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
                Bad(
                    before + place + 1, rows[place].number, *faults[place], text(place),
                    rules.sets_aside(faults[place][0]),
                )
                for place in sorted(faults)
            ),
            len(rows),
            lines,
        )  # fmt: skip

    def _errors(self, row: Row, left: int, names: tuple[str, ...]) -> Iterator[Fault]:
        wanted = {column.name for column in self.spec.columns}
        for place, error in sorted(row.errors.items()):
            if names[place - left] in wanted:
                what = "a formula without a saved value" if error.startswith("=") else f"the error {error}"
                yield names[place - left], f"the cell holds {what}"


def open_table(file: SourceFile, options: Mapping[str, Any], naming: Naming = EXACT) -> Table | None:
    """The records below the header, whose columns are the table's; None for a sheet without anything."""
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
    named = next(place for place, cell in enumerate(first.cells) if cell is not None or place in first.errors)
    # Columns left of the first name have none (pandas writes its index so).
    left = sheet.left if options.get("unnamed") == "name" else named
    return Table(_header(file, first, left, options, naming), left, rows)


def _header(
    file: SourceFile, row: Row, left: int, options: Mapping[str, Any], naming: Naming
) -> tuple[str, ...]:
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
        if name in names and options.get("duplicates") != "rename":
            raise SourceError(
                f"{file.key}:{row.number}: the header has two columns named {name!r}",
                hint=RENAME,
                file=file.key,
            )
        names.append(name)
    if options.get("duplicates") == "rename":
        names = renamed(names, naming)
    return table_names(file.key, names, naming, line=row.number, way=RENAME)


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
    def of(cls, options: Mapping[str, Any], nulls: Iterable[str] | None = None) -> Clean:
        """`nulls` are a column's own."""
        null = options.get("null") if nulls is None else nulls
        return cls(bool(options.get("trim")), frozenset([null] if isinstance(null, str) else null or ()))

    def __call__(self, cell: Cell | None) -> Cell | None:
        if not isinstance(cell, str):
            return cell
        text = cell.strip() if self.trim else cell
        return None if text in self.nulls or not text else text


def _padded(cells: list[Cell | None], width: int) -> list[Cell | None]:
    return cells[:width] + [None] * (width - len(cells))


def _stray(row: Row, left: int, width: int) -> list[Fault]:
    """A cell beside the table, which would be left out without a word."""
    beside = [
        place
        for place, cell in enumerate(row.cells)
        if (cell is not None or place in row.errors) and not left <= place < left + width
    ]
    if not beside:
        return []
    cell = row.cells[beside[0]]
    what = row.errors[beside[0]] if cell is None else text_of(cell)
    return [(None, f"has {what[:_SHOWN]!r} beside the columns that the header names")]


def _misfits(cells: list[Cell | None], column: Column, texts: Texts | None) -> Iterator[tuple[int, Fault]]:
    try:
        array_of(cells, column, texts)
        return
    except (Misfit, pa.ArrowInvalid):
        pass
    for place, cell in enumerate(cells):
        if cell is None:
            continue
        try:
            value_of(cell, column, texts)
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
