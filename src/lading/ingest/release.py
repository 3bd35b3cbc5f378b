"""From what the log holds to what readers see: the gate, then the pointer.

A state that its gate refuses is written like any other and never pointed at: it can be looked at, and
published by hand. The verdict is part of its manifest, so that a run with nothing to do need not judge
it again.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from lading.checks.gate import Findings, judge
from lading.checks.table import as_object, check_nothing, check_table, told_results
from lading.config.project import TableConfig
from lading.errors import GateFailed, ManifestParseError, NotFound
from lading.ingest.publish import keep_snapshot, publish_snapshot
from lading.ingest.served import left_where_it_was_put, served_otherwise, serving
from lading.ingest.shard import Served, output_of, shard
from lading.ingest.work import Work
from lading.model import CheckResult, SnapshotRef, StartSpark
from lading.snapshots.history import gate_failures
from lading.snapshots.opening import build_meta, open_members
from lading.snapshots.runs import RunHandle
from lading.snapshots.runs import start as start_record
from lading.snapshots.stores.by_url import store_of
from lading.snapshots.stores.protocol import ManifestStore, Published
from lading.state.members import MemberStore
from lading.state.tables import write_state


@dataclass(frozen=True, slots=True)
class Released:
    """What became of the log's state: published, refused, or neither since readers see it already."""

    published: Published | None = None
    refused: GateFailed | None = None
    ref: str | None = None  # the manifest, visible or not
    note: str | None = None  # for people: why readers are left with another snapshot
    checks: tuple[CheckResult, ...] = ()  # on the whole table

    @property
    def is_current(self) -> bool:
        """Whether readers see it now, by this release."""
        return self.published is not None and self.published.outcome == "current"


def release(work: Work, session: StartSpark, record: RunHandle | None = None) -> Released:
    """Publish what the log holds, if it isn't and its gate lets it; also what an earlier run committed
    and could not publish. `session` gives Spark, should the gate need it; `record` is the run's, if it
    has one already."""
    state = work.table.state
    store = store_of(work.config, work.name)
    current = store.load_current()
    if state.meta.data_sequence == 0:
        return release_of_nothing(work.look.config)
    seen = current is not None and current.sequence >= state.meta.data_sequence
    if seen and current is not None and not served_otherwise(work, store, current):
        return Released()
    if record is None and current is not None:
        left = left_where_it_was_put(store, work.table, serving(work), current)
        if left is not None:
            return Released(note=left)
    waiting = _waiting(store, work)
    if waiting is not None:
        listed, custom = waiting
        failures = gate_failures(custom)
        if failures and _told(custom) == _question(work, current):
            refused = _refusal(work.name, listed.run_id, listed.ref, failures)
            return Released(refused=refused, ref=listed.ref, checks=told_results(custom))
        if not failures and current is not None and current.held:
            return Released(ref=listed.ref)
    if record is not None:
        return _publish(work, store, current, session, record)
    with start_record(work.table.place, work.run_id, tables=[work.name], output=output_of(work)) as own:
        released = _publish(work, store, current, session, own)
        finish(own, released)
    return released


def release_of_nothing(table: TableConfig) -> Released:
    """A table that never had a row is not published; its checks may have something to say of that."""
    checks = check_nothing(table.checks)
    failures = [f"check {one.name!r}: {one.message}" for one in checks if one.blocks]
    if not failures:
        return Released(checks=checks)
    refused = GateFailed(
        f"{table.name} has no rows: {'; '.join(failures)}",
        hint="look at `root` and `path` in lading.yaml, and at `lading quarantine list`",
        table=table.name,
    )
    return Released(refused=refused, checks=checks)


def finish(record: RunHandle, released: Released, on_rows: Sequence[CheckResult] = ()) -> None:
    """How the run ended; one whose snapshot was refused failed. `on_rows` is how the checks on rows went."""
    refused = released.refused
    checks = [as_object(one) for one in (*on_rows, *released.checks)]
    record.finish(
        "failed" if refused else "succeeded",
        manifest_ref=released.ref,
        error=refused.message if refused else None,
        checks=checks or None,
    )


