"""Whether readers get a table by key the way lading.yaml has it: `serve:` may change while no row does.

The answer is in the manifest that the pointer names. Where that would have to be fetched, what it said is
kept in the cache: a manifest never changes, so a run with nothing to do fetches it once and not again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from lading.catalog.table import Table
from lading.config.project import Config
from lading.config.serve import Serve
from lading.errors import ManifestParseError, ManifestStoreError
from lading.format.shard_spec import spec_id
from lading.model import SnapshotRef
from lading.snapshots.opening import build_meta
from lading.snapshots.stores.local import LocalStore
from lading.snapshots.stores.protocol import ManifestStore
from lading.steps.look import Look
from lading.steps.store import store_of
from lading.steps.work import Work
from lading.storage.local import write_atomic

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
    if not isinstance(store, LocalStore) and told != _kept(work.config, work.name):
        write_atomic(_kept_at(work.config, work.name), msgspec.json.encode(told))
    return told.spec != serving(work)


def publish_note(config: Config, seen: Look) -> str | None:
    """Why a run publishes although no row changes, for `lading plan`. Touches nothing."""
    if seen.table is None or seen.table.state.meta.data_sequence == 0:
        return None
    store = store_of(config, seen.config.name)
    try:
        current = store.load_current()
        if current is not None and current.held:
            return None
        if current is None or current.sequence < seen.table.state.meta.data_sequence:
            return _BEHIND
        told = _told(config, seen.config.name, store, current)
    except (ManifestParseError, ManifestStoreError):
        return None  # a run says what is wrong with it
    return _difference(told.spec, _spec(seen.config.serve, seen.table))


def _difference(told: str | None, wanted: str | None) -> str | None:
    if told == wanted:
        return None
    return _GONE if wanted is None else _NEW if told is None else _OTHER


def _spec(serve: Serve | None, table: Table) -> str | None:
    state = table.state
    return None if serve is None else spec_id(serve, state.schema, state.order_by, state.row_count())


def _told(config: Config, name: str, store: ManifestStore, current: SnapshotRef) -> _Told:
    if not isinstance(store, LocalStore):
        kept = _kept(config, name)
        if kept is not None and kept.ref == current.ref:
            return kept
    known: Any = build_meta(store, current.ref).custom.get("serve")
    spec = known.get("spec") if isinstance(known, dict) else None
    return _Told(current.ref, spec if isinstance(spec, str) else None)


def _kept(config: Config, name: str) -> _Told | None:
    try:
        return msgspec.json.decode(_kept_at(config, name).read_bytes(), type=_Told)
    except (FileNotFoundError, msgspec.MsgspecError, RecursionError):
        return None  # not asked yet, or written by a version that had another form


def _kept_at(config: Config, name: str) -> Path:
    return config.cache / "served" / f"{name}.json"
