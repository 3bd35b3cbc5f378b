"""What people see: short lines and small tables, in plain words, on any terminal or none."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from shutil import get_terminal_size
from typing import Any
from unicodedata import combining, east_asian_width

from lading.errors import ConfigError

_WIDE = 160  # for a pipe or a file, which have no width of their own
_NARROWEST = 8  # what a column keeps however narrow the screen


def say(text: str) -> None:
    print(plain(text))


def note(text: str) -> None:
    """Something for the person that is not the answer: stderr, so that pipes stay clean."""
    print(plain(text), file=sys.stderr)


def print_json(value: Mapping[str, Any]) -> None:
    """One line. ASCII, so that no locale can break it."""
    print(json.dumps(value, default=str))


def plain(text: str) -> str:
    """One line that can't move the cursor or colour the screen: file names may hold anything."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[str] = ()) -> None:
    """A small table; the columns named in `right` hold numbers. What is too wide goes on in the next line."""
    titles = [plain(column) for column in columns]
    texts = [titles, *([cell(value) for value in row] for row in rows)]
    widths = _narrowed([max(map(_width, column)) for column in zip(*texts, strict=True)])
    lines = [
        "  ".join(
            piece.rjust(width - _width(piece) + len(piece)) if title in right
            else piece.ljust(width - _width(piece) + len(piece))
            for piece, width, title in zip(pieces, widths, columns, strict=True)
        ).rstrip()
        for text in texts
        for pieces in zip_longest(*map(_folded, text, widths), fillvalue="")
    ]  # fmt: skip
    if sys.stdout.isatty():
        lines[0] = f"\x1b[1m{lines[0]}\x1b[0m"
    print("\n".join(lines))


def _narrowed(widths: list[int]) -> list[int]:
    """So that a line fits the screen, the widest columns first; a pipe or a file takes any width."""
    room = (get_terminal_size().columns if sys.stdout.isatty() else _WIDE) - 2 * (len(widths) - 1)
    while sum(widths) > room and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return widths


def _folded(text: str, width: int) -> list[str]:
    """In pieces of at most that width, at least one."""
    if len(text) <= width and text.isascii():
        return [text]
    pieces, used = [""], 0
    for char in text:
        wide = _width(char)
        if used + wide > width:
            pieces.append("")
            used = 0
        pieces[-1] += char
        used += wide
    return pieces


def _width(text: str) -> int:
    """In cells of a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return plain(str(value))


_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_LONGEST = 30  # characters of a number that can be meant
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def byte_count(text: str, option: str) -> int:
    """`128MB` as a number of bytes; MB counts in thousands, MiB in 1,024s."""
    match = _SIZE.fullmatch(text.strip())
    size = 0
    if match and len(match[1]) <= _LONGEST:
        base = 1024 if match[3] else 1000
        size = int(float(match[1]) * base ** _POWERS[match[2].lower()])
    if size <= 0:
        raise ConfigError(f"{option} {text!r} is not a size", hint="write it as 500kB, 128MB, 1GB or 64MiB")
    return size
