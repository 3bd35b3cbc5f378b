"""CEL expressions on whole columns: Arrow's kernels where the expression is simple, else a row at a time.

Simple is what Arrow computes exactly as CEL does: whole numbers, text and booleans, without a divisor that
could be zero. Kernels that notice an overflow stop; then, and for everything else, the rows decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.cel.parse import Node
from lading.cel.program import Program

Hasher = Callable[[pa.Array], np.ndarray]

TYPES = {
    "int": pa.int64(),
    "uint": pa.uint64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "double": pa.float64(),
    "bool": pa.bool_(),
}
_SIMPLE = ("int", "uint", "string", "bool")
_KERNELS = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "&&": pc.and_,
    "||": pc.or_,
    "!x": pc.invert,
    "-x": pc.negate_checked,
    "?:": pc.if_else,
}
_METHODS = {
    "startsWith": pc.starts_with,
    "endsWith": pc.ends_with,
    "contains": pc.match_substring,
    "matches": pc.match_substring_regex,
}


class NotSimple(Exception):
    """The expression, or a value it met, is for the row-by-row evaluation."""


def evaluate(program: Program, columns: Mapping[str, pa.Array], rows: int, shard_hash: Hasher) -> pa.Array:
    """The result for each row of `columns`, which have the declared types and no nulls."""
    try:
        return by_kernels(program.tree, columns, rows, shard_hash)
    except NotSimple:
        lists = [column.to_pylist() for column in columns.values()]
        return pa.array(program.evaluate_all(tuple(columns), lists), TYPES[program.tree.type])


def by_kernels(tree: Node, columns: Mapping[str, pa.Array], rows: int, shard_hash: Hasher) -> pa.Array:
    """The result for each row; NotSimple when that is not for Arrow to say."""
    try:
        result = _value(tree, columns, shard_hash)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, RecursionError) as error:
        raise NotSimple(str(error)) from error
    return pa.repeat(result, rows) if isinstance(result, pa.Scalar) else result


def _value(node: Node, columns: Mapping[str, pa.Array], shard_hash: Hasher) -> Any:
    if node.kind in ("literal", "name") and node.type not in _SIMPLE:
        raise NotSimple(node.type)
    if node.kind == "literal":
        return pa.scalar(node.value, TYPES[node.type])
    if node.kind == "name":
        return columns[str(node.value)]
    if node.kind == "operator":
        return _operator(node, columns, shard_hash)
    if node.kind == "method" and node.value in _METHODS and node.args[1].kind == "literal":
        return _METHODS[str(node.value)](_value(node.args[0], columns, shard_hash), str(node.args[1].value))
    if node.kind == "call" and len(node.args) == 1:
        return _call(node, columns, shard_hash)
    raise NotSimple(node.kind)


def _operator(node: Node, columns: Mapping[str, pa.Array], shard_hash: Hasher) -> Any:
    operator = str(node.value)
    if operator == "in":
        return _in(node, columns, shard_hash)
    args = [_value(arg, columns, shard_hash) for arg in node.args]
    if operator in ("/", "%"):
        if node.args[1].kind != "literal" or not node.args[1].value:
            raise NotSimple("the divisor may be zero")
        whole = pc.divide_checked(*args)  # towards zero, as in CEL
        return whole if operator == "/" else pc.subtract_checked(args[0], pc.multiply_checked(whole, args[1]))
    if operator == "+" and args[0].type == pa.string():
        return pc.binary_join_element_wise(*args, pa.scalar("", pa.string()))
    return _KERNELS[operator](*args)


def _in(node: Node, columns: Mapping[str, pa.Array], shard_hash: Hasher) -> Any:
    value, items = _value(node.args[0], columns, shard_hash), node.args[1].args
    if node.args[1].kind != "list" or any(item.kind != "literal" for item in items):
        raise NotSimple("in")
    return pc.is_in(value, value_set=pa.array([item.value for item in items], value.type))


def _call(node: Node, columns: Mapping[str, pa.Array], shard_hash: Hasher) -> Any:
    name = str(node.value)
    if name == "shard_hash":
        inner = node.args[0]
        value = columns[str(inner.value)] if inner.kind == "name" else _value(inner, columns, shard_hash)
        if not isinstance(value, pa.Array) or value.type == pa.uint64():
            raise NotSimple(name)
        return pa.array(shard_hash(value), pa.uint64())
    value = _value(node.args[0], columns, shard_hash)
    if name in ("int", "uint") and pa.types.is_integer(value.type):
        return value.cast(TYPES[name])  # a number that does not fit stops here
    if name == "string" and pa.types.is_integer(value.type):
        return value.cast(pa.string())
    raise NotSimple(name)
