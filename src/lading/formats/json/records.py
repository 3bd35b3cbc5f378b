"""The records of a JSON file as texts, with their lines: its lines, or the elements of its array.

A file is read in blocks. Only a record that spans blocks is held longer than one of them, and none may be
longer than a line of a compressed file. Texts are cut, never written anew: each keeps every character.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import IO

import numpy as np
import pyarrow as pa

from lading.formats.json.structure import depths, outside_strings
from lading.formats.opening import BeyondBounds
from lading.formats.reader import WHOLE, Piece

BLOCK = 4 << 20  # bytes of text that are read at once

_SPACE = b" \t\r\n"
_LONGEST = 1 << 30  # bytes of a record, whatever is allowed: Arrow's texts end at twice as many
_SEEN = 1 << 18  # bytes of what is no record
_NEVER_ENDS = "is not one JSON object: the document never ends"
_MORE = "is not one JSON object: there is more text behind the document"


@dataclass(frozen=True, slots=True)
class Records:
    """Records that follow each other."""

    texts: list[bytes]
    lines: np.ndarray  # where each of them begins, from 1 in the piece
    taken_lines: int
    broken: str | None = None  # why the last of them is no record, but all that is left of the document

    def parts(self, size: int = 4_096) -> Iterator[Records]:
        """The same in parts of `size`: what is made of so many at once stays in the processor's caches."""
        rest = len(self.texts) - size
        for at in range(0, max(rest, 0), size):
            yield Records(self.texts[at : at + size], self.lines[at : at + size], 0)
        last = -(-max(rest, 0) // size) * size
        yield Records(self.texts[last:], self.lines[last:], self.taken_lines, self.broken)

    def not_utf8(self) -> list[int]:
        """The places of those that aren't."""
        if _is_utf8(b"\n".join(self.texts)):
            return []
        return [at for at, text in enumerate(self.texts) if not _is_utf8(text)]


def records_of(
    stream: IO[bytes], *, multiline: bool, longest: int, piece: Piece = WHOLE, block: int = BLOCK
) -> Iterator[Records]:
    """`stream` begins a byte before the piece, or with it at the start of the file. A record of more than
    `longest` bytes raises BeyondBounds."""
    longest = min(longest, _LONGEST)
    if multiline:
        return _document(stream, block, longest)
    return _lines(stream, piece, block, longest)


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        pa.array([text], pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True


def _lines(stream: IO[bytes], piece: Piece, block: int, longest: int) -> Iterator[Records]:
    at, data = _first_line(stream, piece, block)
    ended, last, number = False, False, 1
    while not last and (piece.end is None or at < piece.end):
        cut, last = _cut(data, None if piece.end is None else piece.end - at, ended)
        if cut:
            lines = data[:cut].splitlines()
            if at == 0:
                lines[0] = lines[0].removeprefix(codecs.BOM_UTF8)
            found = _of_lines(lines, number)
            yield found
            data, at, number = data[cut:], at + cut, number + found.taken_lines
        if not last:
            _bound(data, longest)
            more = stream.read(block)
            data, ended = data + more, not more


def _of_lines(lines: list[bytes], number: int) -> Records:
    numbers = np.arange(number, number + len(lines))
    if all(lines) and not any(map(bytes.isspace, lines)):
        return Records(lines, numbers, len(lines))
    there = [at for at, line in enumerate(lines) if line and not line.isspace()]
    return Records([lines[at] for at in there], numbers[there], len(lines))


def _first_line(stream: IO[bytes], piece: Piece, block: int) -> tuple[int, bytes]:
    """The first line of a piece begins behind the first line end from its last byte but one: where that is,
    and what was read from there on."""
    data = stream.read(block)
    if piece.start == 0:
        return 0, data
    at, more = piece.start - 1, data
    while not (begin := _line_end(data, 0, final=not more)):
        if not more:
            return at + len(data), b""
        kept = 1 if data.endswith(b"\r") else 0  # which may be half of a line end
        at += len(data) - kept
        more = stream.read(block)
        data = data[len(data) - kept :] + more
    return at + begin, data[begin:]


def _cut(data: bytes, own: int | None, ended: bool) -> tuple[int, bool]:
    """How much of `data`, in whole lines, can be given, and whether it is the last: lines that begin `own`
    bytes on belong to others."""
    if own is not None and len(data) >= own:
        end = _line_end(data, own - 1, final=ended)
        if end or ended:
            return end or len(data), True
    if ended:
        return len(data), True
    newline = data.rfind(b"\n")
    return max(newline, data.rfind(b"\r", newline + 1, len(data) - 1)) + 1, False


def _line_end(data: bytes, start: int, *, final: bool) -> int:
    """The place behind the first line end from `start` on; 0 if there is none, or it may not be all there."""
    newline = data.find(b"\n", start)
    turn = data.find(b"\r", start, len(data) if newline < 0 else newline)
    if turn < 0:
        return newline + 1
    if turn + 1 == len(data):
        return turn + 1 if final else 0
    return turn + 2 if turn + 1 == newline else turn + 1


def _bound(data: bytes, longest: int) -> None:
    if len(data) > longest:
        raise BeyondBounds(f"it has a record of more than {longest:,} bytes (max_line)")


class _Chunks:
    """A document in pieces that end with no backslash, which would belong to what follows."""

    def __init__(self, stream: IO[bytes], block: int, longest: int) -> None:
        self._stream, self._block, self._longest = stream, block, longest
        self._first = True
        self._newlines, self._ended = 0, True  # whether the last line has its end

    @property
    def lines(self) -> int:
        """As many as went by."""
        return self._newlines + (not self._ended)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = self._stream.read(max(self._block, len(codecs.BOM_UTF8)))
        while chunk.endswith(b"\\") and (more := self._stream.read(self._block)):
            chunk += more
            _bound(chunk, self._longest)
        if self._first:
            chunk, self._first = chunk.removeprefix(codecs.BOM_UTF8), False
        if not chunk:
            raise StopIteration
        self._newlines += chunk.count(b"\n")
        self._ended = chunk.endswith(b"\n")
        return chunk


def _document(stream: IO[bytes], block: int, longest: int) -> Iterator[Records]:
    chunks = _Chunks(stream, block, longest)
    given = 0
    for found in _in_document(chunks, longest):
        given += found.taken_lines
        yield found
    for _ in chunks:
        pass  # to the end, so that all lines are counted and all bytes digested
    if chunks.lines > given:
        yield Records([], np.zeros(0, np.int64), chunks.lines - given)


def _in_document(chunks: _Chunks, longest: int) -> Iterator[Records]:
    newlines = 0
    for chunk in chunks:
        text = chunk.lstrip(_SPACE)
        newlines += chunk[: len(chunk) - len(text)].count(b"\n")
        if text:
            inner = _elements(text[1:], chunks, longest) if text[:1] == b"[" else _only(text, chunks, longest)
            for found in inner:
                yield replace(found, lines=found.lines + newlines)
            return


def _elements(begin: bytes, chunks: Iterator[bytes], longest: int) -> Iterator[Records]:
    """Of the array whose bracket stands before `begin`."""
    left = b""  # of an element of which the end has not been seen
    line, depth, inside, first = 1, 1, False, True
    for text in chain([begin], chunks):
        places, inside = outside_strings(text, b"[]{},", inside=inside)
        deep = depths(text, places, depth)
        depth = int(deep[-1]) if len(deep) else depth
        ends = np.flatnonzero(deep == 0)[:1]
        if len(ends):
            places, deep = places[: ends[0] + 1], deep[: ends[0] + 1]
        commas = np.frombuffer(text, np.uint8)[places] == ord(",")
        cuts = places[(commas & (deep == 1)) | (deep == 0)] + len(left)
        left += text
        if len(cuts):
            end = int(cuts[-1]) + 1
            empty = first and len(ends) == len(cuts) and not left[: end - 1].strip(_SPACE)
            found = _between(left[:end], cuts[:0] if empty else cuts, line)
            yield found
            line, first, left = line + found.taken_lines, False, left[end:]
        if len(ends):
            yield from _behind(b"", left, chunks, line)
            return
        _bound(left, longest)
    yield _broken(left, _NEVER_ENDS, line)


def _between(data: bytes, cuts: np.ndarray, line: int) -> Records:
    """The texts before each of the cuts, without the space around them."""
    begins = np.concatenate([[0], cuts[:-1] + 1])[: len(cuts)]
    wide = [data[begin:end] for begin, end in zip(begins.tolist(), cuts.tolist(), strict=True)]
    bare = [text.lstrip(_SPACE) for text in wide]
    starts = begins + np.array([len(text) - len(rest) for text, rest in zip(wide, bare, strict=True)], int)
    newlines = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    lines = line + np.searchsorted(newlines, starts)
    return Records([text.rstrip(_SPACE) for text in bare], lines, len(newlines))


def _only(begin: bytes, chunks: Iterator[bytes], longest: int) -> Iterator[Records]:
    """A document that is no array is the record."""
    whole, depth, inside = b"", 0, False
    for text in chain([begin], chunks):
        places, inside = outside_strings(text, b"[]{}", inside=inside)
        deep = depths(text, places, depth)
        depth = int(deep[-1]) if len(deep) else depth
        ends = np.flatnonzero(deep == 0)[:1]
        whole += text
        if len(ends):
            end = len(whole) - len(text) + int(places[ends[0]]) + 1
            behind = list(_behind(whole[:end], whole[end:], chunks, 1))
            yield from behind or [Records([whole[:end]], np.ones(1, np.int64), 0)]
            return
        _bound(whole, longest)
    yield Records([whole.rstrip(_SPACE)], np.ones(1, np.int64), 0)


def _behind(document: bytes, text: bytes, chunks: Iterator[bytes], line: int) -> Iterator[Records]:
    """Whatever stands behind the end of a document, as much of it as anyone wants to see."""
    found = b""
    for more in chain([text], chunks):
        if found or more.strip(_SPACE):
            found += more
            if len(found) > _SEEN:
                break
        else:
            line += more.count(b"\n")
    if found:
        yield _broken(document + found, _MORE, line)


def _broken(text: bytes, why: str, line: int) -> Records:
    bare = text.lstrip(_SPACE)
    line += text[: len(text) - len(bare)].count(b"\n")
    return Records([bare.rstrip(_SPACE)], np.array([line]), 0, why)
