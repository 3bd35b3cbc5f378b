"""A table's state, read where it lies: the members that a checkpoint or a snapshot holds.

Nothing is decoded as a whole. What is read is checked against its checksum (state_file.py), so that a
damaged file is an error and never a wrong answer.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from lading.errors import LadingError, LogCorrupt, ManifestParseError
from lading.format.expression import Predicate
from lading.format.prune import may_match
from lading.format.source_lists import SourceLists
from lading.format.state_file import (
    STATE_VERSION,
    MemberRow,
    StateMeta,
    path_hash,
    row_crc,
    storable,
    vector_crc,
)
from lading.format.zones import ZoneVector, pack
from lading.model import Bound, Member, Root, Source

_MEMBER = (
    "id, serial, path, rows, bytes, bucket, tick_min, tick_max, key_min, key_max, created_at, tier, "
    "minus, crc"
)
_SOURCE = (
    "id, key, hash, sha256, size, mtime_ns, rows, racy, processed_at, archive, rejected, quarantine, aside, "
    "sequence, crc"
)


def _damaged_snapshot(what: str) -> LadingError:
    return ManifestParseError(
        f"the snapshot is damaged: {what}",
        hint="roll back to an earlier snapshot (lading rollback TABLE --offset 1), or: lading repair",
    )


class MemberStore:
    """A state that lies in a SQLite database; a `MemberSet` for readers."""

    def __init__(
        self,
        con: sqlite3.Connection,
        root: Root,
        damaged: Callable[[str], LadingError] = _damaged_snapshot,
    ) -> None:
        """`damaged` makes the error for content that fails its checks; the database belongs to `self`."""
        self._con = con
        self._damaged = damaged
        self.root = root

    @cached_property
    def meta(self) -> StateMeta:
        fields = dict(self._query("SELECT name, value FROM lading"))
        crc = fields.pop("crc", None)
        if fields.get("version") != STATE_VERSION:
            raise self._damaged(f"its version is {fields.get('version')}, this lading reads {STATE_VERSION}")
        named = all(isinstance(name, str) for name in fields)
        if not named or crc != row_crc(sorted(fields.items())):
            raise self._damaged("what it says of itself fails its checksum")
        with self._sound("what it says of itself"):
            return msgspec.convert(fields, StateMeta)

    @property
    def schema(self) -> bytes:
        return self.meta.schema

    @property
    def order_by(self) -> str | None:
        return self.meta.order_by

    def count(self) -> int:
        return len(self.rows)

    @cached_property
    def rows(self) -> np.ndarray:
        return self._numbers("rows")

    @cached_property
    def live_rows(self) -> np.ndarray:
        """Rows a member without those that a `minus` takes away."""
        live = self._numbers("live_rows")
        if len(live) != self.count():
            raise self._damaged("the vector live_rows doesn't fit the members")
        return live

    @cached_property
    def source_lists(self) -> SourceLists:
        offsets, ids, rows = (self._numbers(f"source_{name}") for name in ("offsets", "ids", "rows"))
        fits = len(offsets) == self.count() + 1 and len(ids) == len(rows) == offsets[-1]
        if not fits or offsets[0] != 0 or (np.diff(offsets) < 0).any():
            raise self._damaged("the lists of sources don't fit the members")
        return SourceLists(offsets, ids, rows)

    @cached_property
    def columns_with_zones(self) -> list[str]:
        vector = self._vector("columns")
        with self._sound("the list of columns"):
            return msgspec.msgpack.decode(vector, type=list[str])

    def zone(self, column: str) -> ZoneVector | None:
        if column not in self.columns_with_zones:
            return None
        rows = self._query('SELECT rowid, crc FROM zones WHERE "column" = ?', (column,))
        return self._zone_vector(column, self._checked("zones", column, rows))

    def candidates(self, where: Predicate | None) -> list[Member]:
        if where is None:
            return self.members(None)
        return self.members(np.flatnonzero(may_match(where, self.zone, self.rows)))

    def holding(self, key: Bound) -> list[Member]:
        """The members whose key range contains `key`, in key order; one without a range may hold any."""
        keys = self._keys
        if keys.kind == "none":  # no member has a key, or keys of several types: the ranges alone decide
            return [member for member in self.members(None) if _may_hold(member, key)]
        without = 0 if keys.has_min is None else len(keys) - int(np.count_nonzero(keys.has_min))
        found = self.members(np.arange(without))
        if storable(key):
            found += self._in_range(key, without)[::-1]
        return found

    def _in_range(self, key: Bound, first: int) -> list[Member]:
        keys = self._keys
        found = []
        last = bisect_right(range(len(keys)), key, lo=first, key=lambda i: _plain(keys.mins[i]))
        for number in range(last - 1, first - 1, -1):
            if _plain(keys.maxs[number]) < key:
                break
            [member] = self.members(np.asarray([number]))
            if _may_hold(member, key):
                found.append(member)
        return found

    def members_of(self, sources: Iterable[int]) -> list[Member]:
        """The members in which rows of any of `sources` count, found without opening a file."""
        wanted = frozenset(sources)
        return [m for m in self.members(self.source_lists.holders(wanted)) if m.counts_any(wanted)]

    def members(self, ids: np.ndarray | None) -> list[Member]:
        """Members by number (all of them for None), in key order, without their zones."""
        if ids is None:
            return [self._member(number, row) for number, row in enumerate(self.member_rows())]
        return [self._member(number, self._row(number)) for number in ids.tolist()]

    def by_path(self, path: str) -> tuple[Member, int] | None:
        """One member with its zones, and its serial."""
        number = self._number(path)
        if number is None:
            return None
        zones = {}
        for name in self.columns_with_zones:
            vector = self.zone(name)
            zone = vector.zone(number) if vector is not None else None
            if zone is not None:
                zones[name] = zone
        row = self._row(number)
        return msgspec.structs.replace(self._member(number, row), zones=zones), row[0]

    def contains(self, path: str) -> bool:
        return self._number(path) is not None

    def numbers(self, paths: Iterable[str]) -> np.ndarray:
        """The numbers of the members with these paths, each of which is here."""
        found = []
        for path in paths:
            number = self._number(path)
            if number is None:
                raise self._damaged(f"{path} was taken from it and is not in it")
            found.append(number)
        return np.asarray(found, np.int64)

    def member_rows(self) -> list[MemberRow]:
        rows = self._query(f"SELECT {_MEMBER} FROM members ORDER BY id")
        if [row[0] for row in rows] != list(range(self.count())):
            raise self._damaged("members are missing")
        return [self._sealed(row)[1:] for row in rows]

    def sources(self) -> list[tuple[Source, int]]:
        """Every source with the sequence that recorded it, by key."""
        rows = self._query(f"SELECT {_SOURCE} FROM sources ORDER BY id")
        if [row[0] for row in rows] != self._source_index.tolist():
            raise self._damaged("sources are missing")
        whole = [self._sealed(row) for row in rows]
        with self._sound("a source"):
            return sorted(map(_source, whole), key=lambda pair: pair[0].key)

    def source(self, number: int) -> tuple[Source, int] | None:
        rows = self._query(f"SELECT {_SOURCE} FROM sources WHERE id = ?", (number,))
        if rows:
            whole = self._sealed(rows[0])
            with self._sound("a source"):
                return _source(whole)
        at = int(np.searchsorted(self._source_index, number))
        if at < len(self._source_index) and self._source_index[at] == number:
            raise self._damaged(f"source {number} is missing")
        return None

    def source_count(self) -> int:
        return len(self._source_index)

    def bucket_count(self) -> int:
        return len({row[4] for row in self.member_rows()})

    def close(self) -> None:
        self._con.close()

    @cached_property
    def _keys(self) -> ZoneVector:
        return self._zone_vector("keys", self._vector("keys"))

    @cached_property
    def _source_index(self) -> np.ndarray:
        return self._numbers("sources")

    @cached_property
    def _path_index(self) -> tuple[np.ndarray, np.ndarray]:
        return self._numbers("path_hashes"), self._numbers("path_members")

    def _number(self, path: str) -> int | None:
        hashes, members = self._path_index
        wanted = path_hash(path)
        at = int(np.searchsorted(hashes, wanted))
        while at < len(hashes) and hashes[at] == wanted:
            if self._row(int(members[at]))[1] == path:
                return int(members[at])
            at += 1
        return None

    def _row(self, number: int) -> MemberRow:
        rows = self._query(f"SELECT {_MEMBER} FROM members WHERE id = ?", (number,))
        if not rows or rows[0][0] != number:
            raise self._damaged(f"member {number} is missing")
        row: MemberRow = self._sealed(rows[0])[1:]
        return row

    def _member(self, number: int, row: MemberRow) -> Member:
        _, path, rows, size, bucket, tick_min, tick_max, key_min, key_max, created_at, tier, minus = row
        numbers = (rows, size, bucket, tick_min, tick_max, tier)
        if type(path) is not str or any(type(one) is not int for one in numbers):
            raise self._damaged(f"member {number} has a value of another type")
        if minus is not None and (type(minus) is not bytes or len(minus) % 8):
            raise self._damaged(f"member {number} has no list of sources where one should be")
        return Member(
            path, rows, size, bucket, tick_min, tick_max, key_min, key_max, created_at, {},
            self.source_lists.one(number), tier,
            tuple(np.frombuffer(minus, "<i8").tolist()) if minus else (),
        )  # fmt: skip

    def _numbers(self, name: str) -> np.ndarray:
        vector = self._vector(name)
        with self._sound(f"the vector {name}"):
            return np.frombuffer(vector, "<i8")

    def _vector(self, name: str) -> bytes:
        rows = self._query("SELECT rowid, crc FROM vectors WHERE name = ?", (name,))
        return self._checked("vectors", name, rows)

    def _zone_vector(self, name: str, blob: bytes) -> ZoneVector:
        with self._sound(f"the vector {name}"):
            vector = ZoneVector.from_blob(blob)
        if len(vector) != self.count():
            raise self._damaged(f"the vector {name} doesn't fit the members")
        return vector

    @contextmanager
    def _sound(self, what: str) -> Iterator[None]:
        """A checksum tells damage, not malice: content that is no content is the same error."""
        try:
            yield
        except (ValueError, TypeError, OverflowError, LogCorrupt, msgspec.MsgspecError) as error:
            raise self._damaged(f"{what} can't be read: {error}") from error

    def _checked(self, table: str, name: str, rows: list[Any]) -> bytes:
        for number, crc in rows:
            vector = self._blob(table, number)
            if vector_crc(name, vector) == crc:
                return vector
        raise self._damaged(f"the vector {name} is missing or fails its checksum")

    def _blob(self, table: str, number: int) -> bytes:
        """A vector, read straight into its place: fetched as a value it would be copied twice."""
        try:
            with self._con.blobopen(table, "vector", number, readonly=True) as blob:
                return blob.read()
        except (sqlite3.Error, OverflowError, MemoryError) as error:
            raise self._damaged(str(error)) from error

    def _sealed(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """A row without its checksum, which has to be right."""
        content = row[:-1]
        if row_crc(content) != row[-1]:
            raise self._damaged(f"row {row[0]} fails its checksum")
        return content

    def _query(self, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        try:
            return self._con.execute(sql, parameters).fetchall()
        except (sqlite3.Error, UnicodeError, OverflowError, MemoryError) as error:
            raise self._damaged(str(error)) from error


def zone_loader(members: Sequence[Member]) -> Callable[[str], ZoneVector | None]:
    """Zones of members that aren't in a database yet, column by column."""
    return lambda column: pack([member.zones.get(column) for member in members])


def _may_hold(member: Member, key: Bound) -> bool:
    low, high = member.key_min, member.key_max
    if low is None or high is None:
        return True
    try:
        return bool(low <= key <= high)  # type: ignore[operator]
    except TypeError:  # of another type: the range says nothing about it
        return True


def _plain(value: Any) -> Any:
    return value.as_py() if hasattr(value, "as_py") else value.item()


def _source(row: tuple[Any, ...]) -> tuple[Source, int]:
    *fields, sequence = row
    if type(fields[1]) is not str:
        raise TypeError("a key that is no text")
    fields[7] = bool(fields[7])  # racy: SQLite has no booleans
    return Source(*fields), sequence
