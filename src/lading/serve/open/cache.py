"""Shards from an object store, kept on disk: each downloaded once, shared by processes, bounded in bytes.

Files are named by their SHA-256, so nothing in the cache can go stale, and one that was damaged is
noticed and fetched again. Whoever reads a file holds a shared lock on it; whoever needs room removes
what was used longest ago and is locked by nobody. So the folder exceeds its limit only by what is in use.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lading import clock
from lading.errors import ShardError
from lading.layout.beside import fresh_temporary, is_temporary, lock_of
from lading.serve.open.file import Identity, proven
from lading.storage.folder import is_locked, locked

DEFAULT_LIMIT = 8 << 30

_ABANDONED = 3600.0  # seconds after which a download that nobody finished is removed
_STRIPES = 64
_HEX = re.compile("[0-9a-f]{4}")


@dataclass(frozen=True, slots=True)
class Lease:
    """A cached file that stays where it is until `release`."""

    path: Path
    identity: Identity
    _fd: int

    def release(self) -> None:
        os.close(self._fd)


class ShardCache:
    """A folder of shards. Any number of processes may share one."""

    def __init__(self, folder: Path, limit: int = DEFAULT_LIMIT) -> None:
        self.folder = folder
        self.limit = limit

    def lease(
        self, content: str, size: int, download: Callable[[Path], None], *, proof: bool = True
    ) -> Lease:
        """The shard with this content; `download` fetches it when nobody has yet. `content` is its SHA-256,
        or, without `proof`, one of whatever stands for it: then only its size is compared."""
        path = self.folder / f"{content}.db"
        sha256 = content if proof else None
        with self._one_at_a_time(content):
            held = self._cached(path, size, sha256)
            if held is None:
                self._make_room(size)
                held = self._downloaded(path, size, sha256, download)
            _mark_used(path)
            return held

    def _cached(self, path: Path, size: int, sha256: str | None) -> Lease | None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH)
            identity = proven(path, size, sha256)
            status = os.fstat(fd)
            if (status.st_dev, status.st_ino) == identity[:2]:
                return Lease(path, identity, fd)
        except ShardError:
            path.unlink(missing_ok=True)  # damaged, or removed before it was locked: fetched again
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        return None

    def _downloaded(
        self, path: Path, size: int, sha256: str | None, download: Callable[[Path], None]
    ) -> Lease:
        beside = path.with_name(fresh_temporary(path.stem))
        try:
            download(beside)
            fd = os.open(beside, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_SH)  # of the file, whatever it is called: nobody evicts it
                proven(beside, size, sha256)
                os.replace(beside, path)
                return Lease(path, proven(path, size, sha256), fd)
            except BaseException:
                os.close(fd)
                raise
        finally:
            beside.unlink(missing_ok=True)

    def _make_room(self, size: int) -> None:
        """Remove what was used longest ago until `size` more bytes fit, or the rest is in use."""
        with locked(self.folder / lock_of("evict")):
            found = sorted(self._files())
            total = size + sum(bytes_ for _, bytes_, _ in found)
            for _, bytes_, path in found:
                if total <= self.limit:
                    return
                if _removed(path):
                    total -= bytes_

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """(last use, bytes, path) of every shard; what a killed process left behind is cleared away."""
        for entry in os.scandir(self.folder):
            path = Path(entry.path)
            with contextlib.suppress(FileNotFoundError):
                if entry.name.endswith(".db"):
                    status = entry.stat()
                    yield _last_use(path, status), status.st_size, path
                elif is_temporary(entry.name) and self._is_abandoned(entry):
                    path.unlink(missing_ok=True)

    def _is_abandoned(self, entry: os.DirEntry[str]) -> bool:
        """Whoever downloads holds the lock of its content, also if that takes a machine's sleep longer than
        it should."""
        if clock.now().timestamp() - entry.stat().st_mtime <= _ABANDONED:
            return False
        return not is_locked(self._lock_of(entry.name.lstrip(".")))

    @contextlib.contextmanager
    def _one_at_a_time(self, content: str) -> Iterator[None]:
        with locked(self._lock_of(content)):
            yield

    def _lock_of(self, content: str) -> Path:
        stripe = int(content[:4], 16) % _STRIPES if _HEX.match(content) else 0
        return self.folder / "locks" / lock_of(f"{stripe:02}")


def _mark_used(path: Path) -> None:
    """Beside the shard: touching the shard itself would make it look like another file."""
    mark = path.with_suffix(".used")
    with open(mark, "ab"):
        os.utime(mark)


def _last_use(path: Path, status: os.stat_result) -> float:
    try:
        return path.with_suffix(".used").stat().st_mtime
    except FileNotFoundError:
        return status.st_mtime


def _removed(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
        path.with_suffix(".used").unlink(missing_ok=True)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
