"""Where the table of a workbook stands: its sheet, and the row that names the columns.

Reports have titles above the table and sheets of notes before and behind it. The sheet is the first one with
several columns and a row below their names, or else the first with anything in it. The header is the first
row that reaches as far to the right as most rows do.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import Any

from lading.formats.excel.cells import text_of
from lading.formats.excel.sheet import Row, open_sheet, sheet_names
from lading.formats.source_file import SourceFile

_ROWS = 200  # of a sheet that are looked at


@dataclass(frozen=True, slots=True)
class Workbook:
    """The read options that differ from the default, the header's names (`""` for none), and the evidence."""

    options: dict[str, Any]
    names: tuple[str, ...]
    because: dict[str, str]


def workbook_of(file: SourceFile) -> Workbook | None:
    """None for a workbook that holds nothing."""
    sheets = sheet_names(file)
    first: Workbook | None = None
    for number, name in enumerate(sheets, start=1):
        rows = list(islice(open_sheet(file, {"sheet": number}).rows(), _ROWS))
        if not rows:
            continue
        found, below = _table(rows)
        if len(sheets) > 1:
            others = ", ".join(repr(other) for other in sheets if other != name)
            found.options["sheet"] = number
            found.because["sheet"] = f"{name!r}; the workbook also has {others}"
        if len(found.names) > 1 and below:
            return found
        first = first or found
    return first


def _table(rows: list[Row]) -> tuple[Workbook, int]:
    """The table of one sheet, and how many rows are below its header."""
    ends = [_places(row)[-1] for row in rows]
    reach = Counter(ends).most_common(1)[0][0]
    at = next(place for place, end in enumerate(ends) if end >= reach)
    header = rows[at]
    left = min(_places(row)[0] for row in rows[at:])
    cells = [*header.cells, *[None] * (ends[at] + 1 - len(header.cells))][left : ends[at] + 1]
    names = tuple("" if cell is None else text_of(cell) for cell in cells)
    below = len(rows) - at - 1
    if at == 0:
        return Workbook({}, names, {}), below
    above = [text_of(cell) for cell in rows[0].cells if cell is not None]
    because = f"names {len(names)} columns; row {rows[0].number} is {' '.join(above)!r}"
    return Workbook({"header": header.number}, names, {"header": because}), below


def _places(row: Row) -> list[int]:
    return [place for place, cell in enumerate(row.cells) if cell is not None or place in row.errors]
