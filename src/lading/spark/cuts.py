"""Whether a query can be cut: evaluated slot by slot, it gives what it gives as a whole.

That is the user's word. What can be seen to break it is refused, by the plan as Spark's analyser leaves it.
Going up from the inputs, each step is told which columns still hold what rows are cut by; a step that puts
rows of several slots together without them is a `Broken`. A step that nobody here knows is let pass, and
above it all but what takes every row together: `lading verify --deep` compares.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lading.spark.plan_tree import (
    LIMITS,
    Broken,
    Node,
    Unreadable,
    equalities,
    ids,
    is_order,
    named,
    plain_column,
    split,
    tree_of,
)

Kind = Literal["whole", "cut", "unknown"]
Equal = Sequence[tuple[int, int]]  # pairs of columns

_COALESCE = re.compile(r"coalesce\(([^\s(),]+#\d+L?), ([^\s(),]+#\d+L?)\)")

_PASSING = (
    "SubqueryAlias", "View", "Sort", "Repartition", "RepartitionByExpression",
    "RebalancePartitions", "ResolvedHint", "CollectMetrics", "PipeOperator",
)  # fmt: skip
# Joins that keep the rows of a side that find no other, and never fill up that side with nulls.
_INNER = ("Inner", "Cross")
_KEEPS_LEFT = ("LeftOuter", "LeftSemi", "LeftAnti")
_KEEPS_RIGHT = ("RightOuter",)
_JOINS = (*_INNER, *_KEEPS_LEFT, *_KEEPS_RIGHT, "FullOuter")


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
        plain = plain_column(expression)
        if plain is not None:
            return plain in self.keys[at]
        either = _COALESCE.fullmatch(expression)
        if either is None or not self.pairs:
            return False
        left, right = ids(either.groups())
        one, other = self.pairs[at]
        return (left in one and right in other) or (left in other and right in one)

    def covers(self, expressions: Sequence[str]) -> bool:
        """Whether these say all of what rows are cut by."""
        return all(any(self.holds(one, at) for one in expressions) for at in range(len(self.keys)))


def check_cut(
    plan: str,
    by: Mapping[str, tuple[str, ...]],
    result: Sequence[str],
    slot: Sequence[str],
    words: Mapping[str, str] | None = None,
) -> None:
    """Raise Broken if the query can be seen not to be cut. `by` has the columns of each input that is cut,
    and none for those that are given whole; `slot` which columns of the result, in their order, rows are put
    into slots by; `words` what stands in the plan for the names of some columns."""
    rows = _Walk(by, words or {}).of(tree_of(plan))
    if rows.kind == "unknown":
        return
    if rows.kind == "whole":
        raise Broken("it uses no input that is cut", "remove `by` from the inputs")
    if len(rows.out) != len(result):
        raise Unreadable
    for at, name in enumerate(slot):
        if rows.out[result.index(name)] not in rows.keys[at]:
            raise Broken(
                f"the column that says which slot a row of the result is in is not {_named(by, rows.of, at)} "
                "as the input has it",
                f"select {_named(by, rows.of, at)} unchanged, and give what is computed another name",
            )


def _named(by: Mapping[str, tuple[str, ...]], name: str, at: int) -> str:
    columns = by.get(name, ())
    return columns[at] if at < len(columns) else "it"


class _Walk:
    def __init__(self, by: Mapping[str, tuple[str, ...]], words: Mapping[str, str]) -> None:
        self._by = by
        self._words = words
        self._shared: dict[str, Rows] = {}  # common table expressions

    def of(self, node: Node) -> Rows:
        view = node.view
        if view is not None and view in self._by:
            return self._input(view, node)
        self._look_inside(node)
        step = getattr(self, f"_{node.word.lower()}", None)
        if step is not None:
            found: Rows = step(node)
            return found
        if node.word in _PASSING and node.children:
            return self.of(node.children[0])
        if node.word in LIMITS:
            return self._limit(node)
        if not node.children:
            return self._leaf(node)
        return _beyond_us([self.of(one) for one in node.children])

    def _look_inside(self, node: Node) -> None:
        for inner in node.inner:
            try:
                is_whole = self.of(inner).kind == "whole"
            except Unreadable:
                raise
            except Broken:  # if that were mended, it would still read an input that is cut
                is_whole = False
            if not is_whole:
                raise Broken(
                    "a query within an expression reads an input that is cut", "write it as a plain join"
                )

    def _input(self, name: str, node: Node) -> Rows:
        [columns, *_] = node.lists()
        out = ids(columns)
        if not self._by[name]:
            return Rows("whole", out)
        names = [re.sub(r"#\d+L?$", "", one) for one in columns]
        words = [self._words.get(one, one) for one in self._by[name]]
        keys = tuple(frozenset([out[names.index(one)]]) if one in names else frozenset() for one in words)
        return Rows("cut", out, keys, of=name)

    def _leaf(self, node: Node) -> Rows:
        lists = node.lists()
        return Rows("whole", ids(lists[-1]) if lists else ())

    def _filter(self, node: Node) -> Rows:
        return self._where(node.children[0], equalities(node.text.removeprefix("Filter ")))

    def _where(self, node: Node, equal: Equal) -> Rows:
        """The rows of a step that stay where these columns are equal: joined by them, perhaps."""
        if node.word != "Join":
            return self.of(node)
        self._look_inside(node)
        return self._join(node, equal)

    def _project(self, node: Node) -> Rows:
        below = self.of(node.children[0])
        lists = node.lists()
        return _renamed(below, lists[-1] if lists else [])

    def _aggregate(self, node: Node) -> Rows:
        below = self.of(node.children[0])
        lists = node.lists()
        grouping = lists[0] if len(lists) > 1 else []
        outputs = lists[-1] if lists else []
        self._refuse_across(below, grouping, "it aggregates", "group")
        return _renamed(below, outputs)

    def _window(self, node: Node) -> Rows:
        below = self.of(node.children[0])
        lists = node.lists()
        parted = lists[1] if len(lists) > 1 and not any(map(is_order, lists[1])) else []
        self._refuse_across(below, parted, "a window goes over", "partition")
        made = _renamed(below, lists[0]).out if lists else ()
        return replace(below, out=(*below.out, *made))

    def _refuse_across(self, below: Rows, expressions: Sequence[str], what: str, verb: str) -> None:
        """Of rows that nobody knows, it is only known that without any expression all are taken together."""
        if below.kind == "whole" or (expressions if below.kind == "unknown" else below.covers(expressions)):
            return
        columns = ", ".join(self._by.get(below.of, ()))
        raise Broken(f"{what} rows of several slots of {below.of}", f"{verb} by {columns} too")

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
        if below.kind != "whole":
            raise Broken("it has a limit, which would be one for each slot", "filter by a value or a rank")
        return below

    def _generate(self, node: Node) -> Rows:
        below = self.of(node.children[0])
        lists = node.lists()
        return replace(below, out=(*below.out, *(ids(lists[-1]) if lists else ())))

    def _expand(self, node: Node) -> Rows:
        """Each row several times, as each of the first lists has it."""
        below = self.of(node.children[0])
        lists = node.lists()
        out = ids(lists[-1])
        rows = [split(one[1:-1]) for one in lists[0]]
        if any(len(one) != len(out) for one in rows):
            raise Unreadable
        keys = tuple(
            frozenset(
                number for at, number in enumerate(out) if all(below.holds(one[at], key) for one in rows)
            )
            for key in range(len(below.keys))
        )
        return replace(below, out=out, keys=keys, pairs=())

    def _lateraljoin(self, node: Node) -> Rows:
        """Rows with what a query of their own gives for each, which reads nothing that is cut."""
        below = self.of(node.children[0])
        return replace(below, out=(*below.out, *self.of(node.inner[0]).out))

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
        return _repeated(rows, ids(lists[0]) if lists else ())

    def _union(self, node: Node) -> Rows:
        below = [self.of(one) for one in node.children]
        kinds = {one.kind for one in below}
        if kinds == {"whole"}:
            return replace(below[0])
        if "whole" in kinds:
            raise Broken(
                "a union adds rows of an input that is given whole to each slot",
                "give that input a `by` too",
            )
        return _beyond_us(below) if "unknown" in kinds else _aligned(below)

    def _intersect(self, node: Node) -> Rows:
        left, right = below = [self.of(one) for one in node.children]
        if right.kind == "whole":
            return left
        if left.kind == "whole":
            raise Broken("rows of an input that is given whole are kept in each slot", "swap the two sides")
        return _beyond_us(below) if "unknown" in (left.kind, right.kind) else _aligned(below)

    _except = _intersect

    def _join(self, node: Node, where: Equal = ()) -> Rows:
        """`where`: columns that are equal in the rows that stay. What is asked of columns of a side that the
        join never fills up might as well be asked of that side alone."""
        match = re.match(r"Join (\w+)(?:, (.*))?", node.text, re.DOTALL)
        how, on = (match[1], match[2] or "") if match else ("", "")
        equal = [*equalities(on), *where] if how in _INNER else equalities(on)
        left, right = sides = [
            self._where(one, equal if how in _INNER else where if how in keeping else ())
            for one, keeping in zip(node.children, (_KEEPS_LEFT, _KEEPS_RIGHT), strict=True)
        ]
        out = left.out if how in ("LeftSemi", "LeftAnti") else (*left.out, *right.out)
        kinds = (left.kind, right.kind)
        if kinds == ("whole", "whole"):
            return Rows("whole", out)
        kept = {left.kind} if how in _KEEPS_LEFT else {right.kind} if how in _KEEPS_RIGHT else {*kinds}
        if "whole" in kept and how not in _INNER:
            raise Broken(
                "a join keeps rows of an input that is given whole, and would keep them in each slot",
                "give that input a `by` too, or turn the join round",
            )
        if "unknown" in kinds or how not in _JOINS:
            return replace(_beyond_us(sides), out=out)
        if kinds == ("cut", "cut"):
            return _joined(left, right, how, equal, out, self._by)
        return replace(left if left.kind == "cut" else right, out=out)


def _beyond_us(below: Sequence[Rows]) -> Rows:
    """What a step gives that nobody here knows."""
    cut = [one for one in below if one.kind != "whole"]
    return Rows("unknown", of=cut[0].of) if cut else Rows("whole")


def _joined(
    left: Rows, right: Rows, how: str, equal: Equal, out: tuple[int, ...], by: Mapping[str, tuple[str, ...]]
) -> Rows:
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
    if any(len(one.out) != len(first.out) for one in several):
        raise Unreadable
    keys = []
    for at in range(len(first.keys)):
        places = [
            place for place in range(len(first.out)) if all(one.out[place] in one.keys[at] for one in several)
        ]
        keys.append(frozenset(first.out[place] for place in places))
    return Rows("cut", first.out, tuple(keys), of=first.of)


def _renamed(below: Rows, outputs: Sequence[str]) -> Rows:
    """What a list of columns makes of the rows: those that are as they were, and aliases of them."""
    out = []
    keys: list[set[int]] = [set() for _ in below.keys]
    for one in outputs:
        expression, found = named(one)
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
