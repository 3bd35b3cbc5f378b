"""Where a sheet holds errors (#N/A, #DIV/0!), which python-calamine gives as empty cells, and formulas whose
value was never worked out, which it gives as empty cells too.

A look at the bytes says for most workbooks that there are none. Rows and columns count from 0.
"""

from __future__ import annotations

import posixpath
import re
import struct
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import IO
from xml.parsers import expat

Errors = dict[tuple[int, int], str]  # the error; of a formula, `=` and its text

_CHUNK = 1 << 20
# What an error looks like, and a formula that no value follows.
_IN_XLSX = (b't="e"', b"t='e'", b"f></c>", b"f></x:c>", b"f><v></v>", b"f><v/>", b"f><v />", b'"/></c>')
_CODES = {0: "#NULL!", 7: "#DIV/0!", 15: "#VALUE!", 23: "#REF!", 29: "#NAME?", 36: "#NUM!", 42: "#N/A"}


def in_xlsx(archive: zipfile.ZipFile, sheet: str) -> Errors:
    member = sheet_member(archive, sheet)
    if member is None or not _mentions(archive, member, _IN_XLSX):
        return {}
    return _Xlsx().read(archive.open(member))


def in_ods(archive: zipfile.ZipFile, sheet: str) -> Errors:
    if not _mentions(archive, "content.xml", (b'value-type="error"', b"value-type='error'")):
        return {}
    return _Ods(sheet).read(archive.open("content.xml"))


def sheet_member(archive: zipfile.ZipFile, sheet: str) -> str | None:
    """The file of a sheet in an xlsx."""
    targets: dict[str, str] = {}
    for name, at in _elements(archive, "xl/_rels/workbook.xml.rels"):
        if name == "Relationship":
            targets[at.get("Id", "")] = at.get("Target", "")
    for name, at in _elements(archive, "xl/workbook.xml"):
        if name == "sheet" and at.get("name") == sheet:
            target = targets.get(at.get("id", ""), "")
            member = posixpath.normpath(posixpath.join("/xl", target)).lstrip("/")
            return member if member in archive.namelist() else None
    return None


def column_number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


def _mentions(archive: zipfile.ZipFile, member: str, signs: tuple[bytes, ...]) -> bool:
    longest = max(map(len, signs))
    with archive.open(member) as file:
        tail = b""
        while data := file.read(_CHUNK):
            tail += data
            if any(sign in tail for sign in signs):
                return True
            tail = tail[-longest:]
    return False


def _elements(archive: zipfile.ZipFile, member: str) -> list[tuple[str, dict[str, str]]]:
    """Names and attributes, without their prefixes."""
    found: list[tuple[str, dict[str, str]]] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        found.append((_bare(name), {_bare(key): value for key, value in attributes.items()}))

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    with archive.open(member) as file:
        parser.ParseFile(file)
    return found


def _bare(name: str) -> str:
    return name.rpartition(":")[2]


class _Walk(ABC):
    """Goes through the XML of a sheet, cell by cell."""

    def __init__(self) -> None:
        self.errors: Errors = {}
        self.at: tuple[int, int] | None = None  # the cell with an error, while it is open
        self.text = ""

    def read(self, file: IO[bytes]) -> Errors:
        parser = expat.ParserCreate()
        parser.StartElementHandler = lambda name, found: self.start(_bare(name), found)
        parser.EndElementHandler = lambda name: self.end(_bare(name))
        parser.CharacterDataHandler = self.more
        with file:
            parser.ParseFile(file)
        return self.errors

    @abstractmethod
    def start(self, name: str, found: dict[str, str]) -> None: ...

    @abstractmethod
    def end(self, name: str) -> None: ...

    def more(self, text: str) -> None:
        if self.at is not None:
            self.text += text


class _Xlsx(_Walk):
    def __init__(self) -> None:
        super().__init__()
        self.row, self.column = -1, -1
        self.kind = ""
        self.formula: str | None = None
        self.value = ""

    def start(self, name: str, found: dict[str, str]) -> None:
        if name == "row":
            self.row, self.column = int(found.get("r", self.row + 2)) - 1, -1
        elif name == "c":
            place = re.fullmatch(r"([A-Z]+)([0-9]+)", found.get("r", ""))
            self.column = column_number(place[1]) if place else self.column + 1
            self.at = (int(place[2]) - 1 if place else self.row, self.column)
            self.kind, self.formula, self.value = found.get("t", ""), None, ""
        self.text = ""

    def end(self, name: str) -> None:
        if name == "f":
            self.formula = self.text
        elif name == "v":
            self.value = self.text
        elif name == "c" and self.at is not None:
            if self.kind == "e":
                self.errors[self.at] = self.value
            elif self.formula is not None and not self.value and self.kind != "str":
                self.errors[self.at] = f"={self.formula}"
            self.at = None


