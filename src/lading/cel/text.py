"""CEL expressions as trees that know their places in the text.

The `cel` package evaluates; it neither checks types nor says where in an expression something is. A
routing expression that doesn't fit has to be refused before Spark starts, with its position, so the
grammar is parsed here as well. https://github.com/google/cel-spec has it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<space>(?:\s|//[^\n]*)+)
      | (?P<float>(?:\d+\.\d+|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
      | (?P<int>0x[0-9a-fA-F]+u?|\d+u?)
      | (?P<text>(?:[bB]?[rR]?|[rR][bB])(?:'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\"
                |'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<op>\|\||&&|==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL,
)
_BINARY = (
    ("||",),
    ("&&",),
    ("==", "!=", "<", "<=", ">", ">=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
_DEPTH = 32


class CelProblem(Exception):
    """What is wrong with an expression, and where: `at` counts characters from 0."""

    def __init__(self, at: int, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.at = at
        self.text = text
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Node:
    """`kind` is literal, name, operator, call, method, list, map, select or index; `value` is what the
    literal is, or the name or operator."""

    kind: str
    value: object
    args: tuple[Node, ...]
    start: int
    end: int
    type: str = ""  # of a literal


def parse(text: str) -> Node:
    """The tree of an expression; CelProblem when it is none."""
    parser = _Parser(text)
    node = parser.expression()
    if parser.kind != "end":
        raise CelProblem(parser.at, f"{parser.text!r} is not expected here")
    return node


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise CelProblem(at, f"{text[at]!r} is not expected here")
        if match.lastgroup != "space":
            kind = "op" if match[0] == "in" else str(match.lastgroup)
            found.append(_Token(kind, match[0], at))
        at = match.end()
    return [*found, _Token("end", "the end", len(text))]


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0

    @property
    def kind(self) -> str:
        return self._tokens[self._next].kind

    @property
    def text(self) -> str:
        return self._tokens[self._next].text

    @property
    def at(self) -> int:
        return self._tokens[self._next].at

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > _DEPTH:
            raise CelProblem(self.at, "nested too deeply")
        node = self._binary(0)
        if self._accept("?"):
            yes = self._binary(0)
            self._expect(":")
            no = self.expression()
            node = Node("operator", "?:", (node, yes, no), node.start, no.end)
        self._depth -= 1
        return node

    def _binary(self, level: int) -> Node:
        if level == len(_BINARY):
            return self._unary()
        node = self._binary(level + 1)
        while self.kind == "op" and self.text in _BINARY[level]:
            operator = self._take().text
            right = self._binary(level + 1)
            node = Node("operator", operator, (node, right), node.start, right.end)
        return node

    def _unary(self) -> Node:
        if self.kind == "op" and self.text in ("!", "-"):
            token = self._take()
            self._depth += 1
            if self._depth > _DEPTH:
                raise CelProblem(token.at, "nested too deeply")
            inner = self._unary()
            self._depth -= 1
            if token.text == "-" and inner.kind == "literal" and inner.type == "int":
                return Node("literal", -int(str(inner.value)), (), token.at, inner.end, "int")
            return Node("operator", f"{token.text}x", (inner,), token.at, inner.end)
        return self._member()

    def _member(self) -> Node:
        node = self._primary()
        while self.kind == "op" and self.text in (".", "["):
            if self._accept("["):
                inner = self.expression()
                node = Node("index", "[]", (node, inner), node.start, self._expect("]"))
                continue
            self._take()
            name = self._name()
            if self._accept("("):
                args, end = self._list(")")
                node = Node("method", name.text, (node, *args), node.start, end)
            else:
                node = Node("select", name.text, (node,), node.start, name.at + len(name.text))
        return node

    def _primary(self) -> Node:
        token = self._take()
        end = token.at + len(token.text)
        if token.kind in ("int", "float", "text"):
            type, value = _literal(token)
            return Node("literal", value, (), token.at, end, type)
        if token.kind == "name":
            if token.text in ("true", "false", "null"):
                type = "null" if token.text == "null" else "bool"
                return Node(
                    "literal", {"true": True, "false": False}.get(token.text), (), token.at, end, type
                )
            if self._accept("("):
                args, end = self._list(")")
                return Node("call", token.text, args, token.at, end)
            return Node("name", token.text, (), token.at, end)
        if token.text == "(":
            inner = self.expression()
            self._expect(")")
            return inner
        if token.text == "[":
            args, end = self._list("]")
            return Node("list", "[]", args, token.at, end)
        raise CelProblem(
            token.at, f"{token.text if token.kind == 'end' else repr(token.text)} is not expected"
        )

    def _list(self, close: str) -> tuple[tuple[Node, ...], int]:
        found: list[Node] = []
        while not (self.kind == "op" and self.text == close):
            found.append(self.expression())
            if not self._accept(","):
                break
        return tuple(found), self._expect(close)

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        if token.kind != "end":
            self._next += 1
        return token

    def _accept(self, text: str) -> bool:
        if self.kind == "op" and self.text == text:
            self._next += 1
            return True
        return False

    def _expect(self, text: str) -> int:
        """The end of the token."""
        at = self.at
        if not self._accept(text):
            raise CelProblem(at, f"{text!r} is missing before {self.text}")
        return at + len(text)

    def _name(self) -> _Token:
        if self.kind != "name":
            raise CelProblem(self.at, f"a name is missing before {self.text}")
        return self._take()


def _literal(token: _Token) -> tuple[str, object]:
    text = token.text
    if token.kind == "float":
        return "double", float(text)
    if token.kind == "int":
        unsigned = text.endswith("u")
        value = int(text.rstrip("u"), 0) if text.startswith("0x") else int(text.rstrip("u"))
        if value > (2**64 - 1 if unsigned else 2**63):
            raise CelProblem(token.at, f"{text} does not fit into 64 bits")
        return ("uint" if unsigned else "int"), value
    try:
        value_of = ast.literal_eval(text)
    except (SyntaxError, ValueError, UnicodeError):
        raise CelProblem(token.at, f"{text} is not a string that can be read") from None
    return ("bytes" if isinstance(value_of, bytes) else "string"), value_of
