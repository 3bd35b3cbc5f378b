"""The line of a bad row, by a second read of its file.

Spark hands out the text of a row that doesn't fit, not its place. The first line with that text is as
bad as any other with the same text, so it is the one to show.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from lading.model import BadRow, FoundFile
from lading.sources.heads import Dialect
from lading.sources.opening import READ_ERRORS, open_plain, unreadable


def locate(found: FoundFile, bad: BadRow, *, format: str, read_options: Mapping[str, Any]) -> int | None:
    """1-based line where the record starts; None when its text is not in the file or it has no lines."""
    if format == "parquet":
        return None
    dialect = Dialect.of(read_options, format)
    try:
        with (
            open_plain(found.path) as plain,
            io.TextIOWrapper(plain, dialect.encoding, errors="replace", newline="") as text,
        ):
            if dialect.multiline and format != "json":
                return _record(text, bad.text, dialect)
            return _line(text, bad.text)
    except READ_ERRORS as error:
        raise unreadable(found.path, error) from error


def _line(text: io.TextIOWrapper, wanted: str) -> int | None:
    for number, line in enumerate(text, start=1):
        if line.startswith(wanted) and line.rstrip("\r\n") == wanted:
            return number
    return None


def _record(text: io.TextIOWrapper, wanted: str, dialect: Dialect) -> int | None:
    """A record may span lines: compare what the reader consumed for each."""
    taken: list[str] = []
    # The default limit, 128 kB a field, is for the whole process: put it back.
    limit = csv.field_size_limit(1 << 31)
    try:
        records = dialect.reader(_noted(text, taken))
        start = 1
        for _ in records:
            if _one_newline("".join(taken)) == _one_newline(wanted):
                return start
            start = records.line_num + 1
            taken.clear()
    except csv.Error:
        return None  # Python and Spark disagree on this file's quotes: no line is better than a wrong one
    finally:
        csv.field_size_limit(limit)
    return None


def _noted(lines: Iterator[str], taken: list[str]) -> Iterator[str]:
    for line in lines:
        taken.append(line)
        yield line


def _one_newline(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
