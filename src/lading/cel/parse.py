"""CEL expressions as trees that know their places in the text.

The grammar is https://github.com/google/cel-spec's. Everything that is asked of an expression is asked of
this one tree: check.py finds its types, rows.py its value for a row, columns.py for whole columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\n\f\r]|//[^\n]*)+)
      | (?P<float>(?:[0-9]+\.[0-9]+|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
      | (?P<int>(?:0x[0-9a-fA-F]+|[0-9]+)[uU]?)
      | (?P<raw>[bB]?[rR](?:'''.*?'''|\"\"\".*?\"\"\"|'[^'\n\r]*'|"[^"\n\r]*"))
      | (?P<text>[bB]?(?:'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\"
                |'(?:[^'\\\n\r]|\\.)*'|"(?:[^"\\\n\r]|\\.)*"))
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
_DEPTH = 40  # the specification asks for 32
_RESERVED = re.compile(
    "as|break|const|continue|else|for|function|if|import|let|loop|package|namespace|return|var|void|while"
)
_ESCAPE = re.compile(
    r"""\\(?:(?P<plain>[abfnrtv\\?"'`])|[xX](?P<x>[0-9a-fA-F]{2})|(?P<octal>[0-3][0-7]{2})
         |u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})|(?P<unknown>))""",
    re.VERBOSE,
)
_CONTROLS = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))


class CelProblem(Exception):
    """What is wrong with an expression, and where: `at` counts characters from 0."""

    def __init__(self, at: int, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.at = at
        self.text = text
        self.hint = hint

    def explained(self, expression: str) -> str:
        """With its place: `character 12 of "region == 3": …`."""
        return f'character {self.at + 1} of "{expression}": {self.text}'


@dataclass(frozen=True, slots=True)
class Node:
    """`kind` is literal, name, operator, call, method, list, map, select or index; `value` is what the
    literal is, or the name or operator."""

    kind: str
    value: object
    args: tuple[Node, ...]
    start: int
    end: int
    type: str = ""  # known of literals; of everything once it is checked


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
        if token.kind in ("int", "float", "raw", "text"):
            dtype, value = _literal(token)
            return Node("literal", value, (), token.at, end, dtype)
        if token.kind == "name":
            if token.text in ("true", "false", "null"):
                dtype = "null" if token.text == "null" else "bool"
                return Node(
                    "literal", {"true": True, "false": False}.get(token.text), (), token.at, end, dtype
                )
            if self._accept("("):
                args, end = self._list(")")
                return Node("call", token.text, args, token.at, end)
            if _RESERVED.fullmatch(token.text):
                raise CelProblem(token.at, f"{token.text!r} is a reserved word of CEL")
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
        more = not (self.kind == "op" and self.text == close)
        while more:
            found.append(self.expression())
            # A list may end in a comma, a call may not.
            more = self._accept(",") and not (close == "]" and self.kind == "op" and self.text == close)
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
        digits = text.rstrip("uU")
        unsigned = digits != text
        value = int(digits, 16 if digits.startswith("0x") else 10)
        if value > (2**64 - 1 if unsigned else 2**63):
            raise CelProblem(token.at, f"{text} does not fit into 64 bits")
        return ("uint" if unsigned else "int"), value
    body = text.lstrip("bBrR")
    marks = 3 if body[:3] in ("'''", '"""') else 1
    inner, in_bytes = body[marks:-marks], text[0] in "bB"
    try:
        if in_bytes:
            pieces = _unescaped(inner, 0xFF) if token.kind == "text" else [inner]
            return "bytes", b"".join(p.encode() if isinstance(p, str) else bytes([p]) for p in pieces)
        if token.kind == "text":
            inner = "".join(p if isinstance(p, str) else chr(p) for p in _unescaped(inner, 0x10FFFF))
        inner.encode()  # a half of a surrogate pair is no character
    except ValueError:
        raise CelProblem(token.at, f"{text} is not a valid string") from None
    return "string", inner


def _unescaped(text: str, most: int) -> list[str | int]:
    """The text between escapes, and the number that each escape stands for: of a character, or in bytes of
    a byte."""
    found: list[str | int] = []
    at = 0
    for match in _ESCAPE.finditer(text):
        found.append(text[at : match.start()])
        at = match.end()
        kind = match.lastgroup or ""
        if kind == "unknown" or (kind in "uU" and most == 0xFF):
            raise ValueError
        said = match[kind]
        number = (
            ord(_CONTROLS.get(said, said)) if kind == "plain" else int(said, 8 if kind == "octal" else 16)
        )
        if number > most:
            raise ValueError
        found.append(number)
    return [*found, text[at:]]
