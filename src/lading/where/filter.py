"""A bound predicate as an Arrow expression, with SQL's three-valued logic.

A row is kept only if the predicate is true of it. Null compares to null (so `not (x = 1)` drops nulls
as well), `and` and `or` are Kleene's. NaN fails every comparison but `!=`. Literals get the column's own
type, so Arrow never converts anything by itself.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from lading.late import pa, pc
from lading.model import Bound
from lading.where.bind import And, Compare, In, IsNull, Like, Not, Or, Predicate, like_prefix
from lading.zones.bounds import comparable_type, from_bound

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FUNCTIONS = {
    "=": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def row_filter(
    where: Predicate | None, schema: pa.Schema
) -> Callable[[pa.RecordBatch], pa.RecordBatch] | None:
    """What leaves only the rows for which `where` is true; None if that is all of them."""
    if where is None:
        return None
    if isinstance(where, Compare):
        return _comparison(where, schema)
    keep = to_arrow(where, schema)
    return lambda batch: apply(batch, keep)


def _comparison(where: Compare, schema: pa.Schema) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """A lookup's filter: the same function that the expression stands for, without the engine around it,
    whose start takes longer than the comparison."""
    own = schema.field(where.column).type
    dtype = _compared_as(own)
    compare = pc.get_function(_FUNCTIONS[where.op])
    at, value = schema.get_field_index(where.column), from_bound(where.value, dtype)

    def kept(batch: pa.RecordBatch) -> pa.RecordBatch:
        column = batch.column(at)
        return batch.filter(compare.call([column if dtype == own else column.cast(dtype), value]))

    return kept


def to_arrow(where: Predicate, schema: pa.Schema) -> pc.Expression:
    """The expression that keeps the rows for which a bound predicate is true."""
    match where:
        case And(parts):
            return functools.reduce(operator.and_, (to_arrow(part, schema) for part in parts))
        case Or(parts):
            return functools.reduce(operator.or_, (to_arrow(part, schema) for part in parts))
        case Not(part):
            return ~to_arrow(part, schema)
        case IsNull(column):
            return pc.field(column).is_null()
        case Compare(column, op, value):
            field, dtype = _field(column, schema)
            return _OPERATORS[op](field, pc.scalar(from_bound(value, dtype)))
        case In(column, values):
            return _in(column, values, schema)
        case Like(column, pattern):
            return _like(column, pattern, schema)


def apply(batch: pa.RecordBatch, keep: pc.Expression) -> pa.RecordBatch:
    """The rows of a batch that an expression keeps, in their order."""
    import pyarrow.acero as acero  # brings pandas along, where that is installed: only where it is used

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([batch])))
    kept = acero.Declaration("filter", acero.FilterNodeOptions(keep), [source])
    # One thread: Acero promises no order with more, and Parquet decoding has used them all by now.
    batches = kept.to_table(use_threads=False).combine_chunks().to_batches()
    return batches[0] if batches else batch.slice(0, 0)


def _field(column: str, schema: pa.Schema) -> tuple[pc.Expression, pa.DataType]:
    own = schema.field(column).type
    dtype = _compared_as(own)
    field = pc.field(column)
    return (field if dtype == own else field.cast(dtype)), dtype


def _compared_as(own: pa.DataType) -> pa.DataType:
    dtype = comparable_type(own)
    # So that a literal may have any length.
    return pa.binary() if pa.types.is_fixed_size_binary(dtype) else dtype


def _in(column: str, values: Sequence[Bound], schema: pa.Schema) -> pc.Expression:
    field, dtype = _field(column, schema)
    found: Any = pc.scalar(False)
    if values:
        if pa.types.is_floating(dtype) and 0.0 in values:
            values = (*values, 0.0, -0.0)  # equal, but not to a hash table
        found = field.isin(pa.array([from_bound(value, dtype) for value in values], dtype))
    # Arrow answers false for null; SQL says null.
    return pc.if_else(field.is_valid(), found, pc.scalar(pa.scalar(None, pa.bool_())))


def _like(column: str, pattern: str, schema: pa.Schema) -> pc.Expression:
    field, dtype = _field(column, schema)
    prefix, rest = like_prefix(pattern)
    if not rest:
        return field == pc.scalar(pa.scalar(prefix, dtype))
    if rest == "%":
        return pc.starts_with(field, prefix)
    return pc.match_substring_regex(field, rf"(?s)\A{re.escape(prefix)}{_regex(rest)}\z")


def _regex(pattern: str) -> str:
    found = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            character = next(characters, "\\")
            found.append(re.escape(character))
        else:
            found.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return "".join(found)
