"""Whether a query can be cut: evaluated slot by slot, it gives what it gives as a whole.

That is the user's word. What can be seen to break it is refused, by the plan as Spark's analyser leaves it:
a tree of lines in which every column has a number of its own. Going up from the inputs, each step is told
which columns still hold what rows are cut by; a step that puts rows of several slots together without them is
a `Broken`. A step that nobody here knows is let pass: `lading verify --deep` compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

Kind = Literal["whole", "cut", "unknown"]

_LINE = re.compile(r"^((?:[:+] ?[ -] ?|   )*)(\S.*)$")
_ID = re.compile(r"#(\d+)L?")
_PLAIN = re.compile(r"[^\s(),]+#(\d+)L?")
_ALIAS = re.compile(r"(.*) AS .*#(\d+)L?", re.DOTALL)
_EQUAL = re.compile(r"\(?([^\s(),]+#\d+L?) (?:=|<=>) ([^\s(),]+#\d+L?)\)?")
_COALESCE = re.compile(r"coalesce\(([^\s(),]+#\d+L?), ([^\s(),]+#\d+L?)\)")
_VIEW = re.compile(r"View \(`([^`]+)`, ")
_UNORDERED = re.compile(r"(?<![\w.])(collect_list|collect_set|first|last|any_value|listagg)\(")
_SORTED = re.compile(r"(?:sort_array|array_sort)\($")

_PASSING = (
    "SubqueryAlias", "View", "Filter", "Sort", "Repartition", "RepartitionByExpression",
    "RebalancePartitions", "ResolvedHint", "CollectMetrics",
)  # fmt: skip
_LIMITS = ("GlobalLimit", "LocalLimit", "Offset", "Tail", "LimitAndOffset")
_LITERAL = ("LocalRelation", "OneRowRelation", "Range", "LogicalRDD", "EmptyRelation")


class Broken(Exception):
    """Why a query can't be cut, and what to do about it."""

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.remedy = remedy


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

    def lists(self) -> list[list[str]]:
        """The lists in square brackets that the line has, at its own level."""
        return [_split(body) for body in _brackets(self.text)]

    def all(self) -> Iterator[Node]:
        yield self
        for one in (*self.children, *self.inner):
            yield from one.all()


@dataclass(frozen=True, slots=True)
class Rows:
    """What is known of the rows that a step gives. `keys`: for each `by` column those that hold its values;
    `pairs`: after a full outer join, those of the left and of the right, of which one is null."""

    kind: Kind
    out: tuple[int, ...] = ()
    keys: tuple[frozenset[int], ...] = ()
    pairs: tuple[tuple[frozenset[int], frozenset[int]], ...] = ()
    of: str = ""  # the input that was cut, for messages

    def holds(self, expression: str, at: int) -> bool:
        """Whether an expression is what rows are cut by, in place `at`."""
        plain = _PLAIN.fullmatch(expression)
        if plain is not None:
            return int(plain[1]) in self.keys[at]
        either = _COALESCE.fullmatch(expression)
        if either is None or not self.pairs:
            return False
        left, right = (int(_ID.search(one)[1]) for one in either.groups())  # type: ignore[index]
        one, other = self.pairs[at]
        return (left in one and right in other) or (left in other and right in one)

    def covers(self, expressions: Sequence[str]) -> bool:
        """Whether these say all of what rows are cut by."""
        return all(any(self.holds(one, at) for one in expressions) for at in range(len(self.keys)))

    @property
    def is_lost(self) -> bool:
        """Whether nothing tells any more what slot a row is of."""
        return self.kind == "cut" and not all(self.keys)


def tree_of(plan: str) -> Node:
    """The plan as a tree. A query within an expression stands one level deeper than a child."""
    stack: list[tuple[int, Node]] = []
    root: Node | None = None
    for line in plan.rstrip().splitlines():
        match = _LINE.match(line)
        if match is None or len(match[1]) % 3:
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


def check_cut(plan: str, by: Mapping[str, tuple[str, ...]], result: Sequence[int]) -> None:
    """Raise Broken if the query can be seen not to be cut. `by` has the columns of each input that is cut,
    and none for those that are given whole; `result` where in the result the columns are, in their order,
    that rows are put into slots by."""
    rows = _Walk(by).of(tree_of(plan))
    if rows.kind == "unknown":
        return
    if rows.kind == "whole":
        raise Broken("it uses no input that is cut", "remove `by` from the inputs")
    for at, place in enumerate(result):
        if place < len(rows.out) and rows.out[place] not in rows.keys[at]:
            raise Broken(
                f"the column that says which slot a row of the result is in is not {_named(by, rows.of, at)} "
                "as the input has it",
                f"select {_named(by, rows.of, at)} unchanged, and give what is computed another name",
            )


