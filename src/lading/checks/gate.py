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
    if gate.unique and _has(new, seen, gate.unique, "unique", found):
        known = facts.get("unique") == list(gate.unique) and _same_types(gate.unique, new, seen)
        _unique(gate.unique, new, seen if known else None, found, session)
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
    if not _has(new, seen, (column,), "nulls", found):
        return
    count, rows = null_count(new, column), new.row_count()
    found.facts.setdefault("nulls", {})[column] = count
    share = count / rows if rows else 0.0
    if limit.max is not None and share > limit.max:
        found.failures.append(
            f"{_percent(count, rows)} of {column} is null; at most {_share(limit.max)} is allowed"
        )
    if limit.max_increase is None or seen is None or column not in table_schema(seen).names:
        return  # a column that readers don't see yet has no nulls to compare with
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


def _has(
    new: MemberStore, seen: MemberStore | None, columns: Sequence[str], key: str, found: Findings
) -> bool:
    """Whether the table has what the gate asks about. A column that has left since readers last saw it is for
    them to decide on: the gate refuses. One that they never saw is a mistake in lading.yaml."""
    schema = table_schema(new)
    missing = [name for name in columns if name not in schema.names]
    before = table_schema(seen).names if seen is not None else []
    for name in missing:
        if name not in before:
            raise ConfigError(
                f"gate.{key} names {name!r}, which the table doesn't have",
                hint=f"{list_columns(schema)}; nothing was published",
            )
        found.failures.append(
            f"the column {name} is gone, which gate.{key} asks about: no source file has it any more, or the "
            "schema file leaves it out"
        )
    return not missing


def _same_types(columns: Sequence[str], new: MemberStore, seen: MemberStore | None) -> bool:
    """Keys that were unique need not be once their type is another."""
    if seen is None:
        return False
    now, then = table_schema(new), table_schema(seen)
    return all(name in then.names and now.field(name).type == then.field(name).type for name in columns)


def _share(share: float) -> str:
    return f"{share * 100:.4g}%"


def _percent(part: int, whole: int) -> str:
    return _share(part / whole) if whole else "all"
