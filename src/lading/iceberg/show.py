"""A table's snapshots for Iceberg readers, beside a publish or a move of the pointer: never in their way.

What goes wrong here is told and keeps nobody from seeing lading's own snapshot; the next publish, or the next
run that has nothing to do, mends it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from lading.config.project import Config, TableConfig
from lading.errors import (
    LadingError,
    ManifestGone,
    ManifestParseError,
    NotFound,
    StorageError,
    StoreUnreachable,
)
from lading.iceberg.follow import follow, is_followed, stop_following, where
from lading.iceberg.pages import pages_of
from lading.iceberg.settled import count_unsettled
from lading.iceberg.snapshot import Record, Shown, record_in, write_snapshot
from lading.iceberg.types import schema_of
from lading.log.table import Table
from lading.model import Place, SnapshotRef
from lading.parts.field_ids import of_log
from lading.snapshots.opening import build_meta, open_members
from lading.snapshots.stores.by_url import store_of
from lading.snapshots.stores.protocol import ManifestStore

NOT_SHOWN: dict[str, Any] = {}  # what a manifest says of its Iceberg twin if there is none, but should be


def show_state(
    cfg: TableConfig, table: Table, run_id: str, store: ManifestStore, current: SnapshotRef | None
) -> tuple[dict[str, Any] | None, str | None]:
    """Write the Iceberg files of what the log holds, for a snapshot manifest to name: what it says of them,
    and why there are none."""
    if not cfg.iceberg:
        return None, None
    state = table.state
    try:
        shown = Shown(
            table.place,
            table.table_id,
            run_id,
            state.sequence,
            state.schema,
            state.order_by,
            pages_of(table.settle()),
        )
        record = write_snapshot(shown, _before(store, current))
    except (LadingError, OSError) as error:
        return NOT_SHOWN, _note(cfg.name, error)
    return msgspec.to_builtins(record), None


def waits_to_be_settled(cfg: TableConfig, place: Place, store: ManifestStore, current: SnapshotRef) -> bool:
    """Whether what readers see was published while the table was not to be shown, or could not be, and has
    parts that can't be. Then it is published once more, which settles them: otherwise each run would open all
    of them only to find the same again."""
    if not cfg.iceberg or is_followed(store, place, current):
        return False
    try:
        if "iceberg" in build_meta(store, current.ref).custom:
            return False
        members = open_members(store, current.ref, place)
    except (ManifestParseError, NotFound):
        return False
    try:
        schema_of(of_log(members.schema))
        return count_unsettled(place, current.ref, members) > 0
    except (LadingError, OSError):
        return False  # whoever tries to show it says why
    finally:
        members.close()


def follow_pointer(
    config: Config, cfg: TableConfig, *, keep: int | None = None, going: Collection[str] | None = None
) -> str | None:
    """Bring what Iceberg readers see to what the pointer says; a note if that didn't work. `keep` and `going`
    are follow's; as many snapshots as lading.yaml keeps unless told. No answer from a store is an error where
    snapshots are going: the metadata may name them still."""
    place = config.place(cfg.name)
    try:
        if cfg.iceberg:
            keep = config.clean.keep_runs if keep is None else keep
            follow(store_of(config, cfg.name), place, keep=keep, going=going)
        elif where(place) is not None:
            stop_following(place)
    except (LadingError, OSError) as error:
        if going and isinstance(error, (StorageError, StoreUnreachable)):
            raise
        return _note(cfg.name, error)
    return None


def _before(store: ManifestStore, current: SnapshotRef | None) -> Record | None:
    if current is None:
        return None
    try:
        return record_in(build_meta(store, current.ref).custom)
    except (ManifestParseError, ManifestGone):
        return None


def _note(table: str, error: LadingError | OSError) -> str:
    told = error.message if isinstance(error, LadingError) else str(error)
    hint = error.hint if isinstance(error, LadingError) and error.hint else "the next run tries again"
    return (
        f"Iceberg readers of {table} don't see this snapshot: {told} ({hint}). lading's own readers do; some "
        "Iceberg readers may see an older one"
    )
