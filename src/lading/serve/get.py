"""One value by key, from its shard: what `get` and `multi_get` do within one snapshot.

Shards open when they are first asked, and stay open as long as the process has files to spare for them.
Everything here may be called by many threads at once; when a newer snapshot takes over, shards that both
have move on with it and the others close as soon as their last user is done.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from lading.errors import LadingError, NotFound, ShardError, TooManyFiles
from lading.serve.keys import Key
from lading.serve.open.file import HINT
from lading.serve.open.limit import FILES, out_of_files, too_many
from lading.serve.open.places import ShardPlaces
from lading.serve.open.ranges import failure_of
from lading.serve.open.shard import Shard, ShardClosed
from lading.serve.routing import Router
from lading.serve.routing_fast import Grouped, grouper, placer
from lading.serve.shard_file import Cursor, engine_errors
from lading.snapshots.manifest import BuildMeta, ParsedSnapshot, ShardMeta

_T = TypeVar("_T")

_TRIES = 10

_ONE = "SELECT v FROM kv WHERE k = ?"
# A few lengths only, so that their statements stay prepared: sqlite3 keeps 32 of them, apsw 100.
_LENGTHS = (1, 2, 4, *range(8, 128, 8), *range(128, 257, 16))
_MANY = {n: f"SELECT k, v FROM kv WHERE k IN ({', '.join('?' * n)})" for n in _LENGTHS}


class Superseded(Exception):
    """The snapshot was given up for a newer one: ask that one."""


class KeyReader:
    """The shards of one snapshot."""

    def __init__(
        self,
        snapshot: ParsedSnapshot,
        places: ShardPlaces,
        before: KeyReader | None = None,
        *,
        foreign: bool = False,
    ) -> None:
        """`before` is the snapshot that this one takes over from: shards that both have stay open. `foreign`:
        another writer's, who makes nothing but shards."""
        self.meta: BuildMeta = snapshot.meta
        self.places = places
        self.shards: dict[int, ShardMeta] = {shard.db_id: shard for shard in snapshot.shards}
        self.router = Router.of_manifest(snapshot.meta)
        self.served = foreign or bool(snapshot.shards) or "serve" in snapshot.meta.custom
        self._place = placer(self.router) if self.served else _refused(snapshot.meta)
        self._group_alone = grouper(self.router, self._place, fast=self.served)
        self._encode = self.router.key.encoder()
        self._retired = False
        self._lock = threading.Lock()
        self._opening: dict[int, threading.Lock] = {}
        # Shards that are open, and None for those that have no rows.
        self._open: dict[int, Shard | None] = before.shared_with(self) if before is not None else {}

    @property
    def count(self) -> int:
        """Keys in all shards."""
        return sum(shard.row_count for shard in self.shards.values())

    def get(self, key: Key, context: Mapping[str, Any] | None = None) -> bytes | None:
        """The stored bytes, None when the key isn't there."""
        number, stored = self._place(key) if not context else self._place_with(key, context)
        try:
            shard = self._open[number]
        except KeyError:
            shard = self._opened(number)
        if shard is None:
            return None
        try:
            cursor = shard.idle.pop()
        except IndexError:
            shard, cursor = self._cursor(number, shard)
        try:
            row = cursor.execute(_ONE, (stored,)).fetchone()
        except BaseException as error:
            shard.discard(cursor)
            _raise_ours(shard, error)
            raise
        shard.idle.append(cursor)
        shard.used = True
        if shard.retired:
            shard.drain()
        return None if row is None else row[0]

    def multi_get(
        self, keys: Iterable[Key], context: Mapping[str, Any] | None = None
    ) -> dict[Key, bytes | None]:
        """Every key with its stored bytes, or None: all from this one snapshot."""
        wanted = list(keys)
        grouped = self._group(wanted, context)
        found: dict[Key, bytes | None] = dict.fromkeys(wanted)
        for number, names in grouped.items():
            with self._lent(number) as cursor:
                if cursor is not None:
                    _look_up(cursor, names, found)
        return found

    def route(self, key: Key, context: Mapping[str, Any] | None = None) -> int:
        """The number of the shard that holds `key`, if any does."""
        return (self._place(key) if not context else self._place_with(key, context))[0]

    def parse_key(self, text: str) -> Key:
        """A key as a person types it."""
        if not self.served:
            self._place(text)
        return self.router.key.parsed(text)

    def check(self, number: int) -> None:
        """Open one shard, if it has rows, and with that prove it; ShardError otherwise."""
        with self._lent(number):
            pass

    def is_at_hand(self, number: int) -> bool:
        """Whether an answer from this shard needs neither network nor hashing."""
        shard = self._open.get(number, False)
        return shard is None or (isinstance(shard, Shard) and bool(shard.idle) and shard.near)

    def shared_with(self, newer: KeyReader) -> dict[int, Shard | None]:
        """The open shards that are the same in `newer`."""
        with self._lock:
            opened = list(self._open.items())
        return {
            number: shard
            for number, shard in opened
            if shard is not None
            and not shard.retired
            and _same(self.shards[number], newer.shards.get(number))
        }

    def retire(self, newer: KeyReader | None = None) -> None:
        """Give up every shard that `newer` doesn't have open."""
        kept = set() if newer is None else {id(shard) for shard in newer.opened()}
        with self._lock:
            self._retired = True
            leaving = [shard for shard in self._open.values() if shard is not None and id(shard) not in kept]
        for shard in leaving:
            shard.retire()

    def opened(self) -> list[Shard]:
        """The shards that are open now."""
        with self._lock:
            return [shard for shard in self._open.values() if shard is not None]

    def _place_with(self, key: Key, context: Mapping[str, Any]) -> tuple[int, bytes]:
        if not self.served:
            return self._place(key)
        return self.router.route(key, context), self._encode(key)

    def _group(self, keys: list[Key], context: Mapping[str, Any] | None) -> Grouped:
        if not context:
            return self._group_alone(keys)
        return grouper(self.router, partial(self._place_with, context=context), fast=False)(keys)

    @contextmanager
    def _lent(self, number: int) -> Iterator[Cursor | None]:
        """A cursor on one shard, None when it has no rows. `get` does the same without the ceremony."""
        try:
            shard = self._open[number]
        except KeyError:
            shard = self._opened(number)
        if shard is None:
            yield None
            return
        try:
            cursor = shard.idle.pop()
        except IndexError:
            shard, cursor = self._cursor(number, shard)
        try:
            yield cursor
        except BaseException as error:
            shard.discard(cursor)
            _raise_ours(shard, error)
            raise
        shard.idle.append(cursor)
        shard.used = True
        if shard.retired:
            shard.drain()

    def _cursor(self, number: int, shard: Shard) -> tuple[Shard, Cursor]:
        """One more cursor. A shard that a cache gave up meanwhile is opened again."""
        found: Shard | None = shard
        for _ in range(100):
            assert found is not None
            try:
                return found, _with_room(found.cursor, found.location)
            except ShardClosed:
                with self._lock:
                    if self._open.get(number) is found:
                        del self._open[number]
                found = self._opened(number)
        raise ShardError(
            f"shard {number} was evicted from the cache again and again while it was being opened",
            hint="the cache is far too small for what is read at once: raise its limit",
        )

    def _opened(self, number: int) -> Shard | None:
        """Open a shard, once however many threads ask for it."""
        with self._lock:
            turn = self._opening.setdefault(number, threading.Lock())
        with turn:
            with self._lock:
                if self._retired:
                    raise Superseded
                if number in self._open:
                    return self._open[number]
            described = self.shards.get(number)
            shard = None
            if described is not None:
                self._give_way(described)
                shard = _with_room(partial(self.places.open, described), f"{described.db_url}")
            with self._lock:
                if not self._retired:
                    self._open[number] = shard
                    return shard
        if shard is not None:
            shard.retire()
        raise Superseded

    def _give_way(self, coming: ShardMeta) -> None:
        """Close what was fetched and not used lately, so that this reader never pins more than the cache
        may hold. Those used since the last look get a second chance."""
        cache = self.places.cache
        if cache is None:
            return
        with self._lock:
            fetched = [(n, shard) for n, shard in self._open.items() if shard is not None and shard.leased]
            excess = sum(shard.leased for _, shard in fetched) + (coming.db_bytes or 0) - cache.limit
            leaving = []
            for number, shard in sorted(fetched, key=lambda pair: pair[1].used):
                if excess <= 0:
                    break
                leaving.append(shard)
                excess -= shard.leased
                del self._open[number]
            for _, shard in fetched:
                shard.used = False
        for shard in leaving:
            shard.retire()


