"""Copies of files that Spark could not read as they are.

It can't skip lines, its reader of lines knows no encoding but UTF-8, and its reader of delimited text drops
lines of nothing but spaces and tabs, which are records: a tab between two empty fields, a value of spaces in
the only column. Lines end with CR, LF or both, for Spark and here, and with nothing else.
"""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from lading.errors import SourceError
from lading.formats.delimited import NOTHING
from lading.formats.heads import Dialect, first_record
from lading.formats.opening import READ_ERRORS, open_plain, undecodable, unreadable
from lading.model import FoundFile

_BLOCK = 1 << 20
_SPACE = 0x20  # what Java trims: this and all below
_BLANKS = bytes(range(_SPACE + 1))
_ENDS = (0x0A, 0x0D)


@dataclass(frozen=True, slots=True)
class Copying:
    """What has to become of a file before Spark reads it."""

    skip: int = 0
    to_utf8: bool = False
    blank_records: Dialect | None = None  # how the lines are written that Spark would drop

    def __bool__(self) -> bool:
        return bool(self.skip or self.to_utf8 or self.blank_records)


def write_copy(found: FoundFile, path: str, encoding: str, how: Copying) -> None:
    try:
        with open(path, "wb") as copy:
            for block in _copied(found, encoding, how):
                copy.write(block)
    except SourceError:
        os.unlink(path)  # half a file must not be read with the others
        raise


def _copied(found: FoundFile, encoding: str, how: Copying) -> Iterator[bytes]:
    target = "utf-8" if how.to_utf8 else encoding.removesuffix("-sig")
    errors = "strict" if how.to_utf8 else "surrogateescape"  # what is none of the encoding's, Spark says
    encode = codecs.getincrementalencoder(target)(errors).encode  # one byte order mark, not one a block
    try:
        with (
            open_plain(found.path) as plain,
            io.TextIOWrapper(plain, encoding, errors=errors, newline="") as text,
        ):
            for _ in islice(text, how.skip):
                pass
            if how.blank_records is None:
                yield from map(encode, iter(lambda: text.read(_BLOCK), ""))
                return
            header = _header_lines(found.path, how.blank_records) - how.skip
            for number, line in enumerate(text, start=1):
                yield encode(line if number <= header else _kept(line, how.blank_records))
    except UnicodeError as error:
        raise undecodable(found.key, found.path, encoding) from error
    except READ_ERRORS as error:
        raise unreadable(found.path, error) from error


def _header_lines(path: str, dialect: Dialect) -> int:
    record = first_record(path, dialect) if dialect.header else None
    return record.last_line if record is not None else 0


def _kept(line: str, dialect: Dialect) -> str:
    """The line so that Spark takes it for a record with the same fields."""
    bare = line.rstrip("\r\n")
    if not bare or any(ord(char) > _SPACE for char in bare):
        return line
    first, delimiter, rest = bare.partition(dialect.delimiter)
    said = NOTHING if not first or dialect.trim else f"{dialect.quote}{first}{dialect.quote}"
    return said + delimiter + rest + line[len(bare) :]


def has_blank_records(path: str, dialect: Dialect) -> bool:
    """Whether there is a line that is not empty and that Spark would still drop. Where it reads files whole,
    for values that span lines or for wide encodings, it drops none."""
    if dialect.reads_whole:
        return False
    try:
        with open_plain(path) as plain:
            before = b"\n"
            for block in iter(lambda: plain.read(_BLOCK), b""):
                data = before + block
                if _blank_in(data):
                    return True
                # The last line may go on in the next block: all that counts is whether it is blank so far.
                rest = data[max(data.rfind(b"\n"), data.rfind(b"\r")) + 1 :]
                before = b"\n" + (b"x" if rest.strip(_BLANKS) else rest[:1])
            return _blank_in(before + b"\n")
    except READ_ERRORS as error:
        raise unreadable(path, error) from error


def _blank_in(data: bytes) -> bool:
    """Whether a whole line of nothing but blanks is in it; `data` begins with the end of a line."""
    codes = np.frombuffer(data, np.uint8)
    ends = (codes == _ENDS[0]) | (codes == _ENDS[1])
    starts = np.flatnonzero(ends[:-1] & ~ends[1:] & (codes[1:] <= _SPACE)) + 1
    if not len(starts):
        return False
    solid = np.flatnonzero(ends | (codes > _SPACE))
    place = np.searchsorted(solid, starts)
    inside = place < len(solid)
    return bool(ends[solid[place[inside]]].any())
