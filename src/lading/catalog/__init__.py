"""What a table holds. Here: the table manifest as crv.io knows it; nothing heavy is imported for it."""

from lading.catalog.manifest import load_manifest as load
from lading.catalog.manifest import rebuild
from lading.catalog.manifest import write_manifest as write
from lading.format.table_manifest import PartitionMeta, PartMeta, TableManifest, update_with_new_part
from lading.format.table_manifest import new_manifest as new

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
