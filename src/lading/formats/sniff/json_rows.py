"""Where the rows of a JSON document lie, if it is only wrapped around them.

An API's answer is often one object that says this and that, and holds an array of objects somewhere. But an
object with a list of others may be a row itself; so the array has to be the only one, and most of the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from lading.errors import SourceError
from lading.formats.json.document import Broken, Chunks, Cursor
from lading.formats.json.path import Path, enter, leave, path_text

_BLOCK = 1 << 20
_LEVELS = 5  # of objects on the way to the rows
_MOST = 0.5  # share of the text that they take at least


@dataclass(frozen=True, slots=True)
class RowsBelow:
    path: Path
    because: str


@dataclass(frozen=True, slots=True)
class _Array:
    """Of objects."""

    path: Path
    bytes: int
    several: bool


def rows_below(stream: IO[bytes]) -> RowsBelow | None:
    """None for a text that is no single object, or whose rows don't lie deeper for certain."""
    cursor = Cursor(Chunks(stream, _BLOCK, ""))
    try:
        if cursor.peek() != b"{":
            return None
        found = list(_arrays(cursor, ()))
        if len(found) != 1 or cursor.peek():
            return None
    except Broken:
        return None
    [array] = found
    if not array.several or array.bytes < _MOST * cursor.offset:
        return None
    share = f"{array.bytes / cursor.offset:.0%}"
    return RowsBelow(array.path, f"the objects at {path_text(array.path)} are {share} of the document")


def has_rows_at(stream: IO[bytes], path: Path) -> bool:
    """Whether a text is one document with an array there."""
    cursor = Cursor(Chunks(stream, _BLOCK, ""))
    try:
        enter(cursor, path, "")
        cursor.leave()
        leave(cursor, path)
    except (Broken, SourceError):
        return False
    return True


def _arrays(cursor: Cursor, path: Path) -> Iterator[_Array]:
    """Those of objects in the object that is next, at any level that is looked at."""
    cursor.take(b"{")
    first = True
    while (name := cursor.key(first=first)) is not None:
        first = False
        begins = cursor.peek()
        if begins == b"{" and len(path) < _LEVELS:
            yield from _arrays(cursor, (*path, name))
        elif begins == b"[":
            begin = cursor.offset
            several = _several(cursor)
            if several is not None:
                yield _Array((*path, name), cursor.offset - begin, several)
        else:
            cursor.skip()


def _several(cursor: Cursor) -> bool | None:
    """Whether the array that is next begins with several objects, or with one; None if with none."""
    cursor.take(b"[")
    if cursor.peek() != b"{":
        cursor.leave()
        return None
    cursor.skip()
    several = cursor.peek() == b","
    if several:
        cursor.take(b",")
        several = cursor.peek() == b"{"
    cursor.leave()
    return several
