"""Rows by order key: the members whose key range holds it, and in them only the row groups that can.

On members with disjoint ranges that is one file. An absent key is an answer, not an error. Which members
hold a key is asked of state/key_index.py; keys of shards are found by serve/get.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lading.errors import ConfigError, PredicateError
from lading.model import Member
from lading.parts.rows import WantedRows, read_part
from lading.read.scan import table_schema
from lading.state.memberset import MemberSet
from lading.where.bind import Compare
from lading.where.literal import position_of_key


@dataclass(frozen=True)
class Hit:
    """What a lookup found: `member` is the first file with such a row, `opened` how many were opened."""

    found: bool
    member: str | None
    rows: list[dict[str, Any]] = field(default_factory=list)
    opened: int = 0

    @property
    def row(self) -> dict[str, Any] | None:
        return self.rows[0] if self.rows else None


def lookup(members: MemberSet, key: Any) -> Hit:
    """The rows whose order value is `key`, given as a value of that type or as text."""
    column = members.order_by
    if column is None:
        raise ConfigError(
            "the table has no order column, so rows can't be looked up",
            hint="set order_by for the table in lading.yaml, or use scan with --where",
        )
    schema = table_schema(members)
    bound = _bound(key, column, schema)
    if bound is None:
        return Hit(False, None)
    wanted = WantedRows(schema, schema.names, Compare(column, "=", bound))
    rows: list[dict[str, Any]] = []
    first: str | None = None
    for member in _holding(members, column, bound):
        for batch in read_part(members.root, member, wanted):
            first = first or member.path
            rows += to_rows(batch)
    return Hit(bool(rows), first, rows, wanted.tally.files)


def _holding(members: MemberSet, column: str, key: Any) -> list[Member]:
    """Members without a key range, since they aren't sorted, are ruled out by their zones."""
    found = members.holding(key)
    if all(member.key_min is not None for member in found):
        return found
    may_match = {member.path for member in members.candidates(Compare(column, "=", key))}
    return [member for member in found if member.key_min is not None or member.path in may_match]


def to_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as dicts of Python values; nanoseconds that no datetime can hold are text."""
    names = batch.schema.names
    values = [_python(column) for column in batch.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def _bound(key: Any, column: str, schema: pa.Schema) -> Any:
    dtype = schema.field(column).type
    try:
        found = position_of_key(key, dtype)
    except PredicateError as error:
        raise PredicateError(
            f"the order column {column} is {dtype}: {error.message}", hint=error.hint
        ) from None
    return found.at if found.exact else None


def _python(column: pa.Array) -> list[Any]:
    dtype = column.type
    if not pa.types.is_temporal(dtype) or getattr(dtype, "unit", "") != "ns":
        return list(column.to_pylist())
    # pyarrow gives pandas' own type here, and only where pandas is installed.
    coarse = pa.timestamp("us", dtype.tz) if pa.types.is_timestamp(dtype) else None
    if pa.types.is_time(dtype):
        coarse = pa.time64("us")
    if coarse is None:
        coarse = pa.duration("us")
    try:
        return list(column.cast(coarse).to_pylist())
    except pa.ArrowInvalid:
        return list(column.cast(pa.string()).to_pylist())
