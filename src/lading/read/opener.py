"""From what a caller names (a folder or URL, a store, a cache) to what can be opened."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from lading.config.stores import BUCKETS, scheme_of
from lading.errors import ConfigError
from lading.model import Place
from lading.read.view import FALLBACKS, Opener
from lading.serve.open.cache import DEFAULT_LIMIT, ShardCache
from lading.serve.open.places import RANGES_ABOVE, ShardPlaces
from lading.snapshots.history import Wanted
from lading.snapshots.stores.by_url import store_for
from lading.snapshots.stores.files import LocalStore
from lading.snapshots.stores.protocol import ManifestStore
from lading.storage.bucket import ObjectStorage
from lading.storage.place import place, place_of, storage_of

CACHE_VARIABLE = "LADING_CACHE"


def opener(
    root: str,
    store: ManifestStore | str | None,
    wanted: Wanted,
    *,
    cache: str | os.PathLike[str] | None = None,
    cache_bytes: int | None = None,
    ranges_above: int | None = None,
    fallbacks: int | None = None,
    s3: Mapping[str, str] | None = None,
) -> Opener:
    """How the snapshots of the table at `root` are opened."""
    url = root.rstrip("/") if scheme_of(root) else None
    opened = store_at(root, store, s3)
    where = place_of(root) if url is None else place(url, s3, cache_folder(cache))
    places = ShardPlaces(
        root=None if url is not None else Path(root),
        storage=_storage(where, opened),
        cache=ShardCache(cache_folder(cache), DEFAULT_LIMIT if cache_bytes is None else cache_bytes),
        ranges_above=RANGES_ABOVE if ranges_above is None else ranges_above,
    )
    named = store if isinstance(store, str) else None
    tried = FALLBACKS if fallbacks is None else fallbacks
    return Opener(where, opened, wanted, places, tried, named)


def _storage(root: Place, store: ManifestStore) -> ObjectStorage | None:
    """Where shards in a bucket lie: with the manifests if those are in one, else with the parts."""
    storage = getattr(store, "storage", None)
    if isinstance(storage, ObjectStorage):
        return storage
    found = storage_of(root)
    return found if isinstance(found, ObjectStorage) else None


def store_at(root: str, store: ManifestStore | str | None, s3: Mapping[str, str] | None) -> ManifestStore:
    """The store of the table at `root`: in its own place, or the one that is named."""
    url = root.rstrip("/") if scheme_of(root) else None
    if url is None:
        if store is None:
            return LocalStore(Path(root))
        table = Path(os.path.abspath(root)).name
    else:
        base, _, table = url.rpartition("/")
        if scheme_of(url) not in BUCKETS or not table or base.endswith(":/"):
            raise ConfigError(f"{root!r} is not a table", hint="give its folder, or s3://bucket/prefix/table")
        store = base if store is None else store
    return store_for(store, table, s3=s3) if isinstance(store, str) else store


def where_of(
    folder: str | os.PathLike[str],
    s3: Mapping[str, str] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> Place:
    """The folder or the place in a bucket that somebody names, for a collection."""
    name = os.fspath(folder)
    if "://" not in name:
        return place_of(name)
    bucket, _, prefix = name.partition("://")[2].strip("/").partition("/")
    if scheme_of(name) not in BUCKETS or not bucket or not prefix:
        raise ConfigError(f"{name} can't hold a collection", hint="give a folder, or s3://bucket/prefix")
    return place(name, s3, cache_folder(cache))


def cache_folder(cache: str | os.PathLike[str] | None) -> Path:
    """Nothing is made here before a shard has to be fetched."""
    if cache is not None:
        return Path(cache)
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "lading"
