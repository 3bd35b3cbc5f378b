"""Durable bytes on the local file system: whole or not at all, and on disk before anyone is told.

Every durable write of lading goes through this file, so a crash test has one place to interrupt.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from lading import clock
from lading.errors import ConfigError, StorageError
from lading.layout.beside import fresh_temporary, lock_of, temporary_of
from lading.storage.protocol import Named, NotPlain, Replaced, SwapLost, TooLarge, utf8_name

StrPath = str | os.PathLike[str]
_T = TypeVar("_T")

# What a disk says when it is full, broken, or not ours to write to; anything else is the program's mistake.
_NOT_OURS = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room, or ask for a larger quota",
    errno.EROFS: "mount it for writing, or choose another folder",
    errno.EACCES: "check its owner and permissions",
    errno.EPERM: "check its owner and permissions",
    errno.EIO: "check the disk",
    errno.ENOTDIR: "move the file out of the way, or choose another folder",
    errno.EISDIR: "move the folder out of the way, or name a file",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "fix the links, or choose another folder",
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
        hint=f"{remedy}, then run again: nothing is lost, the next run completes it",
        file=str(error.filename) if error.filename else None,
    )


def fsync_dir(folder: StrPath) -> None:
    """Make a rename or create inside `folder` survive a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_dirs(folder: StrPath) -> None:
    """Create `folder` and its missing parents, each of them durable in its own parent."""
    _sync_made(_create_dirs(os.fspath(folder)))


def write_atomic(path: StrPath, data: bytes | Iterable[bytes], *, temporary: str | None = None) -> None:
    """Replace `path` by `data`: temporary file beside it, flush, fsync, rename, fsync the directory. What is
    long may come in pieces, and is never held whole; if one can't be made, nothing has changed."""
    folder, name = _split(path)
    beside = os.path.join(folder, temporary or fresh_temporary(name))
    try:
        _write_and_rename(beside, path, (data,) if isinstance(data, bytes) else data)
    except FileNotFoundError:
        if not isinstance(data, bytes):
            raise
        # This process slept for so long that cleaning took what it had half written.
        _write_and_rename(beside, path, (data,))
    fsync_dir(folder)


def _write_and_rename(beside: str, path: StrPath, pieces: Iterable[bytes]) -> None:
    try:
        _write_synced(beside, pieces)
        os.replace(beside, path)
    except BaseException:
        _unlink(beside)
        raise


def write_new(path: StrPath, data: bytes) -> None:
    """Create `path` with `data`, never seen in part; FileExistsError if somebody was first."""
    folder, name = _split(path)
    made = _create_dirs(folder)
    beside = os.path.join(folder, fresh_temporary(name))
    try:
        _write_synced(beside, (data,))
        os.link(beside, path)  # unlike a rename, a link refuses to replace
    finally:
        _unlink(beside)
    fsync_dir(folder)
    _sync_made(made)  # last: by now a journal has most of it, and nobody was told of the file yet


def write_same(folder: Path, files: Mapping[str, bytes]) -> None:
    """Files whose names say what they hold, each whole, and one sync of their folder for all. One that
    has that content gets today's time; one that was damaged is replaced."""
    for name, data in files.items():
        path = folder / name
        if _holds(path, data):
            _touch(path)
            continue
        _write_and_rename(os.path.join(folder, fresh_temporary(name)), path, (data,))
    fsync_dir(folder)


def write_passing(path: Path, data: bytes) -> None:
    """Replace `path` by what may be lost: nobody waits for the disk, and a power cut may leave it torn. The
    content must tell by itself whether it is whole."""
    beside = path.with_name(temporary_of(path.name))
    beside.write_bytes(data)
    os.replace(beside, path)


@contextmanager
def locked(path: StrPath) -> Iterator[None]:
    """Hold an exclusive lock, across processes and threads, until the block ends or the process dies."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    fd = _with_its_folder(path, lambda: os.open(path, flags, 0o644))
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


def _create_dirs(folder: str) -> list[str]:
    """Create `folder` and its missing parents; those that were missing, of which no name is durable yet."""
    if os.path.isdir(folder):
        return []
    above: list[str] = []
    with suppress(FileExistsError):  # somebody else's, who may not have synced it yet
        try:
            os.mkdir(folder)
        except FileNotFoundError:
            above = _create_dirs(_split(folder)[0])
            os.mkdir(folder)
    if not os.path.isdir(folder):
        raise NotADirectoryError(errno.ENOTDIR, "a file where a folder should be", folder)
    return [folder, *above]


def _with_its_folder(path: StrPath, opened: Callable[[], _T]) -> _T:
    """What `opened` gives, in a folder that is made if it isn't there."""
    try:
        return opened()
    except (FileNotFoundError, NotADirectoryError):  # of a file where a folder should be, `make_dirs` tells
        make_dirs(_split(path)[0])
        return opened()


def _split(path: StrPath) -> tuple[str, str]:
    """The folder, and the name in it."""
    folder, name = os.path.split(path)
    return folder or os.curdir, name


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):  # it isn't there, and can't be
        os.unlink(path)


