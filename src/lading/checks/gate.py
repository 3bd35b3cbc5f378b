"""Whether a table's new state may be shown: its gate against the snapshot that readers see.

Counts come from the log and the zones; data is read only where those don't tell, and then only the
columns and parts in question, without Spark as long as that is little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.config.gate import Gate, NullLimit
from lading.errors import ConfigError, PredicateError
from lading.model import CheckResult, Member, Place, StartSpark
from lading.parts.rows import Wanted, read_part
from lading.read.scan import table_schema
from lading.state.members import MemberStore
from lading.state.zones import ZoneVector
from lading.where.bind import bind, columns_of, list_columns, parse
from lading.where.tree import Predicate

_HERE = 256 << 20  # bytes of parts that are read without Spark


@dataclass(slots=True)
class Findings:
    """What the gate found; `facts` go into the manifest, for the next gate to compare with."""

    failures: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    checks: tuple[CheckResult, ...] = ()  # those of the table


def judge(
    gate: Gate, new: MemberStore, seen: MemberStore | None, facts: dict[str, Any], session: StartSpark
) -> Findings:
    """`seen` is the snapshot that readers see, None if there is none; `facts` are what its gate found."""
    found = Findings()
    if seen is not None:
        _rows(gate, int(new.live_rows.sum()), int(seen.live_rows.sum()), found)
    for column, limit in gate.nulls.items():
        _nulls(column, limit, new, seen, facts.get("nulls", {}), found)
    if gate.unique:
        _unique(gate.unique, new, seen if facts.get("unique") == list(gate.unique) else None, found, session)
    for expression in gate.sql:
        _sql(expression, new, found, session)
    return found


def _rows(gate: Gate, rows: int, before: int, found: Findings) -> None:
    if gate.max_drop is not None and rows < before * (1 - gate.max_drop):
        found.failures.append(
            f"rows dropped by {_percent(before - rows, before)}, from {before:,} to {rows:,}; "
            f"rows.max_drop is {_share(gate.max_drop)}"
        )
    if gate.max_grow is not None and rows > before * (1 + gate.max_grow):
        found.failures.append(
            f"rows grew by {_percent(rows - before, before)}, from {before:,} to {rows:,}; "
            f"rows.max_grow is {_share(gate.max_grow)}"
        )


def _nulls(
    column: str,
    limit: NullLimit,
    new: MemberStore,
    seen: MemberStore | None,
    known: dict[str, Any],
    found: Findings,
) -> None:
    _require(new, (column,), "nulls")
    count, rows = null_count(new, column), int(new.live_rows.sum())
    found.facts.setdefault("nulls", {})[column] = count
    share = count / rows if rows else 0.0
    if limit.max is not None and share > limit.max:
        found.failures.append(
            f"{_percent(count, rows)} of {column} is null; at most {_share(limit.max)} may be"
        )
    if limit.max_increase is None or seen is None or column not in table_schema(seen).names:
        return
    told = known.get(column)
    before = told if isinstance(told, int) else null_count(seen, column)
    rows_before = int(seen.live_rows.sum())
    share_before = before / rows_before if rows_before else 0.0
    if share - share_before > limit.max_increase:
        found.failures.append(
            f"nulls in {column} rose from {_share(share_before)} to {_share(share)} of its rows; "
            f"by at most {_share(limit.max_increase)} they may"
        )


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


def _unique(
    columns: Sequence[str], new: MemberStore, unique: MemberStore | None, found: Findings, session: StartSpark
) -> None:
    """`unique` is an earlier state whose keys were found to be unique: only what came since can repeat
    one, so only new parts are read, and those whose range of the key meets theirs."""
    _require(new, columns, "unique")
    members = new.members(None)
    if unique is not None:
        members = _in_question(columns, new, members, unique)
    key = _repeated(new, members, columns, session)
    if key is None:
        found.facts["unique"] = list(columns)
    else:
        shown = ", ".join(f"{name}={value}" for name, value in zip(columns, key, strict=True))
        found.failures.append(f"{', '.join(columns)} is not unique: more than one row has {shown}")


def _in_question(
    columns: Sequence[str], new: MemberStore, members: list[Member], unique: MemberStore
) -> list[Member]:
    old = {member.path: member.minus for member in unique.members(None)}
    # A part with fewer rows counted than before can't repeat a key that it did not repeat then.
    fresh = np.array([m.path not in old or not set(old[m.path]) <= set(m.minus) for m in members], bool)
    if not fresh.any():
        return []
    meets = np.ones(len(members), bool)
    schema = table_schema(new)
    for column in columns:
        vector = new.zone(column)
        # A NaN is in no range.
        if vector is not None and not pa.types.is_floating(schema.field(column).type):
            meets &= _meets(vector, fresh)
    return [member for member, wanted in zip(members, fresh | meets, strict=True) if wanted]


def _meets(vector: ZoneVector, fresh: np.ndarray) -> np.ndarray:
    """Which members' ranges of a column meet the range of all fresh ones together."""
    zones = [vector.zone(number) for number in np.flatnonzero(fresh).tolist()]
    every = np.ones(len(vector), bool)
    if any(zone is None or zone.min is None or zone.max is None for zone in zones):
        return every
    low = min(zone.min for zone in zones if zone is not None)  # type: ignore[type-var]
    high = max(zone.max for zone in zones if zone is not None)  # type: ignore[type-var]
    for number in range(len(vector)):
        zone = vector.zone(number)
        if zone is not None and zone.min is not None and zone.max is not None:
            every[number] = zone.max >= low and zone.min <= high  # type: ignore[operator]
    return every


