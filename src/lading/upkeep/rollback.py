"""Moving the pointer by hand: back to an older snapshot, which holds, and forward again.

Every such move leaves a record in `runs/`: history shows who moved it, cleaning leaves what readers saw
until then alone for a while, and `lading repair` knows where a lost pointer was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lading.config.project import Config
from lading.errors import Conflict, ManifestParseError, NotFound
from lading.iceberg.show import follow_pointer
from lading.ingest.release import refusal_of
from lading.ingest.table_run import new_run_id
from lading.model import SnapshotRef
from lading.snapshots.history import Wanted, find, forced_by_hand, history
from lading.snapshots.opening import build_meta
from lading.snapshots.runs import start as start_record
from lading.snapshots.stores.by_url import store_of
from lading.snapshots.stores.protocol import ManifestStore

_ATTEMPTS = 100  # each lost race means that somebody else moved the pointer


@dataclass(frozen=True, slots=True)
class Move:
    """Where to, given what readers see: decided anew when that changes before the pointer has moved."""

    table: str
    action: str
    store: ManifestStore
    decide: Callable[[SnapshotRef | None], SnapshotRef]


@dataclass(frozen=True, slots=True)
class Moved:
    """What readers saw before, and what they see now."""

    table: str
    before: SnapshotRef | None
    now: SnapshotRef
    note: str | None = None  # for people: why Iceberg readers see another one

    def as_json(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        return {
            "table": self.table,
            "run_id": self.now.run_id,
            "manifest_ref": self.now.ref,
            "sequence": self.now.sequence,
            "held": self.now.held,
            "before": self.before.run_id if self.before is not None else None,
            "note": self.note,
        }


def roll_back(config: Config, name: str, wanted: Wanted, *, now: datetime | None = None) -> Moved:
    """Point readers at an older snapshot and hold it there: runs go on committing, and publish nothing
    until `release_hold`. No data is touched."""
    store = store_of(config, name)

    def decide(before: SnapshotRef | None) -> SnapshotRef:
        target = find(store, wanted, config.place(name))
        build_meta(store, target.ref)  # malformed: refused while readers still see something
        return target

    return _move(config, Move(name, "rollback", store, decide), hold=True, now=now)


def release_hold(config: Config, name: str, *, now: datetime | None = None) -> Moved:
    """Undo a rollback: readers see the newest snapshot that its gate let through, or that somebody published
    all the same."""
    store = store_of(config, name)

    def decide(before: SnapshotRef | None) -> SnapshotRef:
        if before is not None and not before.held:
            raise Conflict(
                f"{name} is not held: nothing was rolled back",
                hint=f"readers see run {before.run_id}; `lading history {name}` lists the others",
                table=name,
            )
        return newest_good(config, name)

    return _move(config, Move(name, "release", store, decide), hold=False, now=now)


def newest_good(config: Config, name: str) -> SnapshotRef:
    """What readers would see if nothing held them back."""
    forced = forced_by_hand(config.place(name))
    listed = [one for one in history(store_of(config, name)) if one.sequence is not None]
    good = [one for one in listed if not one.failed or one.ref in forced]
    if not good:
        raise NotFound(f"{name} has no snapshot to show", hint=f"lading run {name}", table=name)
    newest = max(good, key=lambda one: (one.sequence or 0, one.at))
    return SnapshotRef(newest.ref, newest.run_id, newest.at, newest.sequence or 0)


def publish_run(
    config: Config, name: str, run_id: str, *, force: bool = False, now: datetime | None = None
) -> Moved:
    """Show the snapshot of a run; one that the gate refused only with `force`. It doesn't hold."""
    store = store_of(config, name)

    def decide(before: SnapshotRef | None) -> SnapshotRef:
        target = find(store, Wanted(run_id=run_id), config.place(name))
        refusal = refusal_of(store, name, target)
        if refusal is not None and not force:
            raise refusal
        if before is not None and before.ref == target.ref:
            return before
        if before is not None and before.held:
            raise Conflict(
                f"{name} is held at run {before.run_id}: someone rolled it back",
                hint=f"lading publish {name} --release lets it move on",
                table=name,
            )
        if before is not None and before.sequence > target.sequence:
            raise Conflict(
                f"readers of {name} already see a newer snapshot than run {run_id}'s",
                hint=f"to go back, and stay there: lading rollback {name} --run-id {run_id}",
                table=name,
            )
        return target

    return _move(config, Move(name, "publish", store, decide), hold=False, now=now)


def _before(store: ManifestStore) -> SnapshotRef | None:
    """What readers see; a pointer that is malformed shows nothing, and may be moved."""
    try:
        return store.load_current()
    except ManifestParseError:
        return None


def _move(config: Config, move: Move, *, hold: bool, now: datetime | None) -> Moved:
    before = _before(move.store)
    target = move.decide(before)  # what is refused leaves no record
    if target is before:
        return Moved(move.table, before, target)
    with start_record(config.place(move.table), new_run_id(), now, action=move.action) as record:
        for attempt in range(_ATTEMPTS):
            record.moving(before.ref if before is not None else None)
            try:
                moved = move.store.set_current(
                    target.ref, hold=hold, sequence=target.sequence, expected=before, now=now
                )
                break
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
                before = _before(move.store)
                target = move.decide(before)
        record.finish("succeeded", manifest_ref=moved.ref, now=now)
    note = follow_pointer(config, config.tables[move.table]) if move.table in config.tables else None
    return Moved(move.table, before, moved, note)
