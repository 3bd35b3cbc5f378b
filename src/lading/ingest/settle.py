"""Rewriting the parts that Iceberg readers couldn't read as lading does, before a snapshot is published.

lading itself converts such parts on reading; an Iceberg reader can't, so a change of a column's type that is
more than one of Iceberg's widenings costs a rewrite of the parts that hold it (never a second reading of
source files). It is a commit of its own, by the rules of a merge: whoever changed one of the parts meanwhile
wins, and the next run settles the rest.
"""

from __future__ import annotations

import pyarrow as pa

from lading.config.project import TableConfig
from lading.errors import CommitUnknown, Conflict, LadingError, ManifestGone, ManifestParseError
from lading.iceberg.settled import renumbered, unsettled
from lading.iceberg.snapshot import record_in
from lading.ingest.commit import commit_keeping
from lading.ingest.table_run import new_id, now_text
from lading.layout.table import is_part_of
from lading.log.table import Table
from lading.model import Commit, Member, SnapshotRef
from lading.parts.field_ids import of_log
from lading.parts.rewrite import rewrite_members
from lading.snapshots.opening import build_meta_and_schema
from lading.snapshots.stores.protocol import ManifestStore


def settle_parts(
    cfg: TableConfig,
    table: Table,
    run_id: str,
    kept: set[str],
    store: ManifestStore,
    current: SnapshotRef | None,
) -> bool:
    """Commit rewritten parts in place of those that can't be shown, and add them to `kept`. False if that
    could not be done: then the table can't be shown either, but published all the same."""
    if not cfg.iceberg or not table.state.schema:
        return True
    try:
        return _settled(table, run_id, kept, store, current)
    except CommitUnknown:
        raise  # nobody knows what the log holds now
    except (LadingError, OSError):
        return False  # whoever tries to show it says why


def _settled(
    table: Table, run_id: str, kept: set[str], store: ManifestStore, current: SnapshotRef | None
) -> bool:
    schema = of_log(table.state.schema)
    columns = _suspects(schema, store, current)
    if columns is not None and not columns:
        return True
    state = table.state
    members = [
        member
        for page in state.pages()  # never all members at once
        for member in unsettled(
            table.place, schema, state.members_in(page), columns, lambda path: is_part_of(path, run_id)
        )
    ]
    return not members or _rewrite(table, run_id, kept, members)


def _suspects(schema: pa.Schema, store: ManifestStore, current: SnapshotRef | None) -> list[str] | None:
    """The columns that parts may hold in another type; None: any of them. What readers see was settled when
    it was shown."""
    if current is None:
        return None
    try:
        meta, before = build_meta_and_schema(store, current.ref)
    except (ManifestParseError, ManifestGone):
        return None
    return renumbered(of_log(before), schema) if before and record_in(meta.custom) is not None else None


def _rewrite(table: Table, run_id: str, kept: set[str], members: list[Member]) -> bool:
    """False: somebody else changed one of them meanwhile; whoever publishes that settles them."""
    state, commit_id = table.state, new_id()
    new = rewrite_members(
        table.place,
        members,
        frozenset(),
        table_id=table.table_id,
        run_id=run_id,
        commit_id=commit_id,
        order_by=state.order_by,
        schema=of_log(state.schema).serialize().to_pybytes(),
    )
    paths = tuple(member.path for member in members)
    commit = Commit(commit_id, run_id, now_text(), state.meta.recipe, add=tuple(new), remove=paths)
    try:
        commit_keeping(table, commit, kept)
    except Conflict:
        return False
    return True
