"""From what the log holds to what readers see: the gate, then the pointer.

A state that its gate refuses is written like any other and never pointed at: it can be looked at, and
published by hand. The verdict is part of its manifest, so that a run with nothing to do need not judge
it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from lading.checks.gate import Findings, ask_gate
from lading.checks.table import as_object, check_nothing, check_table, told_results
from lading.config.project import Config, TableConfig
from lading.errors import GateFailed, LadingError, ManifestParseError, NotFound
from lading.iceberg.show import NOT_SHOWN, follow_pointer, show_state, waits_to_be_settled
from lading.ingest.behind import holds, left_where_it_was_put, refuse_another_table
from lading.ingest.record import write_table_manifest
from lading.ingest.settle import settle_parts
from lading.log.table import Table
from lading.model import CheckResult, SnapshotRef, StartSpark
from lading.serve.changed import serve_spec, served_otherwise
from lading.serve.shard import Served, output_of, shard
from lading.snapshots.history import gate_failures
from lading.snapshots.opening import build_meta, open_members
from lading.snapshots.publish import keep_manifest, publish_snapshot, snapshot_payload
from lading.snapshots.runs import RunHandle
from lading.snapshots.runs import start as start_record
from lading.snapshots.stores.by_url import store_of
from lading.snapshots.stores.protocol import ManifestStore, Published
from lading.watch import Watch


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


def release(
    config: Config,
    cfg: TableConfig,
    table: Table,
    run_id: str,
    *,
    session: StartSpark,
    watch: Watch,
    kept: set[str],
    record: RunHandle | None = None,
    schema_changes: Sequence[str] = (),
) -> Released:
    """Publish what the log holds, if it isn't and its gate lets it; also what an earlier run committed
    and could not publish. `session` gives Spark, should the gate need it; `record` is the run's, if it
    has one already; `kept` are this run's files that stay, and those that it publishes are added.
    `schema_changes` are those of this run. Iceberg readers are brought along in any case."""
    released = _release(
        config, cfg, table, run_id, session, watch, kept, record=record, schema_changes=schema_changes
    )
    if table.state.meta.data_sequence == 0:
        return released
    return _with_note(released, follow_pointer(config, cfg))


def _release(
    config: Config,
    cfg: TableConfig,
    table: Table,
    run_id: str,
    session: StartSpark,
    watch: Watch,
    kept: set[str],
    *,
    record: RunHandle | None,
    schema_changes: Sequence[str],
) -> Released:
    state = table.state
    store = store_of(config, cfg.name)
    current = store.load_current()
    if state.meta.data_sequence == 0:
        return release_of_nothing(cfg)
    if config.store is not None and current is not None:
        refuse_another_table(config, store, table, current)
    spec = serve_spec(cfg.serve, state)
    seen = current is not None and current.sequence >= state.meta.data_sequence
    if (
        seen
        and current is not None
        and not served_otherwise(config, cfg.name, store, current, spec)
        and not waits_to_be_settled(cfg, table.place, store, current)
    ):
        return Released()
    if record is None and current is not None:
        left = left_where_it_was_put(store, table, spec, current)
        if left is not None:
            return Released(note=left)
    waiting = _waiting(store, table)
    if waiting is not None:
        listed, custom = waiting
        failures = gate_failures(custom)
        if failures and _told(custom) == _question(cfg, spec, current):
            refused = _refusal(cfg.name, listed.run_id, listed.ref, failures)
            return Released(refused=refused, ref=listed.ref, checks=told_results(custom))
        if not failures and current is not None and current.held:
            return Released(ref=listed.ref)
    attempt = _Attempt(
        config, cfg, table, run_id, session, watch, kept, store, current, tuple(schema_changes)
    )
    if record is not None:
        return attempt.publish(record)
    with start_record(table.place, run_id, tables=[cfg.name], output=output_of(config, cfg, table)) as own:
        released = attempt.publish(own)
        finish(own, released)
    return released


def _with_note(released: Released, note: str | None) -> Released:
    if note is None:
        return released
    return replace(released, note=note if released.note is None else f"{released.note}; {note}")


def _record_again(table: Table) -> str | None:
    """manifest.json was written before parts were settled, and names those that they took the place of. A
    note if it can't be written: that must not come between readers and a snapshot."""
    try:
        write_table_manifest(table)
    except (LadingError, OSError) as error:
        told = error.message if isinstance(error, LadingError) else str(error)
        return f"manifest.json still names parts that were replaced: {told} (the next run writes it)"
    return None


def release_of_nothing(table: TableConfig) -> Released:
    """A table that never had a row is not published; its checks may have something to say of that."""
    checks = check_nothing(table.checks)
    failures = [f"check {one.name!r}: {one.message}" for one in checks if one.blocks]
    if not failures:
        return Released(checks=checks)
    refused = GateFailed(
        f"{table.name} has no rows: {'; '.join(failures)}",
        hint="check `root` and `path` in lading.yaml, and `lading quarantine list`",
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
        error=f"{refused.kind}: {refused.message}" if refused else None,
        checks=checks or None,
    )


