"""Whether readers get a table by key the way lading.yaml has it: `serve:` may change while no row does.

The answer is in the manifest that the pointer names. Where that would have to be fetched, what it said is
kept in the cache: a manifest never changes, so runs fetch it once and not again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from lading.config.project import Config
from lading.config.serve import Serve
from lading.errors import ManifestParseError
from lading.layout.project import served_file
from lading.log.state import TableState
from lading.model import SnapshotRef
from lading.serve.spec_id import spec_id
from lading.snapshots.opening import build_meta
from lading.snapshots.stores.protocol import ManifestStore
from lading.storage.folder import write_atomic

_NEW = "`serve:` is new: the shards are built"
_GONE = "`serve:` was removed: a snapshot without shards is published"
_OTHER = "`serve:` has changed, or the columns that shards hold: all of them are built again"


class Told(msgspec.Struct, frozen=True):
    """What the manifest `ref` says of itself: which table it shows, and by which spec that is served. Either
    may be None."""

    ref: str
    table_id: str | None
    spec: str | None


def told_by(config: Config, name: str, store: ManifestStore, current: SnapshotRef) -> Told:
    """What the snapshot that readers see says of itself; kept for the next run if it had to be fetched."""
    told = _told(config, name, store, current)
    if store.manifest_path(current.ref) is None and told != _kept(config, name):
        write_atomic(_kept_at(config, name), msgspec.json.encode(told))
    return told


def serve_spec(serve: Serve | None, state: TableState) -> str | None:
    """Names how a table is served by key, None if it isn't."""
    if serve is None:
        return None
    return spec_id(serve, state.schema, state.order_by, state.row_count())


def told_spec(custom: dict[str, Any]) -> str | None:
    """The same, as a snapshot manifest has it."""
    known = custom.get("serve")
    spec = known.get("spec") if isinstance(known, dict) else None
    return spec if isinstance(spec, str) else None


def served_otherwise(
    config: Config, name: str, store: ManifestStore, current: SnapshotRef, spec: str | None
) -> bool:
    """Whether the snapshot that readers see has shards by another `serve:` than the table has now, or has
    some although the table has none."""
    try:
        return told_by(config, name, store, current).spec != spec
    except ManifestParseError:
        return True


def what_changed(
    config: Config, name: str, store: ManifestStore, current: SnapshotRef, spec: str | None
) -> str | None:
    """The same for people, None if nothing did. Touches nothing."""
    told = _told(config, name, store, current).spec
    if told == spec:
        return None
    return _GONE if spec is None else _NEW if told is None else _OTHER


def _told(config: Config, name: str, store: ManifestStore, current: SnapshotRef) -> Told:
    if store.manifest_path(current.ref) is None:
        kept = _kept(config, name)
        if kept is not None and kept.ref == current.ref:
            return kept
    custom = build_meta(store, current.ref).custom
    return Told(current.ref, custom.get("table_id"), told_spec(custom))


def _kept(config: Config, name: str) -> Told | None:
    try:
        return msgspec.json.decode(_kept_at(config, name).read_bytes(), type=Told)
    except (FileNotFoundError, msgspec.MsgspecError, RecursionError):
        return None  # not asked yet, or written by a version that had another form


def _kept_at(config: Config, name: str) -> Path:
    return config.cache / served_file(name)
