"""The records of a text file as Spark counts them, each with its first line and its text.

Spark says of a row which record of its file it is, not where that record stands. This second read, of
bad files only, says the rest. It has to skip what Spark skips: the header, empty lines and comments.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from lading.formats.heads import Dialect, long_fields
from lading.formats.json_array import elements_of
from lading.formats.opening import READ_ERRORS, open_plain, unreadable
from lading.model import DELIMITERS, Format, Layout

_BLANK = "".join(map(chr, range(33)))  # what Java trims
_SPACES = " \t\n\x0b\f\r"  # between the objects of JSON


def records(
    path: str, fmt: Format, read_options: Mapping[str, Any], *, layout: Layout | None = None
) -> Iterator[tuple[int, str]]:
    """(line, text) of each record, in the order of the file; none for files whose records have no lines."""
    if fmt == "parquet":
        return
    dialect = Dialect.of(read_options, fmt)
    try:
        if fmt == "json" and dialect.multiline:
            yield from _in_array(path)
            return
        with (
            open_plain(path) as plain,
            io.TextIOWrapper(plain, dialect.encoding, errors="replace", newline="") as text,
            long_fields(),
        ):
            skipped = sum(1 for _ in islice(text, dialect.skip))
            delimited = fmt in DELIMITERS
            if layout is not None:
                found = _fixed(text, layout)
            elif delimited and dialect.reads_whole:
                found = _spanning(text, dialect)
            else:
                found = _delimited_lines(text, dialect) if delimited else _json_lines(text)
            found = ((skipped + line, record) for line, record in found)
            if dialect.header and delimited:
                next(found, None)
            yield from found
    except READ_ERRORS as error:
        raise unreadable(path, error) from error


def _delimited_lines(text: io.TextIOWrapper, dialect: Dialect) -> Iterator[tuple[int, str]]:
    """A line is a record unless it is empty; only in search of a header blanks are passed over."""
    searching = dialect.header
    for number, line in enumerate(text, start=1):
        if line.strip(_BLANK if searching else "\r\n") and not (
            dialect.comment and line.startswith(dialect.comment)
        ):
            searching = False
            yield number, line.rstrip("\r\n")


def _json_lines(text: io.TextIOWrapper) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text, start=1):
        if line.strip(_SPACES):
            yield number, line.rstrip("\r\n")


def _in_array(path: str) -> Iterator[tuple[int, str]]:
    with open_plain(path) as plain:
        text = plain.read().decode("utf-8", errors="replace")
    line, seen = 1, 0
    for start, end in elements_of(text):
        line += text.count("\n", seen, start)
        seen = start
        yield line, text[start:end]


def _fixed(text: io.TextIOWrapper, layout: Layout) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text, start=1):
        record = line.rstrip("\r\n")
        if layout.filter is not None:
            position, length, value = layout.filter
            if record[position : position + length] != value and len(record) >= position + length:
                continue
        yield number, record


def _spanning(text: io.TextIOWrapper, dialect: Dialect) -> Iterator[tuple[int, str]]:
    """Records that may span lines: what the reader consumed for each."""
    taken: list[str] = []

    def noted() -> Iterator[str]:
        for line in text:
            if taken or not (dialect.comment and line.startswith(dialect.comment)):
                taken.append(line)
                yield line
            else:
                yield "\n"  # a comment: as good as a blank line, and still a line

    try:
        reader = dialect.reader(noted())
        start = 1
        for fields in reader:
            if fields:
                yield start, re.sub(r"\r\n?", "\n", "".join(taken)).strip("\n")
            start = reader.line_num + 1
            taken.clear()
    except csv.Error:
        return  # Python and Spark disagree on this file's quotes: no line is better than a wrong one
