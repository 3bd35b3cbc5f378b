"""Blocks of delimited text cut into records, and which of them are plain enough for Arrow's parser.

A quote is in its place at the edge of a field, or beside another one inside quotes. Where all are, the parity
of quotes says what is inside them; a record where one is not is strange and is scanned by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lading.formats.csv.scan import Marks, Scanner
from lading.formats.lines import LONGEST, too_long

_LF, _CR = 0x0A, 0x0D
_STRANGE = 64  # records of a block with quotes out of place, beyond which all are scanned one by one
_SHOWN = 1 << 16  # bytes of a record that is never closed
_NO_PLACES = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Cut:
    """Records that follow each other, blank lines and comments among them."""

    data: bytes
    starts: np.ndarray
    ends: np.ndarray  # without the line ends
    nexts: np.ndarray  # with them
    lines: np.ndarray  # on which each begins, from 0
    line_count: int
    strange: np.ndarray


def cut_lines(data: bytes, marks: Marks) -> Cut:
    """Every line is a record, and ends with LF."""
    codes = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(codes == _LF)
    starts = np.concatenate(([0], ends[:-1] + 1))
    strange = np.full(len(ends), not marks.narrow)
    if marks.narrow and marks.quote in data:
        quotes = np.flatnonzero(codes == marks.quote[0])
        upto = np.searchsorted(quotes, ends)
        counts = np.diff(upto, prepend=0)
        line_of = np.repeat(np.arange(len(ends)), counts)
        order = np.arange(len(quotes)) - (upto - counts)[line_of]
        strange[line_of[_misplaced(codes, quotes, order, marks)]] = True
        strange |= counts % 2 == 1
    if marks.escape is not None and marks.escape in data:
        escapes = np.flatnonzero(codes == marks.escape[0])
        strange[np.searchsorted(ends, escapes)] = True
    return Cut(data, starts, ends, ends + 1, np.arange(len(ends)), len(ends), strange)


def cut_records(chunks: Iterator[bytes], marks: Marks, size: int, key: str) -> Iterator[Cut]:
    """A record may span lines: those inside quotes."""
    held = b""
    wanted = size
    for chunk in chunks:
        held += chunk
        if len(held) < wanted:
            continue
        cut = _Cutter(held, marks).cut(final=False)
        taken = int(cut.nexts[-1]) if len(cut.nexts) else 0
        if taken:
            yield cut
        held = held[taken:]
        wanted = max(size, 2 * len(held))  # a long record is looked at a few times, not at every chunk
        if len(held) > LONGEST:
            yield _endless(held, chunks, marks, key)
            return
    if held:
        yield _Cutter(held, marks).cut(final=True)


def _endless(held: bytes, chunks: Iterator[bytes], marks: Marks, key: str) -> Cut:
    """A record of which no end is in sight: if no quote follows, one was never closed."""
    if Scanner(marks).record(held, final=False) is not None or held.count(marks.quote) % 2 == 0:
        raise too_long(key, "record")
    lines, last = _line_ends(held), held[-1:]
    for chunk in chunks:
        if marks.quote in chunk:
            raise too_long(key, "record")
        lines += _line_ends(chunk) - (last == b"\r" and chunk.startswith(b"\n"))
        last = chunk[-1:]
    lines += last not in (b"\n", b"\r")
    shown = held[:_SHOWN]
    one = np.array([len(shown)])
    return Cut(shown, np.array([0]), one, one, np.array([0]), lines, np.array([True]))


def _line_ends(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


class _Cutter:
    """Cuts one block."""

    def __init__(self, data: bytes, marks: Marks) -> None:
        self._data = data
        self._marks = marks
        self._scanner = Scanner(marks)
        self._codes = codes = np.frombuffer(data, np.uint8)
        self._quotes = np.flatnonzero(codes == marks.quote[0]) if marks.narrow else _NO_PLACES
        ends = codes == _LF
        if b"\r" in data:
            ends[:-1] |= (codes[:-1] == _CR) & ~ends[1:]
            ends[-1] |= codes[-1] == _CR
        self._ends = np.flatnonzero(ends)  # the last byte of each line end
        self._pieces: list[tuple[np.ndarray, np.ndarray, np.ndarray, bool]] = []

    def cut(self, *, final: bool) -> Cut:
        """As many whole records as there are; all, if the block is the last."""
        if not final and len(self._ends) and self._ends[-1] == len(self._data) - 1 and self._data[-1] == _CR:
            self._ends = self._ends[:-1]  # it may be half of a line end
        at = self._by_quotes(final) if self._has_plain_quotes() else self._one_by_one(0, final)
        if final and at < len(self._data):
            at = self._one_by_one(at, final)
        return self._made(at, final)

    def _has_plain_quotes(self) -> bool:
        marks = self._marks
        if not marks.narrow or (marks.escape is not None and marks.escape in self._data):
            return False
        if marks.comment is None or marks.comment not in self._data:
            return True
        # A quote in a comment opens nothing.
        starts = np.concatenate(([0], self._ends + 1))
        ends = np.append(self._ends, len(self._data))
        quotes = np.searchsorted(self._quotes, ends) - np.searchsorted(self._quotes, starts)
        return not any(self._data.startswith(marks.comment, start) for start in starts[quotes > 0].tolist())

    def _by_quotes(self, final: bool) -> int:
        at = 0
        for _ in range(_STRANGE):
            quotes = self._quotes[np.searchsorted(self._quotes, at) :]
            ends = self._ends[np.searchsorted(self._ends, at) :]
            wrong = _misplaced(self._codes, quotes, np.arange(len(quotes)), self._marks, start=at)
            whole = np.searchsorted(quotes, ends) % 2 == 0
            if wrong.any():
                whole &= ends < quotes[np.argmax(wrong)]
            at = self._take(at, ends[whole], strange=False)
            if not wrong.any():
                return at
            record = self._scanner.record(self._data, at, final=final)
            if record is None:
                return at
            at = self._take_one(at, record.end, record.next)
        return self._one_by_one(at, final)

    def _one_by_one(self, at: int, final: bool) -> int:
        comment = self._marks.comment
        while at < len(self._data):
            if comment is not None and self._data.startswith(comment, at):
                ends = self._ends[np.searchsorted(self._ends, at) :][:1]
                if not len(ends) and not final:
                    return at
                at = (
                    self._take(at, ends, strange=False)
                    if len(ends)
                    else self._take_one(at, len(self._data), len(self._data))
                )
                continue
            record = self._scanner.record(self._data, at, final=final)
            if record is None:
                return at
            at = self._take_one(at, record.end, record.next)
        return at

    def _take(self, at: int, ends: np.ndarray, *, strange: bool) -> int:
        """Records up to each of these line ends."""
        if not len(ends):
            return at
        nexts = ends + 1
        starts = np.concatenate(([at], nexts[:-1]))
        pairs = (self._codes[ends] == _LF) & (ends > starts) & (self._codes[np.maximum(ends - 1, 0)] == _CR)
        self._pieces.append((starts, ends - pairs, nexts, strange))
        return int(nexts[-1])

    def _take_one(self, at: int, end: int, following: int) -> int:
        self._pieces.append((np.array([at]), np.array([end]), np.array([following]), True))
        return following

    def _made(self, at: int, final: bool) -> Cut:
        pieces = self._pieces
        starts, ends, nexts = (
            np.concatenate([piece[part] for piece in pieces]) if pieces else _NO_PLACES for part in range(3)
        )
        strange = (
            np.repeat([piece[3] for piece in pieces], [len(piece[0]) for piece in pieces])
            if pieces
            else np.empty(0, bool)
        )
        lines = np.searchsorted(self._ends, starts)
        count = int(np.searchsorted(self._ends, at))
        count += final and at > 0 and (not len(self._ends) or int(self._ends[-1]) != at - 1)
        return Cut(self._data, starts, ends, nexts, lines, count, strange)


def _misplaced(
    codes: np.ndarray, quotes: np.ndarray, order: np.ndarray, marks: Marks, start: int = 0
) -> np.ndarray:
    """Which quotes neither open nor close a field, `order` being their number in the record or the block."""
    if not len(quotes):
        return np.empty(0, bool)
    before = np.where(quotes > start, codes[quotes - 1], _LF)
    after = np.where(quotes + 1 < len(codes), codes[np.minimum(quotes + 1, len(codes) - 1)], _LF)
    opens, closes = _edge(before, marks), _edge(after, marks)
    if marks.escape is None:
        beside = np.diff(quotes) == 1
        opens[1:] |= beside & (order[1:] > 0)
        closes[:-1] |= beside
    return ~np.where(order % 2 == 0, opens, closes)


def _edge(codes: np.ndarray, marks: Marks) -> np.ndarray:
    edge: np.ndarray = (codes == marks.delimiter[0]) | (codes == _LF) | (codes == _CR)
    return edge
