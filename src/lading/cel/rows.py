"""The value of a CEL expression for one row, as the specification has it.

A tree becomes functions that call each other, made once: a key is routed in about a microsecond. What can't
be computed (an overflow, a divisor of zero) is a fault, and `false && fault` is false.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from lading.cel.parse import Node
from lading.errors import RoutingError

Row = Mapping[str, Any]
OnRow = Callable[[Row], Any]
Hash = Callable[[Any], int]

_LEAST, _MOST, _MOST_UNSIGNED = -(2**63), 2**63 - 1, 2**64 - 1
_INT = re.compile(r"[+-]?[0-9]{1,4000}")
_UINT = re.compile(r"[+]?[0-9]{1,4000}")
_DOUBLE = re.compile(r"(?i:[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan))")


class Fault(Exception):
    """What an expression can't make of a row."""


_FAULTS = (Fault, RoutingError)  # the latter of a value that has no hash


def on_row(node: Node, shard_hash: Hash) -> OnRow:
    """What a checked tree makes of a row of the declared types."""
    if node.kind == "literal":
        value = node.value
        return lambda row: value
    if node.kind == "name":
        return operator.itemgetter(str(node.value))
    args = [on_row(arg, shard_hash) for arg in node.args]
    if node.kind == "list":
        return lambda row: [arg(row) for arg in args]
    name, first = str(node.value), args[0]
    if name in _SPECIAL:
        return _SPECIAL[name](*args)
    if name == "in" and node.args[1].kind == "list" and _all_literal(node.args[1]):
        items = frozenset(item.value for item in node.args[1].args)
        return lambda row: first(row) in items
    function: Callable[..., Any] = shard_hash if name == "shard_hash" else _function(name, node.args[0].type)
    if len(args) == 1:
        return lambda row: function(first(row))
    second = args[1]
    return lambda row: function(first(row), second(row))


def matches(text: str, pattern: str) -> bool:
    """RE2, as the specification says; pyarrow brings it along."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return bool(pc.match_substring_regex(pa.scalar(text, pa.string()), pattern).as_py())
    except pa.ArrowInvalid as error:
        raise Fault(f"{pattern!r} is not a pattern: {str(error).partition(': ')[2] or error}") from None


def _and(left: OnRow, right: OnRow) -> OnRow:
    def both(row: Row) -> Any:
        try:
            first = left(row)
        except _FAULTS:
            if right(row):
                raise
            return False
        return first and right(row)

    return both


def _or(left: OnRow, right: OnRow) -> OnRow:
    def either(row: Row) -> Any:
        try:
            first = left(row)
        except _FAULTS:
            if not right(row):
                raise
            return True
        return first or right(row)

    return either


def _choice(condition: OnRow, yes: OnRow, no: OnRow) -> OnRow:
    return lambda row: yes(row) if condition(row) else no(row)


_SPECIAL: dict[str, Callable[..., OnRow]] = {"&&": _and, "||": _or, "?:": _choice}


def _int(value: int) -> int:
    if _LEAST <= value <= _MOST:
        return value
    raise Fault("integer overflow")


def _uint(value: int) -> int:
    if 0 <= value <= _MOST_UNSIGNED:
        return value
    raise Fault("unsigned integer overflow")


def _quotient(left: int, right: int) -> int:
    """Towards zero."""
    if right == 0:
        raise Fault("division by zero")
    whole = abs(left) // abs(right)
    return _int(whole if (left < 0) == (right < 0) else -whole)


def _remainder(left: int, right: int) -> int:
    """With the sign of the left."""
    if left >= 0 and right > 0:
        return left % right
    if right == 0:
        raise Fault("modulus by zero")
    if right == -1:
        _int(-left)
    return abs(left) % abs(right) if left >= 0 else -(abs(left) % abs(right))


def _unsigned_quotient(left: int, right: int) -> int:
    if right == 0:
        raise Fault("division by zero")
    return left // right


def _double_quotient(left: float, right: float) -> float:
    if right:
        return left / right
    return math.nan if left == 0 or left != left else math.copysign(math.inf, left) * math.copysign(1, right)


def _int_of_double(value: float) -> int:
    if _LEAST < value < 2.0**63:
        return int(value)
    raise Fault("integer overflow")


def _uint_of_double(value: float) -> int:
    if 0 <= value < 2.0**64:
        return int(value)
    raise Fault("unsigned integer overflow")


def _number_of(pattern: re.Pattern[str], number: Callable[[str], Any]) -> Callable[[str], Any]:
    def of_text(text: str) -> Any:
        if pattern.fullmatch(text):
            return number(text)
        raise Fault(f"{text!r} is not a number")

    return of_text


def _same(value: Any) -> Any:
    return value


def _equal(left: Any, right: Any) -> bool:
    """What `==` of lists is: Python's own takes a NaN for equal to itself."""
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _all_literal(node: Node) -> bool:
    return all(item.kind == "literal" for item in node.args)


def _function(name: str, dtype: str) -> Callable[..., Any]:
    """By the type of the first argument; by name alone where all types are treated alike."""
    return _FUNCTIONS.get((name, dtype.split()[0])) or _FUNCTIONS[name, ""]


_FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    ("+", "int"): lambda left, right: _int(left + right),
    ("-", "int"): lambda left, right: _int(left - right),
    ("*", "int"): lambda left, right: _int(left * right),
    ("/", "int"): _quotient,
    ("%", "int"): _remainder,
    ("-x", "int"): lambda value: _int(-value),
    ("+", "uint"): lambda left, right: _uint(left + right),
    ("-", "uint"): lambda left, right: _uint(left - right),
    ("*", "uint"): lambda left, right: _uint(left * right),
    ("/", "uint"): _unsigned_quotient,
    ("%", "uint"): _remainder,
    ("+", ""): operator.add,  # double, string, bytes
    ("-", ""): operator.sub,
    ("*", ""): operator.mul,
    ("/", ""): _double_quotient,
    ("-x", ""): operator.neg,
    ("!x", ""): operator.not_,
    ("==", "list"): _equal,
    ("!=", "list"): lambda left, right: not _equal(left, right),
    ("==", ""): operator.eq,
    ("!=", ""): operator.ne,
    ("<", ""): operator.lt,
    ("<=", ""): operator.le,
    (">", ""): operator.gt,
    (">=", ""): operator.ge,
    ("in", ""): lambda value, items: any(_equal(value, item) for item in items),
    ("int", "int"): _same,
    ("int", "uint"): _int,
    ("int", "double"): _int_of_double,
    ("int", "string"): _number_of(_INT, lambda text: _int(int(text))),
    ("uint", "int"): _uint,
    ("uint", "uint"): _same,
    ("uint", "double"): _uint_of_double,
    ("uint", "string"): _number_of(_UINT, lambda text: _uint(int(text))),
    ("double", ""): float,
    ("double", "string"): _number_of(_DOUBLE, float),
    ("string", ""): str,
    ("string", "bool"): lambda value: "true" if value else "false",
    ("bytes", "string"): str.encode,
    ("bytes", "bytes"): _same,
    ("startsWith", ""): str.startswith,
    ("endsWith", ""): str.endswith,
    ("contains", ""): operator.contains,
    ("matches", ""): matches,
}