def _with_room(opens: Callable[[], _T], location: str) -> _T:
    """What `opens` gives; if the process is out of files, again when some are closed. More than once: other
    threads may be as quick to take them."""
    for _ in range(_TRIES):
        try:
            return opens()
        except (TooManyFiles, OSError) as error:
            if isinstance(error, OSError) and not out_of_files(error):
                raise
        FILES.shrink()
    raise too_many(location)


def _refused(meta: BuildMeta) -> Callable[[Any], tuple[int, bytes]]:
    """What stands in for routing when there is nothing to route to."""
    table = meta.custom.get("table", "the table")

    def refuse(key: Any) -> tuple[int, bytes]:
        raise NotFound(
            f"{table} is not served by key",
            hint="add `serve:` to it in lading.yaml and run; `lookup` finds rows by the order column",
        )

    return refuse


def _look_up(cursor: Cursor, names: dict[bytes, Key], found: dict[Key, bytes | None]) -> None:
    """Put what one shard has into `found`; `names` are its keys by their stored form."""
    stored = list(names)
    if len(stored) > _LENGTHS[-1]:
        stored.sort()  # SQLite sorts what one statement asks for; neighbours lie on one page
    for at in range(0, len(stored), _LENGTHS[-1]):
        batch = stored[at : at + _LENGTHS[-1]]
        length = _LENGTHS[bisect_left(_LENGTHS, len(batch))]
        batch += batch[-1:] * (length - len(batch))
        for key, value in cursor.execute(_MANY[length], batch).fetchall():
            found[names[key]] = value


def _same(one: ShardMeta, other: ShardMeta | None) -> bool:
    return other is not None and (one.db_url, one.checkpoint_id, one.db_bytes) == (
        other.db_url, other.checkpoint_id, other.db_bytes,
    )  # fmt: skip


def _raise_ours(shard: Shard, error: BaseException) -> None:
    """What SQLite objected to, as an error of ours; anything else is the caller's to raise on."""
    if not isinstance(error, Exception) or isinstance(error, LadingError):
        return
    ours = failure_of(error)
    if ours is not None:
        raise ours from error
    if isinstance(error, engine_errors()):
        raise ShardError(f"the shard {shard.location} can't be read: {error}", hint=HINT) from error
