"""Where the elements of a JSON array stand in its text. Pure.

Whoever reads the elements and whoever says in which line one of them stands must cut alike, so both do
it here: the text is cut and never written anew, and an element keeps every character.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

_SPACE = " \t\n\r"
_AROUND = _SPACE + "\ufeff"


def elements_of(text: str) -> list[tuple[int, int]]:
    """Start and end of each element; of the whole text where it is no array, or not one to its end."""
    end = len(text.rstrip(_AROUND))
    start = len(text) - len(text.lstrip(_AROUND))
    if start >= end:
        return []
    if text[start] != "[":
        return [(start, end)]
    try:
        return list(_elements(text, start, end))
    except (json.JSONDecodeError, RecursionError):
        return [(start, end)]


def _elements(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    # Numbers stay text: a million digits are no reason to compute with them.
    scan = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode
    at = _next(text, start + 1)
    if text[at : at + 1] == "]":
        _refuse_more(text, at, end)
        return
    while True:
        _, behind = scan(text, at)
        yield at, behind
        at = _next(text, behind)
        if text[at : at + 1] == "]":
            _refuse_more(text, at, end)
            return
        if text[at : at + 1] != ",":
            raise json.JSONDecodeError("no comma", text, at)
        at = _next(text, at + 1)


def _refuse_more(text: str, at: int, end: int) -> None:
    if at + 1 != end:
        raise json.JSONDecodeError("more text behind the array", text, at + 1)


def _next(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in _SPACE:
        at += 1
    return at
