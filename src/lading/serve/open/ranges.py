"""A shard read where it lies in an object store, a range at a time: for one too large to be fetched.

SQLite asks a file system of ours for the pages that a lookup needs, and gets them from a small cache or
by a range request. The whole file can't be hashed that way; instead its size has to be the published
one and every range has to come from the one object (by ETag) that was there when it was opened.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from typing import Any

from lading.errors import LadingError, MissingExtra, ShardError, StorageError
from lading.serve.open.file import HINT
from lading.serve.shard_file import Cursor, apsw_or_none
from lading.storage.bucket import ObjectStorage

BLOCK = 64 << 10  # bytes a request: the round trip costs more than the bytes
BLOCKS_KEPT = 512  # a shard

_VFS_NAME = "lading-ranges"

_objects: dict[str, RangedObject] = {}
_numbers = itertools.count()
_vfs_lock = threading.Lock()
_vfs: Any = None


class RangedObject:
    """One immutable object, in blocks."""

    def __init__(self, storage: ObjectStorage, name: str, size: int) -> None:
        try:
            seen = storage.head(name)
        except FileNotFoundError as error:
            raise ShardError(f"the shard {storage.url}/{name} is missing", hint=HINT) from error
        self.location = f"{storage.url}/{name}"
        if seen.size != size:
            raise ShardError(
                f"{self.location} is not the shard that was published: it has {seen.size} bytes, "
                f"the published one {size}",
                hint=HINT,
            )
        self.size = seen.size
        self._etag = seen.etag
        self._storage = storage
        self._name = name
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()
        self.key = f"{next(_numbers)}.db"
        _objects[self.key] = self

    def read(self, start: int, length: int) -> bytes:
        """The bytes from `start` on; fewer at the end."""
        end = min(start + length, self.size)
        if start >= end:
            return b""
        first = start // BLOCK
        found = b"".join(self._block(number) for number in range(first, (end - 1) // BLOCK + 1))
        return found[start - first * BLOCK : end - first * BLOCK]

    def connect(self) -> Cursor:
        """A cursor on this object; asking it reads ranges."""
        apsw = _apsw()
        connection = apsw.Connection(
            f"file:/{self.key}?immutable=1",
            flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
            vfs=_registered(apsw),
        )
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            tables = connection.execute("SELECT type FROM sqlite_master WHERE name = 'kv'").fetchall()
        except apsw.Error as error:
            connection.close()
            raise ShardError(f"{self.location} can't be used: {error}", hint=HINT) from error
        except BaseException:
            connection.close()
            raise
        if tables != [("table",)]:
            connection.close()
            raise ShardError(f"{self.location} has no table kv", hint=HINT)
        return connection.cursor()

    def close(self) -> None:
        _objects.pop(self.key, None)

    def _block(self, number: int) -> bytes:
        with self._lock:
            found = self._blocks.get(number)
            if found is not None:
                self._blocks.move_to_end(number)
                return found
        start = number * BLOCK
        found = self._fetched(start, min(BLOCK, self.size - start))
        with self._lock:
            self._blocks[number] = found
            while len(self._blocks) > BLOCKS_KEPT:
                self._blocks.popitem(last=False)
        return found

    def _fetched(self, start: int, length: int) -> bytes:
        try:
            found = self._storage.get_range(self._name, start, length, etag=self._etag)
        except FileNotFoundError as error:
            raise ShardError(f"the shard {self.location} is missing", hint=HINT) from error
        except StorageError as error:
            raise ShardError(
                f"the shard {self.location} can't be read: {error.message}", hint=HINT
            ) from error
        if len(found) != length:
            raise ShardError(f"{self.location}: {len(found)} bytes instead of {length}", hint=HINT)
        return found


def failure_of(error: Exception) -> LadingError | None:
    """The error of ours behind what SQLite raised."""
    cause: BaseException | None = error
    for _ in range(10):
        if cause is None or isinstance(cause, LadingError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None


def _apsw() -> Any:
    apsw = apsw_or_none()
    if apsw is None:
        raise MissingExtra(
            "a shard that is too large for the cache is read by ranges, which needs apsw",
            hint="pip install 'lading[s3]', or raise the limit of the cache",
        )
    return apsw


def _registered(apsw: Any) -> str:
    global _vfs
    with _vfs_lock:
        if _vfs is None:
            _vfs = _make_vfs(apsw)
    return _VFS_NAME


def _make_vfs(apsw: Any) -> Any:
    """A file system with nothing in it but the objects that are open now."""

    class RangeVFS(apsw.VFS):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(_VFS_NAME, base="")

        def xOpen(self, name: Any, flags: list[int]) -> _RangeFile:  # noqa: N802 (SQLite's names)
            path = name.filename() if hasattr(name, "filename") else str(name)
            found = _objects.get(path.rpartition("/")[2])
            if found is None:
                raise apsw.CantOpenError(path)
            flags[1] = flags[0]
            return _RangeFile(found, apsw.SQLITE_IOCAP_IMMUTABLE)

        def xFullPathname(self, name: str) -> str:  # noqa: N802
            return name

        def xAccess(self, name: str, flags: int) -> bool:  # noqa: N802
            return False

        def xDelete(self, name: str, sync: bool) -> None:  # noqa: N802
            raise apsw.ReadOnlyError(name)

    return RangeVFS()


class _RangeFile:
    """What SQLite calls an open file. It is never written, so every lock is granted."""

    def __init__(self, source: RangedObject, characteristics: int) -> None:
        self._source = source
        self._characteristics = characteristics

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        return self._source.read(offset, amount)

    def xFileSize(self) -> int:  # noqa: N802
        return self._source.size

    def xClose(self) -> None:  # noqa: N802
        return None

    def xLock(self, level: int) -> None:  # noqa: N802
        return None

    def xUnlock(self, level: int) -> None:  # noqa: N802
        return None

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:  # noqa: N802
        return False

    def xSectorSize(self) -> int:  # noqa: N802
        return 4096

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return self._characteristics
