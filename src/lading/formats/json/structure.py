"""What can be told of a JSON text without parsing it: which characters stand outside of its strings.

With that, the elements of an array are found in blocks, whatever its size, and keys are counted: a parser
that takes the last of two equal keys gives fewer than were written.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LEVELS = 900  # of objects and lists in a record; more are not read

_QUOTE, _BACKSLASH = ord('"'), ord("\\")
_SEPARATOR = b"\0"  # no JSON value holds one
_OPENS = np.zeros(256, np.int8)
_OPENS[[ord("["), ord("{")]], _OPENS[[ord("]"), ord("}")]] = 1, -1


def outside_strings(text: bytes, characters: bytes, *, inside: bool = False) -> tuple[np.ndarray, bool]:
    """The places of `characters` outside of strings, and whether the text ends inside of one; `inside` says
    whether it begins there. A text that doesn't end the document must not end with a backslash."""
    data = np.frombuffer(text, np.uint8)
    wanted = data == _QUOTE
    for character in characters:
        wanted |= data == character
    places = np.flatnonzero(wanted)
    if not len(places):
        return places, inside
    kinds = data[places]
    quotes = kinds == _QUOTE
    if b"\\" in text:
        quotes[quotes] = ~_escaped(data, places[quotes])
    within = (np.cumsum(quotes, dtype=np.uint8) + inside) & 1
    return places[(kinds != _QUOTE) & (within == 0)], bool(within[-1])


def _escaped(data: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Which of the characters stand behind an odd number of backslashes."""
    escaped = np.zeros(len(places), bool)
    behind = np.flatnonzero((places > 0) & (data[places - 1] == _BACKSLASH))
    slashes = np.flatnonzero(data == _BACKSLASH)
    begins = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)  # of each run
    last = np.searchsorted(slashes, places[behind] - 1)
    first = begins[np.searchsorted(begins, last, side="right") - 1]
    escaped[behind] = (last - first) % 2 == 0
    return escaped


def depths(text: bytes, places: np.ndarray, before: int = 0) -> np.ndarray:
    """How deep the text is nested right behind each of the places, which hold all its brackets."""
    return before + np.cumsum(_OPENS[np.frombuffer(text, np.uint8)[places]], dtype=np.int32)


def keys_in(texts: Sequence[bytes], expected: np.ndarray | None = None) -> np.ndarray:
    """How many keys are written in each text, of values that were parsed. If all of them together have as
    many as `expected`, that is the answer: keys that are `expected` were found, so there are no fewer."""
    joined = _SEPARATOR.join(texts)
    places, _ = outside_strings(joined, b":")
    if expected is not None and len(places) == expected.sum():
        return expected
    ends = np.flatnonzero(np.frombuffer(joined, np.uint8) == 0)
    return np.bincount(np.searchsorted(ends, places), minlength=len(texts))


def too_deep(texts: Sequence[bytes]) -> list[int]:
    """The places of the texts that are nested more than `LEVELS` deep."""
    return [at for at, text in enumerate(texts) if len(text) > 2 * LEVELS and is_too_deep(text)]


def is_too_deep(text: bytes) -> bool:
    if text.count(b"[") + text.count(b"{") <= LEVELS:
        return False
    places, _ = outside_strings(text, b"[]{}")
    return len(places) > 0 and int(depths(text, places).max()) > LEVELS
