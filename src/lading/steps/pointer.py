"""Moving the pointer by hand: back to an older snapshot, which holds, and forward again.

Every such move leaves a record in `runs/`: history shows who moved it, cleaning leaves what readers saw
until then alone for a while, and `lading repair` knows where a lost pointer was.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lading.config.project import Config
from lading.errors import Conflict, ManifestParseError, NotFound
from lading.model import SnapshotRef
from lading.snapshots.history import Wanted, find, forced_by_hand, gate_failures, history
from lading.snapshots.opening import build_meta
from lading.snapshots.runs import start as start_record
from lading.snapshots.stores.protocol import ManifestStore
from lading.steps.gate import refusal_of
from lading.steps.store import store_of
from lading.steps.work import new_run_id


@dataclass(frozen=True, slots=True)
class Move:
    table: str
    action: str
    before: SnapshotRef | None
    to: SnapshotRef


@dataclass(frozen=True, slots=True)
class Moved:
    """What readers saw before, and what they see now."""

    table: str
    before: SnapshotRef | None
    now: SnapshotRef


def roll_back(config: Config, name: str, wanted: Wanted, *, now: datetime | None = None) -> Moved:
    """Point readers at an older snapshot and hold it there: runs go on committing, and publish nothing
    until `release_hold`. No data is touched."""
    store = store_of(config, name)
    before = _before(store)
    target = find(store, wanted, config.place(name))
    build_meta(store, target.ref)  # malformed: refused while readers still see something
    return _move(config, store, Move(name, "rollback", before, target), hold=True, now=now)


def release_hold(config: Config, name: str, *, now: datetime | None = None) -> Moved:
    """Undo a rollback: readers see the newest snapshot that its gate let through, or that somebody published
    all the same."""
    store = store_of(config, name)
    before = _before(store)
    if before is not None and not before.held:
        raise Conflict(
            f"{name} is not held: nothing was rolled back",
            hint=f"readers see run {before.run_id}; `lading history {name}` lists the others",
            table=name,
        )
    forced = forced_by_hand(config.place(name))
    listed = [one for one in history(store) if one.sequence is not None]
    good = [one for one in listed if not one.failed or one.ref in forced]
    if not good:
        raise NotFound(f"{name} has no snapshot to show", hint=f"lading run {name}", table=name)
    newest = max(good, key=lambda one: (one.sequence or 0, one.at))
    target = SnapshotRef(newest.ref, newest.run_id, newest.at, newest.sequence or 0)
    return _move(config, store, Move(name, "release", before, target), hold=False, now=now)


def publish_run(
    config: Config, name: str, run_id: str, *, force: bool = False, now: datetime | None = None
) -> Moved:
    """Show the snapshot of a run; one that the gate refused only with `force`. It doesn't hold."""
    store = store_of(config, name)
    before = _before(store)
    target = find(store, Wanted(run_id=run_id), config.place(name))
    refusal = refusal_of(store, name, target)
    if refusal is not None and not force:
        raise refusal
    if before is not None and before.ref == target.ref:
        return Moved(name, before, before)
    if before is not None and before.held:
        raise Conflict(
            f"{name} is held at run {before.run_id}: somebody rolled it back",
            hint=f"lading publish {name} --release lets it go on",
            table=name,
        )
    if before is not None and before.sequence > target.sequence:
        raise Conflict(
            f"readers of {name} see a newer snapshot than that of run {run_id}",
            hint=f"to go back, and stay there: lading rollback {name} --run-id {run_id}",
            table=name,
        )
    return _move(config, store, Move(name, "publish", before, target), hold=False, now=now)


def refused_newer(store: ManifestStore, current: SnapshotRef | None) -> SnapshotRef | None:
    """The newest snapshot if its gate refused it and readers don't see it."""
    for listed in store.list_manifests(limit=1):
        if current is not None and current.ref == listed.ref:
            return None
        try:
            failures = gate_failures(build_meta(store, listed.ref).custom)
        except ManifestParseError:
            return None
        return listed if failures else None
    return None


def _before(store: ManifestStore) -> SnapshotRef | None:
    """What readers see; a pointer that is malformed shows nothing, and may be moved."""
    try:
        return store.load_current()
    except ManifestParseError:
        return None


def _move(config: Config, store: ManifestStore, move: Move, *, hold: bool, now: datetime | None) -> Moved:
    with start_record(config.place(move.table), new_run_id(), now, action=move.action) as record:
        record.moving(move.before.ref if move.before is not None else None)
        moved = store.set_current(move.to.ref, hold=hold, sequence=move.to.sequence, now=now)
        record.finish("succeeded", manifest_ref=moved.ref, now=now)
    return Moved(move.table, move.before, moved)
