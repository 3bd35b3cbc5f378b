"""`records:`: the way through a document's objects to the array that holds the rows, and out again."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from lading.errors import SourceError
from lading.formats.json.document import MORE, Broken, Cursor

Path = tuple[str, ...]  # keys

_NAMED = 5  # keys that a message names
_KEPT = 1_000  # that it chooses them from
_KINDS = {b"{": "an object", b"[": "an array", b'"': "text", b"n": "null", b"t": "true", b"f": "false"}
_REMEDY = (
    "set read_options.records to the path of the array that holds the rows, "
    "or exclude the file from the table's `path`"
)


def path_of(read_options: Mapping[str, Any]) -> Path:
    """Empty where a document, or each of its lines, is the rows itself."""
    written = read_options.get("records", ())
    return tuple(written.split(".")) if isinstance(written, str) else tuple(written)


def path_option(path: Sequence[str]) -> str | list[str]:
    """As `records` has it: with dots between keys, or as a list where a key has one itself."""
    return ".".join(path) if all(key and "." not in key for key in path) else list(path)


def path_text(path: Sequence[str]) -> str:
    option = path_option(path)
    return option if isinstance(option, str) else json.dumps(option, ensure_ascii=False)


def enter(cursor: Cursor, path: Path, file: str) -> None:
    """Go into the array. SourceError says what is there instead of it."""
    try:
        for depth, wanted in enumerate(path):
            _enter_object(cursor, path, depth, file)
            names: list[str] = []
            while (name := cursor.key(first=not names)) != wanted:
                if name is None:
                    raise _missing(path, depth, names, file)
                names.append(name)
                cursor.skip()
        if (first := cursor.peek()) != b"[":
            raise _refused(file, f"{path_text(path)} is {_kind(first)}, not an array", _REMEDY)
        cursor.take(b"[")
    except Broken as error:
        why = f"{file} can't be read as JSON up to {path_text(path)}: {error}, in line {cursor.line}"
        raise _refused(file, why, "check that the file is one complete document", named=True) from error


def leave(cursor: Cursor, path: Path) -> None:
    """From behind the array to the end of the document. Broken where there is none, and where the way to the
    array is there a second time."""
    for wanted in reversed(path):
        while (name := cursor.key()) is not None:
            if name == wanted:
                raise Broken(f"the key {wanted!r} is there twice")
            cursor.skip()
    if cursor.peek():
        raise Broken(MORE)


def _enter_object(cursor: Cursor, path: Path, depth: int, file: str) -> None:
    first = cursor.peek()
    if first == b"{":
        cursor.take(b"{")
        return
    where = path_text(path[:depth])
    remedy = _REMEDY
    if first == b"[":
        remedy = f"if its elements are the rows, set read_options: {{records: {where}}}"
        if not depth:
            remedy = "if its elements are the rows, set read_options: {multiline: true} and remove `records`"
    raise _refused(
        file, f"there is no {path_text(path)}: {where or 'the document'} is {_kind(first)}", remedy
    )


def _missing(path: Path, depth: int, names: Sequence[str], file: str) -> SourceError:
    where = path_text(path[:depth]) or "the document"
    near = difflib.get_close_matches(path[depth], names[:_KEPT], n=_NAMED)
    shown = [*near, *(name for name in names[:_KEPT] if name not in near)][:_NAMED]
    said = ", ".join(repr(name) for name in shown)
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    keys = f"has no key {path[depth]!r}, but {said}{more}" if names else "is empty"
    guess = f"did you mean {path_text([*path[:depth], near[0]])}? " if near else ""
    return _refused(file, f"there is no {path_text(path)}: {where} {keys}", f"{guess}{_REMEDY}")


def _kind(first: bytes) -> str:
    return _KINDS.get(first, "a number")


def _refused(file: str, why: str, hint: str, *, named: bool = False) -> SourceError:
    return SourceError(why if named else f"{file}: {why}", hint=hint, file=file)
