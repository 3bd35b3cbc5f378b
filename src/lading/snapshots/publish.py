"""Publishing in two phases: the manifest, whole and immutable, and only then the pointer.

A reader between the two sees the old snapshot; there is no third state. The pointer moves by
compare-and-swap, so of two publishers the one with the newer state wins whatever the order of their
writes, and a rollback that holds the pointer is never undone by a run that started before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from lading import clock
from lading.errors import Conflict, LadingError, ManifestGone, PublishCurrentError, PublishManifestError
from lading.layout.table import is_run_id
from lading.model import SnapshotRef
from lading.snapshots.manifest import BuildMeta, ShardMeta, build_snapshot
from lading.snapshots.pointer import moved_by, moves_before, new_swap_id
from lading.snapshots.stores.protocol import ManifestStore, Outcome, Published, later

if TYPE_CHECKING:
    from lading.log.table import Table

_ATTEMPTS = 1_000  # each lost race means that another publisher got through


class Keeps(Protocol):
    """A place that manifests can be written to."""

    def put_manifest(self, payload: bytes, run_id: str, now: datetime | None) -> tuple[str, datetime]:
        """Write a manifest under a fresh name that sorts last; its reference and time."""
        ...


class Shelf(Keeps, Protocol):
    """The writes that a store has to offer to be published to in two phases."""

    def load_current(self) -> SnapshotRef | None: ...

    def swap_current(self, expected: SnapshotRef | None, to: SnapshotRef) -> bool:
        """Move the pointer if it is still `expected`; False if it isn't."""
        ...


def snapshot_payload(
    name: str,
    table: Table,
    run_id: str,
    *,
    gate: dict[str, Any] | None = None,
    shards: Sequence[ShardMeta] = (),
    describe: Callable[[BuildMeta], BuildMeta] | None = None,
    schema_changes: Sequence[str] = (),
    iceberg: dict[str, Any] | None = None,
) -> bytes:
    """What the log holds, as an immutable snapshot. `gate` is what its gate found; `shards` are those of a
    table that is served by key, and `describe` says how; `schema_changes` why columns came, went or are of
    another type; `iceberg` where its files for Iceberg readers are."""
    from lading.state.tables import create_tables  # numpy: readers come by here too

    table.make_durable()
    store = table.settle()
    state = table.state
    meta = BuildMeta(
        run_id=run_id,
        created_at=clock.now(),
        key_col=state.order_by or "",
        custom={
            "table": name,
            "table_id": table.table_id,
            "sequence": state.sequence,
            "recipe": state.meta.recipe,
            "rows": store.row_count(),
            "parts": store.count(),
            **({"gate": gate} if gate is not None else {}),
            **({"schema_changes": list(schema_changes)} if schema_changes else {}),
            **({"iceberg": iceberg} if iceberg is not None else {}),
            **({"inputs": msgspec.json.decode(state.meta.inputs)} if state.meta.inputs else {}),
        },
    )
    return build_snapshot(
        meta if describe is None else describe(meta),
        shards,
        lambda con: store.write_root(con, state.meta),
        tables=create_tables,
    )


def publish_snapshot(store: ManifestStore, table: Table, payload: bytes, run_id: str) -> Published:
    """The snapshot, then the pointer. GivenUp if cleaning took this run for dead meanwhile: files that it
    knows may be gone. It is asked again afterwards, for a run that slept between the question and the
    pointer."""
    table.refuse_expired(run_id)
    published = store.publish(payload, run_id, sequence=table.state.sequence)
    table.refuse_expired(run_id)
    return published


def publish_in_two_phases(
    shelf: Shelf,
    payload: bytes,
    run_id: str,
    *,
    sequence: int,
    expected: SnapshotRef | None = None,
    now: datetime | None = None,
) -> Published:
    """Publish `payload`: see ManifestStore.publish."""
    ref, at = keep_manifest(shelf, payload, run_id, now=now)
    try:
        return _move(shelf, SnapshotRef(ref, run_id, at, sequence), expected)
    except PublishCurrentError:
        raise
    except (OSError, LadingError) as error:
        raise PublishCurrentError(
            f"the pointer could not be moved to {ref}: {_reason(error)}",
            hint="the snapshot is kept, readers see the one before; fix the cause, then: lading run",
        ) from error


