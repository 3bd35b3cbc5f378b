"""Where a table's snapshots go: `store:` of lading.yaml, or the table's own place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lading.config.project import Config
from lading.config.stores import local_path, scheme_of
from lading.model import Place
from lading.snapshots.stores.by_url import store_for
from lading.snapshots.stores.local import LocalStore
from lading.snapshots.stores.protocol import ManifestStore
from lading.storage.place import Where, place


def store_of(config: Config, name: str) -> ManifestStore:
    where = config.place(name)
    if config.store is None and isinstance(where, Path):
        return LocalStore(where)
    return store_for(config.store or str(config.warehouse), name, s3=config.s3, postgres=config.postgres)


def beside_the_data(config: Config, name: str) -> Where | None:
    """Where a store of folders or objects keeps this table's manifests, and in a bucket its shards too; None
    if that is the table's own place, or no place of files."""
    if config.store is None or scheme_of(config.store) not in ("", "file", "s3"):
        return None
    found: Where
    if scheme_of(config.store) == "s3":
        found = place(f"{config.store.rstrip('/')}/{name}", config.s3)
    else:
        found = Path(local_path(config.store)) / name
    return None if str(found) == str(config.place(name)) else found


def lies_below(places: Sequence[Where], url: str) -> tuple[Where, str] | None:
    """Which of `places` the path or URL `url` lies in, and its path there; a path starts from the first of
    them. None if it is in none: somebody else wrote it."""
    steps = url.partition("://")[2].split("/") if "://" in url else url.split("/")
    if any(step in ("", ".", "..") for step in steps):
        return None
    if "://" not in url:
        return places[0], url
    for one in places:
        if isinstance(one, Place) and url.startswith(f"{one.url}/"):
            return one, url.removeprefix(f"{one.url}/")
    return None
