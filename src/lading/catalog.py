"""The Python door to `manifest.json`, a table's state as crv.io knows it; quick to import."""

from __future__ import annotations

import os
from pathlib import Path

from lading.log.table_manifest import load_manifest as load
from lading.log.table_manifest import manifest_of, rebuild_manifest
from lading.log.table_manifest import write_manifest as write
from lading.log.table_manifest_text import PartitionMeta, PartMeta, TableManifest, update_with_new_part
from lading.log.table_manifest_text import new_manifest as new
from lading.storage.place import folder_of

__all__ = [
    "PartMeta",
    "PartitionMeta",
    "TableManifest",
    "load",
    "new",
    "rebuild",
    "update_with_new_part",
    "write",
]


def rebuild(table_dir: str | Path, table: str | None = None, order_by: str | None = None) -> TableManifest:
    """Rebuild the manifest of a table whose manifest.json is lost or outdated; writes nothing.

    Uses the log and checkpoint, else the snapshot that `_CURRENT` names, else the part files, which can't
    tell which of them were replaced.
    """
    from lading.log.table import Table
    from lading.upkeep.salvage import salvaged_state

    table_dir = folder_of(table_dir)
    name = table or os.path.basename(os.path.abspath(table_dir))
    if Table.exists(table_dir):
        state = Table.open(table_dir).state
    elif (found := salvaged_state(table_dir)) is not None:
        state = found.state
    else:
        return rebuild_manifest(table_dir, name, order_by)
    meta = state.meta
    members = state.in_order_added()
    return manifest_of(table or meta.table, members, created_at=meta.created_at, updated_at=meta.at)