def keep_manifest(
    shelf: Keeps, payload: bytes, run_id: str, *, now: datetime | None = None
) -> tuple[str, datetime]:
    """The first phase alone: the manifest is there, and nothing points at it."""
    check_run_id(run_id)
    try:
        return shelf.put_manifest(payload, run_id, now)
    except PublishManifestError:
        raise
    except (OSError, LadingError) as error:
        raise PublishManifestError(
            f"the manifest of run {run_id} could not be written: {_reason(error)}",
            hint="readers see what they saw before; fix the cause, then: lading run",
        ) from error


def check_run_id(run_id: str) -> None:
    if not is_run_id(run_id):
        raise PublishManifestError(
            f"{run_id!r} can't be part of a folder's name", hint="use letters, digits, '-', '_' and '.'"
        )


def same_pointer(one: SnapshotRef | None, other: SnapshotRef | None) -> bool:
    """Whether both come from one move of the pointer; foreign pointers have no swap_id, only a ref."""
    if one is None or other is None:
        return one is other
    return (one.swap_id, one.ref) == (other.swap_id, other.ref)


def refuse_moved(current: SnapshotRef | None, expected: SnapshotRef | None) -> None:
    """Raise Conflict if the pointer isn't the one that somebody decided by; None: whatever it is."""
    if expected is not None and not same_pointer(current, expected):
        seen = f"run {current.run_id}" if current is not None else "nothing"
        raise Conflict(
            f"the pointer moved meanwhile: readers see {seen} now, not run {expected.run_id}",
            hint="look at `lading history`, then decide again",
        )


def outcome_of(current: SnapshotRef | None, sequence: int, raced: bool) -> Outcome:
    """What becomes of a state when the pointer is `current`; `raced`: it moved since the caller looked."""
    if current is None:
        return "current"
    if current.held:
        return "held"
    newer = current.sequence > sequence or (raced and current.sequence == sequence)
    return "superseded" if newer else "current"


def successor(current: SnapshotRef | None, to: SnapshotRef) -> SnapshotRef:
    """`to` as the next move of the pointer: later than the one before, under a name of its own."""
    before = current.published_at if current is not None else None
    return replace(
        to,
        published_at=later(to.published_at, before),
        held=False,
        swap_id=to.swap_id or new_swap_id(),
        retired=current.retired if current is not None else (),
        before=moves_before(current),
    )


def refuse_retired(current: SnapshotRef | None, ref: str) -> None:
    """Raise ManifestGone if somebody is deleting the manifest: a publisher may have slept since it wrote it,
    and been given up."""
    if current is not None and ref in current.retired:
        raise ManifestGone(f"{ref} is being deleted", hint="run again", file=ref)


def _move(shelf: Shelf, to: SnapshotRef, expected: SnapshotRef | None) -> Published:
    current = shelf.load_current()
    raced = expected is not None and not same_pointer(current, expected)
    for _ in range(_ATTEMPTS):
        outcome = outcome_of(current, to.sequence, raced)
        if current is not None and outcome != "current":
            return Published(to.ref, outcome, current)
        refuse_retired(current, to.ref)
        new = successor(current, to)
        if shelf.swap_current(current, new):
            return Published(to.ref, "current", new)
        raced = True
        current = shelf.load_current()
        if moved_by(current, new):
            return Published(to.ref, "current", new)  # it did move: only the answer was lost
        if current is not None and current.ref == to.ref and not current.held:
            return Published(to.ref, "current", current)  # somebody else pointed at it
    raise PublishCurrentError(
        f"the pointer moved {_ATTEMPTS} times while {to.ref} was being published",
        hint="the snapshot is kept; run again when fewer publishers are active",
    )


def _reason(error: OSError | LadingError) -> str:
    return error.message if isinstance(error, LadingError) else str(error)
