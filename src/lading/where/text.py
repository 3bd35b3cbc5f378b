"""The text form of predicates: the `where` of the command line and of Python.

A small part of SQL, so that nobody has to learn it: comparisons, `in`, `between`, `like`, `is null`,
`and`, `or`, `not` and parentheses. It is parsed, never executed: no text becomes code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn, cast

from lading.errors import PredicateError
from lading.where.tree import And, Compare, In, IsNull, Like, Not, Op, Or, Predicate, Quoted

_TOKENS = re.compile(
    r"""\s*(?:
      (?P<bytes>[xX]'(?:[0-9a-fA-F]{2})*')
    | (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?!\w))
    | (?P<text>'(?:[^']|'')*')
    | (?P<name>"(?:[^"]|"")+"|`(?:[^`]|``)+`)
    | (?P<word>[^\W\d]\w*)
    | (?P<op><=|>=|<>|!=|==|=|<|>)
    | (?P<mark>[(),])
    | (?P<end>$)
    )""",
    re.VERBOSE,
)
_KEYWORDS = frozenset(["and", "or", "not", "in", "between", "is", "null", "like", "true", "false"])
_FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_DEEPEST = 100  # parentheses and nots; far from Python's own limit
_LONGEST_NUMBER = 400
_HINT = "for example: status = 404 and day between '2024-01-01' and '2024-01-31' and name like 'a%'"


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int

    @property
    def keyword(self) -> str | None:
        lowered = self.text.lower()
        return lowered if self.kind == "word" and lowered in _KEYWORDS else None


def is_plain_name(name: str) -> bool:
    """Whether a column's name needs no quotes in a predicate."""
    return re.fullmatch(r"[^\W\d]\w*", name) is not None and name.lower() not in _KEYWORDS


def parse(text: str) -> Predicate:
    """Read a predicate; PredicateError names the character that it stumbled over."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._next = 0
        self._depth = 0

    def whole(self) -> Predicate:
        found = self._or()
        if self._peek().kind != "end":
            self._fail("expected `and`, `or` or the end")
        return found

    def _split(self) -> list[_Token]:
        tokens: list[_Token] = []
        at = 0
        while not tokens or tokens[-1].kind != "end":
            match = _TOKENS.match(self._text, at)
            if match is None:
                at += len(self._text[at:]) - len(self._text[at:].lstrip())
                raise self._error("this can't be read", _Token("", self._text[at : at + 12], at))
            kind = match.lastgroup or "end"
            tokens.append(_Token(kind, match.group(kind), match.start(kind)))
            at = match.end()
        return tokens

    def _or(self) -> Predicate:
        parts = [self._and()]
        while self._take_keyword("or"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _and(self) -> Predicate:
        parts = [self._not()]
        while self._take_keyword("and"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _not(self) -> Predicate:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail(f"nested more than {_DEEPEST} deep")
        found: Predicate
        if self._take_keyword("not"):
            found = Not(self._not())
        elif self._take_mark("("):
            found = self._or()
            self._need_mark(")")
        else:
            found = self._comparison()
        self._depth -= 1
        return found

    def _comparison(self) -> Predicate:
        start = self._peek()
        if not self._at_column():
            value = self._literal()
            op = self._operator()
            if op is None:
                self._fail("expected a comparison with a column")
            if not self._at_column():
                self._fail("expected a column: one side of a comparison is a column, the other a value")
            return Compare(self._column(), cast(Op, _FLIPPED[op]), value, start.at)
        column = self._column()
        op = self._operator()
        if op is not None:
            return Compare(column, op, self._literal(), start.at)
        if self._take_keyword("is"):
            return self._negated(self._take_keyword("not"), self._null(column, start.at))
        negated = self._take_keyword("not")
        if self._take_keyword("in"):
            return self._negated(negated, In(column, self._list(), start.at))
        if self._take_keyword("between"):
            low = Compare(column, ">=", self._literal(), start.at)
            if not self._take_keyword("and"):
                self._fail("expected `and` between the two ends of `between`")
            return self._negated(negated, And((low, Compare(column, "<=", self._literal(), start.at))))
        if self._take_keyword("like"):
            return self._negated(negated, self._like(column, start.at))
        if negated:
            self._fail("expected `in`, `between` or `like` after `not`")
        # A column alone stands for "is true": `active and not closed`.
        return Compare(column, "=", True, start.at)

    def _null(self, column: str, at: int) -> Predicate:
        if not self._take_keyword("null"):
            self._fail("expected `null` or `not null` after `is`")
        return IsNull(column, at)

    def _list(self) -> tuple[Any, ...]:
        self._need_mark("(")
        values = [self._literal()]
        while self._take_mark(","):
            values.append(self._literal())
        self._need_mark(")")
        return tuple(values)

    def _like(self, column: str, at: int) -> Predicate:
        if self._peek().kind != "text":
            self._fail("expected a pattern in single quotes after `like`")
        return Like(column, _unquote(self._advance().text), at)

    def _at_column(self) -> bool:
        token = self._peek()
        if token.kind == "name":
            return True
        if token.kind != "word" or token.keyword is not None:
            return False
        # `date '2024-01-31'` is a literal, `date > …` a column.
        typed = token.text.lower() in ("date", "timestamp")
        return not (typed and self._tokens[self._next + 1].kind == "text")

    def _column(self) -> str:
        token = self._advance()
        return token.text if token.kind == "word" else _unquote(token.text)

    def _operator(self) -> Op | None:
        if self._peek().kind != "op":
            return None
        text = self._advance().text
        return cast(Op, {"==": "=", "<>": "!="}.get(text, text))

    def _literal(self) -> Any:
        token = self._peek()
        if token.kind == "number":
            return self._number(self._advance())
        if token.kind == "text":
            return _unquote(self._advance().text)
        if token.kind == "bytes":
            return Quoted("bytes", self._advance().text[2:-1])
        if token.keyword in ("true", "false"):
            return self._advance().text.lower() == "true"
        if token.keyword == "null":
            self._fail("nothing equals null: write `is null` or `is not null`")
        if token.kind == "name":
            self._fail("expected a value: put text in single quotes; double quotes are for column names")
        if token.kind == "word" and token.keyword is None and not self._at_column():
            kind = self._advance().text.lower()
            return Quoted("date" if kind == "date" else "timestamp", _unquote(self._advance().text))
        self._fail("expected a value")

    def _number(self, token: _Token) -> int | Decimal:
        if len(token.text) > _LONGEST_NUMBER:
            raise self._error("a number this long can't be compared", token)
        plain = token.text.lstrip("+-").isdigit()
        return int(token.text) if plain else Decimal(token.text)

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _advance(self) -> _Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _take_keyword(self, word: str) -> bool:
        if self._peek().keyword != word:
            return False
        self._next += 1
        return True

    def _take_mark(self, mark: str) -> bool:
        token = self._peek()
        if token.kind != "mark" or token.text != mark:
            return False
        self._next += 1
        return True

    def _need_mark(self, mark: str) -> None:
        if not self._take_mark(mark):
            self._fail(f"expected `{mark}`")

    @staticmethod
    def _negated(negated: bool, found: Predicate) -> Predicate:
        return Not(found) if negated else found

    def _fail(self, what: str) -> NoReturn:
        raise self._error(what, self._peek())

    def _error(self, what: str, token: _Token) -> PredicateError:
        near = f"at `{token.text}`" if token.text else "at the end"
        return PredicateError(
            f"where: {what}, {near} (character {token.at + 1} of {self._text!r})", hint=_HINT
        )


def _unquote(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote)
