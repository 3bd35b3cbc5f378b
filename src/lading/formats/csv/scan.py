"""One record taken apart, byte by byte where it has to be: for the few that are not plain.

Fields are those of RFC 4180, as Python's csv reads them. What the RFC doesn't know is kept as it stands: a
quote inside an unquoted field, text behind a closing quote.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from lading.formats.dialect import Dialect
from lading.formats.reasons import NEVER_CLOSED

BEHIND = "text follows a closing quote"
_BLANKS = b" \t"


@dataclass(frozen=True, slots=True)
class Marks:
    """A dialect's characters as they stand in UTF-8."""

    delimiter: bytes
    quote: bytes
    escape: bytes | None
    comment: bytes | None
    trim: bool

    @classmethod
    def of(cls, dialect: Dialect) -> Marks:
        escape = None if dialect.escape is None else dialect.escape.encode()
        comment = None if dialect.comment is None else dialect.comment.encode()
        return cls(dialect.delimiter.encode(), dialect.quote.encode(), escape, comment, dialect.trim)

    @property
    def narrow(self) -> bool:
        """Whether what separates fields is a byte each."""
        return len(self.delimiter) == len(self.quote) == 1


@dataclass(frozen=True, slots=True)
class Record:
    fields: list[bytes | None]  # None for nothing at all, b"" for a pair of quotes
    end: int  # without the line end
    next: int  # where the next record begins
    problem: str | None = None


@lru_cache(64)
def _any_of(*stops: bytes) -> re.Pattern[bytes]:
    """A plan takes the head of each new file apart, and all of them by the same marks."""
    return re.compile(b"|".join(map(re.escape, stops)))


class Scanner:
    """Takes records apart."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        stops = (marks.delimiter, b"\r", b"\n")
        self._stop = _any_of(*stops)
        self._stop_or_escape = _any_of(*stops, marks.escape or b"\n")

    def record(self, data: bytes, at: int = 0, *, final: bool = True) -> Record | None:
        """The record that begins at `at`; None when more has to be read (`final`: there is no more)."""
        fields: list[bytes | None] = []
        problem = None
        while True:
            field, at, wrong = self._field(data, at)
            fields.append(field)
            problem = problem or wrong
            if at >= len(data):
                return Record(fields, at, at, problem) if final else None
            if data.startswith(self._marks.delimiter, at):
                at += len(self._marks.delimiter)
                continue
            if data.startswith(b"\r\n", at):
                return Record(fields, at, at + 2, problem)
            if at + 1 == len(data) and data[at] == ord("\r") and not final:
                return None
            return Record(fields, at, at + 1, problem)

    def _field(self, data: bytes, begin: int) -> tuple[bytes | None, int, str | None]:
        """A field, where it ends, and what is wrong with it."""
        marks = self._marks
        at = self._past_blanks(data, begin)
        if not data.startswith(marks.quote, at):
            return self._unquoted(data, begin)
        parts: list[bytes] = []
        at += len(marks.quote)
        while True:
            close = data.find(marks.quote, at)
            escape = -1 if marks.escape is None else data.find(marks.escape, at, None if close < 0 else close)
            if escape >= 0 and marks.escape is not None:
                taken = _character(data, escape + len(marks.escape))
                parts += [data[at:escape], taken or marks.escape]
                at = escape + len(marks.escape) + len(taken)
                continue
            if close < 0:
                return data[begin:], len(data), NEVER_CLOSED
            parts.append(data[at:close])
            at = close + len(marks.quote)
            if marks.escape is not None or not data.startswith(marks.quote, at):
                break
            parts.append(marks.quote)
            at += len(marks.quote)
        end = self._past_blanks(data, at)
        if end == len(data) or self._stop.match(data, end):
            return b"".join(parts), end, None
        stop = self._stop.search(data, at)
        raw = data[begin : stop.start() if stop else len(data)]
        return raw, begin + len(raw), BEHIND if b"\n" in raw or b"\r" in raw else None

    def _unquoted(self, data: bytes, at: int) -> tuple[bytes | None, int, None]:
        parts: list[bytes] = []
        while True:
            stop = self._stop_or_escape.search(data, at)
            end = stop.start() if stop else len(data)
            parts.append(data[at:end])
            if stop is None or stop.group() != self._marks.escape:
                return b"".join(parts) or None, end, None
            taken = _character(data, stop.end())
            parts.append(taken or stop.group())
            at = stop.end() + len(taken)

    def _past_blanks(self, data: bytes, at: int) -> int:
        if self._marks.trim:
            while (
                data[at : at + 1] and data[at] in _BLANKS and not data.startswith(self._marks.delimiter, at)
            ):
                at += 1
        return at


def _character(data: bytes, at: int) -> bytes:
    """The one that begins there; nothing at the end."""
    end = at + 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return data[at:end]
