"""The snapshots of a table in order, and which one a person means.

Manifests are listed by name and tell the rest themselves. One that a gate refused was never visible, so
"the one before" and "as of" pass over it, unless somebody published it by hand.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from lading.errors import ConfigError, ManifestGone, ManifestParseError, ManifestStoreError, NotFound
from lading.model import SnapshotRef
from lading.snapshots.columns import ColumnChange, column_changes, in_words, recorded_changes
from lading.snapshots.opening import build_meta, build_meta_and_schema
from lading.snapshots.runs import list_runs
from lading.snapshots.stores.protocol import ManifestStore
from lading.storage.place import Where


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One snapshot as `lading history` shows it."""

    ref: str
    run_id: str
    at: datetime
    sequence: int | None = None  # None: the manifest can't be read
    rows: int | None = None
    change: int | None = None  # rows more than in the one before
    parts: int | None = None
    failed: tuple[str, ...] = ()  # why the gate refused it
    current: bool = False
    held: bool = False
    problem: str | None = None  # why the manifest can't be read
    columns: tuple[ColumnChange, ...] = ()  # that differ from the one before
    recorded: tuple[str, ...] = ()  # what its run said of them
    inputs: tuple[tuple[str, int], ...] = ()  # of a table made of tables: what it was made from, by sequence

    @property
    def column_words(self) -> tuple[str, ...]:
        """What became of its columns since the one before, and because of which file, if that is known."""
        return in_words(self.columns, self.recorded)

    @property
    def marks(self) -> list[str]:
        """`current`, `held`, `failed`, `unreadable`: any of them, in that order."""
        told = {"current": self.current, "held": self.held, "failed": self.failed, "unreadable": self.problem}
        return [mark for mark, is_so in told.items() if is_so]

    def as_json(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        return {
            "run_id": self.run_id,
            "published_at": self.at.isoformat(),
            "rows": self.rows,
            "change": self.change,
            "parts": self.parts,
            "sequence": self.sequence,
            "current": self.current,
            "held": self.held,
            "failed": list(self.failed),
            "problem": self.problem,
            "columns": [{"name": c.name, "before": c.before, "after": c.after} for c in self.columns],
            "schema_changes": list(self.column_words),
            "manifest_ref": self.ref,
            "inputs": dict(self.inputs),
        }


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which snapshot: at most one of these; none of them is what readers see."""

    ref: str | None = None
    offset: int | None = None
    run_id: str | None = None
    as_of: datetime | None = None

    def __post_init__(self) -> None:
        given = [one for one in (self.ref, self.offset, self.run_id, self.as_of) if one is not None]
        if len(given) > 1:
            raise ConfigError("name one snapshot, not several", hint="give one of ref, offset, run_id, as_of")
        if self.offset is not None and self.offset < 0:
            raise ConfigError(
                f"the offset {self.offset} is negative", hint="1 is the one before what readers see"
            )

    @property
    def is_current(self) -> bool:
        return self == Wanted()


def history(store: ManifestStore, *, limit: int | None = None) -> list[HistoryEntry]:
    """Newest first. A pointer that can't be read marks nothing; it hides nothing either."""
    try:
        current = store.load_current()
    except ManifestParseError:
        current = None
    return _told(store, store.list_manifests(limit=None if limit is None else limit + 1), current)[:limit]


def column_history(store: ManifestStore, before: SnapshotRef, after: SnapshotRef) -> list[HistoryEntry]:
    """The snapshots behind `before` up to `after` whose columns differ from the one before them, oldest
    first; none if `after` is the older one."""
    listed = store.list_manifests()
    places = {one.ref: place for place, one in enumerate(listed)}
    first, last = places.get(after.ref), places.get(before.ref)
    if first is None or last is None or first > last:
        return []
    told = _told(store, listed[first : last + 1], None)[:-1]
    return [one for one in reversed(told) if one.columns or one.recorded]


def find(store: ManifestStore, wanted: Wanted, root: Where) -> SnapshotRef:
    """The snapshot that is meant, with its sequence; NotFound when there is none like it."""
    if wanted.is_current:
        return _current(store, root)
    if wanted.run_id is not None:
        return with_sequence(store, _of_run(store, wanted.run_id))
    if wanted.ref is not None:
        return with_sequence(store, _of_ref(store, wanted.ref))
    if wanted.as_of is not None:
        return _as_of(store, wanted.as_of, root)
    assert wanted.offset is not None
    return _before_current(store, wanted.offset, root)


def with_sequence(store: ManifestStore, listed: SnapshotRef) -> SnapshotRef:
    """A listed snapshot with the sequence that its manifest tells."""
    return replace(listed, sequence=_sequence(build_meta(store, listed.ref).custom) or 0)


def refused_newer(store: ManifestStore, current: SnapshotRef | None) -> SnapshotRef | None:
    """The newest snapshot if its gate refused it and readers don't see it."""
    for listed in store.list_manifests(limit=1):
        if current is not None and current.ref == listed.ref:
            return None
        try:
            failures = gate_failures(build_meta(store, listed.ref).custom)
        except (ManifestParseError, ManifestGone):
            return None
        return listed if failures else None
    return None


def gate_failures(custom: dict[str, Any]) -> tuple[str, ...]:
    """Why the gate refused a snapshot, told by its manifest; empty when it did not."""
    gate = custom.get("gate")
    reasons = gate.get("failures") if isinstance(gate, dict) else None
    return tuple(str(one) for one in reasons) if isinstance(reasons, list) else ()


def published_by_hand(root: Where) -> frozenset[str]:
    """The manifests that people made current, gate or not."""
    records, _ = list_runs(root)
    return frozenset(
        one.record.manifest_ref for one in records if one.record.action and one.record.manifest_ref
    )


def forced_by_hand(root: Where) -> frozenset[str]:
    """The manifests that people published, gate or not; a rollback is no such word."""
    records, _ = list_runs(root)
    return frozenset(
        one.record.manifest_ref
        for one in records
        if one.record.action == "publish" and one.record.status == "succeeded" and one.record.manifest_ref
    )


def parse_time(text: str) -> datetime:
    """ISO-8601; a time without a zone is UTC, a date is its first moment."""
    try:
        at = datetime.fromisoformat(text.strip())
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):  # in UTC it may be the year 0, or 10,000
        raise ConfigError(
            f"{text!r} is not a time", hint="write it as 2024-03-01 or 2024-03-01T06:30:00+01:00"
        ) from None


