"""Regular expressions that can't take forever: Python's syntax, matched by RE2.

Python's own `re` tries every way to split a text, and a file name of forty letters can keep `(a+)+` busy for
years. RE2, which pyarrow brings along, reads each character once; what it can't do (to look around, to refer
back) is refused when lading.yaml is read. Python's parser reads the pattern, so that a pattern means here
what its documentation says, and what RE2 is given is written from that. See docs/decisions/0059.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

_OTHER_FLAGS = "only the flags (?i), (?m), (?s) and (?x) are supported; for ASCII write [0-9] or [A-Za-z]"
_MOST = 1_000  # repetitions that RE2 counts to
_DEEPEST = 100
_FLAGS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
# As Python understands them in text: RE2's own \d, \s and \w are ASCII's.
_SPACE = r"\x09-\x0d\x1c-\x20\x85\p{Z}"
_CLASSES = {
    op.CATEGORY_DIGIT: r"\p{Nd}",
    op.CATEGORY_NOT_DIGIT: r"\P{Nd}",
    op.CATEGORY_SPACE: _SPACE,
    op.CATEGORY_WORD: r"\p{L}\p{N}_",
}
_ALONE = {
    op.CATEGORY_NOT_SPACE: f"[^{_SPACE}]",
    op.CATEGORY_NOT_WORD: r"[^\p{L}\p{N}_]",
}
_INVERSE = {
    op.CATEGORY_NOT_SPACE: op.CATEGORY_SPACE,
    op.CATEGORY_NOT_WORD: op.CATEGORY_WORD,
}
_PLACES = {
    op.AT_BEGINNING: "^",
    op.AT_BEGINNING_STRING: r"\A",
    op.AT_END: "$",
    op.AT_END_STRING: r"\z",
}
_WITHOUT = {
    op.ASSERT: "lookahead and lookbehind, (?=…) and (?<=…),",
    op.ASSERT_NOT: "negative lookahead and lookbehind, (?!…) and (?<!…),",
    op.GROUPREF: "references to an earlier group, \\1 and (?P=name),",
    op.GROUPREF_EXISTS: "conditions on a group, (?(1)…),",
    op.ATOMIC_GROUP: "atomic groups, (?>…),",
    op.POSSESSIVE_REPEAT: "possessive repetitions, a++,",
}


def names_of(pattern: str) -> tuple[str, ...]:
    """The named groups, in their order. ValueError says what is wrong with the pattern."""
    return tuple(_parsed(pattern).state.groupdict)


def re2_of(pattern: str) -> str:
    """`pattern` as RE2 has to be told, for all of a text. Its groups are the named ones, in their order,
    under names of our own: RE2 is choosier about them."""
    parsed = _parsed(pattern)
    state = parsed.state
    if state.flags & (re.ASCII | re.LOCALE):
        raise ValueError(_OTHER_FLAGS)
    flags = "".join(letter for flag, letter in _FLAGS.items() if state.flags & flag)
    text = _Writer(frozenset(state.groupdict.values())).sequence(parsed)
    return rf"\A(?{flags}:{text})\z" if flags else rf"\A(?:{text})\z"


def _parsed(pattern: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # a `[` in a set will mean more one day: not here
            return _parser.parse(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    except (RecursionError, OverflowError):
        raise ValueError("not a regular expression: nested too deeply, or too long") from None


class _Writer:
    def __init__(self, named: frozenset[int]) -> None:
        self._named = named
        self._depth = 0

    def sequence(self, items: Sequence[tuple[Any, Any]]) -> str:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError(f"groups are nested more than {_DEEPEST} deep")
        text = "".join(self._item(code, value) for code, value in items)
        self._depth -= 1
        return text

    def _item(self, code: Any, value: Any) -> str:
        if code in _WITHOUT:
            raise ValueError(f"{_WITHOUT[code]} can take forever and are not supported")
        if code is op.LITERAL:
            return _character(value)
        if code is op.NOT_LITERAL:
            return f"[^{_character(value)}]"
        if code is op.ANY:
            return "."
        if code is op.AT:
            if value not in _PLACES:  # RE2 knows the words of ASCII only
                raise ValueError(r"\b and \B are not supported; write the characters themselves")
            return _PLACES[value]
        if code is op.IN:
            return _set(value)
        if code is op.BRANCH:
            return f"(?:{'|'.join(self.sequence(one) for one in value[1])})"
        if code is op.SUBPATTERN:
            return self._group(*value)
        if code in (op.MAX_REPEAT, op.MIN_REPEAT):
            return self._repeat(*value) + ("?" if code is op.MIN_REPEAT else "")
        raise ValueError(f"{str(code).lower()} is not supported")

    def _group(self, number: int | None, more: int, less: int, items: Sequence[tuple[Any, Any]]) -> str:
        text = self.sequence(items)
        if number in self._named:
            return f"(?P<g{number}>{text})"
        if (more | less) & ~(re.IGNORECASE | re.MULTILINE | re.DOTALL):
            raise ValueError(_OTHER_FLAGS)
        on = "".join(letter for flag, letter in _FLAGS.items() if more & flag)
        off = "".join(letter for flag, letter in _FLAGS.items() if less & flag)
        return f"(?{on}{'-' if off else ''}{off}:{text})"

    def _repeat(self, least: int, most: Any, items: Sequence[tuple[Any, Any]]) -> str:
        if least > _MOST or (most is not op.MAXREPEAT and most > _MOST):
            raise ValueError(f"a repeat count may be at most {_MOST}")
        return f"(?:{self.sequence(items)}){{{least},{'' if most is op.MAXREPEAT else most}}}"


def _set(items: Sequence[tuple[Any, Any]]) -> str:
    if len(items) == 2 and items[0][0] is op.NEGATE and items[1][1] in _INVERSE:
        return f"[{_CLASSES[_INVERSE[items[1][1]]]}]"
    negated, inside, beside = "", [], []
    for code, value in items:
        if code is op.NEGATE:
            negated = "^"
        elif code is op.LITERAL:
            inside.append(_character(value))
        elif code is op.RANGE:
            inside.append(f"{_character(value[0])}-{_character(value[1])}")
        elif value in _CLASSES:
            inside.append(_CLASSES[value])
        elif not negated:
            beside.append(_ALONE[value])
        else:
            raise ValueError(
                r"\S and \W are not supported in [^…]; write the characters you mean, such as [a-z]"
            )
    if inside:
        beside.append(f"[{negated}{''.join(inside)}]")
    return beside[0] if len(beside) == 1 else f"(?:{'|'.join(beside)})"


def _character(code: int) -> str:
    return chr(code) if chr(code).isalnum() else f"\\x{{{code:x}}}"
