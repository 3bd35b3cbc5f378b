"""From what a `where` says to what it means for one table's columns.

`bind` settles every literal against its column's type, once. What comes out compares bounds with
bounds, so that pruning and filtering can't disagree about a value; a literal between two values of
the type, or outside of it, has become a comparison that is true of exactly the same rows.
"""

from __future__ import annotations

import difflib
from typing import Any

from lading.errors import PredicateError
from lading.late import pa
from lading.where.literal import Position, place
from lading.where.text import parse
from lading.where.tree import (
    And,
    Compare,
    In,
    IsNull,
    Like,
    Not,
    Op,
    Or,
    Predicate,
    Quoted,
    columns_of,
    like_prefix,
)
from lading.zones.bounds import bound_kind

__all__ = [
    "And",
    "Compare",
    "In",
    "IsNull",
    "Like",
    "Not",
    "Or",
    "Predicate",
    "Quoted",
    "bind",
    "columns_of",
    "like_prefix",
    "list_columns",
    "parse",
]


def bind(where: Predicate, schema: pa.Schema) -> Predicate:
    """The predicate with bounds for literals; PredicateError for a column or a type that doesn't fit."""
    match where:
        case And(parts):
            return And(tuple(bind(part, schema) for part in parts))
        case Or(parts):
            return Or(tuple(bind(part, schema) for part in parts))
        case Not(part):
            return Not(bind(part, schema))
        case IsNull(column, at):
            _type_of(column, at, schema)
            return where
        case Compare(column, op, value, at):
            return _compare(column, op, _place(column, value, at, schema), at)
        case In(column, values, at):
            places = [_place(column, value, at, schema) for value in values]
            return In(column, tuple(dict.fromkeys(p.at for p in places if p.exact)), at)
        case Like(column, _, at):
            dtype = _type_of(column, at, schema)
            if bound_kind(dtype) != "str":
                raise _unfit(
                    column, at, f"`like` needs text, but it is {dtype}", "compare it with = or <", schema
                )
            return where


def list_columns(schema: pa.Schema) -> str:
    """The columns with their types, as error messages list them."""
    shown = [f"{field.name} ({field.type})" for field in list(schema)[:50]]
    more = len(schema) - len(shown)
    return "columns: " + (", ".join(shown) or "none yet") + (f" and {more} more" if more > 0 else "")


def _compare(column: str, op: Op, found: Position, at: int) -> Predicate:
    never = In(column, (), at)
    if op == "=":
        return Compare(column, "=", found.at, at) if found.exact else never
    if op == "!=":
        return Compare(column, "!=", found.at, at) if found.exact else Not(never)
    if found.at is None:
        return never if found.beyond == (op in (">", ">=")) else Not(never)
    if not found.exact:
        # Between two values: `at` is the last one below.
        op = "<=" if op in ("<", "<=") else ">"
    return Compare(column, op, found.at, at)


def _place(column: str, value: Any, at: int, schema: pa.Schema) -> Position:
    dtype = _type_of(column, at, schema)
    try:
        return place(value, dtype)
    except PredicateError as error:
        raise _unfit(column, at, error.message, error.hint, schema) from None


def _type_of(column: str, at: int, schema: pa.Schema) -> pa.DataType:
    found = schema.get_all_field_indices(column)
    if len(found) == 1:
        return schema.field(found[0]).type
    if found:
        raise _unfit(column, at, "the table has several columns with that name", "rename one", schema)
    near = difflib.get_close_matches(column, schema.names, 1)
    hint = f"did you mean {near[0]}?" if near else "use one of the table's columns"
    raise _unfit(column, at, "there is no such column", hint, schema)


def _unfit(column: str, at: int, what: str, hint: str, schema: pa.Schema) -> PredicateError:
    message = f"where: column {column} (character {at + 1}): {what}"
    return PredicateError(message, hint=f"{hint}; {list_columns(schema)}")
