"""What people see: short lines and small tables, in plain words, on any terminal or none."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

from rich.console import Console
from rich.table import Table

from lading.errors import ConfigError

_VERDICT_ORDER = ("new", "changed", "reread", "touched", "failed", "vanished", "quarantined", "unchanged")
_WIDE = 160  # for a pipe or a file, which have no width of their own


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # the command line decides what a closed pipe means, not rich


def console(file: IO[str] | None = None) -> Console:
    """A console that takes text as it is: a file called `[red].csv` is not markup."""
    stream = file or sys.stdout
    width = None if stream.isatty() else _WIDE
    return _Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


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
    """A small table; the columns named in `right` hold numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(plain(column), justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    console().print(table)


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return plain(str(value))


def verdict_words(verdicts: Mapping[str, int]) -> str:
    """`2 new, 1 changed, 10 unchanged`."""
    words = [f"{verdicts[name]:,} {name}" for name in _VERDICT_ORDER if verdicts.get(name)]
    return ", ".join(words) or "no files"


def byte_words(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


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