def _touch(path: Path) -> None:
    """By the clock that cleaning goes by."""
    now = clock.now().timestamp()
    os.utime(path, (now, now))


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except FileNotFoundError:
        return False


def _sync_made(made: list[str]) -> None:
    for step in made:
        fsync_dir(_split(step)[0])


def _write_synced(path: str, pieces: Iterable[bytes]) -> None:
    try:
        with _with_its_folder(path, lambda: open(path, "wb")) as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        error.filename = error.filename or _split(path)[0]  # a write says only that there is no room
        raise


class FolderStorage:
    """A folder and the files below it; `Storage` says what each method promises."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.folder = Path(root)
        self.url = str(self.folder)
        self.prefix = ""
        self._held = threading.local()
        self._durable: set[tuple[str, int]] = set()  # folders below, and their inodes, whose names are synced

    def path(self, name: str) -> Path:
        """Where `name` lies: an absolute one lies where it says."""
        return self.folder / name

    def _at(self, name: str) -> str:
        """The same as text, for what a publish does many times."""
        return os.path.join(self.url, name)

    def get(self, name: str, *, limit: int | None = None) -> bytes:
        return _read(self._at(name)) if limit is None else _read_plain(self._at(name), limit)

    def get_with_etag(self, name: str, *, limit: int | None = None) -> tuple[bytes, str]:
        """The etag is that of the content: inodes and times come again."""
        data = self.get(name, limit=limit)
        return data, _etag_of(data)

    def get_range(self, name: str, start: int, length: int, *, etag: str | None = None) -> bytes:
        with open(self.path(name), "rb") as file:
            if etag is not None and _identity(os.fstat(file.fileno())) != etag:
                raise Replaced(f"{self.path(name)} was replaced while it was being read", hint="run again")
            file.seek(start)
            return file.read(length)

    def head(self, name: str) -> Named:
        return _named(name, os.stat(self._at(name)))

    def has(self, name: str) -> bool:
        return self.path(name).exists()

    def sha256(self, name: str) -> tuple[int, str]:
        with open(self.path(name), "rb") as file:
            return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()

    def put_new(self, name: str, data: bytes, *, content_type: str | None = None) -> None:
        write_new(self._at(name), data)

    def put(
        self, name: str, data: bytes, *, content_type: str | None = None, beside: str | None = None
    ) -> None:
        write_atomic(self._at(name), data, temporary=beside)

    def put_same(self, objects: Mapping[str, bytes]) -> None:
        by_folder: dict[Path, dict[str, bytes]] = {}
        for name, data in objects.items():
            path = self.path(name)
            by_folder.setdefault(path.parent, {})[path.name] = data
        for folder, files in by_folder.items():
            write_same(folder, files)

    def sync(self, name: str) -> None:
        """Its name and those of the folders that lead to it; contents are synced before they get a name."""
        steps = name.split("/")[:-1]
        for depth in range(len(steps), -1, -1):
            fsync_dir(self.folder.joinpath(*steps[:depth]))

    def touch(self, names: Iterable[str]) -> None:
        for name in names:
            with suppress(FileNotFoundError):
                _touch(self.path(name))

    def swap(self, name: str, data: bytes, etag: str | None, *, content_type: str | None = None) -> str:
        """Compared under a lock and replaced by a rename: readers take no lock and see the old or the new."""
        with self.lock(name):
            if self._etag(name) != etag:
                raise SwapLost(name)
            write_atomic(self._at(name), data)
            return _etag_of(data)

    @contextmanager
    def lock(self, name: str) -> Iterator[bool]:
        held: set[str] = self._held.__dict__.setdefault("names", set())
        if name in held:  # by this very thread
            yield True
            return
        with locked(self._at(lock_of(name))):
            held.add(name)
            try:
                yield True
            finally:
                held.remove(name)

    def upload(self, name: str, file: Path) -> None:
        if self.has(name):
            raise FileExistsError(name)
        write_atomic(self.path(name), _chunks(file))

    def download(self, name: str, file: Path) -> None:
        write_atomic(file, _chunks(self.path(name)))

    def draft(self, name: str) -> Path:
        final = self.path(name)
        self._make_durable(os.fspath(final.parent))
        return final.with_name(temporary_of(final.name))

    def _make_durable(self, folder: str) -> None:
        """Create `folder` unless it is there. Then somebody else may have made it and not come to sync its
        name: that is done once, for all that lie beside it then."""
        made = _create_dirs(folder)
        if folder == self.url:  # whoever made the log has synced it
            _sync_made(made)
            return
        own = (folder, os.stat(folder).st_ino)
        if own in self._durable:
            return
        found = {own}
        if not made:
            above = _split(folder)[0]
            found |= {(entry.path, entry.inode()) for entry in _entries(Path(above))}
            fsync_dir(above)
        _sync_made(made)
        self._durable |= found

    def keep(self, draft: Path, name: str, *, durable: bool = True) -> None:
        if durable:
            _fsync(draft)
        os.link(draft, self.path(name))  # unlike a rename, a link refuses to replace
        draft.unlink()
        if durable:
            fsync_dir(draft.parent)

    def list(
        self,
        prefix: str = "",
        *,
        after: str | None = None,
        wanted: Callable[[str], bool] | None = None,
        links: bool = False,
    ) -> Iterator[Named]:
        for name in _walk(self.folder, prefix.strip("/")):
            if (after is not None and name <= after) or (wanted is not None and not wanted(name)):
                continue
            with suppress(FileNotFoundError):
                found = os.stat(self.path(name), follow_symlinks=links)
                if stat.S_ISREG(found.st_mode):
                    yield _named(name, found)

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        return tuple(entry.name for entry in _entries(self.path(prefix)) if entry.is_dir())

    def newest(self, prefix: str, leaf: str, *, after: str = "") -> Iterator[str]:
        try:
            found = [name for name in os.listdir(self._at(prefix)) if name > after]
        except FileNotFoundError:
            return
        # A folder without the file is what a kill before the write leaves behind.
        yield from (
            name
            for name in sorted(found, reverse=True)
            if os.path.isfile(self._at(f"{prefix}/{name}/{leaf}"))
        )

    def rename(self, name: str, to: str) -> None:
        self.path(name).rename(self.path(to))

    def delete(self, name: str) -> None:
        """For good: what was told to be gone doesn't come back with a power cut."""
        path = self.path(name)
        with suppress(FileNotFoundError):
            path.unlink()
            fsync_dir(path.parent)

    def delete_found(self, found: Named) -> bool:
        """Every step of its path is opened without following links."""
        *steps, last = found.name.split("/")
        folder = _open_folder(self.folder, steps)
        if folder is None:
            return False
        try:
            now = os.stat(last, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISREG(now.st_mode) or _named(found.name, now) != found:
                return False
            os.unlink(last, dir_fd=folder)
        except FileNotFoundError:
            return False
        finally:
            os.close(folder)
        return True

    def drop_empty(self, name: str) -> bool:
        *steps, last = name.split("/")
        parent = _open_folder(self.folder, steps)
        if parent is None:
            return False
        try:
            os.rmdir(last, dir_fd=parent)
        except OSError:  # not empty, or somebody was quicker
            return False
        finally:
            os.close(parent)
        return True

    def recorded(self, file: str | os.PathLike[str]) -> str:
        name = os.fspath(file)
        if "://" in name:
            raise ConfigError(
                f"{name} is not a file here",
                hint="files in a bucket go into a collection in a bucket: lading collection add s3://bucket/prefix",
            )
        path = os.path.abspath(name)
        # The folder may be reached through a link; the file's own name is kept even if it is one.
        place = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        root = os.path.realpath(self.folder)
        return utf8_name(os.path.relpath(place, root) if place.startswith(f"{root}/") else place)

    def ways_to(self, file: str) -> tuple[str, ...]:
        """Seen from here, or else from the root."""
        return file, self.recorded(file), self.recorded(self.folder / file)

    def _etag(self, name: str) -> str | None:
        try:
            return _etag_of(self.get(name))
        except FileNotFoundError:
            return None


def _etag_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _identity(status: os.stat_result) -> str:
    return str(status.st_ino)


def _named(name: str, status: os.stat_result) -> Named:
    return Named(name, status.st_size, _identity(status), modified_at(status))


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def _read_plain(path: str, limit: int) -> bytes:
    """The bytes of a regular file that is no link and no longer than `limit`."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotPlain(errno.EINVAL, "it is not a regular file", path) from error
        raise
    with open(fd, "rb", buffering=0) as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise NotPlain(errno.EINVAL, "it is not a regular file", path)
        if status.st_size > limit:
            longer = TooLarge(
                f"{path} has {status.st_size} bytes, more than {limit}",
                hint="someone else wrote it",
                file=path,
            )
            longer.etag = hashlib.file_digest(file, "sha256").hexdigest()
            raise longer
        return file.readall()


def _chunks(file: Path) -> Iterator[bytes]:
    with open(file, "rb") as opened:
        while chunk := opened.read(1 << 20):
            yield chunk


def _fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _walk(root: Path, folder: str) -> Iterator[str]:
    """Every path below `folder` that is no folder; links are not followed."""
    for entry in _entries(root / folder):
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(root, path)
        else:
            yield path


def _entries(folder: Path) -> Sequence[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return ()


def _open_folder(root: Path, steps: Iterable[str]) -> int | None:
    """A handle on a folder below `root`, None if a step is missing, a link or no folder."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    handle = os.open(root, flags)
    for step in steps:
        if step in ("", ".", ".."):
            os.close(handle)
            return None
        try:
            deeper = os.open(step, flags | os.O_NOFOLLOW, dir_fd=handle)
        except OSError:
            return None
        finally:
            os.close(handle)
        handle = deeper
    return handle
