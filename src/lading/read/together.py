"""Snapshots of several tables that belong together: each table made of others at a snapshot that was made
from the very snapshots of those that are opened beside it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

import msgspec

from lading.errors import LadingError, ManifestGone, ManifestParseError, NotReady
from lading.log.table import Table
from lading.model import Pin, Place, SnapshotRef
from lading.read.opener import store_at, where_of
from lading.snapshots.diff import diff
from lading.snapshots.history import seen_before
from lading.snapshots.opening import build_meta, open_members
from lading.snapshots.stores.protocol import ManifestStore


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot of a table, and those that it was made from."""

    ref: str
    pins: tuple[Pin, ...] = ()


class Tables(Protocol):
    """What is asked about published tables."""

    def seen(self, name: str, number: int) -> Snapshot | None:
        """What readers see of a table (0), saw before that (1), and so on; None when no more is kept. One
        snapshot may come several times, with other snapshots that it could be made from."""
        ...

    def at(self, name: str, ref: str) -> Snapshot | None:
        """One of its snapshots; None if it is no longer kept."""
        ...

    def same(self, name: str, one: str, other: str) -> bool:
        """Whether no row came or went between two of its snapshots."""
        ...


_MOST = 2_000  # sets that are looked at before it is said that none belongs together


def belonging(names: Sequence[str], tables: Tables) -> dict[str, str]:
    """The snapshot to open of each of `names`; NotReady if none belong together.

    Of tables that others of them are made of, it is the snapshot that those were made from. The others may be
    as readers see them now or saw them before: the set with the fewest steps back is found, since sets are
    looked at in that order, and where two tables don't fit, one of them has to go back. Tables in between are
    followed though nobody asked for them."""
    tops = _tops(names, tables)
    first: _Misfit | None = None
    waiting = [(0, (0,) * len(tops))]
    known = {waiting[0][1]}
    while waiting and len(known) <= _MOST:
        steps, back = heapq.heappop(waiting)
        found = _chosen(dict(zip(tops, back, strict=True)), names, tables)
        if not isinstance(found, _Misfit):
            return found
        first = first or found
        for top in found.tops:
            further = tuple(one + (name == top) for name, one in zip(tops, back, strict=True))
            if further not in known and tables.seen(top, further[tops.index(top)]) is not None:
                known.add(further)
                heapq.heappush(waiting, (steps + 1, further))
    assert first is not None
    raise NotReady(
        f"{first.why}; no snapshots of these tables that are kept belong together right now",
        hint="`lading run` brings them together; then open them again",
        table=first.tops[-1] if first.tops else None,
    )


@dataclass(frozen=True, slots=True)
class _Misfit:
    """Why snapshots don't belong together, and of which tables one has to go back."""

    why: str
    tops: tuple[str, ...]


def _chosen(back: Mapping[str, int], names: Sequence[str], tables: Tables) -> dict[str, str] | _Misfit:
    """The snapshots of `names` if each of the tops goes back so many steps."""
    found: dict[str, Snapshot] = {}
    top_of: dict[str, str] = {}  # by table: through which top it was found
    maker: dict[str, str] = {}
    waiting = list(back) if len(set(names)) > 1 else []  # one alone fits, whatever it was made from
    for name in back:
        snapshot = tables.seen(name, back[name])
        assert snapshot is not None
        found[name], top_of[name] = snapshot, name
    while waiting:
        name = waiting.pop(0)
        for pin in found[name].pins:
            tops = tuple(dict.fromkeys([top_of.get(pin.name, top_of[name]), top_of[name]]))
            if pin.name not in found:
                snapshot = tables.at(pin.name, pin.ref)
                if snapshot is None:
                    return _Misfit(f"the snapshot of {pin.name} that {name} was made from is not kept", tops)
                found[pin.name], top_of[pin.name], maker[pin.name] = snapshot, top_of[name], name
                waiting.append(pin.name)
            elif not (found[pin.name].ref == pin.ref or tables.same(pin.name, found[pin.name].ref, pin.ref)):
                other = maker.get(pin.name)
                if other is None:
                    return _Misfit(f"{name} was made from another snapshot of {pin.name}", tops)
                return _Misfit(f"{other} and {name} were made from different snapshots of {pin.name}", tops)
    return {name: found[name].ref for name in names}


