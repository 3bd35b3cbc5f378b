"""Why readers see less than the log holds: somebody who isn't lading moved the pointer."""

from __future__ import annotations

from typing import Any

from lading.config.project import Config
from lading.errors import ManifestGone, ManifestParseError, PublishCurrentError
from lading.log.table import Table
from lading.model import SnapshotRef
from lading.serve.changed import serve_spec, told_by, told_spec
from lading.snapshots.history import gate_failures
from lading.snapshots.opening import build_meta
from lading.snapshots.stores.by_url import store_of
from lading.snapshots.stores.protocol import ManifestStore


def left_where_it_was_put(
    store: ManifestStore, table: Table, spec: str | None, current: SnapshotRef
) -> str | None:
    """What to say when somebody who isn't lading moved the pointer, and all that lading has to show was
    published before: then a run without changes leaves the pointer alone. None if it is lading's own, or if
    there is something new to publish."""
    if current.swap_id:
        return None
    mine = _last_published(store, table)
    if mine is None or mine[0].ref == current.ref or mine[1] != spec:
        return None
    return (
        f"readers see run {current.run_id}: someone else moved the pointer there, and it stays until rows "
        f"change. To show what lading published last: lading publish {table.state.meta.table} "
        f"--run {mine[0].run_id}"
    )


def refuse_another_table(config: Config, store: ManifestStore, table: Table, current: SnapshotRef) -> None:
    """PublishCurrentError if readers see a snapshot of a table that isn't this one: how far that one had got
    says nothing of whether this one's rows are shown."""
    name = table.state.meta.table
    try:
        other = told_by(config, name, store, current).table_id
    except (ManifestParseError, ManifestGone):
        return  # damaged: what is published next takes its place
    if other not in (None, table.table_id):
        raise PublishCurrentError(
            f"readers of {name} see a snapshot of another table of that name",
            hint=f"if {name} was removed and made anew: lading repair {name}; if another project publishes "
            "to this store too: give one of them another `store`",
            table=name,
        )


def moved_by_others(config: Config, name: str, table: Table, current: SnapshotRef) -> str | None:
    """The same of a table by its name; None, too, for one that lading.yaml doesn't have."""
    if name not in config.tables:
        return None
    spec = serve_spec(config.table(name).serve, table.state)
    return left_where_it_was_put(store_of(config, name), table, spec, current)


def _last_published(store: ManifestStore, table: Table) -> tuple[SnapshotRef, str | None] | None:
    """The newest snapshot with all that the table's log holds, unless its gate refused it, and how it is
    served."""
    for listed in store.list_manifests():
        try:
            custom = build_meta(store, listed.ref).custom
        except ManifestParseError:
            continue  # whatever it was, nobody can read it
        if custom.get("table_id") != table.table_id:
            continue
        return (listed, told_spec(custom)) if holds(custom, table) and not gate_failures(custom) else None
    return None


def holds(custom: dict[str, Any], table: Table) -> bool:
    """Whether a snapshot has all that the log holds."""
    sequence = custom.get("sequence")
    return isinstance(sequence, int) and sequence >= table.state.meta.data_sequence
