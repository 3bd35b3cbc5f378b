"""Reading snapshots from asynchronous code: what the pointer names, a manifest, the list of them.

There is nothing here that writes: runs are synchronous. A bucket is read through obstore's own asynchronous
calls; any other store in a thread, so that no logic exists twice.
"""

from __future__ import annotations

import asyncio

from lading.errors import StorageError
from lading.layout.table import MANIFESTS, POINTER
from lading.model import SnapshotRef
from lading.snapshots.pointer import MALFORMED, POINTER_LIMIT
from lading.snapshots.stores.files import BucketStore, unreadable
from lading.snapshots.stores.protocol import ManifestStore
from lading.state.sqlite import SNAPSHOT_LIMIT
from lading.storage.protocol import in_folders


class AsyncBucketStore:
    """Reads what `store` keeps in a bucket."""

    def __init__(self, store: BucketStore) -> None:
        self._store = store
        self._storage = store.storage

    async def load_current(self) -> SnapshotRef | None:
        try:
            return self._store.pointer(await self._storage.get_async(POINTER, limit=POINTER_LIMIT))
        except FileNotFoundError:
            return None
        except StorageError as error:
            raise unreadable(f"{self._store.url}/{POINTER}", error, MALFORMED) from error

    async def load_manifest(self, ref: str) -> bytes:
        name = self._store.name_of(ref)
        try:
            return await self._storage.get_async(name, limit=SNAPSHOT_LIMIT)
        except (FileNotFoundError, StorageError) as error:
            raise unreadable(ref, error) from error

    async def list_manifests(self, *, limit: int | None = None) -> list[SnapshotRef]:
        try:
            listed = await self._storage.list_async(MANIFESTS)
        except StorageError as error:
            raise unreadable(f"{self._store.url}/{MANIFESTS}", error) from error
        folders = in_folders(listed, MANIFESTS, self._store.manifest_name)
        return list(self._store.in_folders(reversed(folders)))[:limit]


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
