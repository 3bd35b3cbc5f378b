"""How many files readers keep open: a bounded number of all shards of all readers in this process.

A process may have so many files open and no more, and a table may have more shards than that. So when one
more connection would exceed half of what the process may have, shards that nobody asked lately are given
up; one that answers right now is never closed under its user. The other half is for everybody else.
"""

from __future__ import annotations

import errno
import resource
import threading
from typing import Any, Protocol

from lading.errors import TooManyFiles

MOST = 8192  # connections, however many the process may have: each takes memory too

_HINT = "allow the process more open files (ulimit -n), or read with fewer threads"
_EXHAUSTED = (errno.EMFILE, errno.ENFILE)


class Evictable(Protocol):
    """What a shard shows of itself here."""

    idle: list[Any]
    used: bool

    def retire(self) -> None: ...


class OpenFiles:
    """The files that shards have open. Safe for many threads."""

    def __init__(self, limit: int | None = None) -> None:
        """`limit` is for tests; None: half of what the process may have."""
        self._limit = limit
        self._counts: dict[Evictable, int] = {}  # in the order in which they are looked at
        self._total = 0
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        return self._total

    @property
    def limit(self) -> int:
        if self._limit is not None:
            return self._limit
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return MOST if soft == resource.RLIM_INFINITY else max(1, min(MOST, soft // 2))

    def take(self, shard: Evictable) -> None:
        """`shard` is about to open one more file: make room for it."""
        with self._lock:
            self._counts[shard] = self._counts.get(shard, 0) + 1
            self._total += 1
            leaving = self._victims(shard, self._total - self.limit)
        for one in leaving:
            one.retire()

    def give_back(self, shard: Evictable) -> None:
        """`shard` has closed a file, or could not open it."""
        with self._lock:
            left = self._counts.pop(shard, 0) - 1
            if left >= 0:  # nobody gives back more than was taken
                self._total -= 1
            if left > 0:
                self._counts[shard] = left

    def shrink(self) -> None:
        """The process has run out of files, whoever has them: give up half of what nobody uses now."""
        with self._lock:
            leaving = self._victims(None, max(1, self._total // 2))
        for one in leaving:
            one.retire()

    def _victims(self, keep: Evictable | None, excess: int) -> list[Evictable]:
        """Shards with `excess` files between them, those first that were not used since the last look. One
        that has no idle connection answers right now, or was opened only now: it stays."""
        leaving: list[Evictable] = []
        if excess <= 0:
            return leaving
        for chance in (False, True):
            for shard in list(self._counts):
                if excess <= 0:
                    return leaving
                if shard is keep or shard in leaving or not shard.idle:
                    continue
                if shard.used and not chance:
                    shard.used = False
                    self._counts[shard] = self._counts.pop(shard)  # behind those not looked at yet
                    continue
                leaving.append(shard)
                excess -= self._counts[shard]
        return leaving


FILES = OpenFiles()


def out_of_files(error: OSError) -> bool:
    """Whether `error` came from having too many files open."""
    return error.errno in _EXHAUSTED


def too_many(location: str) -> TooManyFiles:
    return TooManyFiles(
        f"the shard {location} can't be opened: this process has as many files open as it is allowed",
        hint=_HINT,
        file=location,
    )
