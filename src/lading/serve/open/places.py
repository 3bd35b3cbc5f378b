"""Where a table's shards lie and how one is opened: on disk, fetched into the cache, or read by ranges.

A manifest may come from a bucket that others write to, so what it says of places is believed only below
the table's own root: the directory that was opened, or the store's URL.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec

from lading.errors import ShardError
from lading.layout.table import SHARD
from lading.serve.open.cache import ShardCache
from lading.serve.open.file import HINT, check_size, checksum_of, connect, local_path, proven
from lading.serve.open.ranges import RangedObject
from lading.serve.open.shard import Shard
from lading.snapshots.manifest import ShardMeta
from lading.storage.bucket import ObjectStorage
from lading.storage.protocol import Named

RANGES_ABOVE = 1 << 30  # bytes; larger shards are read where they lie


@dataclass(frozen=True, slots=True)
class ShardPlaces:
    """The roots that shards of one table may lie below, and how those from afar are read."""

    root: Path | None
    storage: ObjectStorage | None = None
    cache: ShardCache | None = None
    ranges_above: int = RANGES_ABOVE
    prefix: str = ""  # the URL below which the writer put the table

    def copied_from(self, prefix: str) -> ShardPlaces:
        """The same for a manifest that says it was written below `prefix`."""
        return replace(self, prefix=prefix.rstrip("/"))

    def open(self, shard: ShardMeta) -> Shard:
        """The shard, shown to be the published one. Nothing of it has been asked yet."""
        shard = self._here(shard)
        if "://" in (shard.db_url or ""):
            return self._remote(shard)
        sha256 = checksum_of(shard)
        path = self._path(shard)
        identity = proven(path, shard.db_bytes, sha256)
        return Shard(str(path), partial(connect, path, identity))

    def look(self, shard: ShardMeta) -> None:
        """Whether its file is there and as long as it should be, without reading it; else ShardError."""
        checksum_of(shard)
        shard = self._here(shard)
        if "://" in (shard.db_url or ""):
            storage, name = self._object(shard)
            _check_object(storage, name, shard.db_bytes)
        else:
            check_size(self._path(shard), shard.db_bytes)

    def _here(self, shard: ShardMeta) -> ShardMeta:
        """A table that was copied out of its bucket into a folder: its manifests name the bucket, its shards
        lie where they lay there, seen from the root."""
        url = shard.db_url or ""
        if self.root is None or self.storage is not None or not self.prefix:
            return shard
        if not url.startswith(f"{self.prefix}/"):
            return shard
        return msgspec.structs.replace(shard, db_url=url.removeprefix(f"{self.prefix}/"))

    def _path(self, shard: ShardMeta) -> Path:
        if self.root is None:
            raise ShardError(
                f"shard {shard.db_id} is at {shard.db_url!r}, but this table has no folder",
                hint="open the table by its folder",
            )
        return local_path(self.root, shard)

    def _remote(self, shard: ShardMeta) -> Shard:
        storage, name = self._object(shard)
        sha256 = checksum_of(shard)
        seen = _check_object(storage, name, None) if shard.db_bytes is None else None
        size = seen.size if seen is not None else shard.db_bytes or 0
        if self.cache is None or size > min(self.ranges_above, self.cache.limit):
            whole = RangedObject(storage, name, size)
            return Shard(whole.location, whole.connect, whole.close, near=False)
        content = sha256 or _name_of(storage, name, seen)
        download = partial(_download, storage, name, size)
        lease = self.cache.lease(content, size, download, proof=sha256 is not None)
        opened = partial(connect, lease.path, lease.identity)
        return Shard(f"{storage.url}/{name}", opened, lease.release, leased=size)

    def _object(self, shard: ShardMeta) -> tuple[ObjectStorage, str]:
        url = shard.db_url or ""
        below = self.storage is not None and url.startswith(f"{self.storage.url}/")
        steps = url.partition("://")[2].split("/")
        if self.storage is None or not below or any(step in ("", ".", "..") for step in steps):
            raise ShardError(
                f"shard {shard.db_id} is said to be at {url!r}, which is not below the table's root",
                hint="someone edited the manifest: roll back to an earlier snapshot",
            )
        return self.storage, f"{url.removeprefix(f'{self.storage.url}/')}/{SHARD}"


def _download(storage: ObjectStorage, name: str, size: int, file: Path) -> None:
    """Not before its size is right: a stranger's object could fill the disk."""
    _check_object(storage, name, size)
    try:
        storage.download(name, file)
    except FileNotFoundError as error:
        raise _missing(storage, name) from error


def _check_object(storage: ObjectStorage, name: str, size: int | None) -> Named:
    try:
        found = storage.head(name)
    except FileNotFoundError as error:
        raise _missing(storage, name) from error
    if size is not None and found.size != size:
        raise ShardError(
            f"{storage.url}/{name} is not the shard that was published: it has {found.size} bytes, "
            f"the published one {size}",
            hint=HINT,
        )
    return found


def _name_of(storage: ObjectStorage, name: str, seen: Named | None) -> str:
    """What stands for the content of an object without a checksum: which one it is, and of which write."""
    seen = seen or _check_object(storage, name, None)
    return hashlib.sha256(f"{storage.url}/{name}\n{seen.etag}\n{seen.size}".encode()).hexdigest()


def _missing(storage: ObjectStorage, name: str) -> ShardError:
    return ShardError(f"the shard {storage.url}/{name} is missing", hint=HINT)