def _publish(
    work: Work, store: ManifestStore, current: SnapshotRef | None, session: StartSpark, record: RunHandle
) -> Released:
    served = shard(work, store, current, session)
    verdict = _verdict(work, store, current, served, session)
    work.watch.phase(work.name, "publish")
    if verdict is not None and verdict.failures:
        ref = keep_snapshot(work, verdict.facts, served)
        _drop_losers(work, served)
        refused = _refusal(work.name, work.run_id, ref, verdict.failures)
        return Released(refused=refused, ref=ref, checks=verdict.checks)
    record.moving(current.ref if current is not None else None)
    published = publish_snapshot(work, verdict.facts if verdict is not None else None, served)
    _drop_losers(work, served)
    return Released(published, ref=published.ref, checks=verdict.checks if verdict is not None else ())


def _drop_losers(work: Work, served: Served | None) -> None:
    """Shards that this run built and that did not win; only when a manifest lists the winners: until then
    nobody could tell them."""
    if served is not None and served.built:
        work.kept.update(served.urls())
        served.place.drop_losers(work.kept)


def refusal_of(store: ManifestStore, table: str, listed: SnapshotRef) -> GateFailed | None:
    """Why a listed snapshot was refused, None if it wasn't."""
    failures = gate_failures(build_meta(store, listed.ref).custom)
    return _refusal(table, listed.run_id, listed.ref, failures) if failures else None


def _verdict(
    work: Work,
    store: ManifestStore,
    current: SnapshotRef | None,
    served: Served | None,
    session: StartSpark,
) -> Findings | None:
    """None when there is nothing to ask."""
    found = _judged(work, store, current, session)
    checks = check_table(work.look.config.checks, work.table.state, session, table=work.name)
    if checks:
        found = found or Findings()
        found.checks = tuple(checks)
        found.failures.extend(f"check {one.name!r}: {one.message}" for one in checks if one.blocks)
        found.facts["checks"] = [as_object(one) for one in checks]
    if served is not None and served.failures:
        found = found or Findings()
        found.failures.extend(served.failures)
    if found is not None:
        found.facts |= {"failures": found.failures, **_question(work, current)}
    return found


def _judged(
    work: Work, store: ManifestStore, current: SnapshotRef | None, session: StartSpark
) -> Findings | None:
    gate = work.look.config.gate
    if gate is None:
        return None
    work.watch.phase(work.name, "gate")
    new = _as_members(work)
    try:
        seen = None if current is None else open_members(store, current.ref, work.table.place)
    except NotFound:
        seen = None  # another writer's: it has no rows to compare with
    try:
        known = build_meta(store, current.ref).custom.get("gate") if current is not None else None
        return judge(gate, new, seen, known if isinstance(known, dict) else {}, session)
    finally:
        new.close()
        if seen is not None:
            seen.close()


def _as_members(work: Work) -> MemberStore:
    """The log's state in the form that a snapshot has, so that both sides are asked the same way."""
    con = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    write_state(con, work.table.state.meta, work.table.state.columns())
    return MemberStore(con, work.table.place)


def _waiting(store: ManifestStore, work: Work) -> tuple[SnapshotRef, dict[str, Any]] | None:
    """The newest manifest, if it has what the log holds: readers may be kept from it for a reason."""
    for listed in store.list_manifests(limit=1):
        try:
            custom = build_meta(store, listed.ref).custom
        except ManifestParseError:
            return None  # it can't be what readers wait for
        mine = custom.get("table_id") == work.table.table_id
        sequence = custom.get("sequence")
        if mine and isinstance(sequence, int) and sequence >= work.table.state.meta.data_sequence:
            return listed, custom
    return None


def _question(work: Work, current: SnapshotRef | None) -> dict[str, Any]:
    """What was asked, and against what: the same question about the same rows has the same answer."""
    checks = [check for check in work.look.config.checks if not check.on_rows]
    asked = [work.look.config.gate, serving(work), checks]
    spec = hashlib.sha256(msgspec.json.encode(asked, order="sorted")).hexdigest()[:16]
    return {"spec": spec, "against": current.ref if current is not None else None}


def _told(custom: dict[str, Any]) -> dict[str, Any]:
    gate = custom.get("gate")
    return {name: gate.get(name) for name in ("spec", "against")} if isinstance(gate, dict) else {}


def _refusal(table: str, run_id: str, ref: str, failures: Sequence[str]) -> GateFailed:
    return GateFailed(
        f"the gate of {table} refused the new snapshot: {'; '.join(failures)}",
        hint="readers see what they saw before. Mend the files and run again, or show it all the same: "
        f"lading publish {table} --run {run_id} --force",
        table=table,
        file=ref,
    )