def _told(
    store: ManifestStore, listed: Sequence[SnapshotRef], current: SnapshotRef | None
) -> list[HistoryEntry]:
    """Each with what differs from the one before, which for the last of them isn't known."""
    entries = [_entry(store, one, current) for one in listed]
    compared = [_compared(one, older) for one, older in pairwise(entries)]
    return [*compared, *(entry for entry, _ in entries[-1:])]


_Entry = tuple[HistoryEntry, bytes | None]  # with the schema


def _entry(store: ManifestStore, listed: SnapshotRef, current: SnapshotRef | None) -> _Entry:
    is_current = current is not None and current.ref == listed.ref
    held = is_current and current is not None and current.held
    plain = HistoryEntry(listed.ref, listed.run_id, listed.published_at, current=is_current, held=held)
    try:
        meta, schema = build_meta_and_schema(store, listed.ref)
    except (ManifestParseError, ManifestStoreError) as error:
        return replace(plain, problem=error.message), None
    custom = meta.custom
    rows, parts = custom.get("rows"), custom.get("parts")
    entry = replace(
        plain,
        sequence=_sequence(custom) or 0,
        rows=rows if isinstance(rows, int) else None,
        parts=parts if isinstance(parts, int) else None,
        failed=gate_failures(custom),
        recorded=recorded_changes(custom),
        inputs=_inputs(custom),
    )
    return entry, schema


