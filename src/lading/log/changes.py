"""Changes of a collection: planned from what it holds, committed at once, planned anew after a lost race.

Also what a commit has to say so that files become members, and what a member is called: how a file's place
is recorded, and how people may name it afterwards.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from lading import clock, ids
from lading.errors import ConfigError, Conflict, NotFound
from lading.late import pa
from lading.log.state import TableState
from lading.log.table import Table
from lading.model import Commit, Member, Place
from lading.parts.intake import Footer, in_parallel, joint_schema, member_of
from lading.storage.place import storage_of
from lading.where.bind import list_columns
from lading.zones.bounds import bound_kind

ATTEMPTS = 100  # each lost race means that somebody else's commit got through


def change(
    table: Table,
    plan: Callable[[Table], Commit | None],
    *,
    attempts: int = ATTEMPTS,
    of_tables_too: bool = False,
    relies_on: Callable[[], Collection[str]] = tuple,
) -> int:
    """Plan and commit, again from the new state when somebody was quicker; the sequence. What `plan` finds
    done already needs no commit, so it never goes by what this handle remembers: the log is caught up with
    first. `relies_on` are the members that the last plan found as they should be, and that its answer names:
    they have to be so still when its commit is made."""
    for attempt in range(attempts):
        table.catch_up()
        if table.state.meta.recipe and not of_tables_too:
            raise ConfigError(
                f"{table.place} is a table that `lading run` keeps true to its sources",
                hint="change its source files or lading.yaml instead; `lading merge` merges its parts",
                table=table.state.meta.table,
            )
        commit = plan(table)
        try:
            if commit is not None:
                table.commit(commit, relies_on=relies_on())
            break
        except Conflict:
            if attempt == attempts - 1:
                raise
    table.checkpoint_if_due()
    return table.state.sequence


def new_commit(table: Table, **edits: Any) -> Commit:
    """A commit by hand, outside of any run."""
    now = clock.now().isoformat()
    return Commit(ids.fresh(), ids.fresh(), now, table.state.meta.recipe, **edits)


@dataclass(frozen=True, slots=True)
class Adding:
    added: tuple[str, ...]
    changed: tuple[str, ...]  # members whose files are no longer what they were
    unchanged: tuple[str, ...]
    edits: dict[str, Any]  # of a Commit; empty when there is nothing to say


def adding(
    state: TableState, footers: Sequence[Footer], key: str | None, ascends: Callable[[str, str], bool]
) -> Adding:
    """`key` is the column to look rows up by; None: what the state has, or what the files declare. `ascends`
    says of a file, by its path, whether it is sorted by a column although it doesn't declare so."""
    before = pa.ipc.read_schema(pa.py_buffer(state.schema)) if state.schema else None
    schema = joint_schema(before, footers)
    key = _key(state, footers, schema, key)
    old = {footer.path: state.find(footer.path) for footer in footers}
    members, added, changed, unchanged = [], [], [], []
    for footer, ranged in zip(footers, _sorted(footers, key, ascends), strict=True):
        member = member_of(footer, schema, key, ascends=ranged)
        found = old[footer.path]
        if found is None:
            added.append(member.path)
        elif _same(found[0], member):
            unchanged.append(member.path)
            continue
        else:
            changed.append(member.path)
            member = msgspec.structs.replace(member, tier=found[0].tier)
        members.append(member)
    rekeyed = _rekeyed(state, set(old), key, ascends)
    edits: dict[str, Any] = {}
    if members or rekeyed:
        edits["add"] = (*members, *rekeyed)
        edits["remove"] = (*changed, *(member.path for member in rekeyed))
    if schema != before or key != state.order_by:
        edits["schema"], edits["order_by"] = schema.serialize().to_pybytes(), key
    return Adding(tuple(added), tuple(changed), tuple(unchanged), edits)


def _key(state: TableState, footers: Sequence[Footer], schema: pa.Schema, asked: str | None) -> str | None:
    if state.order_by is not None:
        if asked not in (None, state.order_by):
            raise ConfigError(
                f"the collection is keyed by {state.order_by}, not by {asked}",
                hint="leave --key out, or start another collection for these files",
            )
        return state.order_by
    if asked is None:
        declared = {footer.sort_column() for footer in footers} - {None}
        found = declared.pop() if len(declared) == 1 else None
        return found if found is not None and bound_kind(schema.field(found).type) else None
    if asked not in schema.names:
        raise NotFound(f"there is no column {asked} to be the key", hint=list_columns(schema))
    if bound_kind(schema.field(asked).type) is None:
        raise ConfigError(
            f"{asked} is {schema.field(asked).type}, which has no order",
            hint=f"choose another key; {list_columns(schema)}",
        )
    return asked


def _sorted(footers: Sequence[Footer], key: str | None, ascends: Callable[[str, str], bool]) -> list[bool]:
    if key is None:
        return [False] * len(footers)
    return in_parallel(lambda one: one.sort_column() == key or ascends(one.path, key), footers)


def _rekeyed(
    state: TableState, leaving: set[str], key: str | None, ascends: Callable[[str, str], bool]
) -> list[Member]:
    """A collection that gets its key late: what the zones of its sorted members say is their key range."""
    if key is None or state.order_by is not None:
        return []
    found = []
    for member in state.with_zones():
        zone = member.zones.get(key)
        if member.path in leaving or zone is None or None in (zone.min, zone.max):
            continue
        if ascends(member.path, key):
            found.append(msgspec.structs.replace(member, key_min=zone.min, key_max=zone.max))
    return found


def _same(old: Member, new: Member) -> bool:
    """Whether the file is what it was; its time may have been touched."""
    kept = {"tier": old.tier, "minus": old.minus, "created_at": old.created_at, "sources": old.sources}
    return old == msgspec.structs.replace(new, **kept)


def path_to_add(place: Place, file: str | os.PathLike[str]) -> str:
    """How the log writes down a file that somebody names: seen from here, or else from the collection."""
    storage = storage_of(place)
    if storage.folder is not None and not Path(file).exists() and (storage.folder / file).exists():
        return storage.recorded(storage.folder / file)
    return storage.recorded(file)


def one_member(
    place: Place, is_live: Callable[[str], bool], listed: Callable[[], Iterable[str]], name: str
) -> str:
    """The listed path that `name` means: that path, a way to the same file, or a file name that is unique.
    `listed` is only asked when it is neither of the first two."""
    for candidate in _ways_to(place, name):
        if is_live(candidate):
            return candidate
    paths = set(listed())
    same_name = sorted(path for path in paths if path.rsplit("/", 1)[-1] == name)
    if len(same_name) == 1:
        return same_name[0]
    if same_name:
        raise NotFound(
            f"{name} could be any of {len(same_name)} members of {place}",
            hint=f"give the path as it is listed: {', '.join(same_name[:5])}",
            file=name,
        )
    near = difflib.get_close_matches(name, paths, n=3, cutoff=0.3)
    raise NotFound(
        f"{name} is not a member of {place}",
        hint=f"did you mean {', '.join(near)}?" if near else f"`lading collection list {place}` lists them",
        file=name,
    )


def _ways_to(place: Place, name: str) -> tuple[str, ...]:
    try:
        return storage_of(place).ways_to(name)
    except ConfigError:  # no way to name a file in it
        return (name,)
