"""Spark's plan of a query, read as text: that works without the JVM and on Spark Connect.

A plan is a tree of lines, in which every column has a number of its own: `port#6`. Names of columns and
literals stand in it unquoted. What of them would be taken for a part of the plan, a bracket above all, has a
plain word in its place before it is read: names by `plain_names`, which the caller knows, literals by
`plain_texts`, in the query itself. A line of which that can't be done is `Unreadable`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lading.config.sql import with_quoted

LIMITS = ("GlobalLimit", "LocalLimit", "Offset", "Tail", "LimitAndOffset")  # steps that keep some rows

_LINE = re.compile(r"^((?:[:+] ?[ -] ?|   )*)(\S.*)$")
_ID = re.compile(r"#(\d+)L?")
_PLAIN = re.compile(r"[^\s(),]+#(\d+)L?")
_EQUAL = re.compile(r"\(?([^\s(),]+#\d+L?) (?:=|<=>) ([^\s(),]+#\d+L?)\)?")
_VIEW = re.compile(r"View \(`([^`]+)`, ")
_ODD_NAME = re.compile(r"[\[\](),#`\s]")
_ODD_TEXT = re.compile(r"[\[\](),#\n]")


class Broken(Exception):
    """Why a query can't be cut, and what to do about it."""

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.remedy = remedy


class Unreadable(Broken):
    """Nobody can tell from the plan whether the query can be cut."""

    def __init__(self) -> None:
        super().__init__(
            "a bracket or comma in a name or a text makes Spark's plan of it unreadable, so nobody can tell "
            "whether it is cut by its slots",
            "give such columns plain names with `as`, and write such a text as char(40)",
        )


@dataclass(slots=True)
class Node:
    """One line of a plan, with what stands below it."""

    text: str
    children: list[Node] = field(default_factory=list)
    inner: list[Node] = field(default_factory=list)  # queries within its expressions

    @property
    def word(self) -> str:
        match = re.match(r"\w+", self.text)
        return match[0] if match else ""

    @property
    def view(self) -> str | None:
        """The name of the view that it stands for."""
        match = _VIEW.match(self.text)
        return match[1] if match else None

    def lists(self) -> list[list[str]]:
        """The lists in square brackets that the line has, at its own level."""
        if not _is_balanced(self.text):
            raise Unreadable
        return [split(body) for body in _brackets(self.text)]

    def all(self) -> Iterator[Node]:
        yield self
        for one in (*self.children, *self.inner):
            yield from one.all()


def tree_of(plan: str) -> Node:
    """The plan as a tree. A query within an expression stands one level deeper than a child."""
    stack: list[tuple[int, Node]] = []
    root: Node | None = None
    for line in plan.rstrip().splitlines():
        match = _LINE.match(line)
        if match is None or len(match[1]) % 3 or (root is not None and not match[1]):
            if stack:
                stack[-1][1].text += "\n" + line  # a text with a line break in it
            continue
        depth = len(match[1]) // 3
        node = Node(match[2])
        while stack and stack[-1][0] >= depth:
            stack.pop()
        if not stack:
            root = root or node
        else:
            above, parent = stack[-1]
            (parent.children if depth == above + 1 else parent.inner).append(node)
        stack.append((depth, node))
    if root is None:
        raise ValueError("no plan")
    return root


def plain_names(names: Iterable[str]) -> dict[str, str]:
    """Words to read in place of those names of columns that hold what a plan is read by."""
    odd = sorted({name for name in names if _ODD_NAME.search(name)}, key=len, reverse=True)
    return {name: f"odd{at}" for at, name in enumerate(odd)}


def with_names(plan: str, names: Mapping[str, str]) -> str:
    for name, word in names.items():  # the longest first: one may end like another
        plan = re.sub(rf"{re.escape(name)}(?=#\d)", word, plan)
    return plan


def plain_texts(sql: str) -> str:
    """The query with its texts such that a plan of it can be read. What it asks is another thing; which rows
    it puts together is the same."""
    return with_quoted(sql, lambda one: one if one.startswith("`") else _ODD_TEXT.sub("_", one))


def ids(columns: Sequence[str]) -> tuple[int, ...]:
    """The number that each of these is given as."""
    return tuple(int(found[-1]) for one in columns if (found := _ID.findall(one)))


def numbers(text: str) -> list[int]:
    """Of all the columns that a text mentions."""
    return [int(number) for number in _ID.findall(text)]


def plain_column(expression: str) -> int | None:
    """The number of the column that an expression is, and nothing else."""
    match = _PLAIN.fullmatch(expression)
    return int(match[1]) if match else None


def named(output: str) -> tuple[str, int]:
    """The expression of one column that a step gives, and its number; -1 if it has none."""
    found = ids([output])
    return split(output, " AS ")[0], found[0] if found else -1


def is_order(text: str) -> bool:
    return re.search(r" (?:ASC|DESC) NULLS ", text) is not None


def equalities(condition: str) -> list[tuple[int, int]]:
    """The pairs of columns that are equal where a condition holds."""
    matches = (_EQUAL.fullmatch(one) for one in _conjuncts(condition))
    return [(ids([one[1]])[0], ids([one[2]])[0]) for one in matches if one]


def _conjuncts(condition: str) -> list[str]:
    text = condition.strip()
    while text.startswith("(") and closing(text) == len(text) - 1:
        parts = split(text[1:-1], " AND ")
        if len(parts) == 1:
            return [text[1:-1]]
        return [found for part in parts for found in _conjuncts(part)]
    return [text]


def closing(text: str) -> int:
    """Where the bracket is closed that the text begins with; -1 if it isn't."""
    depth = 0
    for at, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return at
    return -1


def _is_balanced(text: str) -> bool:
    open_ones = []
    for letter in text:
        if letter in "([":
            open_ones.append(letter)
        elif letter in ")]" and (not open_ones or open_ones.pop() + letter not in ("()", "[]")):
            return False
    return not open_ones


def _brackets(text: str) -> Iterator[str]:
    """What stands in square brackets that are in no other ones, nor in parentheses."""
    depth, start, parens = 0, 0, 0
    for at, letter in enumerate(text):
        if letter == "[" and (depth or not parens or text.startswith("View")):
            depth += 1
            start = at + 1 if depth == 1 else start
        elif letter == "]" and depth:
            depth -= 1
            if depth == 0:
                yield text[start:at]
        elif not depth:
            parens += {"(": 1, ")": -1}.get(letter, 0)


def split(text: str, at: str = ", ") -> list[str]:
    """Cut at each `at` that stands in no brackets."""
    parts, depth, start, place = [], 0, 0, 0
    while place < len(text):
        letter = text[place]
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0)
        if depth == 0 and text.startswith(at, place):
            parts.append(text[start:place])
            place += len(at)
            start = place
            continue
        place += 1
    last = text[start:]
    return [one.strip() for one in [*parts, last] if one.strip()]
