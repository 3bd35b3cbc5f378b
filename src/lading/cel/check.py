"""The types of a CEL expression, found without evaluating it.

CEL converts nothing by itself: `shard_hash(key) % 8` mixes uint and int and fails on every row. Such
things are said here, with their place in the text, before anything runs. Only functions that mean the
same in every implementation of CEL are let through, since other systems may route by the expression.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lading.cel.parse import CelProblem, Node, parse
from lading.cel.rows import Fault, matches
from lading.words import count_words

TYPES = ("int", "uint", "string", "bytes", "double", "bool")
HASH_FUNCTION = "shard_hash"
RESULTS = ("int", "uint", "string")  # what can name a shard

_ANY = "any"
_NUMBERS = ("int", "uint", "double")
_ARITHMETIC = {
    "+": ("int", "uint", "double", "string", "bytes"),
    "-": _NUMBERS,
    "*": _NUMBERS,
    "/": _NUMBERS,
    "%": ("int", "uint"),
}
# name -> (the types its arguments may have, the type of its result)
_FUNCTIONS: dict[str, tuple[tuple[tuple[str, ...], ...], str]] = {
    HASH_FUNCTION: ((("int", "uint", "string", "bytes"),), "uint"),
    "int": ((("int", "uint", "double", "string"),), "int"),
    "uint": ((("int", "uint", "double", "string"),), "uint"),
    "double": ((("int", "uint", "double", "string"),), "double"),
    "string": ((("int", "uint", "bool", "string"),), "string"),
    "bytes": ((("string", "bytes"),), "bytes"),
}
_METHODS: dict[str, tuple[tuple[tuple[str, ...], ...], str]] = {
    "startsWith": ((("string",), ("string",)), "bool"),
    "endsWith": ((("string",), ("string",)), "bool"),
    "contains": ((("string",), ("string",)), "bool"),
    "matches": ((("string",), ("string",)), "bool"),
}


def check(text: str, columns: Mapping[str, str]) -> Node:
    """The tree of a routing expression over `columns` (name -> type); CelProblem when it can't be one."""
    tree = typed(text, columns)
    if tree.type not in RESULTS:
        raise CelProblem(
            tree.start,
            f"the expression gives {tree.type}, which can't choose a shard",
            "it must give a whole number, or a token of routing_values",
        )
    return tree


def typed(text: str, columns: Mapping[str, str]) -> Node:
    """The tree, typed throughout, if the expression fits `columns`; CelProblem otherwise."""
    try:
        return _typed(parse(text), columns)
    except RecursionError:
        raise CelProblem(0, "the expression is too long", "split it, or make a column of it") from None


def check_results(tree: Node, num_dbs: int | None, routing_values: Sequence[int | str] | None) -> None:
    """What can be known of the results without a row: their type against the tokens, and constants and
    remainders against the shards there are."""
    if routing_values is None:
        if tree.type == "string":
            raise CelProblem(
                tree.start,
                "the expression gives text, not the number of a shard",
                "list the tokens it can give in routing_values",
            )
        for leaf, most in _leaves(tree):
            if num_dbs is not None and isinstance(most, int) and not 0 <= most < num_dbs:
                raise CelProblem(
                    leaf.start, f"this can give {most}, but shards are numbered 0 to {num_dbs - 1}"
                )
        return
    wanted = "string" if isinstance(routing_values[0], str) else "int"
    if wanted != ("int" if tree.type == "uint" else tree.type):
        raise CelProblem(tree.start, f"the expression gives {tree.type}, but routing_values are {wanted}")
    for leaf, _ in _leaves(tree):
        if leaf.kind == "literal" and leaf.value not in routing_values:
            raise CelProblem(leaf.start, f"routing_values does not list {leaf.value!r}")


def _leaves(tree: Node) -> Iterator[tuple[Node, object]]:
    """The parts of an expression that become its result, each with the most that it can give, if known."""
    if tree.kind == "operator" and tree.value == "?:":
        yield from _leaves(tree.args[1])
        yield from _leaves(tree.args[2])
    elif tree.kind == "literal":
        yield tree, tree.value
    elif tree.kind == "operator" and tree.value == "%" and isinstance(tree.args[1].value, int):
        yield tree, abs(tree.args[1].value) - 1
    elif tree.kind == "call" and tree.value in ("int", "uint"):
        yield from _leaves(tree.args[0])


