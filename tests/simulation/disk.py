"""A disk whose power may be cut: real files below one folder in memory, and beside them what is durable.

Every call of `os`, `open`, `fcntl` and SQLite that reaches a file below the folder is an effect of the world.
What a cut leaves is what POSIX allows: of each file the content that was synced last, or any part of what was
written since, block by block; of each folder the names that were synced last, and any of the changes since.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulation.kernel import EPOCH, START, Killed, Process, World, current_task

_BLOCK = 64
_BEGINNING = int((START - EPOCH).total_seconds()) * 1_000_000_000
_real = {
    name: getattr(os, name)
    for name in (
        "open", "close", "fsync", "replace", "rename", "link", "unlink", "mkdir", "rmdir", "ftruncate",
        "pwrite", "stat", "scandir", "listdir", "utime",
    )
}  # fmt: skip


@dataclass
class Change:
    """One change of a folder's names: these are gone, these are there."""

    drop: tuple[str, ...] = ()
    name: str | None = None
    ino: int = 0  # 0: a folder


@dataclass
class Names:
    durable: dict[str, int] = field(default_factory=dict)
    since: list[Change] = field(default_factory=list)

    def sync(self) -> None:
        for change in self.since:
            self.apply(change)
        self.since.clear()

    def apply(self, change: Change) -> None:
        for name in change.drop:
            self.durable.pop(name, None)
        if change.name is not None:
            self.durable[change.name] = change.ino


class Disk:
    def __init__(self, world: World, root: Path) -> None:
        self.world = world
        self.root = str(root)
        self._below = f"{root}/"
        self._synced: dict[int, bytes] = {}
        self._names: dict[str, Names] = {}
        self._locks: dict[int, dict[int, tuple[Process | None, bool]]] = {}  # inode -> fd -> whose, shared
        self._locked: dict[int, int] = {}  # fd -> inode
        self.before_rename: Callable[[str, str], None] = lambda old, new: None
        self.settle()

    def settle(self) -> None:
        """All that is there now is durable."""
        self._synced.clear()
        self._names.clear()
        for folder, folders, files in os.walk(self.root):
            there = dict.fromkeys(folders, 0)
            for name in files:
                path = f"{folder}/{name}"
                there[name] = _real["stat"](path).st_ino
                self._synced[there[name]] = content(path)
            self._names[folder] = Names(there)

    # What the patched calls ask.

    def mine(self, path: Any) -> str | None:
        """The absolute path, if it is below the root."""
        if not isinstance(path, (str, os.PathLike)):
            return None
        text = path if type(path) is str else os.fspath(path)
        return text if type(text) is str and (text.startswith(self._below) or text == self.root) else None

    def change(self, path: str, **what: Any) -> None:
        folder, _, name = path.rpartition("/")
        drop = tuple(what.get("drop", ()))
        change = Change(drop, name if "ino" in what else None, what.get("ino", 0))
        self._names.setdefault(folder, Names()).since.append(change)

    def synced(self, fd: int, path: str) -> None:
        there = os.fstat(fd)
        if stat.S_ISDIR(there.st_mode):
            self._names.setdefault(path, Names()).sync()
            return
        self._synced[there.st_ino] = content(f"/proc/self/fd/{fd}")
        self.dated(fd)

    def dated_if_new(self, fd: int) -> None:
        """What was written and not synced yet has the time of the real world, long before this one began."""
        there = os.fstat(fd)
        if stat.S_ISREG(there.st_mode) and there.st_mtime_ns < _BEGINNING:
            self.dated(fd)

    def dated(self, file: Any) -> None:
        _real["utime"](file, ns=(self.world.now, self.world.now))

    def power_cut(self) -> None:
        """What is left is put in place, and all of it is durable."""
        chance = self.world.chance
        now: dict[int, tuple[bytes, int]] = {}
        for folder, _, files in os.walk(self.root):
            for name in files:
                there = _real["stat"](f"{folder}/{name}")
                now[there.st_ino] = (content(f"{folder}/{name}"), there.st_mtime_ns)
        left: list[tuple[str, bytes | None, int]] = []
        self._survivors(self.root, chance, now, left)
        for entry in list(os.scandir(self.root)):
            shutil.rmtree(entry.path) if entry.is_dir() else _real["unlink"](entry.path)
        for path, data, at in left:
            if data is None:
                _real["mkdir"](path)
            else:
                with _real_open(path, "wb") as file:
                    file.write(data)
                _real["utime"](path, ns=(at, at))
        self.settle()

    def _survivors(
        self,
        folder: str,
        chance: random.Random,
        now: dict[int, tuple[bytes, int]],
        left: list[tuple[str, bytes | None, int]],
    ) -> None:
        names = self._names.get(folder, Names())
        kept = Names(dict(names.durable))
        for change in names.since:
            if chance.random() < 0.5:
                kept.apply(change)
        for name, ino in sorted(kept.durable.items()):
            path = f"{folder}/{name}"
            if ino == 0:
                left.append((path, None, 0))
                self._survivors(path, chance, now, left)
                continue
            old = self._synced.get(ino)
            new, at = now.get(ino, (old or b"", self.world.now))
            left.append((path, _torn(old or b"", new, chance) if new != old else new, at))

    # Locks.

    def flock(self, fd: int, how: int) -> None:
        ino = os.fstat(fd).st_ino
        task = current_task()
        holders = self._locks.setdefault(ino, {})
        if how & fcntl.LOCK_UN:
            holders.pop(fd, None)
            return
        shared = bool(how & fcntl.LOCK_SH)

        def free() -> bool:
            return all(shared and other for at, (_, other) in holders.items() if at != fd)

        if not free():
            if how & fcntl.LOCK_NB or task is None:
                raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
            while not free():
                self.world.wait(free)
        holders[fd] = (task.process if task else None, shared)
        self._locked[fd] = ino
        if task is not None and "unlock" not in task.process.local:
            task.process.local["unlock"] = True
            task.process.on_death.append(lambda: self._died(task.process))

    def _died(self, process: Process) -> None:
        for holders in self._locks.values():
            for fd in [fd for fd, (owner, _) in holders.items() if owner is process]:
                del holders[fd]

    def closed(self, fd: int) -> None:
        ino = self._locked.pop(fd, None)
        if ino is not None:
            self._locks.get(ino, {}).pop(fd, None)


