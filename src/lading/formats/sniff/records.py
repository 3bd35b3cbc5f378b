"""The records of a text under one hypothesis: what separates values, and what they are quoted with."""

from __future__ import annotations

import csv
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lading.formats.dialect import Records

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


@dataclass(frozen=True, slots=True)
class Way:
    """How values are told apart. Without a quote, `"` is a character like any other."""

    delimiter: str
    quote: str | None = '"'
    escape: str | None = None
    multiline: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    fields: list[str]
    line: int  # from 1, where it begins
    lines: int = 1


_limit_lock = threading.Lock()
_limit_users = 0
_limit_before = 0


@contextmanager
def long_fields() -> Iterator[None]:
    """Fields of any length for Python's csv module, whose limit of 128 kB is the whole process's."""
    global _limit_users, _limit_before
    with _limit_lock:
        if not _limit_users:
            _limit_before = csv.field_size_limit(1 << 31)
        _limit_users += 1
    try:
        yield
    finally:
        with _limit_lock:
            _limit_users -= 1
            if not _limit_users:
                csv.field_size_limit(_limit_before)


def lines_of(text: str) -> list[str]:
    """With their ends: LF, CR or both."""
    return _LINE.findall(text)


def records_of(lines: Sequence[str], way: Way, *, first: int = 1) -> list[Record]:
    """Blank lines are no records. `first` is the number of the first line."""
    with long_fields():
        return list(_spanning(lines, way, first) if way.multiline else _lines(lines, way, first))


def _lines(lines: Sequence[str], way: Way, first: int) -> Iterator[Record]:
    marks = [mark for mark in (way.quote, way.escape) if mark is not None]
    for number, line in enumerate(lines, start=first):
        bare = line.rstrip("\r\n")
        if not bare:
            continue
        if way.quote is None or not any(mark in bare for mark in marks):
            yield Record(bare.split(way.delimiter), number)
        else:
            try:
                yield Record(next(_reader([bare], way)), number)
            except csv.Error:
                yield Record([bare], number)  # a quote where none may be


def _spanning(lines: Sequence[str], way: Way, first: int) -> Iterator[Record]:
    reader = _reader(lines, way)
    begins = 0
    while True:
        try:
            fields = next(reader, None)
        except csv.Error:
            fields = [""]
        if fields is None:
            return
        if fields:
            yield Record(fields, first + begins, reader.line_num - begins)
        begins = reader.line_num


def _reader(lines: Sequence[str], way: Way) -> Records:
    return csv.reader(
        lines,
        delimiter=way.delimiter,
        quotechar=way.quote,
        quoting=csv.QUOTE_NONE if way.quote is None else csv.QUOTE_MINIMAL,
        escapechar=way.escape,
        doublequote=way.escape is None,
        strict=True,
    )
