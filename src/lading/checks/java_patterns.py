"""Java's regular expressions as RE2 has to be told them, where RE2 means the same.

A `pattern` of lading.yaml is Java's: that is what Spark matched it with. RE2 comes with Arrow and reads each
character once, but some of what the two write alike is not alike: Java's `.` stops at five line ends, its
`\\s` knows one blank more, its `(?i)` is about ASCII only. So an expression is read here and written again
from plain sets of characters. What isn't known for certain to be the same is left to Spark: to look around
or back, possessive repetitions, `\\b`, sets within sets, whatever Java itself may refuse.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_MOST = 1_000  # repetitions that RE2 counts to
_DEEPEST = 100
_LINE_ENDS = [(0x0A, 0x0A), (0x0D, 0x0D), (0x85, 0x85), (0x2028, 0x2029)]
_CLASSES = {
    "d": [(0x30, 0x39)],
    "w": [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)],
    "s": [(0x09, 0x0D), (0x20, 0x20)],
}
_CONTROLS = {"t": 0x09, "n": 0x0A, "r": 0x0D, "f": 0x0C, "a": 0x07}
_DIGITS = {"x": 2, "u": 4}
_HEX = frozenset("0123456789abcdefABCDEF")

_Set = list[tuple[int, int]]


class _Unknown(Exception):
    """Nothing to be certain about."""


def re2_of_java(pattern: str) -> str | None:
    """An expression for RE2 that matches all of a text just where Java's `pattern` does; None if it can't
    be told."""
    try:
        written = rf"\A(?:{_Translation(pattern).written()})\z"
    except _Unknown:
        return None
    try:
        pc.match_substring_regex(pa.array([""]), pattern=written)
    except pa.ArrowInvalid:  # too large for it
        return None
    return written


class _Translation:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._fold = False  # (?i)
        self._dot_all = False  # (?s)

    def written(self) -> str:
        found = self._alternatives()
        if self._at < len(self._text):
            raise _Unknown
        return found

    def _next(self) -> str:
        if self._at == len(self._text):
            raise _Unknown
        self._at += 1
        return self._text[self._at - 1]

    def _comes(self, text: str) -> bool:
        """Whether `text` is next; then it is taken."""
        found = self._ahead(text)
        self._at += len(text) if found else 0
        return found

    def _ahead(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _alternatives(self) -> str:
        found = [self._sequence()]
        while self._comes("|"):
            found.append(self._sequence())
        return "|".join(found)

    def _sequence(self) -> str:
        found = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            item, repeatable = self._item()
            count = self._repetition()
            if count and not repeatable:
                raise _Unknown
            found.append(item + count)
        return "".join(found)

    def _item(self) -> tuple[str, bool]:
        """One item, and whether it may be repeated."""
        mark = self._next()
        if mark == "(":
            return self._group()
        if mark == "[":
            return _written_set(self._bracket()), True
        if mark == ".":
            return _written_set(_inverse([] if self._dot_all else _LINE_ENDS)), True
        if mark == "^":
            return r"\A", False
        if mark == "$":
            return self._end(), False
        if mark in "*+?{":
            raise _Unknown
        if mark == "\\" and self._comes("A"):
            return r"\A", False
        if mark == "\\" and self._comes("Z"):
            return self._end(), False
        found = self._escape() if mark == "\\" else ord(mark)
        return _written_set(found if isinstance(found, list) else self._cases(found, found)), True

    def _end(self) -> str:
        """Java's `$` also holds before a last line end. Where nothing may follow, that is no difference."""
        rest = self._text[self._at :].lstrip(")")
        closed = len(self._text) - self._at - len(rest)
        if rest and not (rest.startswith("|") and closed == self._depth):
            raise _Unknown
        return r"\z"

    def _group(self) -> tuple[str, bool]:
        before = self._fold, self._dot_all
        if self._comes("?") and self._flags():
            return "", False  # they hold to the end of the group that this stands in
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Unknown
        found = self._alternatives()
        if not self._comes(")"):
            raise _Unknown
        self._depth -= 1
        self._fold, self._dot_all = before
        return f"(?:{found})", True

    def _flags(self) -> bool:
        """Takes `:`, `i:`, `s-i:` or `i)`; whether there is no group behind them."""
        on = True
        while True:
            mark = self._next()
            if mark == ":":
                return False
            if mark == ")" and self._depth == 0:
                return True
            if mark == "-" and on:
                on = False
            elif mark == "i":
                self._fold = on
            elif mark == "s":
                self._dot_all = on
            else:
                raise _Unknown

    def _repetition(self) -> str:
        if self._at == len(self._text) or self._text[self._at] not in "*+?{":
            return ""
        mark = self._next()
        found = self._counted() if mark == "{" else mark
        if self._comes("+"):
            raise _Unknown
        self._comes("?")  # as few as possible: all the same for a whole text
        if self._at < len(self._text) and self._text[self._at] in "*+?{":
            raise _Unknown
        return found

    def _counted(self) -> str:
        inside, closed, _ = self._text[self._at :].partition("}")
        least, comma, most = inside.partition(",")
        for number in (least, most):
            if number and not (number.isascii() and number.isdecimal() and len(number) < 5):
                raise _Unknown
        counts = [int(number) for number in (least, most) if number]
        if not closed or not least or max(counts) > _MOST or counts != sorted(counts):
            raise _Unknown
        self._at += len(inside) + 1
        return f"{{{counts[0]}{comma}{counts[1] if most else ''}}}"

    def _bracket(self) -> _Set:
        negated = self._comes("^")
        found: _Set = []
        first = True
        while first or not self._comes("]"):
            found += self._member(first)
            first = False
        return _inverse(found) if negated else found

    def _member(self, first: bool) -> _Set:
        bare = self._ahead("-")  # which is itself at either end, and elsewhere nobody knows
        low = self._one()
        if bare and not first and not self._ahead("]"):
            raise _Unknown
        if not self._ahead("-") or self._ahead("-]"):
            return low if isinstance(low, list) else self._cases(low, low)
        self._at += 1
        bare = bare or self._ahead("-")
        high = self._one()
        if bare or isinstance(low, list) or isinstance(high, list) or low > high:
            raise _Unknown
        return self._cases(low, high)

    def _one(self) -> int | _Set:
        mark = self._next()
        if mark in "[]" or (mark == "&" and self._ahead("&")):
            raise _Unknown
        return self._escape() if mark == "\\" else ord(mark)

    def _escape(self) -> int | _Set:
        """What a backslash and what follows it stand for: a character or a set of them."""
        mark = self._next()
        if mark.lower() in _CLASSES:
            found = _CLASSES[mark.lower()]
            return found if mark.islower() else _inverse(found)
        if mark in _CONTROLS:
            return _CONTROLS[mark]
        if mark in _DIGITS:
            digits = self._text[self._at : self._at + _DIGITS[mark]]
            if len(digits) < _DIGITS[mark] or not _HEX.issuperset(digits):
                raise _Unknown
            self._at += len(digits)
            return int(digits, 16)
        if mark.isascii() and not mark.isalnum():
            return ord(mark)
        raise _Unknown

    def _cases(self, low: int, high: int) -> _Set:
        """With (?i) the letters of ASCII come in both cases, as in Java, and no other letters."""
        if low in _SURROGATES or high in _SURROGATES:
            raise _Unknown
        found = [(low, high)]
        if self._fold:
            for first, last, other in ((0x41, 0x5A, 0x20), (0x61, 0x7A, -0x20)):
                if max(low, first) <= min(high, last):
                    found.append((max(low, first) + other, min(high, last) + other))
        return found


def _inverse(found: _Set) -> _Set:
    beyond = 0
    missing = []
    for low, high in sorted(found):
        if low > beyond:
            missing.append((beyond, low - 1))
        beyond = max(beyond, high + 1)
    return [*missing, (beyond, _LAST)] if beyond <= _LAST else missing


def _written_set(found: _Set) -> str:
    if not found:
        return r"[^\x{0}-\x{10ffff}]"
    return "[" + "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in found) + "]"
