"""Whether a table's new state may be shown: its gate against the snapshot that readers see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from lading.checks.measure import broken, null_count, repeats
from lading.config.gate import Gate, NullLimit
from lading.errors import ConfigError
from lading.model import CheckResult, Member, StartSpark
from lading.read.scan import table_schema
from lading.state.members import MemberStore
from lading.where.bind import list_columns
from lading.zones.vector import ZoneVector


@dataclass(slots=True)
class Findings:
    """What the gate found; `facts` go into the manifest, for the next gate to compare with."""

    failures: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    checks: tuple[CheckResult, ...] = ()  # those of the table


def ask_gate(
    gate: Gate, new: MemberStore, seen: MemberStore | None, facts: dict[str, Any], session: StartSpark
) -> Findings:
    """`seen` is the snapshot that readers see, None if there is none; `facts` are what its gate found."""
    found = Findings()
    if seen is not None:
        _rows(gate, new.row_count(), seen.row_count(), found)
    for column, limit in gate.nulls.items():
        _nulls(column, limit, new, seen, facts.get("nulls", {}), found)
    if gate.unique:
        _unique(gate.unique, new, seen if facts.get("unique") == list(gate.unique) else None, found, session)
    for expression in gate.sql:
        how = broken(new, expression, session)
        found.failures += [f"sql: {how}"] if how is not None else []
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
    count, rows = null_count(new, column), new.row_count()
    found.facts.setdefault("nulls", {})[column] = count
    share = count / rows if rows else 0.0
    if limit.max is not None and share > limit.max:
        found.failures.append(
            f"{_percent(count, rows)} of {column} is null; at most {_share(limit.max)} is allowed"
        )
    if limit.max_increase is None or seen is None or column not in table_schema(seen).names:
        return
    told = known.get(column)
    before = told if isinstance(told, int) else null_count(seen, column)
    rows_before = seen.row_count()
    share_before = before / rows_before if rows_before else 0.0
    if share - share_before > limit.max_increase:
        found.failures.append(
            f"nulls in {column} rose from {_share(share_before)} to {_share(share)} of its rows; "
            f"at most {limit.max_increase * 100:.4g} percentage points more are allowed"
        )


def _unique(
    columns: Sequence[str], new: MemberStore, unique: MemberStore | None, found: Findings, session: StartSpark
) -> None:
    """`unique` is an earlier state whose keys were found to be unique: only what came since can repeat
    one, so only new parts are read, and those whose range of the key meets theirs."""
    _require(new, columns, "unique")
    members = new.members(None)
    if unique is not None:
        members = _in_question(columns, new, members, unique)
    twice = repeats(new, members, columns, session, shown=1, asked="gate.unique")
    if not twice.keys:
        found.facts["unique"] = list(columns)
    else:
        found.failures.append(f"{', '.join(columns)} is not unique: more than one row has {twice.keys[0]}")


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
