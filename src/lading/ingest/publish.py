"""The log's state as an immutable snapshot that readers see."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lading.ingest.shard import Served
from lading.ingest.work import Work
from lading.snapshots.manifest import BuildMeta, ShardMeta, build_snapshot
from lading.snapshots.publish import keep_manifest
from lading.snapshots.stores.by_url import store_of
from lading.snapshots.stores.protocol import Published
from lading.state.tables import create_tables, write_state


def publish_snapshot(
    work: Work, gate: dict[str, Any] | None = None, served: Served | None = None
) -> Published:
    """The log's state as an immutable snapshot, then the pointer. `gate` is what its gate found, `served`
    the shards of a table that is served by key.

    Conflict if cleaning took this run for dead meanwhile: files that it knows may be gone. It is asked
    again afterwards, for a run that slept between the question and the pointer.
    """
    work.table.refuse_expired(work.run_id)
    payload = snapshot_payload(work, gate, served)
    store = store_of(work.config, work.name)
    published = store.publish(payload, work.run_id, sequence=work.table.state.sequence)
    work.table.refuse_expired(work.run_id)
    return published


def keep_snapshot(work: Work, gate: dict[str, Any], served: Served | None = None) -> str:
    """The same for a state that the gate refused: written, and nothing points at it. Its reference."""
    store = store_of(work.config, work.name)
    return keep_manifest(store, snapshot_payload(work, gate, served), work.run_id)[0]


def snapshot_payload(work: Work, gate: dict[str, Any] | None, served: Served | None) -> bytes:
    state = work.table.state
    meta = BuildMeta(
        run_id=work.run_id,
        created_at=datetime.now(UTC),
        key_col=state.order_by or "",
        custom={
            "table": work.name,
            "table_id": work.table.table_id,
            "sequence": state.sequence,
            "recipe": state.meta.recipe,
            "rows": state.row_count(),
            "parts": state.count(),
            **({"gate": gate} if gate is not None else {}),
        },
    )
    shards: tuple[ShardMeta, ...] = ()
    if served is not None:
        meta, shards = served.described(meta), served.shards
    return build_snapshot(
        meta, shards, lambda con: write_state(con, state.meta, state.columns()), tables=create_tables
    )