def content(path: str) -> bytes:
    """What lies there, for whoever looks at the world from outside."""
    with _real_open(path, "rb") as file:
        return file.read()


def _torn(old: bytes, new: bytes, chance: random.Random) -> bytes:
    """What a cut may leave of a file that was `old` when it was synced and should be `new`."""
    fate = chance.random()
    if fate < 0.25:
        return old
    if fate < 0.5:
        return new
    pairs = zip(old, new, strict=False)
    # What nobody wrote again stays.
    same = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))
    length = chance.choice((len(old), len(new), chance.randint(same, max(len(old), len(new)))))
    out = bytearray(length)
    for at in range(0, length, _BLOCK):
        end = min(at + _BLOCK, length)
        source = chance.choice((old, new))
        piece = source[at:end]
        out[at : at + len(piece)] = piece
    out[:same] = old[:same]
    if fate < 0.75:  # in order, up to some point
        out = bytearray(new[: chance.randint(same, len(new))])
    return bytes(out)


_real_open = open
DISK: Disk | None = None


def use(disk: Disk | None) -> None:
    global DISK
    DISK = disk


def before_rename(look: Callable[[str, str], None]) -> None:
    """`look` sees what is about to be renamed, and to what."""
    assert DISK is not None
    DISK.before_rename = look


def settled() -> None:
    assert DISK is not None
    DISK.settle()


def _broken(path: str, *kinds: int) -> None:
    assert DISK is not None
    if DISK.world.happens("disk"):
        number = DISK.world.chance.choice(kinds or (errno.ENOSPC, errno.EIO))
        DISK.world.tell("disk", errno.errorcode[number], path)
        raise OSError(number, os.strerror(number), path)


def _at(path: Any, dir_fd: int | None) -> str | None:
    """The path of ours that is meant."""
    if DISK is None:
        return None
    if dir_fd is not None and not os.path.isabs(path):
        path = f"{os.readlink(f'/proc/self/fd/{dir_fd}')}/{path}"
    return DISK.mine(path)


def _shown(path: str) -> str:
    assert DISK is not None
    return path.removeprefix(DISK.root).lstrip("/") or "."


def os_open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    mine = _at(path, dir_fd)
    if mine is None or DISK is None:
        return _real["open"](path, flags, mode, dir_fd=dir_fd)
    DISK.world.effect("open", _shown(mine))
    fresh = bool(flags & os.O_CREAT) and not os.path.lexists(mine)
    if fresh:
        _broken(mine)
    fd: int = _real["open"](path, flags, mode, dir_fd=dir_fd)
    if fresh:
        DISK.change(mine, ino=os.fstat(fd).st_ino)
    return fd


def os_close(fd: int) -> None:
    if DISK is not None:
        DISK.closed(fd)
    _real["close"](fd)


def os_fsync(fd: int) -> None:
    if DISK is None:
        return
    path = os.readlink(f"/proc/self/fd/{fd}")
    if not path.startswith(DISK.root):
        return
    DISK.dated_if_new(fd)
    try:
        DISK.world.effect("fsync", _shown(path))
    except Killed:
        _half_written(fd, path)
        raise
    _broken(path)
    DISK.synced(fd, path)


def _half_written(fd: int, path: str) -> None:
    """Killed before its sync, a process may also have been killed while it wrote."""
    assert DISK is not None
    if path.endswith(".tmp") and os.path.isfile(path) and DISK.world.chance.random() < 0.5:
        size = DISK.world.chance.randint(0, os.fstat(fd).st_size)
        os.truncate(path, size)