def _typed(node: Node, columns: Mapping[str, str]) -> Node:
    if node.kind == "literal":
        if node.type == "int" and node.value == 2**63:
            raise CelProblem(node.start, f"{node.value} does not fit into 64 bits")
        return node
    if node.kind == "name":
        return replace(node, type=_type_of_name(node, columns))
    if node.kind in ("call", "method"):
        return _typed_call(node, columns)
    if node.kind not in ("operator", "list"):
        raise CelProblem(node.start, "columns have no fields and no elements", "use the column itself")
    node = replace(node, args=tuple(_typed(arg, columns) for arg in node.args))
    if node.kind == "operator":
        return replace(node, type=_type_of_operator(node))
    types = {item.type for item in node.args}
    if len(types) > 1:
        raise CelProblem(node.start, f"a list of {_listed(types)}", "keep a list to one type")
    return replace(node, type=f"list of {types.pop() if types else _ANY}")


def _type_of_name(node: Node, columns: Mapping[str, str]) -> str:
    name = str(node.value)
    if name in columns:
        return columns[name]
    near = difflib.get_close_matches(name, columns, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"columns has: {', '.join(columns) or 'nothing'}"
    raise CelProblem(node.start, f"there is no column {name!r}", hint)


def _typed_call(node: Node, columns: Mapping[str, str]) -> Node:
    name, known = str(node.value), _FUNCTIONS if node.kind == "call" else _METHODS
    at = node.start if node.kind == "call" else node.args[0].end
    if name not in known:
        hint = f"known: {', '.join([*_FUNCTIONS, *('.' + method for method in _METHODS)])}"
        raise CelProblem(at, f"there is no function {name!r} in routing expressions", hint)
    wanted, result = known[name]
    if len(node.args) != len(wanted):
        less = len(wanted) - (node.kind == "method")
        raise CelProblem(at, f"{name}() takes {count_words(less, 'argument')}")
    args = tuple(_typed(arg, columns) for arg in node.args)
    for arg, types in zip(args, wanted, strict=True):
        if arg.type not in types:
            raise CelProblem(arg.start, f"{name}() of {arg.type}", f"it takes {_listed(types)}")
    if name == "matches" and args[1].kind == "literal":
        try:
            matches("", str(args[1].value))
        except Fault as fault:
            raise CelProblem(args[1].start, str(fault), "patterns are RE2's") from None
    return replace(node, args=args, type=result)


def _type_of_operator(node: Node) -> str:
    operator, types = str(node.value), [arg.type for arg in node.args]
    if operator == "?:":
        _expect(node.args[0], ("bool",), "a condition before '?'")
        if types[1] != types[2]:
            raise CelProblem(node.args[2].start, f"'?:' gives {types[1]} or {types[2]}", _CONVERT)
        return types[1]
    if operator in ("&&", "||", "!x"):
        for arg in node.args:
            _expect(arg, ("bool",), f"{operator.removesuffix('x')!r}")
        return "bool"
    if operator == "-x":
        _expect(node.args[0], ("int", "double"), "'-'")
        return types[0]
    if operator == "in":
        _expect(node.args[1], (f"list of {types[0]}", f"list of {_ANY}"), "'in'")
        return "bool"
    if operator in _ARITHMETIC:
        _expect(node.args[0], _ARITHMETIC[operator], f"{operator!r}")
        _same(node)
        return types[0]
    if operator not in ("==", "!="):
        _expect(node.args[0], TYPES, f"{operator!r}")
    _same(node)
    return "bool"


_CONVERT = "CEL converts nothing by itself: write 8u for an unsigned number, or int(), uint(), string()"


def _same(node: Node) -> None:
    left, right = node.args
    if left.type != right.type:
        raise CelProblem(right.start, f"{left.type} {node.value} {right.type}", _CONVERT)


def _expect(node: Node, wanted: tuple[str, ...], where: str) -> None:
    if node.type not in wanted:
        raise CelProblem(node.start, f"{where} needs {_listed(wanted)}, not {node.type}")


def _listed(types: tuple[str, ...] | set[str]) -> str:
    return " or ".join(sorted(types))
