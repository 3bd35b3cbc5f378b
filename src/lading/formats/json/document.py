"""A JSON document as it goes by: in chunks, and a place in it that only ever moves on.

What is passed over is neither held nor parsed: only its strings and brackets are told apart.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import IO

import msgspec
import numpy as np

from lading.formats.json.structure import depths, outside_strings
from lading.formats.lines import LONGEST, too_long

SPACE = b" \t\r\n"
NEVER_ENDS = "the document never ends"
MORE = "there is more text behind the document"

_KEY = 1 << 20  # bytes of a key
_LEAST, _MOST = 1 << 10, 1 << 16  # bytes that are looked at for the end of a value, more and more at once
_SPACES = re.compile(rb"[ \t\r\n]*")
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+("?)', re.DOTALL)
_WORD = re.compile(rb'[^\s,:"\[\]{}]*')


class Broken(ValueError):
    """A document that is none."""


class Chunks:
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
        chunk = self._stream.read(max(self._block, len(codecs.BOM_UTF8) + 1))
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


class Cursor:
    """A place in a document. Broken where the document is."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = filter(None, chunks)
        self._text, self._at = b"", 0
        self._line, self._passed = 1, 0  # of chunks before this one

    @property
    def line(self) -> int:
        return self._line + self._text.count(b"\n", 0, self._at)

    @property
    def offset(self) -> int:
        """Bytes that went by."""
        return self._passed + self._at

    def rest(self) -> bytes:
        """What was read and did not go by; the chunks are behind it."""
        return self._text[self._at :]

    def peek(self) -> bytes:
        """The next character that is no space; nothing at the end."""
        while True:
            self._pass(_SPACES)
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def take(self, wanted: bytes) -> None:
        """Pass over this character."""
        found = self.peek()
        if not found:
            raise Broken(NEVER_ENDS)
        if found != wanted:
            raise Broken(f"there is {found.decode(errors='replace')!r} where {wanted.decode()!r} should be")
        self._at += 1

    def key(self, *, first: bool = False) -> str | None:
        """The next key of an object, whose value is what comes next; None behind its end. `first` says that
        the object has only been opened."""
        if self.peek() == b"}":
            self._at += 1
            return None
        if not first:
            self.take(b",")
            self.peek()
        text = self._string(held=True)
        self.take(b":")
        try:
            return msgspec.json.decode(text, type=str)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Broken(str(error)) from error

    def skip(self) -> None:
        """Pass over a value."""
        first = self.peek()
        if first == b'"':
            self._string()
        elif first in (b"[", b"{"):
            self._at += 1
            self.leave()
        elif not self._word():
            self.take(b'"')  # says what is there instead of a value

    def leave(self) -> None:
        """Pass over all that is left of the array or object which this is in, and over its end."""
        depth, inside, size = 1, False, _LEAST
        while True:
            if self._at == len(self._text) and not self._more():
                raise Broken(NEVER_ENDS)
            end = min(self._at + size, len(self._text))
            while end < len(self._text) and self._text[end - 1 : end] == b"\\":
                end += 1
            window = self._text[self._at : end]
            places, inside = outside_strings(window, b"[]{}", inside=inside)
            deep = depths(window, places, depth)
            ends = np.flatnonzero(deep == 0)[:1]
            if len(ends):
                self._at += int(places[ends[0]]) + 1
                return
            depth = int(deep[-1]) if len(deep) else depth
            self._at, size = end, min(2 * size, _MOST)

    def _string(self, *, held: bool = False) -> bytes:
        """The string that is next, which is given only if it is to be `held`."""
        self.take(b'"')
        text = b'"'
        while True:
            found = self._pass(_IN_STRING)
            if held:
                text += found[0]
                if len(text) > _KEY:
                    raise Broken(f"a key is longer than {_KEY >> 20} MiB")
            if found[1]:
                return text
            if not self._more():
                raise Broken(NEVER_ENDS)

    def _word(self) -> bool:
        """Pass over a number, `true`, `false` or `null`, if one is next."""
        begin = self.offset
        while True:
            self._pass(_WORD)
            if self._at < len(self._text) or not self._more():
                return self.offset > begin

    def _pass(self, pattern: re.Pattern[bytes]) -> re.Match[bytes]:
        """Pass over what the pattern takes, which may be nothing."""
        found = pattern.match(self._text, self._at)
        assert found is not None
        self._at = found.end()
        return found

    def _more(self) -> bool:
        self._line += self._text.count(b"\n")
        self._passed += len(self._text)
        self._text, self._at = next(self._chunks, b""), 0
        return bool(self._text)