@dataclass(frozen=True, slots=True)
class _Attempt:
    """To show readers what the log holds, instead of `current`."""

    config: Config
    cfg: TableConfig
    table: Table
    run_id: str
    session: StartSpark
    watch: Watch
    kept: set[str]
    store: ManifestStore
    current: SnapshotRef | None
    schema_changes: tuple[str, ...] = ()

    def publish(self, record: RunHandle) -> Released:
        before = self.table.state.sequence
        settled = settle_parts(self.cfg, self.table, self.run_id, self.kept, self.store, self.current)
        note = _record_again(self.table) if self.table.state.sequence != before else None
        return _with_note(self._published(record, settled), note)

    def _published(self, record: RunHandle, settled: bool) -> Released:
        cfg, run_id = self.cfg, self.run_id
        served = shard(
            self.config,
            cfg,
            self.table,
            run_id,
            self.store,
            self.current,
            session=self.session,
            watch=self.watch,
            kept=self.kept,
        )
        verdict = self._verdict(served)
        self.watch.phase(cfg.name, "publish")
        refused = verdict is not None and bool(verdict.failures)
        # Not a word of parts that could not be settled: the next run tries again, should it have nothing else
        # to do (`waits_to_be_settled`).
        iceberg, note = (
            self._shown()
            if settled and not refused
            else (NOT_SHOWN if cfg.iceberg and settled else None, None)
        )
        payload = snapshot_payload(
            cfg.name,
            self.table,
            run_id,
            gate=verdict.facts if verdict is not None else None,
            shards=served.shards if served is not None else (),
            describe=served.described if served is not None else None,
            schema_changes=self.schema_changes,
            iceberg=iceberg,
        )
        checks = verdict.checks if verdict is not None else ()
        if verdict is not None and verdict.failures:
            ref, _ = keep_manifest(self.store, payload, run_id)
            self._drop_losers(served)
            return Released(refused=_refusal(cfg.name, run_id, ref, verdict.failures), ref=ref, checks=checks)
        record.moving(self.current.ref if self.current is not None else None)
        published = publish_snapshot(self.store, self.table, payload, run_id)
        self._drop_losers(served)
        return Released(published, ref=published.ref, checks=checks, note=note)

    def _shown(self) -> tuple[dict[str, Any] | None, str | None]:
        return show_state(self.cfg, self.table, self.run_id, self.store, self.current)

    def _drop_losers(self, served: Served | None) -> None:
        """Shards that this run built and that did not win; only when a manifest lists the winners: until
        then nobody could tell them."""
        if served is not None and served.built:
            self.kept.update(served.urls())
            served.place.drop_losers(self.kept)

    def _verdict(self, served: Served | None) -> Findings | None:
        """None when there is nothing to ask."""
        found = self._judged()
        checks = check_table(self.cfg.checks, self.table.state, self.session, table=self.cfg.name)
        if checks:
            found = found or Findings()
            found.checks = tuple(checks)
            found.failures.extend(f"check {one.name!r}: {one.message}" for one in checks if one.blocks)
            found.facts["checks"] = [as_object(one) for one in checks]
        if served is not None and served.failures:
            found = found or Findings()
            found.failures.extend(served.failures)
        if found is not None:
            spec = serve_spec(self.cfg.serve, self.table.state)
            found.facts |= {"failures": found.failures, **_question(self.cfg, spec, self.current)}
        return found

    def _judged(self) -> Findings | None:
        gate, current, store = self.cfg.gate, self.current, self.store
        if gate is None:
            return None
        self.watch.phase(self.cfg.name, "gate")
        new = self.table.state.settled()
        try:
            seen = None if current is None else open_members(store, current.ref, self.table.place)
        except NotFound:
            seen = None  # another writer's: it has no rows to compare with
        try:
            known = build_meta(store, current.ref).custom.get("gate") if current is not None else None
            return ask_gate(gate, new, seen, known if isinstance(known, dict) else {}, self.session)
        finally:
            if seen is not None:
                seen.close()


def refusal_of(store: ManifestStore, table: str, listed: SnapshotRef) -> GateFailed | None:
    """Why a listed snapshot was refused, None if it wasn't."""
    failures = gate_failures(build_meta(store, listed.ref).custom)
    return _refusal(table, listed.run_id, listed.ref, failures) if failures else None


def _waiting(store: ManifestStore, table: Table) -> tuple[SnapshotRef, dict[str, Any]] | None:
    """The newest manifest, if it has what the log holds: readers may be kept from it for a reason."""
    for listed in store.list_manifests(limit=1):
        try:
            custom = build_meta(store, listed.ref).custom
        except ManifestParseError:
            return None  # it can't be what readers wait for
        if custom.get("table_id") == table.table_id and holds(custom, table):
            return listed, custom
    return None


def _question(cfg: TableConfig, spec: str | None, current: SnapshotRef | None) -> dict[str, Any]:
    """What was asked, and against what: the same question about the same rows has the same answer."""
    asked = [cfg.gate, spec, [check for check in cfg.checks if not check.on_rows]]
    told = hashlib.sha256(msgspec.json.encode(asked, order="sorted")).hexdigest()[:16]
    return {"spec": told, "against": current.ref if current is not None else None}


def _told(custom: dict[str, Any]) -> dict[str, Any]:
    gate = custom.get("gate")
    return {name: gate.get(name) for name in ("spec", "against")} if isinstance(gate, dict) else {}


def _refusal(table: str, run_id: str, ref: str, failures: Sequence[str]) -> GateFailed:
    return GateFailed(
        f"the gate of {table} refused the new snapshot: {'; '.join(failures)}",
        hint="readers see what they saw before. Fix the files and run again, or publish it anyway: "
        f"lading publish {table} --run {run_id} --force",
        table=table,
        file=ref,
    )
