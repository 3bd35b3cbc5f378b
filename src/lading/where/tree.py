"""The nodes of a predicate: what a `where` says once it has been read.

The same nodes serve twice. As `parse` returns them, values are what was written (str, int, Decimal,
`Quoted`, …). As `bind` returns them, every value is a `Bound` of its column's type, so that pruning
and filtering compare like with like and never meet a literal that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Op = Literal["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Quoted:
    """A literal whose type was spelled out: `date '…'`, `timestamp '…'`, `x'…'`."""

    type: Literal["date", "timestamp", "bytes"]
    text: str


@dataclass(frozen=True, slots=True)
class Compare:
    column: str
    op: Op
    value: Any
    at: int = 0  # offset in the text, for error messages


@dataclass(frozen=True, slots=True)
class In:
    """True for a value in the list, false for another, null for null. An empty list is allowed once bound."""

    column: str
    values: tuple[Any, ...]
    at: int = 0


@dataclass(frozen=True, slots=True)
class IsNull:
    column: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class Like:
    """SQL's pattern: `%` any text, `_` any character, `\\` takes the next character as it is."""

    column: str
    pattern: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Predicate


Predicate = Compare | In | IsNull | Like | And | Or | Not


def columns_of(where: Predicate) -> frozenset[str]:
    """The columns that a predicate looks at."""
    return frozenset(leaf.column for leaf in _leaves(where))


def like_prefix(pattern: str) -> tuple[str, str]:
    """The literal text that a match must start with, and what the pattern says after it.

    The rest is "" for plain equality and "%" for a plain prefix.
    """
    prefix = []
    at = 0
    while at < len(pattern) and pattern[at] not in "%_":
        if pattern[at] == "\\" and at + 1 < len(pattern):
            at += 1
        prefix.append(pattern[at])
        at += 1
    rest = pattern[at:]
    return "".join(prefix), "%" if rest and not rest.strip("%") else rest


def _leaves(where: Predicate) -> Iterator[Compare | In | IsNull | Like]:
    match where:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _leaves(part)
        case Not(part):
            yield from _leaves(part)
        case _:
            yield where