def _compared(one: _Entry, older: _Entry) -> HistoryEntry:
    (entry, schema), (before, old_schema) = one, older
    if entry.rows is not None and before.rows is not None:
        entry = replace(entry, change=entry.rows - before.rows)
    if schema is None or old_schema is None:
        return entry
    try:
        return replace(entry, columns=column_changes(old_schema, schema))
    except ManifestParseError:
        return entry  # opening it says what is wrong with it


def _inputs(custom: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    told = custom.get("inputs")
    pins = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
    return tuple((str(one.get("name")), int(one.get("sequence") or 0)) for one in pins)


def _sequence(custom: dict[str, Any]) -> int | None:
    sequence = custom.get("sequence")
    return sequence if isinstance(sequence, int) and sequence >= 0 else None


def _current(store: ManifestStore, root: Where) -> SnapshotRef:
    current = store.load_current()
    if current is None:
        raise NotFound(
            f"nothing is published in {root}",
            hint="is the path right? `lading status` lists the tables, `lading run` publishes them",
        )
    return current


def _of_run(store: ManifestStore, run_id: str) -> SnapshotRef:
    listed = store.list_manifests()
    found = next((one for one in listed if one.run_id == run_id), None)
    if found is None:
        raise _unknown(f"there is no snapshot of run {run_id!r}", run_id, [one.run_id for one in listed])
    return found


def _of_ref(store: ManifestStore, ref: str) -> SnapshotRef:
    """By its reference; its folder's name or its run will do."""
    listed = store.list_manifests()
    for one in listed:
        if ref.rstrip("/") in (one.ref, one.ref.rpartition("/")[0], *one.ref.split("/")[-2:-1], one.run_id):
            return one
    raise _unknown(f"there is no snapshot {ref!r}", ref, [one.ref for one in listed])


def _unknown(message: str, asked: str, known: Collection[str]) -> NotFound:
    near = difflib.get_close_matches(asked, list(dict.fromkeys(known)), n=3, cutoff=0.6)
    more = f"did you mean {', '.join(near)}? " if near else ""
    return NotFound(message, hint=f"{more}`lading history TABLE` lists what there is")


def _as_of(store: ManifestStore, at: datetime, root: Where) -> SnapshotRef:
    listed = [one for one in store.list_manifests() if one.published_at <= at]
    found = next(_visible(store, listed, root), None)
    if found is None:
        raise NotFound(
            f"no snapshot published at {at.isoformat()} or earlier is kept",
            hint="`lading history TABLE` lists what there is",
        )
    return found


def _before_current(store: ManifestStore, offset: int, root: Where) -> SnapshotRef:
    current = _current(store, root)
    if offset == 0:
        return current
    for number, one in enumerate(seen_before(store, current, root), 1):
        if number == offset:
            return one
    raise NotFound(
        f"there is no snapshot {offset} before what readers see",
        hint="`lading history TABLE` lists what there is",
    )


def seen_before(store: ManifestStore, current: SnapshotRef, root: Where) -> Iterator[SnapshotRef]:
    """What readers saw before `current` and is kept, newest first."""
    listed = store.list_manifests()
    at = next((number for number, one in enumerate(listed) if one.ref == current.ref), None)
    older = (
        listed[at + 1 :]
        if at is not None
        else [one for one in listed if one.published_at < current.published_at]
    )
    yield from _visible(store, older, root)


def _visible(store: ManifestStore, listed: list[SnapshotRef], root: Where) -> Iterator[SnapshotRef]:
    """Those of `listed` that readers have seen, as far as can be told, with their sequences."""
    by_hand: frozenset[str] | None = None
    for one in listed:
        try:
            custom = build_meta(store, one.ref).custom
        except (ManifestParseError, ManifestGone):
            continue  # malformed: nobody could read it; or cleaned away since it was listed
        if gate_failures(custom):
            by_hand = published_by_hand(root) if by_hand is None else by_hand
            if one.ref not in by_hand:
                continue
        yield replace(one, sequence=_sequence(custom) or 0)
