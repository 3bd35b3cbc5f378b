"""What checks and gates ask of a whole table, each question answered once: how many of a column's values are
null, which keys repeat, and for which row an expression is false.

Counts come from the log and the zones; data is read only where those don't tell, and then only the
columns and parts in question, without Spark as long as that is little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.errors import ConfigError, PredicateError
from lading.model import Member, Place, StartSpark
from lading.parts.rows import WantedRows, read_part
from lading.read.scan import table_schema
from lading.state.members import MemberStore
from lading.state.memberset import MemberSet
from lading.where.bind import bind, columns_of, parse
from lading.where.tree import Predicate

_HERE = 256 << 20  # bytes of parts that are read without Spark


def null_count(members: MemberStore, column: str) -> int:
    """Nulls among the rows that count. Parts are opened only where their zones don't tell: no null count,
    or some of the part's rows no longer count."""
    zone = members.zone(column)
    rows, live = members.rows, members.live_rows
    nulls = zone.nulls if zone is not None else np.full(len(rows), -1, np.int64)
    empty = (nulls == rows) & (nulls >= 0)
    plain = ((rows == live) & (nulls >= 0)) | (nulls == 0)
    total = int(live[empty].sum()) + int(nulls[plain & ~empty].sum())
    for member in members.members(np.flatnonzero(~plain & ~empty)):
        total += sum(batch.column(0).null_count for batch in _read(members, member, (column,)))
    return total


@dataclass(frozen=True, slots=True)
class Repeats:
    """Rows beyond the first of each key, and a few of the keys that they repeat, as text."""

    rows: int = 0
    keys: tuple[str, ...] = ()


def repeats(
    members: MemberSet,
    among: Sequence[Member],
    columns: Sequence[str],
    session: StartSpark,
    *,
    shown: int,
    asked: str,
) -> Repeats:
    """Of the members `among`. A key with a null in it equals no other, as in SQL. `asked` is the place in
    lading.yaml that asks for it."""
    if not among:
        return Repeats()
    schema = table_schema(members)
    if not _is_little(among):
        from lading.spark.whole_table import repeated, whole_table

        keys = pa.schema([schema.field(name) for name in columns])
        return Repeats(*repeated(whole_table(session(), members.root, among, keys), columns, shown))
    batches = [batch for member in among for batch in _read(members, member, columns)]
    keys = pa.Table.from_batches(batches, pa.schema([schema.field(name) for name in columns])).drop_null()
    try:
        counted = keys.group_by(list(columns)).aggregate([([], "count_all")])
    except pa.ArrowException as error:
        raise ConfigError(
            f"{asked}: {', '.join(columns)} can't be a key: {error}",
            hint="name columns of plain types; nothing was published",
        ) from error
    twice = counted.filter(pc.greater(counted.column("count_all"), 1))
    rows = (pc.sum(twice.column("count_all")).as_py() or 0) - twice.num_rows
    few = twice.sort_by([(name, "ascending") for name in columns]).slice(0, shown).to_pylist()
    return Repeats(rows, tuple(", ".join(f"{name}={row[name]}" for name in columns) for row in few))


def broken(members: MemberStore, expression: str, session: StartSpark) -> str | None:
    """How an expression over rows or over aggregates is false; None where it isn't. As a constraint in SQL:
    one that is null isn't false. lading's own predicates are asked if they can say it, else Spark."""
    try:
        where = bind(parse(f"not ({expression})"), table_schema(members))
    except PredicateError:
        from lading.spark.whole_table import broken_by, whole_table

        schema, spark = table_schema(members), session()

        def rows_with(names: Sequence[str]) -> Any:
            some = pa.schema([schema.field(name) for name in names])
            return whole_table(spark, members.root, members.members(None), some)

        how = broken_by(whole_table(spark, members.root, (), schema), rows_with, expression)
        return None if how is None else f"`{expression}`: {how}"
    row = _first_row(where, members, session)
    return None if row is None else f"`{expression}` is false for at least one row ({row})"


def _first_row(where: Predicate, members: MemberStore, session: StartSpark) -> str | None:
    """A row that a predicate is true of, as text. The same code finds it here and in Spark's tasks, so that
    no table changes its mind about a value by growing."""
    among = members.candidates(where)
    find = partial(_row_in, members.root, WantedRows(table_schema(members), sorted(columns_of(where)), where))
    if _is_little(among):
        return next((row for row in map(find, among) if row is not None), None)
    from lading.spark.whole_table import first_found

    return first_found(session(), among, find)


def _row_in(root: Place, wanted: WantedRows, member: Member) -> str | None:
    for batch in read_part(root, member, wanted):
        row = batch.slice(0, 1).to_pylist()[0]
        return ", ".join(f"{name}={value}" for name, value in row.items())
    return None


def _read(members: MemberSet, member: Member, columns: Sequence[str]) -> list[pa.RecordBatch]:
    return list(read_part(members.root, member, WantedRows(table_schema(members), list(columns))))


def _is_little(members: Sequence[Member]) -> bool:
    return sum(member.bytes for member in members) <= _HERE
