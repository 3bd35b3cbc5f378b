"""What an expression of lading.yaml may say: something about the row, or about aggregates of the rows.

Checks and gates are Spark's SQL, and Spark's SQL can do more than that: read any file in a subquery, call
Java, throw dice, ask the clock. What such an expression found would be in no recipe and different the next
time. So its words are looked at here, before anything runs; Spark's own plan of it is looked at later
(spark/determinism.py), when there is one. The `where` of a scan has a grammar of its own and can say none
of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

# Functions that give something else the next time, or on another machine.
CHANGING = frozenset(
    [
        "rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle",
        "now", "curdate", "localtimestamp", "current_date", "current_time", "current_timestamp",
        "current_timezone", "current_user", "session_user", "user", "version",
        "current_catalog", "current_database", "current_schema", "current_path", "current_recipient",
        "monotonically_increasing_id", "spark_partition_id",
        "input_file_name", "input_file_block_start", "input_file_block_length",
        "reflect", "java_method", "try_reflect",
    ]
)  # fmt: skip
# Which row comes first is nobody's promise.
_ANY_ROW = frozenset(["first", "first_value", "last", "last_value", "any_value"])
_WITHOUT_PARENTHESES = frozenset(
    ["current_date", "current_time", "current_timestamp", "current_user", "localtimestamp", "session_user"]
)
_MOMENT = re.compile(r"\s*(now|today|tomorrow|yesterday)\b.*", re.IGNORECASE | re.DOTALL)
_MOMENT_TYPES = ("date", "timestamp", "timestamp_ntz", "timestamp_ltz", "time")
_QUERIES = ("from", "table", "values")  # they begin one, behind a parenthesis
_BEHIND_A_COLUMN = frozenset(
    ["is", "not", "in", "between", "like", "ilike", "rlike", "regexp", "and", "or", "div", "as"]
)

_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKENS = re.compile(
    r"""
      (?P<raw>[rR](?:'[^']*'|"[^"]*"))
    | (?P<text>'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*")
    | (?P<name>`(?:[^`]|``)*`)
    | (?P<word>\w+)
    | (?P<comment>--|/\*)
    | (?P<mark>\|>|\S)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind == "word" else ""

    @property
    def called(self) -> str:
        """The name that it is, were it a function's."""
        return self.text[1:-1].replace("``", "`").lower() if self.kind == "name" else self.word


_NOTHING = _Token("", "")


def is_moment(text: str) -> bool:
    """Whether Spark takes a text for the time at which it reads it: 'now', 'today', 'tomorrow UTC', …"""
    return _MOMENT.fullmatch(text) is not None


def calls(text: str) -> frozenset[str]:
    """The functions that an expression calls, in lower case."""
    pairs = pairwise(_tokens(text))
    return frozenset(one.called for one, behind in pairs if one.called and behind.text == "(")


def sql_problem(text: str) -> str | None:
    """What keeps a text from being an expression over the row or over aggregates; None if nothing does."""
    if not text.strip():
        return "is empty"
    tokens = _tokens(text)
    for at, token in enumerate(tokens):
        before = tokens[at - 1] if at else _NOTHING
        behind = tokens[at + 1] if at + 1 < len(tokens) else _NOTHING
        problem = (
            _query_in(before, token, behind) or _call_in(before, token, behind) or _moment_in(before, token)
        )
        if problem is not None:
            return problem
    return None


def _query_in(before: _Token, token: _Token, behind: _Token) -> str | None:
    if token.kind == "comment":
        return "contains a comment; use a YAML comment (#) instead"
    begins = before.text in ("", "(") and token.word in _QUERIES and not _ends_a_value(behind)
    if token.text == "|>" or begins or (token.word in ("select", "using") and before.text != "."):
        return (
            f"contains a query ({token.text!r}); it may only use columns of the row or aggregates of them"
            "; put a column of that name in `backticks`"
        )
    return None


def _ends_a_value(token: _Token) -> bool:
    """Whether the token can only stand behind a column, and not behind a word that begins a query."""
    return token.word in _BEHIND_A_COLUMN or (token.kind in ("", "mark") and token.text != "(")


def _call_in(before: _Token, token: _Token, behind: _Token) -> str | None:
    name = token.called
    if behind.text != "(":
        bare = token.word in _WITHOUT_PARENTHESES and before.text != "." and behind.text != "."
        return _differs(name) + "; put a column of that name in `backticks`" if bare else None
    if name and before.text == ".":
        return f"calls {name}(), which has a dot in its name; only built-in Spark functions are allowed"
    if name == "identifier":
        return "calls identifier(), which hides the name; write the name itself"
    if name in _ANY_ROW:
        return f"uses {name}(), which gives different results each time because rows have no order"
    return _differs(f"{name}()") if name in CHANGING else None


def _differs(what: str) -> str:
    return f"uses {what}, which gives different results each time; use only columns of the row"


def with_quoted(text: str, change: Callable[[str], str]) -> str:
    """The text without its comments, and with what stands in quotes or backticks changed."""
    return _QUOTED.sub(lambda one: " " if one[0].startswith(("--", "/*")) else change(one[0]), text)


def moment_in(text: str) -> str | None:
    """The first literal that is the time at which it is read, such as date 'today'; None if there is none."""
    found = (_moment(before, token) for before, token in pairwise(_tokens(text)))
    return next(filter(None, found), None)


def _moment_in(before: _Token, token: _Token) -> str | None:
    moment = _moment(before, token)
    return _differs(moment) if moment is not None else None


def _moment(before: _Token, token: _Token) -> str | None:
    if token.kind not in ("text", "raw") or before.word not in _MOMENT_TYPES:
        return None
    said = token.text[1:-1] if token.kind == "text" else token.text[2:-1]
    return f"{before.word} '{said}'" if is_moment(said) else None


def _tokens(text: str) -> list[_Token]:
    return [_Token(match.lastgroup or "", match.group()) for match in _TOKENS.finditer(text)]