class _Ods(_Walk):
    def __init__(self, sheet: str) -> None:
        super().__init__()
        self.sheet = sheet
        self.here = False
        self.row, self.column, self.wide, self.high = 0, 0, 1, 1

    def start(self, name: str, found: dict[str, str]) -> None:
        own = {_bare(key): value for key, value in found.items()}
        if name == "table":
            self.here, self.row = own.get("name") == self.sheet, 0
        elif name == "table-row":
            self.column, self.high = 0, int(own.get("number-rows-repeated", 1))
        elif name in ("table-cell", "covered-table-cell"):
            self.wide = int(own.get("number-columns-repeated", 1))
            if self.here and found.get("calcext:value-type") == "error":
                self.at, self.text = (self.row, self.column), ""

    def end(self, name: str) -> None:
        if name in ("table-cell", "covered-table-cell"):
            if self.at is not None:
                for row in range(self.row, self.row + min(self.high, 1 << 20)):
                    for column in range(self.column, self.column + min(self.wide, 1 << 14)):
                        self.errors[(row, column)] = self.text
            self.at = None
            self.column += self.wide
        elif name == "table-row":
            self.row += self.high
        elif name == "table":
            self.here = False


def in_xls(data: bytes, sheet: str) -> Errors:
    stream = _workbook_stream(data)
    starts: dict[str, int] = {}
    for kind, body in _records(stream, 0):
        if kind == 0x85 and len(body) > 8:  # BOUNDSHEET: where a sheet begins, and its name
            wide = bool(body[7] & 1)
            name = body[8 : 8 + body[6] * (2 if wide else 1)].decode("utf-16-le" if wide else "latin-1")
            starts[name] = struct.unpack_from("<I", body)[0]
        elif kind == 0x0A:
            break
    errors: Errors = {}
    if sheet not in starts:
        return errors
    for kind, body in _records(stream, starts[sheet]):
        if kind == 0x0A:  # EOF
            break
        if kind == 0x205 and len(body) >= 8 and body[7]:  # BOOLERR
            errors[struct.unpack_from("<HH", body)] = _CODES.get(body[6], "an error")
        elif kind == 0x06 and len(body) >= 14 and body[12:14] == b"\xff\xff" and body[6] == 2:  # FORMULA
            errors[struct.unpack_from("<HH", body)] = _CODES.get(body[8], "an error")
    return errors


def _records(stream: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at + 4 <= len(stream):
        kind, length = struct.unpack_from("<HH", stream, at)
        yield kind, stream[at + 4 : at + 4 + length]
        at += 4 + length


def _workbook_stream(data: bytes) -> bytes:
    """The file named Workbook in an OLE container, by its chains of sectors."""
    size = 1 << struct.unpack_from("<H", data, 30)[0]
    small = 1 << struct.unpack_from("<H", data, 32)[0]
    first_directory, _, cutoff, first_small = struct.unpack_from("<IIII", data, 48)
    first_list, lists = struct.unpack_from("<II", data, 68)

    def sector(number: int) -> bytes:
        return data[(number + 1) * size : (number + 2) * size]

    numbers = list(struct.unpack_from("<109I", data, 76))
    for _ in range(min(lists, len(data) // size)):
        more = struct.unpack(f"<{size // 4}I", sector(first_list))
        numbers += more[:-1]
        first_list = more[-1]
    table: list[int] = []
    for number in numbers:
        if number < 0xFFFFFFFA:
            table += struct.unpack(f"<{size // 4}I", sector(number))
    directory = _chain(first_directory, table, sector)
    entries: dict[str, tuple[int, int]] = {}  # by name: the first sector, and the length
    for at in range(0, len(directory) - 127, 128):
        entry = directory[at : at + 128]
        name = entry[: max(0, struct.unpack_from("<H", entry, 64)[0] - 2)].decode("utf-16-le", "replace")
        entries[name] = struct.unpack_from("<II", entry, 116)
    start, length = entries.get("Workbook") or entries.get("Book") or (len(table), 0)
    if length >= cutoff or "Root Entry" not in entries:
        return _chain(start, table, sector)[:length]
    smalls = _chain(first_small, table, sector)
    held = _chain(entries["Root Entry"][0], table, sector)
    numbers = list(struct.unpack(f"<{len(smalls) // 4}I", smalls))
    return _chain(start, numbers, lambda number: held[number * small : (number + 1) * small])[:length]


def _chain(number: int, table: list[int], sector: Callable[[int], bytes]) -> bytes:
    out: list[bytes] = []
    while number < len(table) and len(out) <= len(table):
        out.append(sector(number))
        number = table[number]
    return b"".join(out)
