"""The records of a JSON file as texts, with their lines: its lines, or the elements of its array.

A file is read in blocks, and only a record that spans some is held longer than one of them. Texts are cut,
never written anew: each keeps every character.
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
from lading.formats.lines import LONGEST, line_blocks, too_long, utf8_chunks
from lading.formats.reader import WHOLE, Piece
from lading.formats.source_file import SourceFile

BLOCK = 4 << 20  # bytes of text that are read at once

_SPACE = b" \t\r\n"
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
    file: SourceFile, *, multiline: bool, piece: Piece = WHOLE, block: int = BLOCK
) -> Iterator[Records]:
    """SourceError for a file with a record that is too long to be held."""
    if multiline:
        with file.open() as stream:
            yield from _document(_Chunks(stream, block, file.key))
        return
    number = 1
    for data in line_blocks(utf8_chunks(file, piece, "utf-8", block), block, file.key):
        found = _of_lines(data[:-1].split(b"\n"), number)
        yield found
        number += found.taken_lines


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        pa.array([text], pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True


def _of_lines(lines: list[bytes], number: int) -> Records:
    numbers = np.arange(number, number + len(lines))
    if all(lines) and not any(map(bytes.isspace, lines)):
        return Records(lines, numbers, len(lines))
    there = [at for at, line in enumerate(lines) if line and not line.isspace()]
    return Records([lines[at] for at in there], numbers[there], len(lines))


class _Chunks:
    """A document in pieces that end with no backslash, which would belong to what follows."""

    def __init__(self, stream: IO[bytes], block: int, key: str) -> None:
        self._stream, self._block, self._key = stream, block, key
        self._first = True
        self._newlines, self._ended = 0, True  # whether the last line has its end

    @property
    def lines(self) -> int:
        """As many as went by."""
        return self._newlines + (not self._ended)

    def bound(self, text: bytes) -> None:
        """Refuse what is too long to be held."""
        if len(text) > LONGEST:
            raise too_long(self._key, "record")

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = self._stream.read(max(self._block, len(codecs.BOM_UTF8)))
        while chunk.endswith(b"\\") and (more := self._stream.read(self._block)):
            chunk += more
            self.bound(chunk)
        if self._first:
            chunk, self._first = chunk.removeprefix(codecs.BOM_UTF8), False
        if not chunk:
            raise StopIteration
        self._newlines += chunk.count(b"\n")
        self._ended = chunk.endswith(b"\n")
        return chunk


def _document(chunks: _Chunks) -> Iterator[Records]:
    given = 0
    for found in _in_document(chunks):
        given += found.taken_lines
        yield found
    for _ in chunks:
        pass  # to the end, so that all lines are counted and all bytes digested
    if chunks.lines > given:
        yield Records([], np.zeros(0, np.int64), chunks.lines - given)


def _in_document(chunks: _Chunks) -> Iterator[Records]:
    newlines = 0
    for chunk in chunks:
        text = chunk.lstrip(_SPACE)
        newlines += chunk[: len(chunk) - len(text)].count(b"\n")
        if text:
            inner = _elements(text[1:], chunks) if text[:1] == b"[" else _only(text, chunks)
            for found in inner:
                yield replace(found, lines=found.lines + newlines)
            return


def _elements(begin: bytes, chunks: _Chunks) -> Iterator[Records]:
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
        chunks.bound(left)
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


def _only(begin: bytes, chunks: _Chunks) -> Iterator[Records]:
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
        chunks.bound(whole)
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
