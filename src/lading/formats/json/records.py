"""The records of a JSON file as texts, with their lines: its lines, or the elements of its array, which may
lie deeper in it.

A file is read in blocks, and only a record that spans some is held longer than one of them. Texts are cut,
never written anew: each keeps every character.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from lading.formats.json.document import MORE, NEVER_ENDS, SPACE, Broken, Chunks, Cursor
from lading.formats.json.path import Path, enter, leave
from lading.formats.json.structure import depths, outside_strings
from lading.formats.lines import line_blocks, utf8_chunks
from lading.formats.reader import WHOLE, Piece
from lading.formats.source_file import SourceFile

BLOCK = 4 << 20  # bytes of text that are read at once

_SEEN = 1 << 18  # bytes of what is no record


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
    file: SourceFile, *, multiline: bool, path: Path = (), piece: Piece = WHOLE, block: int = BLOCK
) -> Iterator[Records]:
    """The lines of a file, with `multiline` those of the document that it is, with a `path` the elements of
    the array there. SourceError for a record that is too long to be held, and where there is no such array.
    """
    if multiline or path:
        with file.open() as stream:
            yield from _document(Chunks(stream, block, file.key), path, file.key)
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


def _document(chunks: Chunks, path: Path, file: str) -> Iterator[Records]:
    given = 0
    for found in _at_path(chunks, path, file) if path else _in_document(chunks):
        given += found.taken_lines
        yield found
    for _ in chunks:
        pass  # to the end, so that all lines are counted and all bytes digested
    if chunks.lines > given:
        yield Records([], np.zeros(0, np.int64), chunks.lines - given)


def _in_document(chunks: Chunks) -> Iterator[Records]:
    line = 1
    for chunk in chunks:
        text = chunk.lstrip(SPACE)
        line += chunk[: len(chunk) - len(text)].count(b"\n")
        if text[:1] == b"[":
            behind = yield from _elements(text[1:], chunks, line)
            if behind is not None:
                yield from _behind(b"", behind.text, chunks, behind.line)
            return
        if text:
            yield from _only(text, chunks, line)
            return


def _at_path(chunks: Chunks, path: Path, file: str) -> Iterator[Records]:
    cursor = Cursor(chunks)
    if not cursor.peek():
        return  # nothing at all is no rows
    enter(cursor, path, file)
    behind = yield from _elements(cursor.rest(), chunks, cursor.line)
    if behind is None:
        return
    shown = _Shown(chain([behind.text], chunks))
    try:
        leave(Cursor(shown), path)
    except Broken as why:
        yield _broken(shown.text, str(why), behind.line)


class _Shown:
    """Chunks, and the beginning of what went by."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self.text = b""

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = next(self._chunks)
        self.text += chunk[: _SEEN - len(self.text)]
        return chunk


@dataclass(frozen=True, slots=True)
class _Behind:
    """What was read behind the end of an array, and the line where it begins."""

    text: bytes
    line: int


def _elements(begin: bytes, chunks: Chunks, line: int) -> Generator[Records, None, _Behind | None]:
    """Of the array whose bracket stands before `begin`; None if it never ends, which was said."""
    left = b""  # of an element of which the end has not been seen
    depth, inside, first = 1, False, True
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
            empty = first and len(ends) == len(cuts) and not left[: end - 1].strip(SPACE)
            found = _between(left[:end], cuts[:0] if empty else cuts, line)
            yield found
            line, first, left = line + found.taken_lines, False, left[end:]
        if len(ends) and text[places[-1]] != ord("]"):
            yield _broken(b"}" + left, "there is '}' where ']' should be", line)
            return None
        if len(ends):
            return _Behind(left, line)
        chunks.bound(left)
    yield _broken(left, NEVER_ENDS, line)
    return None


def _between(data: bytes, cuts: np.ndarray, line: int) -> Records:
    """The texts before each of the cuts, without the space around them."""
    begins = np.concatenate([[0], cuts[:-1] + 1])[: len(cuts)]
    wide = [data[begin:end] for begin, end in zip(begins.tolist(), cuts.tolist(), strict=True)]
    bare = [text.lstrip(SPACE) for text in wide]
    starts = begins + np.array([len(text) - len(rest) for text, rest in zip(wide, bare, strict=True)], int)
    newlines = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    lines = line + np.searchsorted(newlines, starts)
    return Records([text.rstrip(SPACE) for text in bare], lines, len(newlines))


def _only(begin: bytes, chunks: Chunks, line: int) -> Iterator[Records]:
    """A document that is no array is the record."""
    at = np.array([line])
    whole, depth, inside = b"", 0, False
    for text in chain([begin], chunks):
        places, inside = outside_strings(text, b"[]{}", inside=inside)
        deep = depths(text, places, depth)
        depth = int(deep[-1]) if len(deep) else depth
        ends = np.flatnonzero(deep == 0)[:1]
        whole += text
        if len(ends):
            end = len(whole) - len(text) + int(places[ends[0]]) + 1
            behind = list(_behind(whole[:end], whole[end:], chunks, line))
            yield from behind or [Records([whole[:end]], at, 0)]
            return
        chunks.bound(whole)
    yield Records([whole.rstrip(SPACE)], at, 0)


def _behind(document: bytes, text: bytes, chunks: Iterator[bytes], line: int) -> Iterator[Records]:
    """Whatever stands behind the end of a document, as much of it as anyone wants to see."""
    found, space = b"", b""
    for more in chain([text], chunks):
        if found or more.strip(SPACE):
            found, space = found + space + more, b""
            if len(found) > _SEEN:
                break
        elif document:
            space = (space + more)[:_SEEN]
        else:
            line += more.count(b"\n")
    if found:
        yield _broken(document + found, MORE, line)


def _broken(text: bytes, why: str, line: int) -> Records:
    bare = text.lstrip(SPACE)
    line += text[: len(text) - len(bare)].count(b"\n") if bare else 0
    return Records([bare.rstrip(SPACE)], np.array([line]), 0, f"is not one JSON object: {why}")
