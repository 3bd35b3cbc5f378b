"""Which tables to run when: pure. Hints and the clock go in, runs come out.

A hint says that something happened to a file. It may be wrong, late, doubled or missing: a listing of all
files comes round every `every` seconds whatever was heard, and a run asks the file itself. So a schedule
decides when, never what.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

FIRST_PAUSE = 1.0  # seconds after a table's first failure; each one more doubles it
_LONGEST_PAUSE = 300.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it was when somebody looked. `placed`: it was complete before it got its name, or its times
    were set by whoever wrote it, so nothing more is to come."""

    size: int
    mtime_ns: int
    placed: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """A run of one table: of the files that hints named, or, with None, of all."""

    table: str
    keys: frozenset[str] | None = None


@dataclass(slots=True)
class _Waiting:
    seen: Seen | None
    until: float  # quiet until then, it counts as complete


@dataclass(slots=True)
class _Table:
    listing_at: float
    waiting: dict[str, _Waiting] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    failures: int = 0
    retry_at: float | None = None  # until then it is left alone, unless something is heard of it


class Schedule:
    """Times are seconds on any clock that never goes back."""

    def __init__(
        self, tables: Iterable[str], *, every: float, settle: float, at: float, most: int = 1_000
    ) -> None:
        """All tables are due at once. More than `most` files of one table are a listing."""
        self._every, self._settle, self._most = every, settle, most
        self._tables = {name: _Table(listing_at=at) for name in tables}

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(self._tables)

    def keep(self, tables: Iterable[str], at: float) -> None:
        """From now on these tables; those that are new are due at once."""
        self._tables = {name: self._tables.get(name) or _Table(listing_at=at) for name in tables}

    def heard(self, table: str, key: str, seen: Seen | None, at: float) -> None:
        """Something happened to a file, which is as `seen` now; None: it is gone."""
        one = self._tables.get(table)
        if one is None:
            return
        one.retry_at = None  # there is news: perhaps it works now
        before = one.waiting.get(key)
        if seen is None or seen.placed:
            one.waiting.pop(key, None)
            one.ready.add(key)
        elif before is None or before.seen != seen:
            one.ready.discard(key)
            one.waiting[key] = _Waiting(seen, at + self._settle)
        elif at >= before.until:
            del one.waiting[key]
            one.ready.add(key)

    def heard_of_all(self, table: str, at: float) -> None:
        """Something happened that only a listing can tell: hints were lost, or a folder moved."""
        one = self._tables.get(table)
        if one is not None:
            one.listing_at = min(one.listing_at, at)
            one.retry_at = None

    def is_waiting(self, table: str) -> bool:
        """Whether some of its files are still being written, as far as can be told."""
        return table in self._tables and bool(self._tables[table].waiting)

    def to_ask(self, at: float) -> list[tuple[str, str]]:
        """Files that have been quiet long enough, if they are as they were: ask, and say it to `heard`."""
        return [
            (name, key)
            for name, one in self._tables.items()
            for key, waiting in one.waiting.items()
            if waiting.until <= at
        ]

    def due(self, at: float) -> list[Due]:
        """The runs to make now, in the tables' order; each is taken as begun."""
        found = []
        for name, one in self._tables.items():
            if one.retry_at is not None and at < one.retry_at:
                continue
            again = one.failures > 0 and (bool(one.ready) or one.retry_at is not None)
            if again or self._lists(one, at) or len(one.ready) > self._most:
                found.append(Due(name))
                one.listing_at = at + self._every
            elif one.ready:
                found.append(Due(name, frozenset(one.ready)))
            else:
                continue
            one.ready.clear()
            one.retry_at = None
        return found

    def _lists(self, one: _Table, at: float) -> bool:
        """A listing takes every file as it is then, so it waits for those that are being written, once."""
        return one.listing_at <= at and (not one.waiting or at >= one.listing_at + self._every)

    def finished(self, due: Due, *, failed: bool, at: float) -> float | None:
        """How a run ended. After a failure, the pause before the next try."""
        one = self._tables.get(due.table)
        if one is None:
            return None
        if not failed:
            one.failures = 0
            return None
        one.failures += 1
        pause = min(_LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(one.failures - 1, 30))
        one.retry_at = at + pause
        return pause

    def wake_at(self) -> float:
        """When something is to be done next, if nothing is heard until then."""
        return min((self._next(one) for one in self._tables.values()), default=float("inf"))

    def _next(self, one: _Table) -> float:
        if one.retry_at is not None:
            return one.retry_at
        if one.ready:
            return float("-inf")
        if one.waiting:
            return min(one.listing_at + self._every, *(waiting.until for waiting in one.waiting.values()))
        return one.listing_at
