"""What a query reads, and what it must not do whether it is cut or not, by the plan that Spark has of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from lading.spark.plan_tree import LIMITS, Broken, Node, closing, ids, is_order, named, numbers, tree_of

_LITERAL = ("LocalRelation", "OneRowRelation", "Range", "LogicalRDD", "EmptyRelation", "CTERelationRef")
_LISTS = ("collect_list", "collect_set", "collect_union")
_TEXTS = ("listagg", "string_agg")
_UNSETTLED = (*_LISTS, *_TEXTS, "first", "first_value", "last", "last_value", "any_value", "mode")
# What they come to depends on which rows came first, unlike approx_count_distinct.
_APPROXIMATE = (
    "percentile_approx", "approx_percentile", "histogram_numeric", "approx_top_k", "approx_top_k_accumulate",
    "approx_top_k_combine", r"(?:hll|kll|theta|tuple)_\w*agg\w*",
)  # fmt: skip
_CALL = re.compile(rf"(?<![\w.])({'|'.join((*_UNSETTLED, *_APPROXIMATE))})\(")
_IN_ORDER = (
    *LIMITS,
    "Project",
    "Filter",
    "SubqueryAlias",
    "PipeOperator",
)  # leave rows in the order they have
_SORTED = re.compile(r"(?:sort_array|array_sort)\($")


def refuse_others(plan: str) -> None:
    """Raise Broken for a query that reads anything but its inputs: nobody would know when that changes."""
    for node in tree_of(plan).all():
        if node.word == "UnionLoopRef":
            raise Broken(
                "it is recursive", "join as often as needed, or write a `transform` instead of `sql`"
            )
        if node.word == "ScriptTransformation":
            raise Broken(
                "it runs a program, and nobody would know when that changes",
                "write a `transform` instead of `sql`",
            )
        if not node.children and node.word not in _LITERAL:
            raise Broken(
                f"it reads {node.text.split(',')[0][:80]}, which is none of its inputs", "name it in `from`"
            )


def refuse_unordered(plan: str) -> None:
    """Raise Broken for an aggregate that gives whatever row comes first."""
    for node in tree_of(plan).all():
        if node.word == "Deduplicate":
            raise Broken("dropDuplicates() keeps whichever row comes first", "group by the columns instead")
        for expression in _aggregates(node):
            for call in _CALL.finditer(expression):
                if not _is_settled(expression, call):
                    raise Broken(
                        f"{call[1]}() depends on the order of rows, which is not settled",
                        f"use {_settled(call[1])}",
                    )


def refuse_unordered_limits(plan: str) -> None:
    """Raise Broken for a limit on rows in no order, which keeps whichever come first."""
    nodes = list(tree_of(plan).all())
    shared = {_number(one): one.children[0] for one in nodes if one.word == "CTERelationDef"}
    for node in nodes:
        if node.word in LIMITS and not _is_settled_limit(node, shared):
            raise Broken(
                "it has a limit on rows in no order, so it keeps whichever come first",
                "order them first, by enough columns",
            )


def _is_settled_limit(node: Node, shared: Mapping[str, Node]) -> bool:
    """Whether it always keeps the same rows. `shared` has what common table expressions stand for."""
    below: Node | None = node
    while below is not None and below.word in _IN_ORDER:
        if below.word == "Project" and not any(numbers(named(one)[0]) for one in below.lists()[-1]):
            return True  # all rows are alike, as in exists (select 1 …)
        below = below.children[0]
        if below.word == "CTERelationRef":
            below = shared.get(_number(below))
    if below is None:
        return False
    # A sort that isn't global (`sort by`) only orders the rows of each task.
    return _is_one_row(below) or (below.word == "Sort" and below.text.endswith(", true"))


def _number(common: Node) -> str:
    """Of a common table expression: what refers to it has the same."""
    found = re.search(r"\d+", common.text)
    return found[0] if found else ""


def _is_one_row(node: Node) -> bool:
    return node.word == "Aggregate" and len(node.lists()) == 1  # nothing to group by


def _aggregates(node: Node) -> Iterator[str]:
    """The expressions over many rows at once, in no order that anybody gave."""
    if node.word == "Aggregate":
        outputs = node.lists()[-1:]
    elif node.word == "Window" and not any(map(is_order, (one for more in node.lists()[1:] for one in more))):
        outputs = node.lists()[:1]
    else:
        outputs = []
    for output in outputs:
        yield from (named(one)[0] for one in output)


def _is_settled(expression: str, call: re.Match[str]) -> bool:
    opened = expression[call.end() - 1 :]
    given = opened[1 : closing(opened)]
    if call[1] in _LISTS:
        return _SORTED.search(expression[: call.start()]) is not None
    return is_order(given) if call[1] in _TEXTS else call[1] == "mode" and given.endswith("Some(true)")


def _settled(name: str) -> str:
    if name in _LISTS:
        return f"sort_array({name}(x))"
    if "percentile" in name or name.startswith("kll"):
        return "percentile(x, 0.5), which is exact"
    if re.fullmatch("|".join(_APPROXIMATE), name):
        return "count(distinct x), approx_count_distinct(x), or groups and their rank"
    within = f"{name}() within group (order by x)"
    return {"mode": within, "listagg": within, "string_agg": within}.get(name, "min, max, min_by or max_by")


def used_columns(analysed: str, optimised: str, inputs: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    """Of each input the columns that a query reads; all of them where that can't be told. `inputs` has their
    columns, in the order in which the tasks give them."""
    everything = {name: set(columns) for name, columns in inputs.items()}
    if " more fields" in analysed or " more fields" in optimised:
        return everything
    used: dict[str, set[str]] = {name: set() for name in inputs}
    leaves: dict[int, str] = {}  # the first number that a task gives -> the input
    for node in tree_of(analysed).all():
        view = node.view
        if view is not None and view in inputs:
            below = [one for one in node.all() if one.word == "MapInArrow"]
            if len(below) == 1:
                leaves[_given(below[0])[0]] = view
    optimised_nodes = list(tree_of(optimised).all())
    elsewhere = {
        number for node in optimised_nodes if node.word != "MapInArrow" for number in numbers(node.text)
    }
    for node in optimised_nodes:
        if node.word == "MapInArrow":
            given = _given(node)
            name = leaves.get(given[0]) if given else None
            if name is None or len(given) != len(inputs[name]):
                return everything
            pairs = zip(inputs[name], given, strict=True)
            used[name] |= {column for column, number in pairs if number in elsewhere}
    return used


def _given(node: Node) -> tuple[int, ...]:
    """The numbers of the columns that a task gives."""
    lists = node.lists()
    return ids(lists[-1]) if lists else ()
