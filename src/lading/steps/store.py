"""Where a table's snapshots go: `store:` of lading.yaml, or the table's own place."""

from __future__ import annotations

from pathlib import Path

from lading.config.project import Config
from lading.snapshots.stores.by_url import store_for
from lading.snapshots.stores.local import LocalStore
from lading.snapshots.stores.protocol import ManifestStore


def store_of(config: Config, name: str) -> ManifestStore:
    place = config.place(name)
    if config.store is None and isinstance(place, Path):
        return LocalStore(place)
    return store_for(config.store or str(config.warehouse), name, s3=config.s3, postgres=config.postgres)
