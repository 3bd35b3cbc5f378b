"""What the operating system tells of files: hints, and nothing that a result rests on.

`watchfiles` (the extra `lading[watch]`) hears of local folders. Buckets, network file systems and machines
without it are listed now and then instead.
"""

from __future__ import annotations

import fcntl
import os
import queue
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from lading.config.project import Config
from lading.sources.glob import compile_glob
from lading.watcher.schedule import Seen

_compiled = cache(compile_glob)

# By what /proc/self/mountinfo calls them: nobody is told there what other machines do.
_REMOTE = ("nfs", "cifs", "smb", "9p", "fuse", "ceph", "lustre", "gpfs", "glusterfs", "afs", "virtiofs")
_GATHER = 20  # milliseconds in which hints become one message
_STEP = 5


@dataclass(frozen=True, slots=True)
class Hint:
    """Something happened below a table's root. `key` None: only a listing can tell what."""

    table: str
    key: str | None
    fresh: bool = False  # it is new under this name, and was not written to since


class Hints(Protocol):
    """A source of hints."""

    def wait(self, seconds: float) -> list[Hint]:
        """What was heard, as soon as there is something; nothing after `seconds`, or when woken."""

    def wake(self) -> None:
        """End a wait; may be called from a signal handler."""


class Silence:
    """Nobody tells anything."""

    def __init__(self) -> None:
        self._heard: queue.SimpleQueue[list[Hint]] = queue.SimpleQueue()

    def wait(self, seconds: float) -> list[Hint]:
        with suppress(queue.Empty):
            return self._heard.get(timeout=max(0.0, min(seconds, threading.TIMEOUT_MAX)))
        return []

    def wake(self) -> None:
        self._heard.put([])

    def tell(self, hints: list[Hint]) -> None:
        self._heard.put(hints)


@dataclass(frozen=True, slots=True)
class Watched:
    """Where one table's files are, and which of them it wants."""

    table: str
    root: str
    pattern: str

    def hint(self, path: str, *, fresh: bool) -> Hint | None:
        """None for what this table doesn't want to hear of."""
        below = os.path.relpath(path, self.root) if path != self.root else ""
        if below.startswith(".."):
            return None
        key = below.replace(os.sep, "/")
        if _compiled(self.pattern).match(key):
            return Hint(self.table, key, fresh)
        return Hint(self.table, None) if key and self._may_be_folder(path, key) else None

    def _may_be_folder(self, path: str, key: str) -> bool:
        """One that came or went may have any files in it. Of what is gone only the name tells, and one that
        looks like a file's, or like a temporary one's, is left to the next listing."""
        deep_enough = "**" in self.pattern or key.count("/") < self.pattern.count("/")
        if not deep_enough or os.path.isfile(path):
            return False
        name = os.path.basename(path)
        return os.path.isdir(path) or not (name.startswith((".", "_")) or os.path.splitext(name)[1])


def watched_tables(config: Config, tables: tuple[str, ...]) -> tuple[Watched, ...]:
    """The tables whose files lie where the operating system tells of them."""
    remote = _remote_mounts()
    found = []
    for name in tables:
        cfg = config.table(name)
        if cfg.derived is None and cfg.url is None and cfg.root.is_dir() and not _is_remote(cfg.root, remote):
            found.append(Watched(name, os.path.realpath(cfg.root), cfg.path))
    return tuple(found)


def is_possible() -> bool:
    """Whether `watchfiles` is installed."""
    from importlib.util import find_spec

    return find_spec("watchfiles") is not None


@contextmanager
def listening(watched: tuple[Watched, ...], heard: Silence) -> Iterator[None]:
    """Hints about these tables go to `heard` meanwhile, from a thread."""
    if not watched:
        yield
        return
    stop, ready = threading.Event(), threading.Event()
    thread = threading.Thread(
        target=_listen, args=(watched, heard, stop, ready), name="lading-hints", daemon=True
    )
    thread.start()
    ready.wait(5)
    try:
        yield
    finally:
        stop.set()
        thread.join(5)


def _listen(
    watched: tuple[Watched, ...], heard: Silence, stop: threading.Event, ready: threading.Event
) -> None:
    from watchfiles import watch

    roots = sorted({one.root for one in watched})
    while not stop.is_set():
        try:
            changes = watch(
                *roots,
                watch_filter=None,
                debounce=_GATHER,
                step=_STEP,
                stop_event=stop,
                rust_timeout=100,
                yield_on_timeout=True,
                raise_interrupt=False,
                ignore_permission_denied=True,
            )
            for batch in changes:
                if ready.is_set() and batch:
                    heard.tell(hints_of(watched, {(int(kind), path) for kind, path in batch}))
                elif not ready.is_set():
                    # It listens by now. What came before is found by a listing.
                    ready.set()
                    if batch:
                        heard.tell([Hint(one.table, None) for one in watched])
        except Exception:  # too many folders, a root that went away: hints stop, listings go on
            heard.tell([Hint(one.table, None) for one in watched])
            ready.set()
            stop.wait(5)


_ADDED, _MODIFIED = 1, 2  # as watchfiles numbers them


def hints_of(watched: tuple[Watched, ...], batch: set[tuple[int, str]]) -> list[Hint]:
    """By table, what a batch of events says. A file that was added and not written to got its name when it
    was complete: by a rename, or a link."""
    added = {path for kind, path in batch if kind == _ADDED}
    written = {path for kind, path in batch if kind == _MODIFIED}
    found: dict[Hint, None] = {}
    for path in sorted({path for _, path in batch}):
        for one in watched:
            hint = one.hint(path, fresh=path in added - written)
            if hint is not None:
                found[hint] = None
    return list(found)


def seen_at(root: Path, key: str, *, fresh: bool = False) -> Seen | None:
    """A file as it is now; None if it is gone. It was put in place whole if its name or times changed after
    its last write, or if it is `fresh` under its name, has content, and nobody has it open to write."""
    path = root / key
    try:
        stat = os.stat(path)
    except OSError:
        return None
    placed = stat.st_ctime_ns > stat.st_mtime_ns or (fresh and stat.st_size > 0 and _nobody_writes(path))
    return Seen(stat.st_size, stat.st_mtime_ns, placed)


def _nobody_writes(path: Path) -> bool:
    """Whether no process has the file open to write, as far as can be told: Linux grants a read lease only
    then. A message about a file that was just created comes before what is written to it."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        with open(path, "rb", buffering=0) as file:
            # Whoever opens it to write meanwhile breaks the lease. The signal that tells of it does nothing.
            fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:  # somebody writes, or the file system has no leases, or the file is another user's
        return False
    return True


def _remote_mounts() -> Mapping[str, str]:
    """File systems by where they are mounted, as Linux tells them; none elsewhere."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            lines = [line.split(" - ", 1) for line in mounts]
    except OSError:
        return {}
    return {head.split()[4]: tail.split()[0] for head, tail in (one for one in lines if len(one) == 2)}


def _is_remote(root: Path, mounts: Mapping[str, str]) -> bool:
    real = os.path.realpath(root)
    above = [at for at in mounts if real == at or real.startswith(at.rstrip("/") + "/")]
    return bool(above) and mounts[max(above, key=len)].startswith(_REMOTE)
