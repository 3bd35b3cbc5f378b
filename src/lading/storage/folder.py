"""Durable bytes on the local file system: whole or not at all, and on disk before anyone is told.

Every durable write of lading goes through this file, so a crash test has one place to interrupt.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from lading.errors import StorageError
from lading.layout.beside import fresh_temporary, temporary_of
from lading.model import Place
from lading.storage.place import Where, storage_of

# What a disk says when it is full, broken, or not ours to write to; anything else is the program's mistake.
_NOT_OURS = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room, or ask for a larger quota",
    errno.EROFS: "mount it for writing, or choose another folder",
    errno.EACCES: "check whose it is and its permissions",
    errno.EPERM: "check whose it is and its permissions",
    errno.EIO: "check the disk",
    errno.ENOTDIR: "move the file out of the way, or choose another folder",
    errno.EISDIR: "move the folder out of the way, or name a file",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "mend the links, or choose another folder",
    errno.EMFILE: "allow more open files (ulimit -n)",
    errno.ENFILE: "allow more open files",
}


def modified_at(status: os.stat_result) -> datetime:
    """When a file was last written. File systems know years that calendars don't: those count as the first
    or the last that ours does."""
    try:
        return datetime.fromtimestamp(status.st_mtime, UTC)
    except (ValueError, OverflowError, OSError):
        return (datetime.min if status.st_mtime < 0 else datetime.max).replace(tzinfo=UTC)


def disk_failure(error: OSError) -> StorageError | None:
    """What a person can mend, said so; None if it is nothing of the kind."""
    remedy = _NOT_OURS.get(error.errno or 0)
    if remedy is None:
        return None
    where = f"{error.filename}: " if error.filename else ""
    return StorageError(
        f"{where}{error.strerror}",
        hint=f"{remedy}, then run again: nothing is lost, the next run completes what was begun",
        file=str(error.filename) if error.filename else None,
    )


def fsync_dir(folder: Path) -> None:
    """Make a rename or create inside `folder` survive a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_dirs(folder: Path) -> None:
    """Create `folder` and its missing parents, each of them durable in its own parent."""
    _sync_made(_create_dirs(folder))


def write_atomic(path: Path, data: bytes | Iterable[bytes], *, temporary: str | None = None) -> None:
    """Replace `path` by `data`: temporary file beside it, flush, fsync, rename, fsync the directory. What is
    long may come in pieces, and is never held whole; if one can't be made, nothing has changed."""
    make_dirs(path.parent)
    beside = path.with_name(temporary or fresh_temporary(path.name))
    try:
        _write_synced(beside, (data,) if isinstance(data, bytes) else data)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    fsync_dir(path.parent)


def write_new(path: Path, data: bytes) -> None:
    """Create `path` with `data`, never seen in part; FileExistsError if somebody was first."""
    made = _create_dirs(path.parent)
    beside = path.with_name(fresh_temporary(path.name))
    try:
        _write_synced(beside, (data,))
        os.link(beside, path)  # unlike a rename, a link refuses to replace
    finally:
        beside.unlink(missing_ok=True)
    fsync_dir(path.parent)
    _sync_made(made)  # last: by now a journal has most of it, and nobody was told of the file yet


def write_passing(path: Path, data: bytes) -> None:
    """Replace `path` by what may be lost: nobody waits for the disk, and a power cut may leave it torn. The
    content must tell by itself whether it is whole."""
    beside = path.with_name(temporary_of(path.name))
    beside.write_bytes(data)
    os.replace(beside, path)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock, across processes and threads, until the block ends or the process dies."""
    make_dirs(path.parent)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def is_locked(path: Path) -> bool:
    """Whether somebody alive holds the lock `path`."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _create_dirs(folder: Path) -> list[Path]:
    """Create `folder` and its missing parents; those that were missing, of which no name is durable yet."""
    missing = []
    step = folder
    while not step.is_dir():
        missing.append(step)
        step = step.parent
    for step in reversed(missing):
        try:
            step.mkdir(exist_ok=True)
        except FileExistsError:
            wanted = "a file where a folder should be"
            raise NotADirectoryError(errno.ENOTDIR, wanted, str(step)) from None
    return missing


def _sync_made(made: list[Path]) -> None:
    for step in made:
        fsync_dir(step.parent)


def _write_synced(path: Path, pieces: Iterable[bytes]) -> None:
    try:
        with open(path, "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        error.filename = error.filename or str(path.parent)  # a write says only that there is no room
        raise


_CHUNK = 8 << 20


def sha256_of(where: Where, path: str) -> tuple[int, str]:
    """Of the file at `path` below `where`; FileNotFoundError if there is none."""
    if isinstance(where, Place):
        storage = storage_of(where)
        found = storage.head(path)
        digest = hashlib.sha256()
        for start in range(0, found.size, _CHUNK):
            length = min(_CHUNK, found.size - start)
            digest.update(storage.get_range(path, start, length, etag=found.etag))
        return found.size, digest.hexdigest()
    with open(where / path, "rb") as file:
        return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()
