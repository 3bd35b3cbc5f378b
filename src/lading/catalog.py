"""What a table holds. Here: the table manifest as crv.io knows it; nothing heavy is imported for it."""

from lading.log.table_manifest import load_manifest as load
from lading.log.table_manifest import rebuild
from lading.log.table_manifest import write_manifest as write
from lading.log.table_manifest_text import PartitionMeta, PartMeta, TableManifest, update_with_new_part
from lading.log.table_manifest_text import new_manifest as new

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
