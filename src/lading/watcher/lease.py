"""One watcher a warehouse: `_watcher.json` says which process it is, and until when that is believed.

The lease keeps two watchers from doing everything twice; nothing breaks if they do. Runs by hand ask nobody.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta

import msgspec

from lading import clock, ids
from lading.errors import Conflict, StorageError
from lading.layout.project import WATCHER
from lading.storage.place import Where, storage_of
from lading.storage.protocol import SwapLost

LEASE = timedelta(seconds=60)
_LIMIT = 1 << 16  # bytes


class Holder(msgspec.Struct, frozen=True):
    """What the file says; times are ISO-8601 in UTC."""

    id: str
    host: str
    pid: int
    since: str
    until: str

    def is_alive(self, now: datetime) -> bool:
        """Whether it may still be at work. On this machine the process itself tells."""
        if self.host == socket.gethostname() and not _exists(self.pid):
            return False
        try:
            return datetime.fromisoformat(self.until) > now
        except (ValueError, TypeError):
            return False


def holder(warehouse: Where, now: datetime | None = None) -> Holder | None:
    """The watcher that is at work, if one is."""
    found, _ = _read(warehouse)
    return found if found is not None and found.is_alive(now or clock.now()) else None


@contextmanager
def held(warehouse: Where, lost: Callable[[], None], lease: timedelta = LEASE) -> Iterator[Holder]:
    """Hold the lease meanwhile; Conflict if another watcher does. `lost` is called, from a thread, should
    somebody else have taken it over, which they may only once it has lapsed."""
    mine, etag = _taken(warehouse, lease)
    stop = threading.Event()
    kept = _Kept(warehouse, mine, etag, lease)
    thread = threading.Thread(target=kept.renew, args=(stop, lost), name="lading-watcher", daemon=True)
    thread.start()
    try:
        yield mine
    finally:
        stop.set()
        thread.join()
        kept.give_back()


class _Kept:
    def __init__(self, warehouse: Where, mine: Holder, etag: str, lease: timedelta) -> None:
        self._warehouse, self._mine, self._etag, self._lease = warehouse, mine, etag, lease

    def renew(self, stop: threading.Event, lost: Callable[[], None]) -> None:
        while not stop.wait(self._lease.total_seconds() / 3):
            until = (clock.now() + self._lease).isoformat()
            mine = msgspec.structs.replace(self._mine, until=until)
            try:
                self._etag = _swapped(self._warehouse, mine, self._etag)
            except SwapLost:
                if not self._is_ours():
                    lost()
                    return
            except (OSError, StorageError):
                continue  # tried again before it lapses; if that fails too, somebody else may take over

    def _is_ours(self) -> bool:
        """Whether it was this watcher itself that renewed it, and only the answer got lost."""
        try:
            found, etag = _read(self._warehouse)
        except (OSError, StorageError):
            return True  # as far as anybody knows: asked again with the next renewal
        if found is None or etag is None or found.id != self._mine.id:
            return False
        self._etag = etag
        return True

    def give_back(self) -> None:
        with suppress(OSError, StorageError, SwapLost):
            ended = msgspec.structs.replace(self._mine, until=clock.now().isoformat())
            _swapped(self._warehouse, ended, self._etag)


def _taken(warehouse: Where, lease: timedelta) -> tuple[Holder, str]:
    name = ids.random_bytes(8).hex()
    while True:
        now = clock.now()
        other, etag = _read(warehouse)
        if other is not None and other.id == name and etag is not None:
            return other, etag  # an answer got lost
        if other is not None and other.is_alive(now):
            raise Conflict(
                f"{storage_of(warehouse).url} is being watched already, by process {other.pid} on "
                f"{other.host} since {other.since}",
                hint="end that one first; `lading run` works beside it",
            )
        until = (now + lease).isoformat()
        mine = Holder(name, socket.gethostname(), os.getpid(), now.isoformat(), until)
        with suppress(SwapLost):  # somebody was quicker: look again
            return mine, _swapped(warehouse, mine, etag)


def _swapped(warehouse: Where, holder: Holder, etag: str | None) -> str:
    data = msgspec.json.encode(holder)
    return storage_of(warehouse).swap(WATCHER, data, etag, content_type="application/json")


def _read(warehouse: Where) -> tuple[Holder | None, str | None]:
    try:
        data, etag = storage_of(warehouse).get_with_etag(WATCHER, limit=_LIMIT)
    except FileNotFoundError:
        return None, None
    try:
        return msgspec.json.decode(data, type=Holder), etag
    except msgspec.MsgspecError:
        return None, etag  # not ours to understand, and no reason not to watch


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