def _repeated(
    new: MemberStore, members: list[Member], columns: Sequence[str], session: StartSpark
) -> tuple[str, ...] | None:
    if not members:
        return None
    if sum(member.bytes for member in members) > _HERE:
        from lading.spark.whole_table import repeated_key, whole_table

        return repeated_key(whole_table(session(), new.root, members, table_schema(new)), columns)
    schema = pa.schema([table_schema(new).field(name) for name in columns])
    batches = [batch for member in members for batch in _read(new, member, columns)]
    keys = pa.Table.from_batches(batches, schema).drop_null()
    try:
        counted = keys.group_by(list(columns)).aggregate([([], "count_all")])
    except pa.ArrowException as error:
        raise ConfigError(
            f"gate.unique: {', '.join(columns)} can't be a key: {error}",
            hint="name columns of plain types; nothing was published",
        ) from error
    twice = counted.filter(pc.greater(counted.column("count_all"), 1)).slice(0, 1)
    return tuple(str(twice.column(name)[0].as_py()) for name in columns) if twice.num_rows else None


def _sql(expression: str, new: MemberStore, found: Findings, session: StartSpark) -> None:
    """As a constraint in SQL: it fails where it is false, not where it is null."""
    broken = _false_predicate(expression, new)
    if broken is not None:
        row = _first_row(broken, new, session)
        if row is not None:
            found.failures.append(f"sql: `{expression}` is false for some row ({row})")
        return
    from lading.spark.whole_table import broken_by, whole_table

    how = broken_by(whole_table(session(), new.root, new.members(None), table_schema(new)), expression)
    if how is not None:
        found.failures.append(f"sql: `{expression}`: {how}")


def _first_row(where: Predicate, new: MemberStore, session: StartSpark) -> str | None:
    """A row that a predicate is true of, as text. The same code finds it here and in Spark's tasks, so that
    no table changes its mind about a value by growing."""
    members = new.candidates(where)
    wanted = Wanted(table_schema(new), sorted(columns_of(where)), where)
    find = partial(_row_in, new.root, wanted)
    if sum(member.bytes for member in members) <= _HERE:
        return next((row for row in map(find, members) if row is not None), None)
    from lading.spark.whole_table import first_found

    return first_found(session(), members, find)


def _row_in(root: Place, wanted: Wanted, member: Member) -> str | None:
    for batch in read_part(root, member, wanted):
        row = batch.slice(0, 1).to_pylist()[0]
        return ", ".join(f"{name}={value}" for name, value in row.items())
    return None


def _false_predicate(expression: str, new: MemberStore) -> Predicate | None:
    """Where the expression is false, if lading's own predicates can say it; else Spark has to."""
    try:
        return bind(parse(f"not ({expression})"), table_schema(new))
    except PredicateError:
        return None


def _read(members: MemberStore, member: Member, columns: Sequence[str]) -> list[pa.RecordBatch]:
    return list(read_part(members.root, member, Wanted(table_schema(members), list(columns))))


def _require(members: MemberStore, columns: Sequence[str], key: str) -> None:
    schema = table_schema(members)
    for column in columns:
        if column not in schema.names:
            raise ConfigError(
                f"gate.{key} names {column!r}, which the table doesn't have",
                hint=f"{list_columns(schema)}; nothing was published",
            )


def _share(share: float) -> str:
    return f"{share * 100:.4g}%"


def _percent(part: int, whole: int) -> str:
    return _share(part / whole) if whole else "all"
