"""Reading snapshots from asynchronous code: what the pointer names, a manifest, the list of them.

There is nothing here that writes: runs are synchronous. S3 is read through obstore's own asynchronous
calls; any other store in a thread, so that no logic exists twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from lading.errors import StorageError
from lading.layout.table import MANIFEST, MANIFESTS, POINTER
from lading.model import SnapshotRef
from lading.snapshots.pointer import MALFORMED, POINTER_LIMIT
from lading.snapshots.stores.protocol import ManifestStore
from lading.snapshots.stores.s3 import Names, unreadable
from lading.state.sqlite import SNAPSHOT_LIMIT
from lading.storage.bucket import ObjectStorage


class AsyncS3Store:
    """Reads the table whose root is the URL `s3://bucket/prefix`."""

    def __init__(
        self, url: str, options: Mapping[str, str] | None = None, *, manifest_name: str = MANIFEST
    ) -> None:
        self._storage = ObjectStorage(url, options)
        self._names = Names(self._storage.url, manifest_name)

    async def load_current(self) -> SnapshotRef | None:
        try:
            return self._names.pointer(await self._storage.get_async(POINTER, limit=POINTER_LIMIT))
        except FileNotFoundError:
            return None
        except StorageError as error:
            raise unreadable(f"{self._names.url}/{POINTER}", error, MALFORMED) from error

    async def load_manifest(self, ref: str) -> bytes:
        name = self._names.name(ref)
        try:
            return await self._storage.get_async(name, limit=SNAPSHOT_LIMIT)
        except (FileNotFoundError, StorageError) as error:
            raise unreadable(ref, error) from error

    async def list_manifests(self, *, limit: int | None = None) -> list[SnapshotRef]:
        try:
            return self._names.listed(await self._storage.list_async(MANIFESTS))[:limit]
        except StorageError as error:
            raise unreadable(f"{self._names.url}/{MANIFESTS}", error) from error


class AsyncOver:
    """Reads any store, each call in a thread."""

    def __init__(self, store: ManifestStore) -> None:
        self._store = store

    async def load_current(self) -> SnapshotRef | None:
        return await asyncio.to_thread(self._store.load_current)

    async def load_manifest(self, ref: str) -> bytes:
        return await asyncio.to_thread(self._store.load_manifest, ref)

    async def list_manifests(self, *, limit: int | None = None) -> list[SnapshotRef]:
        return await asyncio.to_thread(lambda: self._store.list_manifests(limit=limit))