def _tops(names: Sequence[str], tables: Tables) -> list[str]:
    """Those of which no other of `names` is made, as readers see them: what the rest is made from follows."""
    below: set[str] = set()

    def visit(name: str) -> None:
        snapshot = tables.seen(name, 0)
        for pin in snapshot.pins if snapshot is not None else ():
            if pin.name not in below:
                below.add(pin.name)
                visit(pin.name)

    for name in names:
        visit(name)
    return [name for name in dict.fromkeys(names) if name not in below]


def _pins(custom: Mapping[str, Any]) -> list[Pin]:
    told = custom.get("inputs")
    return msgspec.convert(told, list[Pin]) if isinstance(told, list) else []


@dataclass(slots=True)
class Warehouse:
    """The published tables of one warehouse."""

    root: str
    store: str | None = None
    s3: Mapping[str, str] | None = None
    _seen: dict[str, tuple[list[Snapshot], Iterator[Snapshot]]] = field(default_factory=dict)

    def seen(self, name: str, number: int) -> Snapshot | None:
        """The first is asked for once, so that all answers are of one moment."""
        if name not in self._seen:
            current = self._store(name).load_current()
            if current is None:
                raise NotReady(f"nothing is published of {name}", hint=f"lading run {name}", table=name)
            self._seen[name] = [], self._from(name, current)
        known, more = self._seen[name]
        known.extend(islice(more, max(0, number + 1 - len(known))))
        return known[number] if number < len(known) else None

    def _from(self, name: str, current: SnapshotRef) -> Iterator[Snapshot]:
        custom = build_meta(self._store(name), current.ref).custom
        followed = self._followed(name, custom)
        if followed is not None and _pins(custom) != followed:
            yield self._snapshot(current.ref, followed)
        yield self._snapshot(current.ref, _pins(custom))
        for older in seen_before(self._store(name), current, self._place(name)):
            snapshot = self.at(name, older.ref)
            if snapshot is not None:
                yield snapshot

    def at(self, name: str, ref: str) -> Snapshot | None:
        try:
            custom = build_meta(self._store(name), ref).custom
        except (ManifestGone, ManifestParseError):
            return None
        # What readers see may have followed its inputs; of an older one nobody noted it.
        current = self.seen(name, 0)
        if current is not None and current.ref == ref:
            return current
        return self._snapshot(ref, _pins(custom))

    def _snapshot(self, ref: str, pins: Sequence[Pin]) -> Snapshot:
        return Snapshot(ref, tuple(pin for pin in pins if self._is_here(pin)))

    def _is_here(self, pin: Pin) -> bool:
        """Whether it is of a table of this warehouse: others stand by themselves. Of one that was made
        anew since, the snapshot is not kept: what was made from it fits nothing beside it."""
        return not pin.by_path and Table.exists(self._place(pin.name))

    def same(self, name: str, one: str, other: str) -> bool:
        """Whether no row came or went between two snapshots."""
        store, place = self._store(name), self._place(name)
        try:
            old, new = open_members(store, one, place), open_members(store, other, place)
        except LadingError:
            return False  # one is no longer kept
        try:
            return old.meta.table_id == new.meta.table_id and not diff(old, new).sources
        finally:
            old.close()
            new.close()

    def _followed(self, name: str, custom: Mapping[str, Any]) -> list[Pin] | None:
        """What the log says, if it has followed its inputs since without any row changing."""
        place = self._place(name)
        if not Table.exists(place):
            return None
        table = Table.open(place)
        try:
            meta = table.state.meta
            if meta.data_sequence > int(custom.get("sequence") or 0) or not meta.inputs:
                return None
            return msgspec.json.decode(meta.inputs, type=list[Pin])
        finally:
            table.close()

    def path(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}"

    def _store(self, name: str) -> ManifestStore:
        return store_at(self.path(name), self.store, self.s3)

    def _place(self, name: str) -> Place:
        return where_of(self.path(name), self.s3)
