"""The log's state as an immutable snapshot that readers see."""

from __future__ import annotations

from datetime import UTC, datetime

from lading.format.members import write_state
from lading.format.snapshot import BuildMeta, build_snapshot
from lading.snapshots.stores.local import LocalStore
from lading.snapshots.stores.protocol import Published
from lading.steps.work import Work


def publish_snapshot(work: Work) -> Published:
    """The log's state as an immutable snapshot, then the pointer."""
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
        },
    )
    payload = build_snapshot(meta, (), lambda con: write_state(con, state.meta, state.columns()))
    return LocalStore(work.table.folder).publish(payload, work.run_id, sequence=state.sequence)
