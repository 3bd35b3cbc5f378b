"""The store of a table by URL: the one place that knows which store a URL means.

A URL names the place for all tables of a project; each table has its own folder, prefix or set of
SQL tables in it. Libraries for S3 and PostgreSQL are imported only when a URL asks for them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from lading.config.stores import POSTGRES_SCHEMES, PostgresNames, local_path, scheme_of, url_problem
from lading.errors import ConfigError
from lading.snapshots.stores.local import LocalStore
from lading.snapshots.stores.memory import MemoryStore
from lading.snapshots.stores.protocol import AsyncManifestStore, ManifestStore

_memory: dict[tuple[str, str], MemoryStore] = {}
_memory_lock = threading.Lock()


def store_for(
    url: str,
    table: str,
    *,
    s3: Mapping[str, str] | None = None,
    postgres: PostgresNames | None = None,
) -> ManifestStore:
    """The store of `table` at `url`: a folder or file://, s3://, postgresql://, memory:// (tests only)."""
    scheme = _scheme(url)
    if scheme == "s3":
        from lading.snapshots.stores.s3 import S3Store

        return S3Store(f"{url.rstrip('/')}/{table}", s3)
    if scheme in POSTGRES_SCHEMES:
        from lading.snapshots.stores.postgres import PostgresStore

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
    from lading.snapshots.stores.asynchronous import AsyncOver, AsyncS3Store

    if _scheme(url) == "s3":
        return AsyncS3Store(f"{url.rstrip('/')}/{table}", s3)
    return AsyncOver(store_for(url, table, s3=s3, postgres=postgres))


def _scheme(url: str) -> str:
    problem = url_problem(url)
    if problem:
        raise ConfigError(f"the store's URL {problem}", hint="correct it; nothing was read or written")
    return scheme_of(url)
