"""Snapshots of several tables that belong together: each table made of others at a snapshot that was made
from the very snapshots of those that are opened beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lading.errors import LadingError, NotReady
from lading.log.table import Table
from lading.model import Pin, Place
from lading.read.opener import store_at, where_of
from lading.snapshots.diff import diff
from lading.snapshots.opening import build_meta, open_members
from lading.snapshots.stores.protocol import ManifestStore


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot of a table, and those that it was made from."""

    ref: str
    pins: tuple[Pin, ...] = ()


def belonging(
    names: Sequence[str],
    current: Callable[[str], Snapshot],
    at: Callable[[str, str], Snapshot],
    same: Callable[[str, str, str], bool],
) -> dict[str, str]:
    """The snapshot to open of each of `names`; NotReady if none belong together. `current` gives what readers
    see of a table, `at` one of its snapshots by reference, `same` whether two of them have the same rows.
    Tables in between are followed though nobody asked for them."""
    found: dict[str, Snapshot] = {}
    wanted: dict[str, tuple[str, str]] = {}  # by table: the snapshot, and who was made from it
    for name in _tops_first(names, current):
        ref, _ = wanted.get(name, ("", ""))
        found[name] = snapshot = at(name, ref) if ref else current(name)
        for pin in snapshot.pins:
            other, maker = wanted.setdefault(pin.name, (pin.ref, name))
            if other != pin.ref and not same(pin.name, other, pin.ref):
                raise NotReady(
                    f"{maker} and {name} were made from different snapshots of {pin.name}, so that no "
                    "snapshots of these tables belong together right now",
                    hint="`lading run` brings them together; then open them again",
                    table=name,
                )
    return {name: found[name].ref for name in names}


def _tops_first(names: Sequence[str], current: Callable[[str], Snapshot]) -> list[str]:
    """All tables on the way, each before those that it is made of."""
    done: dict[str, None] = {}

    def visit(name: str) -> None:
        if name not in done:
            for pin in current(name).pins:
                visit(pin.name)
            done[name] = None

    for name in names:
        visit(name)
    return list(reversed(done))


@dataclass(slots=True)
class Warehouse:
    """The published tables of one warehouse."""

    root: str
    store: str | None = None
    s3: Mapping[str, str] | None = None
    _known: dict[tuple[str, str], Snapshot] = field(default_factory=dict)

    def current(self, name: str) -> Snapshot:
        """What readers see now; asked once, so that all answers are of one moment."""
        if (name, "") not in self._known:
            current = self._store(name).load_current()
            if current is None:
                raise NotReady(f"nothing is published of {name}", hint=f"lading run {name}", table=name)
            self._known[name, ""] = self.at(name, current.ref)
        return self._known[name, ""]

    def at(self, name: str, ref: str) -> Snapshot:
        custom = build_meta(self._store(name), ref).custom
        told = custom.get("inputs")
        if not isinstance(told, list):
            return Snapshot(ref)
        pins = self._followed(name, custom) or msgspec.convert(told, list[Pin])
        return Snapshot(ref, tuple(pin for pin in pins if self._is_here(pin)))

    def _is_here(self, pin: Pin) -> bool:
        """Whether it is of a table of this warehouse: others stand by themselves."""
        place = self._place(pin.name)
        if not Table.exists(place):
            return False
        table = Table.open(place)
        table.close()
        return table.table_id == pin.table_id

    def same(self, name: str, one: str, other: str) -> bool:
        """Whether no row came or went between two snapshots."""
        store, place = self._store(name), self._place(name)
        try:
            old, new = open_members(store, one, place), open_members(store, other, place)
        except LadingError:
            return False  # one is no longer kept
        try:
            return not diff(old, new).sources
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
