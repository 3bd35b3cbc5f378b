"""The store of a table by URL: the one place that knows which store a URL means.

A URL names the place for all tables of a project; each table has its own folder, prefix or set of
SQL tables in it. Libraries for S3 and PostgreSQL are imported only when a URL asks for them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from lading.config.project import Config
from lading.config.stores import BUCKETS, POSTGRES_SCHEMES, PostgresNames, local_path, scheme_of, url_problem
from lading.errors import ConfigError
from lading.model import Place
from lading.snapshots.stores.files import BucketStore, LocalStore, MemoryStore
from lading.snapshots.stores.protocol import AsyncManifestStore, ManifestStore
from lading.storage.place import place, storage_of

_memory: dict[tuple[str, str], MemoryStore] = {}
_memory_lock = threading.Lock()


def store_for(
    url: str,
    table: str,
    *,
    s3: Mapping[str, str] | None = None,
    postgres: PostgresNames | None = None,
) -> ManifestStore:
    """The store of `table` at `url`: a folder or file://, a bucket, postgresql://, memory:// (tests only)."""
    scheme = _scheme(url)
    if scheme in BUCKETS:
        return BucketStore(f"{url.rstrip('/')}/{table}", s3)
    if scheme in POSTGRES_SCHEMES:
        from lading.snapshots.stores.postgres.store import PostgresStore

        return PostgresStore(url, table, postgres)
    if scheme == "memory":
        with _memory_lock:
            return _memory.setdefault((url, table), MemoryStore())
    return LocalStore(Path(local_path(url)) / table)


def async_store_for(
    url: str,
    table: str,
    *,
    s3: Mapping[str, str] | None = None,
    postgres: PostgresNames | None = None,
) -> AsyncManifestStore:
    """The same place for asynchronous readers; nothing that they get can write."""
    from lading.snapshots.stores.asynchronous import AsyncBucketStore, AsyncOver

    store = store_for(url, table, s3=s3, postgres=postgres)
    return AsyncBucketStore(store) if isinstance(store, BucketStore) else AsyncOver(store)


def _scheme(url: str) -> str:
    problem = url_problem(url)
    if problem:
        raise ConfigError(f"the store's URL {problem}", hint="correct it; nothing was read or written")
    return scheme_of(url)


def store_of(config: Config, name: str) -> ManifestStore:
    where = config.place(name)
    if config.store is None and (folder := storage_of(where).folder) is not None:
        return LocalStore(folder)
    return store_for(config.store or str(config.warehouse), name, s3=config.s3, postgres=config.postgres)


def beside_the_data(config: Config, name: str) -> Place | None:
    """Where a store of folders or objects keeps this table's manifests, and in a bucket its shards too; None
    if that is the table's own place, or no place of files."""
    if config.store is None or scheme_of(config.store) not in ("", "file", *BUCKETS):
        return None
    found = place(f"{local_path(config.store).rstrip('/')}/{name}", config.s3)
    return None if found.url == config.place(name).url else found


def lies_below(places: Sequence[Place], url: str) -> tuple[Place, str] | None:
    """Which of `places` the path or URL `url` lies in, and its path there; a path starts from the first of
    them. None if it is in none: somebody else wrote it."""
    steps = url.partition("://")[2].split("/") if "://" in url else url.split("/")
    if any(step in ("", ".", "..") for step in steps):
        return None
    if "://" not in url:
        return places[0], url
    for one in places:
        if url.startswith(f"{one.url}/"):
            return one, url.removeprefix(f"{one.url}/")
    return None