def refuse_others(plan: str) -> None:
    """Raise Broken for a query that reads anything but its inputs: nobody would know when that changes."""
    for node in tree_of(plan).all():
        known = (*_LITERAL, "CTERelationRef")
        if not node.children and node.word not in known:
            raise Broken(
                f"it reads {node.text.split(',')[0][:80]}, which is none of its inputs", "name it in `from`"
            )


def refuse_unordered(plan: str) -> None:
    """Raise Broken for an aggregate that gives whatever row comes first."""
    for node in tree_of(plan).all():
        if node.word not in ("Aggregate", "Deduplicate"):
            continue
        if node.word == "Deduplicate":
            raise Broken("dropDuplicates() keeps whichever row comes first", "group by the columns instead")
        for match in _UNORDERED.finditer(node.text):
            sorted_after = _SORTED.search(node.text[: match.start()]) is not None
            ordered = match[1] == "listagg" and re.search(r" (?:ASC|DESC) ", node.text[match.end() :])
            if not ordered and not (sorted_after and match[1].startswith("collect")):
                remedy = "sort_array(collect_list(x))" if "list" in match[1] else "min, max, min_by or max_by"
                raise Broken(
                    f"{match[1]}() depends on the order of rows, which is not settled", f"use {remedy}"
                )


def used_columns(analysed: str, optimised: str, inputs: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    """Of each input the columns that a query reads; all of them where that can't be told. `inputs` has their
    columns, in the order in which the tasks give them."""
    everything = {name: set(columns) for name, columns in inputs.items()}
    if " more fields" in analysed or " more fields" in optimised:
        return everything
    used: dict[str, set[str]] = {name: set() for name in inputs}
    leaves: dict[str, str] = {}  # the first number that a task gives -> the input
    for node in tree_of(analysed).all():
        view = _VIEW.match(node.text)
        if view is None or view[1] not in inputs:
            continue
        below = [one for one in node.all() if one.word == "MapInArrow"]
        if len(below) == 1:
            leaves[_given(below[0])[0]] = view[1]
    elsewhere = {
        number
        for node in tree_of(optimised).all()
        if node.word != "MapInArrow"
        for number in _ID.findall(node.text)
    }
    for node in tree_of(optimised).all():
        if node.word == "MapInArrow":
            numbers = _given(node)
            name = leaves.get(numbers[0]) if numbers else None
            if name is None or len(numbers) != len(inputs[name]):
                return everything
            pairs = zip(inputs[name], numbers, strict=True)
            used[name] |= {column for column, number in pairs if number in elsewhere}
    return used


def _given(node: Node) -> list[str]:
    """The numbers of the columns that a task gives."""
    lists = node.lists()
    return [number for one in lists[-1] for number in _ID.findall(one)] if lists else []


def _named(by: Mapping[str, tuple[str, ...]], name: str, at: int) -> str:
    columns = by.get(name, ())
    return columns[at] if at < len(columns) else "it"


class _Walk:
    def __init__(self, by: Mapping[str, tuple[str, ...]]) -> None:
        self._by = by
        self._width = max((len(columns) for columns in by.values()), default=0)
        self._shared: dict[str, Rows] = {}  # common table expressions

    def of(self, node: Node) -> Rows:
        view = _VIEW.match(node.text)
        if view is not None and view[1] in self._by:
            return self._input(view[1], node)
        for inner in node.inner:
            if self.of(inner).kind == "cut":
                raise Broken("a query within an expression reads an input that is cut", "write it as a join")
        step = getattr(self, f"_{node.word.lower()}", None)
        if step is not None:
            found: Rows = step(node)
            return found
        if node.word in _PASSING and node.children:
            return self.of(node.children[0])
        if node.word in _LIMITS:
            return self._limit(node)
        if not node.children:
            return self._leaf(node)
        below = [self.of(one) for one in node.children]
        return Rows("whole" if all(one.kind == "whole" for one in below) else "unknown")

    def _input(self, name: str, node: Node) -> Rows:
        [columns, *_] = node.lists()
        out = _ids(columns)
        if not self._by[name]:
            return Rows("whole", out)
        names = [re.sub(r"#\d+L?$", "", one) for one in columns]
        keys = tuple(
            frozenset([out[names.index(one)]]) if one in names else frozenset() for one in self._by[name]
        )
        return Rows("cut", out, keys, of=name)

    def _leaf(self, node: Node) -> Rows:
        lists = node.lists()
        return Rows("whole", _ids(lists[-1]) if lists else ())

    def _project(self, node: Node) -> Rows:
        below = self.of(node.children[0])
        lists = node.lists()
        return _renamed(below, lists[-1] if lists else [])

    def _aggregate(self, node: Node) -> Rows:
        below = self.of(node.children[0])
        lists = node.lists()
        grouping = lists[0] if len(lists) > 1 else []
        outputs = lists[-1] if lists else []
        if below.kind == "cut" and not below.covers(grouping):
            raise Broken(
                f"it aggregates rows of several slots of {below.of}",
                f"group by {', '.join(self._by[below.of])} too",
            )
        return _renamed(below, outputs)

    def _window(self, node: Node) -> Rows:
        below = self.of(node.children[0])
        lists = node.lists()
        parted = lists[1] if len(lists) > 1 and not any(_is_order(one) for one in lists[1]) else []
        if below.kind == "cut" and not below.covers(parted):
            raise Broken(
                f"a window goes over rows of several slots of {below.of}",
                f"partition by {', '.join(self._by[below.of])} too",
            )
        made = _renamed(below, lists[0]).out if lists else ()
        return replace(below, out=(*below.out, *made))

    def _distinct(self, node: Node) -> Rows:
        below = self.of(node.children[0])
        if below.kind == "cut" and not all(keys & set(below.out) for keys in below.keys):
            raise Broken(
                f"it takes distinct rows of several slots of {below.of}",
                f"select {', '.join(self._by[below.of])} too",
            )
        return below

    def _limit(self, node: Node) -> Rows:
        below = self.of(node.children[0])
        if below.kind == "cut":
            raise Broken("it has a limit, which would be one for each slot", "filter by a value or a rank")
        return below

    def _generate(self, node: Node) -> Rows:
        below = self.of(node.children[0])
        lists = node.lists()
        return replace(below, out=(*below.out, *(_ids(lists[-1]) if lists else ())))

    def _expand(self, node: Node) -> Rows:
        below = self.of(node.children[0])
        lists = node.lists()
        out = _ids(lists[-1]) if lists else ()
        kept = set(out) & set(below.out)
        return replace(below, out=out, keys=tuple(keys & kept for keys in below.keys), pairs=())

    def _withcte(self, node: Node) -> Rows:
        rows = Rows("whole")
        for one in node.children:
            rows = self.of(one)
        return rows

    def _cterelationdef(self, node: Node) -> Rows:
        rows = self.of(node.children[0])
        number = re.search(r"\d+", node.text)
        self._shared[number[0] if number else ""] = rows
        return rows

    def _cterelationref(self, node: Node) -> Rows:
        number = re.search(r"\d+", node.text)
        rows = self._shared.get(number[0] if number else "", Rows("unknown"))
        lists = node.lists()
        return _repeated(rows, _ids(lists[0]) if lists else ())

    def _union(self, node: Node) -> Rows:
        below = [self.of(one) for one in node.children]
        if any(one.kind == "unknown" for one in below):
            return Rows("unknown")
        if all(one.kind == "whole" for one in below):
            return replace(below[0])
        whole = [one for one in below if one.kind == "whole"]
        if whole:
            raise Broken(
                "a union adds rows of an input that is given whole to each slot",
                "give that input a `by` too",
            )
        return _aligned(below)

    def _intersect(self, node: Node) -> Rows:
        left, right = (self.of(one) for one in node.children)
        if "unknown" in (left.kind, right.kind):
            return Rows("unknown")
        if left.kind == "whole" and right.kind == "cut":
            raise Broken("rows of an input that is given whole are kept in each slot", "swap the two sides")
        return _aligned([left, right]) if right.kind == "cut" else left

    _except = _intersect

    def _join(self, node: Node) -> Rows:
        left, right = (self.of(one) for one in node.children)
        match = re.match(r"Join (\w+)(?:, (.*))?", node.text, re.DOTALL)
        how, on = (match[1], match[2] or "") if match else ("", "")
        half = how in ("LeftSemi", "LeftAnti")
        out = left.out if half else (*left.out, *right.out)
        kinds = (left.kind, right.kind)
        if "unknown" in kinds or how not in _JOINS:
            return Rows("unknown" if kinds != ("whole", "whole") else "whole", out)
        if kinds == ("whole", "whole"):
            return Rows("whole", out)
        if kinds == ("cut", "cut"):
            return _joined(left, right, how, on, out, self._by)
        stays = {"LeftOuter": 0, "LeftSemi": 0, "LeftAnti": 0, "RightOuter": 1}.get(how)
        if how == "FullOuter" or (stays is not None and kinds[stays] == "whole"):
            raise Broken(
                "a join keeps rows of an input that is given whole, and would keep them in each slot",
                "give that input a `by` too, or turn the join round",
            )
        return replace(left if left.kind == "cut" else right, out=out)


_JOINS = ("Inner", "Cross", "LeftOuter", "RightOuter", "FullOuter", "LeftSemi", "LeftAnti")


def _joined(
    left: Rows, right: Rows, how: str, on: str, out: tuple[int, ...], by: Mapping[str, tuple[str, ...]]
) -> Rows:
    equal = [tuple(int(n) for n in _ID.findall(one)) for one in _conjuncts(on) if _EQUAL.fullmatch(one)]
    for at in range(len(left.keys)):
        mine, theirs = left.keys[at], right.keys[at]
        if not any((a in mine and b in theirs) or (b in mine and a in theirs) for a, b in equal):
            raise Broken(
                f"it joins rows of different slots of {left.of} and {right.of}",
                f"join on {left.of}.{by[left.of][at]} = {right.of}.{by[right.of][at]} too",
            )
    both = tuple(a | b for a, b in zip(left.keys, right.keys, strict=True))
    none: tuple[frozenset[int], ...] = tuple(frozenset() for _ in left.keys)
    if how == "FullOuter":
        return Rows("cut", out, none, tuple(zip(left.keys, right.keys, strict=True)), left.of)
    keys = {"Inner": both, "Cross": both, "RightOuter": right.keys}.get(how, left.keys)
    return Rows("cut", out, keys, of=left.of)


def _aligned(several: Sequence[Rows]) -> Rows:
    """Rows of several sides under the columns of the first one."""
    first = several[0]
    keys = []
    for at in range(len(first.keys)):
        places = [
            place
            for place in range(len(first.out))
            if all(place < len(one.out) and one.out[place] in one.keys[at] for one in several)
        ]
        keys.append(frozenset(first.out[place] for place in places))
    return Rows("cut", first.out, tuple(keys), of=first.of)


def _renamed(below: Rows, outputs: Sequence[str]) -> Rows:
    """What a list of columns makes of the rows: those that are as they were, and aliases of them."""
    out = []
    keys: list[set[int]] = [set() for _ in below.keys]
    for one in outputs:
        alias = _ALIAS.fullmatch(one)
        expression = alias[1] if alias is not None else one
        found = int(alias[2]) if alias is not None else int(_ids([one])[0]) if _ids([one]) else -1
        out.append(found)
        for at in range(len(below.keys)):
            if below.holds(expression, at):
                keys[at].add(found)
    return Rows(below.kind, tuple(out), tuple(map(frozenset, keys)), _kept_pairs(below, out), below.of)


def _kept_pairs(below: Rows, out: Sequence[int]) -> tuple[tuple[frozenset[int], frozenset[int]], ...]:
    there = frozenset(out)
    return tuple((left & there, right & there) for left, right in below.pairs)


def _repeated(rows: Rows, out: tuple[int, ...]) -> Rows:
    """The same rows under other numbers."""
    to = dict(zip(rows.out, out, strict=False))
    keys = tuple(frozenset(to[one] for one in keys if one in to) for keys in rows.keys)
    return replace(rows, out=out, keys=keys, pairs=())


def _is_order(text: str) -> bool:
    return re.search(r" (?:ASC|DESC) NULLS ", text) is not None


def _ids(columns: Sequence[str]) -> tuple[int, ...]:
    """The number that each of these is given as."""
    return tuple(int(found[-1]) for one in columns if (found := _ID.findall(one)))


def _conjuncts(on: str) -> list[str]:
    text = on.strip()
    while text.startswith("(") and _closes(text) == len(text) - 1:
        parts = _split(text[1:-1], " AND ")
        if len(parts) == 1:
            return [text[1:-1]]
        return [found for part in parts for found in _conjuncts(part)]
    return [text]


def _closes(text: str) -> int:
    depth = 0
    for at, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return at
    return -1


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


def _split(text: str, at: str = ", ") -> list[str]:
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
