"""Whether every quote of a delimited file is closed.

Spark takes what follows a quote that is never closed for the value: the first half of a value that spans
two lines, or with `multiline` the whole rest of the file, and says nothing. So the file is looked at
before. One without a quote costs a search for that byte, others a count of them by line; only lines that
may be at fault are taken apart.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import IO

import numpy as np

from lading.formats.heads import Dialect, long_fields
from lading.formats.opening import READ_ERRORS, open_plain, unreadable

_CHUNK = 1 << 20
_LINE_END = re.compile(r"\r\n|\r|\n")
_END = "\ue000lading: end\ue001"  # a record of its own, unless a quote is open before it


def unclosed_quote(path: str, dialect: Dialect) -> int | None:
    """The line of the first record with a quote that is never closed; None when there is none."""
    try:
        quote = _as_byte(dialect.quote, dialect)
        if quote is not None:
            count = _count(path, quote)
            only_records = dialect.escape is None and dialect.comment is None and not dialect.skip
            if count == 0 or (dialect.multiline and only_records and count % 2 == 0):
                return None
        if dialect.multiline or quote is None:
            return _in_file(path, dialect)
        return _in_lines(path, dialect, quote)
    except READ_ERRORS as error:
        raise unreadable(path, error) from error


def _as_byte(text: str, dialect: Dialect) -> bytes | None:
    """None in encodings where that byte may stand for something else."""
    try:
        plain = "\n".encode(_encoding(dialect)) == b"\n" and text.isascii()
        return text.encode(_encoding(dialect)) if plain else None
    except (LookupError, UnicodeError):
        return None


def _encoding(dialect: Dialect) -> str:
    return dialect.encoding.removesuffix("-sig")


def _count(path: str, quote: bytes) -> int:
    with open_plain(path) as plain:
        return sum(chunk.count(quote) for chunk in iter(lambda: plain.read(_CHUNK), b""))


def _in_lines(path: str, dialect: Dialect, quote: bytes) -> int | None:
    escaped = None if dialect.escape is None else dialect.escape.encode(_encoding(dialect)) + quote
    comment = None if dialect.comment is None else dialect.comment.encode(_encoding(dialect))
    with open_plain(path) as plain, long_fields():
        for number, line in _lines_in_question(plain, quote, escaped):
            if line.count(quote) % 2 == 0 and (escaped is None or escaped not in line):
                continue
            # Lines may also end with a lone CR, which the loop above doesn't know.
            pieces = _LINE_END.split(line.decode(_encoding(dialect), errors="replace"))
            for place, piece in enumerate(pieces):
                left_out = number + place <= dialect.skip or (
                    comment is not None and piece.startswith(str(dialect.comment))
                )
                if not left_out and _stays_open(iter([piece + "\n"]), dialect) is not None:
                    return number + place
    return None


def _lines_in_question(plain: IO[bytes], quote: bytes, escaped: bytes | None) -> Iterator[tuple[int, bytes]]:
    """The lines, each with its number, that have an odd count of quotes or, for all that a look at the block
    says, an escaped one. Counted for all lines of a block at once: most files have no such line."""
    before = 0
    for block in _blocks_of_lines(plain):
        codes = np.frombuffer(block, np.uint8)
        ends = np.flatnonzero(codes == ord("\n"))
        lines = np.searchsorted(ends, np.flatnonzero(codes == ord(quote)))
        counts = np.bincount(lines, minlength=len(ends) + 1)
        in_question = counts > 0 if escaped is not None and escaped in block else counts % 2 == 1
        for line in np.flatnonzero(in_question).tolist():
            start = int(ends[line - 1]) + 1 if line else 0
            end = int(ends[line]) + 1 if line < len(ends) else len(block)
            yield before + line + 1, block[start:end]
        before += len(ends)


def _blocks_of_lines(plain: IO[bytes]) -> Iterator[bytes]:
    """The file in pieces that end with a line."""
    held: list[bytes] = []
    for chunk in iter(lambda: plain.read(_CHUNK), b""):
        end = chunk.rfind(b"\n") + 1
        if end:
            yield b"".join([*held, chunk[:end]])
            held = []
        held.append(chunk[end:])
    if any(held):
        yield b"".join(held)


def _in_file(path: str, dialect: Dialect) -> int | None:
    """Records may span lines: the one that is open at the end of the file began too early."""
    with (
        open_plain(path) as plain,
        io.TextIOWrapper(plain, dialect.encoding, errors="replace", newline="") as text,
        long_fields(),
    ):
        skipped = sum(1 for _ in islice(text, dialect.skip))
        found = _stays_open(text, dialect)
    return None if found is None else skipped + found


def _stays_open(lines: Iterator[str], dialect: Dialect) -> int | None:
    """The line, from 1, of the record that is open at the end."""
    fresh = True

    def without_comments() -> Iterator[str]:
        nonlocal fresh
        for line in lines:
            comment = fresh and dialect.comment is not None and line.startswith(dialect.comment)
            fresh = False
            yield "\n" if comment else line

    start, begins = 1, 1
    closed = False
    reader = dialect.reader(chain(without_comments(), ["\n", _END]))
    try:
        for record in reader:
            start, begins = begins, reader.line_num + 1
            fresh, closed = True, record == [_END]
    except csv.Error:
        return None  # Python and Spark disagree on this file: what Spark makes of it is judged there
    return None if closed else start
