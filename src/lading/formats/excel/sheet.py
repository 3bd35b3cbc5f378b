"""One sheet of a workbook, as rows of cells: xlsx, xls and ods, by python-calamine.

A workbook is a small thing that is read whole. What it could be made to hold is bounded before: the bytes
that its archive unpacks to, and the cells between the first and the last that hold something.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from xml.parsers import expat

from lading.config.archives import RATIO_FLOOR, ArchiveLimits
from lading.config.excel_options import CELL_RANGE
from lading.errors import MissingExtra, SourceError
from lading.formats.excel.cells import Cell
from lading.formats.excel.errors import Errors, column_number, in_ods, in_xls, in_xlsx, sheet_member
from lading.formats.opening import READ_ERRORS, unreadable
from lading.formats.source_file import SourceFile

_LARGEST = 1 << 30  # bytes of a workbook
_CELLS = 50_000_000  # between the first and the last of a sheet
_CELL = re.compile(rb"""\sr=["']([A-Z]{1,3})([0-9]{1,7})["']""")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


@dataclass(frozen=True, slots=True)
class Area:
    """Rows and columns from 0, ends included; None where the sheet ends."""

    top: int = 0
    left: int = 0
    bottom: int | None = None
    right: int | None = None

    @classmethod
    def of(cls, text: str | None) -> Area:
        """`B3:F200`, `B:F` or `B3:F`."""
        if text is None:
            return cls()
        parts = CELL_RANGE.fullmatch(text)
        assert parts is not None, "checked when lading.yaml was read"
        return cls(
            int(parts[2]) - 1 if parts[2] else 0,
            column_number(parts[1].upper()),
            int(parts[4]) - 1 if parts[4] else None,
            column_number(parts[3].upper()),
        )


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a sheet that holds something."""

    number: int  # from 1, as a person sees it
    cells: list[Cell | None]  # from the left of the area
    errors: Mapping[int, str]  # by place in `cells`


@dataclass(frozen=True, slots=True)
class Sheet:
    """What an area of a sheet holds."""

    area: Area
    start: tuple[int, int]  # of what python-calamine gives
    found: Any
    errors: Errors

    @property
    def left(self) -> int:
        """The first column of the area that holds anything, in the cells of a row."""
        return max(0, self.start[1] - self.area.left)

    def rows(self) -> Iterator[Row]:
        marked: dict[int, dict[int, str]] = {}
        for (row, column), text in self.errors.items():
            if column >= self.area.left and (self.area.right is None or column <= self.area.right):
                marked.setdefault(row, {})[column - self.area.left] = text
        skip = max(0, self.area.left - self.start[1])
        pad: list[Cell | None] = [None] * self.left
        width = None if self.area.right is None else self.area.right - self.area.left + 1
        for number, values in enumerate(self.found):
            if number < self.area.top:
                continue
            if self.area.bottom is not None and number > self.area.bottom:
                return
            cells = (pad + [None if value == "" else value for value in values[skip:]])[:width]
            errors = marked.get(number, {})
            for place in errors:
                cells += [None] * (place + 1 - len(cells))
            if errors or any(cell is not None for cell in cells):
                yield Row(number + 1, cells, errors)


def open_sheet(file: SourceFile, options: Mapping[str, Any]) -> Sheet:
    """The sheet that the options name; SourceError if the workbook can't be read or has none of that name."""
    area = Area.of(options.get("range"))
    with _open(file) as (workbook, archive, data):
        name = _chosen(file, _names(workbook), options.get("sheet"))
        errors = _bounded_errors(file, archive, data, name)
        sheet = workbook.get_sheet_by_name(name)
        start = sheet.start or (0, 0)
        end = max([row for row, _ in errors], default=-1) + 1
        return Sheet(area, start, _rows(sheet, end), errors)


def sheet_names(file: SourceFile) -> list[str]:
    with _open(file) as (workbook, _, _):
        return _names(workbook)


@contextmanager
def _open(file: SourceFile) -> Iterator[tuple[Any, zipfile.ZipFile | None, bytes]]:
    """The workbook, its archive (None for an xls) and its bytes."""
    try:
        import python_calamine
    except ImportError as error:
        raise MissingExtra(
            "format: excel needs python-calamine", hint="pip install 'lading[formats]'"
        ) from error
    data = _content(file)
    try:
        archive = None if data.startswith(_OLE) else zipfile.ZipFile(io.BytesIO(data))
        if archive is not None:
            _refuse_bombs(file, archive, len(data), file.limits)
        with python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(data)) as workbook:
            yield workbook, archive, data
    except (
        struct.error,
        python_calamine.CalamineError,
        zipfile.BadZipFile,
        expat.ExpatError,
        *READ_ERRORS,
        ValueError,
        KeyError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise SourceError(
            f"{file.key} can't be read as a workbook: {error}",
            hint="check that it is a complete xlsx, xls or ods file without a password",
            file=file.key,
        ) from error


def _rows(sheet: Any, end: int) -> Iterator[list[Any]]:
    """All rows from the first of the sheet on; errors may stand below the last that holds anything else."""
    number = 0
    for number, row in enumerate(sheet.iter_rows(), start=1):  # noqa: B007
        yield row
    for _ in range(number, end):
        yield []


def _content(file: SourceFile) -> bytes:
    if file.size > _LARGEST:
        raise SourceError(
            f"{file.key} has {file.size:,} bytes, more than a workbook may have ({_LARGEST:,})",
            hint="export it as CSV or Parquet",
            file=file.key,
        )
    try:
        with file.open_raw() as raw:
            return raw.read()
    except READ_ERRORS as error:
        raise unreadable(file.key, error) from error


def _names(workbook: Any) -> list[str]:
    return [str(one.name) for one in workbook.sheets_metadata if "WorkSheet" in str(one.typ)]


def _chosen(file: SourceFile, names: list[str], wanted: str | int | None) -> str:
    if wanted is None and names:
        return names[0]
    if isinstance(wanted, int) and 1 <= wanted <= len(names):
        return names[wanted - 1]
    if isinstance(wanted, str) and wanted in names:
        return wanted
    what = "sheet" if wanted is None else f"sheet {wanted!r}"
    raise SourceError(
        f"{file.key} has no {what}; its sheets are {', '.join(map(repr, names)) or 'none'}",
        hint="set `sheet` in the table's read_options to one of them, by name or by number from 1",
        file=file.key,
    )


def _refuse_bombs(file: SourceFile, archive: zipfile.ZipFile, size: int, limits: ArchiveLimits) -> None:
    names = archive.namelist()
    if "xl/workbook.bin" in names:
        raise SourceError(
            f"{file.key} is a binary Excel workbook (xlsb)", hint="save it as xlsx", file=file.key
        )
    unpacked = sum(info.file_size for info in archive.infolist())
    if unpacked > min(max(RATIO_FLOOR, size * limits.max_ratio), limits.max_bytes):
        raise SourceError(
            f"{file.key} can't be read: it unpacks to {unpacked:,} bytes",
            hint="if you trust the file, raise max_ratio under `archives:` in lading.yaml",
            file=file.key,
        )


def _bounded_errors(file: SourceFile, archive: zipfile.ZipFile | None, data: bytes, name: str) -> Errors:
    if archive is None:
        return in_xls(data, name)
    if "content.xml" in archive.namelist():
        return in_ods(archive, name)
    member = sheet_member(archive, name)
    if member is not None:
        _refuse_wide(file, archive, member)
    return in_xlsx(archive, name)


def _refuse_wide(file: SourceFile, archive: zipfile.ZipFile, member: str) -> None:
    """A cell far off makes a sheet of billions, all of which python-calamine would hold."""
    top, bottom, left, right = 1 << 30, 0, 1 << 30, 0
    with archive.open(member) as sheet:
        tail = b""
        while chunk := sheet.read(1 << 20):
            text = tail + chunk
            found = _CELL.findall(text)
            columns = [column_number(letters.decode()) for letters in {letters for letters, _ in found}]
            rows = [int(digits) for digits in {digits for _, digits in found}]
            left, right = min([left, *columns]), max([right, *columns])
            top, bottom = min([top, *rows]), max([bottom, *rows])
            tail = text[-32:]
    cells = max(0, bottom - top + 1) * max(0, right - left + 1)
    if cells > _CELLS:
        raise SourceError(
            f"{file.key} has a sheet of {cells:,} cells between the first and the last that hold something",
            hint="delete the cells far off, or export the sheet as CSV",
            file=file.key,
        )
