"""One shard as a reader holds it: cursors lent one at a time, closed when the last user is done.

A reader is used by many threads, and SQLite answers in a few microseconds, so lending must cost next to
nothing: a cursor is popped off a list and appended again, which Python does as one step. Every cursor
has a connection of its own, so that no two threads ever wait for one another in SQLite.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from lading.serve.open.limit import FILES, OpenFiles
from lading.serve.shard_file import Cursor, engine_errors


class ShardClosed(Exception):
    """The shard was given up: ask whoever opened it for another."""


class Shard:
    """An open shard. To answer: pop a cursor off `idle` (or ask `cursor()`), use it, then append it to
    `idle` and, if `retired` is set by then, call `drain`."""

    __slots__ = (
        "_connect",
        "_files",
        "_lent",
        "_lock",
        "_release",
        "idle",
        "leased",
        "location",
        "near",
        "retired",
        "used",
    )

    def __init__(
        self,
        location: str,
        connect: Callable[[], Cursor],
        release: Callable[[], None] | None = None,
        *,
        leased: int = 0,
        near: bool = True,
    ) -> None:
        """`connect` opens one more connection and gives a cursor; `release` is called after the last."""
        self.location = location
        self.leased = leased  # bytes that it keeps in the cache
        self.near = near  # an open one answers without the network
        self.idle: list[Cursor] = []
        self.retired = False
        self.used = True  # since a cache last looked; set by every answer
        self._connect = connect
        self._release = release
        self._lent = 0  # connections that are open
        self._lock = threading.Lock()
        self._files: OpenFiles | None = FILES if near else None  # one that is read by ranges has none open
        if leased:
            FILES.take(self)  # the cached file, which stays locked

    def cursor(self) -> Cursor:
        """A cursor on a connection of its own; ShardClosed once the shard is retired."""
        with self._lock:
            if self.retired:
                raise ShardClosed
            self._lent += 1
        if self._files is not None:
            self._files.take(self)
        try:
            return self._connect()
        except BaseException:
            self._closed_one()
            raise

    def discard(self, cursor: Cursor) -> None:
        """Close a cursor that failed instead of giving it back."""
        with suppress(*engine_errors()):  # one that is closed already says so
            cursor.connection.close()
        self._closed_one()

    def retire(self) -> None:
        """Close what is idle now and the rest as it comes back."""
        with self._lock:
            self.retired = True
        self.drain()

    def drain(self) -> None:
        """Close every idle cursor of a retired shard."""
        while True:
            try:
                cursor = self.idle.pop()
            except IndexError:
                break
            self.discard(cursor)
        self._end_if_unused()

    def _closed_one(self) -> None:
        if self._files is not None:
            self._files.give_back(self)
        with self._lock:
            self._lent -= 1
        self._end_if_unused()

    def _end_if_unused(self) -> None:
        with self._lock:
            if not self.retired or self._lent:
                return
            release, self._release = self._release, None
        if release is not None:
            release()
            if self.leased:
                FILES.give_back(self)
