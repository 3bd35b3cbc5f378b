"""Whether readers get a table by key the way lading.yaml has it: `serve:` may change while no row does.

The answer is in the manifest that the pointer names. Where that would have to be fetched, what it said is
kept in the cache: a manifest never changes, so a run with nothing to do fetches it once and not again.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from lading.config.project import Config
from lading.config.serve import Serve
from lading.errors import ManifestParseError, ManifestStoreError
from lading.ingest.look import Look
from lading.ingest.plan import TablePlan
from lading.ingest.work import Work
from lading.log.table import Table
from lading.model import SnapshotRef
from lading.serve.spec import spec_id
from lading.snapshots.history import gate_failures
from lading.snapshots.opening import build_meta
from lading.snapshots.stores.by_url import store_of
from lading.snapshots.stores.protocol import ManifestStore
from lading.storage.folder import write_atomic

_BEHIND = "readers don't see the last commit yet: it is published, if its gate lets it"
_NEW = "`serve:` is new: the shards are built"
_GONE = "`serve:` is gone: a snapshot without shards is published"
_OTHER = "`serve:` has changed: all shards are built again"


class _Told(msgspec.Struct, frozen=True):
    """What the manifest `ref` says of how it is served: a spec, or None."""

    ref: str
    spec: str | None


def serving(work: Work) -> str | None:
    """Names how the table is served by key, None if it isn't."""
    return _spec(work.look.config.serve, work.table)


def served_otherwise(work: Work, store: ManifestStore, current: SnapshotRef) -> bool:
    """Whether the snapshot that readers see has shards by another `serve:` than the table has now, or has
    some although the table has none."""
    try:
        told = _told(work.config, work.name, store, current)
    except ManifestParseError:
        return True
    if store.manifest_path(current.ref) is None and told != _kept(work.config, work.name):
        write_atomic(_kept_at(work.config, work.name), msgspec.json.encode(told))
    return told.spec != serving(work)


def with_publish_note(config: Config, seen: Look) -> TablePlan:
    """The plan, with why a run publishes although no row changes, or why it doesn't. Touches nothing."""
    plan = seen.plan
    if seen.table is None or seen.table.state.meta.data_sequence == 0:
        return plan
    store = store_of(config, seen.config.name)
    try:
        current = store.load_current()
        if current is not None and current.held:
            return plan
        spec = _spec(seen.config.serve, seen.table)
        if current is not None and not plan.changes_rows:
            left = left_where_it_was_put(store, seen.table, spec, current)
            if left is not None:
                return replace(plan, notes=(*plan.notes, left))
        if current is None or current.sequence < seen.table.state.meta.data_sequence:
            return replace(plan, publish=_BEHIND)
        told = _told(config, seen.config.name, store, current)
    except (ManifestParseError, ManifestStoreError):
        return plan  # a run says what is wrong with it
    return replace(plan, publish=_difference(told.spec, spec))


def left_where_it_was_put(
    store: ManifestStore, table: Table, spec: str | None, current: SnapshotRef
) -> str | None:
    """What to say when somebody who isn't lading moved the pointer, and all that lading has to show was
    published before: then a run without changes leaves the pointer alone. None if it is lading's own, or if
    there is something new to publish."""
    if current.swap_id:
        return None
    mine = _last_published(store, table)
    if mine is None or mine.ref.ref == current.ref or mine.spec != spec:
        return None
    return (
        f"readers see run {current.run_id}: somebody else moved the pointer there, and it stays until rows "
        f"change. To show what lading published last: lading publish {table.state.meta.table} "
        f"--run {mine.ref.run_id}"
    )


class _Mine(msgspec.Struct, frozen=True):
    ref: SnapshotRef
    spec: str | None


def _last_published(store: ManifestStore, table: Table) -> _Mine | None:
    """The newest snapshot with all that the table's log holds, unless its gate refused it."""
    for listed in store.list_manifests():
        try:
            custom = build_meta(store, listed.ref).custom
        except ManifestParseError:
            continue  # whatever it was, nobody can read it
        if custom.get("table_id") != table.table_id:
            continue
        sequence = custom.get("sequence")
        holds = isinstance(sequence, int) and sequence >= table.state.meta.data_sequence
        return _Mine(listed, _spec_in(custom)) if holds and not gate_failures(custom) else None
    return None


def _difference(told: str | None, wanted: str | None) -> str | None:
    if told == wanted:
        return None
    return _GONE if wanted is None else _NEW if told is None else _OTHER


def _spec(serve: Serve | None, table: Table) -> str | None:
    state = table.state
    return None if serve is None else spec_id(serve, state.schema, state.order_by, state.row_count())


def _told(config: Config, name: str, store: ManifestStore, current: SnapshotRef) -> _Told:
    if store.manifest_path(current.ref) is None:
        kept = _kept(config, name)
        if kept is not None and kept.ref == current.ref:
            return kept
    return _Told(current.ref, _spec_in(build_meta(store, current.ref).custom))


def _spec_in(custom: dict[str, Any]) -> str | None:
    known = custom.get("serve")
    spec = known.get("spec") if isinstance(known, dict) else None
    return spec if isinstance(spec, str) else None


def _kept(config: Config, name: str) -> _Told | None:
    try:
        return msgspec.json.decode(_kept_at(config, name).read_bytes(), type=_Told)
    except (FileNotFoundError, msgspec.MsgspecError, RecursionError):
        return None  # not asked yet, or written by a version that had another form


def _kept_at(config: Config, name: str) -> Path:
    return config.cache / "served" / f"{name}.json"
