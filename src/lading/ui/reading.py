"""The snapshot that a page shows: what readers see now, or an older one that `?ref=` names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from lading.config.project import Config
from lading.model import SnapshotRef
from lading.snapshots.history import Wanted, find
from lading.snapshots.opening import open_members
from lading.snapshots.stores.by_url import store_of
from lading.state.members import MemberStore

_LISTED = 100  # snapshots to choose from


class Snapshot(msgspec.Struct, frozen=True):
    """One to choose, or the one that is shown."""

    run_id: str
    ref: str
    published_at: str
    current: bool = False


def snapshots(config: Config, name: str) -> list[Snapshot]:
    """The newest first; none if nothing was published."""
    store = store_of(config, name)
    current = store.load_current()
    if current is None:
        return []
    listed = store.list_manifests(limit=_LISTED)
    return [_shown(one, current) for one in listed]


@contextmanager
def reading(config: Config, name: str, ref: str | None) -> Iterator[tuple[SnapshotRef, MemberStore]]:
    store, place = store_of(config, name), config.place(name)
    seen = find(store, Wanted(ref=ref), place)
    members = open_members(store, seen.ref, place)
    try:
        yield seen, members
    finally:
        members.close()


def _shown(one: SnapshotRef, current: SnapshotRef) -> Snapshot:
    return Snapshot(one.run_id, one.ref, one.published_at.isoformat(), one.ref == current.ref)