def os_replace(src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
    a, b = _at(src, src_dir_fd), _at(dst, dst_dir_fd)
    if a is None or b is None or DISK is None:
        return _real["replace"](src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
    DISK.world.effect("rename", f"{_shown(a)} -> {_shown(b)}")
    _broken(b, errno.EIO)
    folder = os.path.isdir(a)
    ino = 0 if folder else _real["stat"](a).st_ino
    if not folder:
        DISK.before_rename(a, b)
        DISK.dated(a)
    _real["replace"](a, b)
    if os.path.dirname(a) == os.path.dirname(b):
        DISK.change(b, drop=(os.path.basename(a),), ino=ino)
    else:
        DISK.change(b, ino=ino)
        DISK.change(a, drop=(os.path.basename(a),))


def os_link(src: Any, dst: Any, **rest: Any) -> None:
    a, b = _at(src, None), _at(dst, None)
    if a is None or b is None or DISK is None:
        return _real["link"](src, dst, **rest)
    DISK.world.effect("link", _shown(b))
    _broken(b)
    _real["link"](a, b)
    DISK.dated(b)
    DISK.change(b, ino=_real["stat"](b).st_ino)


def os_unlink(path: Any, *, dir_fd: int | None = None) -> None:
    mine = _at(path, dir_fd)
    if mine is None or DISK is None:
        return _real["unlink"](path, dir_fd=dir_fd)
    DISK.world.effect("unlink", _shown(mine))
    _real["unlink"](path, dir_fd=dir_fd)
    DISK.change(mine, drop=(os.path.basename(mine),))


def os_mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
    mine = _at(path, dir_fd)
    if mine is None or DISK is None:
        return _real["mkdir"](path, mode, dir_fd=dir_fd)
    DISK.world.effect("mkdir", _shown(mine))
    _real["mkdir"](path, mode, dir_fd=dir_fd)
    DISK.change(mine, ino=0)


def os_rmdir(path: Any, *, dir_fd: int | None = None) -> None:
    mine = _at(path, dir_fd)
    if mine is None or DISK is None:
        return _real["rmdir"](path, dir_fd=dir_fd)
    DISK.world.effect("rmdir", _shown(mine))
    _real["rmdir"](path, dir_fd=dir_fd)
    DISK.change(mine, drop=(os.path.basename(mine),))


def os_ftruncate(fd: int, length: int) -> None:
    path = os.readlink(f"/proc/self/fd/{fd}")
    if DISK is not None and path.startswith(DISK.root):
        DISK.world.effect("truncate", f"{_shown(path)} to {length}")
        _broken(path, errno.EIO)
    _real["ftruncate"](fd, length)


def os_pwrite(fd: int, data: Any, offset: int) -> int:
    path = os.readlink(f"/proc/self/fd/{fd}")
    if DISK is None or not path.startswith(DISK.root):
        return int(_real["pwrite"](fd, data, offset))
    world = DISK.world
    part = len(data)
    try:
        world.effect("write", f"{_shown(path)} {part} bytes at {offset}")
    except Killed:  # in the midst of it
        _real["pwrite"](fd, bytes(data)[: world.chance.randint(0, part)], offset)
        raise
    if world.happens("disk"):
        written = world.chance.randint(0, part)
        if written:
            _real["pwrite"](fd, bytes(data)[:written], offset)
            if world.chance.random() < 0.5:
                return written  # a short write; the disk is full at the next
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    count = int(_real["pwrite"](fd, data, offset))
    DISK.dated(fd)
    return count


def os_stat(path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
    if DISK is not None and dir_fd is None and (mine := DISK.mine(path)) is not None:
        DISK.world.effect("stat", _shown(mine))
    return _real["stat"](path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)


def _listing(name: str) -> Callable[..., Any]:
    def call(path: Any = ".") -> Any:
        if DISK is not None and (mine := DISK.mine(path)) is not None:
            DISK.world.effect("list", _shown(mine))
        return _real[name](path)

    return call


def opened(path: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
    mine = DISK.mine(path) if DISK is not None else None
    if mine is None or DISK is None:
        return _real_open(path, mode, *args, **kwargs)
    writes = mode[0] in "wax"
    DISK.world.effect("create" if writes else "read", _shown(mine))
    fresh = writes and not os.path.lexists(mine)
    if fresh:
        _broken(mine)
    file = _real_open(path, mode, *args, **kwargs)
    if fresh:
        DISK.change(mine, ino=os.fstat(file.fileno()).st_ino)
    return file


def flocked(fd: Any, how: int) -> None:
    number = fd if isinstance(fd, int) else fd.fileno()
    if DISK is None or not os.readlink(f"/proc/self/fd/{number}").startswith(DISK.root):
        return fcntl_flock(number, how)
    DISK.world.effect("lock", _shown(os.readlink(f"/proc/self/fd/{number}")))
    DISK.flock(number, how)


fcntl_flock = fcntl.flock
CALLS: dict[str, Callable[..., Any]] = {
    "open": os_open,
    "close": os_close,
    "fsync": os_fsync,
    "replace": os_replace,
    "rename": os_replace,
    "link": os_link,
    "unlink": os_unlink,
    "mkdir": os_mkdir,
    "rmdir": os_rmdir,
    "ftruncate": os_ftruncate,
    "pwrite": os_pwrite,
    "stat": os_stat,
    "scandir": _listing("scandir"),
    "listdir": _listing("listdir"),
}
