"""A table's state, read where it lies: the members that a checkpoint or a snapshot holds.

Nothing is decoded as a whole. A question goes to the summaries of the blocks first (blocks.py), and only
the blocks that can't be ruled out are read. What is read is checked (sealed.py), so that a damaged file is
an error and never a wrong answer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec

from lading.errors import LadingError, ManifestParseError
from lading.late import np
from lading.model import Bound, Looked, Member, Place, Source
from lading.state.key_index import may_hold
from lading.state.sealed import Sealed
from lading.state.source_lists import SourceLists
from lading.state.tables import STATE_VERSION, MemberRow, StateMeta, row_crc, storable
from lading.state.vectors import StateVectors
from lading.where.tree import Predicate
from lading.zones.vector import ZoneVector, pack

_MEMBER = (
    "id, serial, path, rows, bytes, bucket, tick_min, tick_max, key_min, key_max, created_at, tier, "
    "minus, crc"
)
_SOURCE = (
    "id, key, hash, sha256, size, mtime_ns, rows, racy, processed_at, archive, rejected, quarantine, aside, "
    "sequence, crc"
)
_AT_ONCE = 500  # members that one statement asks for


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
        root: Place,
        damaged: Callable[[str], LadingError] = _damaged_snapshot,
    ) -> None:
        """`damaged` makes the error for content that fails its checks; the database belongs to `self`."""
        self._sealed = Sealed(con, damaged)
        self.root = root

    @cached_property
    def meta(self) -> StateMeta:
        fields = dict(self._sealed.query("SELECT name, value FROM lading"))
        crc = fields.pop("crc", None)
        if fields.get("version") != STATE_VERSION:
            raise self._sealed.damaged(
                f"its version is {fields.get('version')}, this lading reads {STATE_VERSION}"
            )
        named = all(isinstance(name, str) for name in fields)
        if not named or crc != row_crc(sorted(fields.items())):
            raise self._sealed.damaged("its description of itself fails its checksum")
        with self._sealed.sound("its description of itself"):
            meta = msgspec.convert(fields, StateMeta)
            if meta.members < 0:
                raise ValueError(f"{meta.members} members")
            return meta

    @property
    def schema(self) -> bytes:
        return self.meta.schema

    @property
    def order_by(self) -> str | None:
        return self.meta.order_by

    def count(self) -> int:
        return self.meta.members

    def row_count(self) -> int:
        """Rows that count, of all members."""
        return self._vectors.row_count()

    @property
    def rows(self) -> np.ndarray:
        """Rows in each member's file."""
        return self._vectors.rows("rows")

    @property
    def live_rows(self) -> np.ndarray:
        """Rows a member without those that a `minus` takes away."""
        return self._vectors.rows("live_rows")

    @property
    def source_lists(self) -> SourceLists:
        return self._vectors.source_lists()

    @property
    def columns_with_zones(self) -> list[str]:
        return self._vectors.columns

    def zone(self, column: str) -> ZoneVector | None:
        return self._vectors.zones(column)

    def candidates(self, where: Predicate | None, *, unknown: Container[str] = ()) -> list[Member]:
        """Found by a predicate, members are for reading: they have their source lists only where some of the
        rows don't count. Of the columns `unknown` no zone is believed: their types have changed since."""
        if where is None:
            return self.members(None)
        return self._members(self._vectors.may_match(where, unknown).tolist(), with_sources=False)

    def holding(self, key: Bound) -> list[Member]:
        """The members whose key range contains `key`, in key order; one without a range may hold any."""
        without = self._vectors.without_key
        if without is None:  # the ranges alone decide
            return [member for member in self.members(None) if may_hold(member, key)]
        found = self.members(np.arange(without)) if without else []
        if not storable(key):
            return found
        ranged = []
        for number in range(self._vectors.beginning_by(key) - 1, without - 1, -1):
            if self._vectors.reach(number) < key:
                break
            member = self._member(number, self._row(number), with_sources=False)
            if may_hold(member, key):
                ranged.append(member)
        return found + ranged[::-1]

    def members_of(self, sources: Iterable[int]) -> list[Member]:
        """The members in which rows of any of `sources` count, found without opening a file."""
        wanted = frozenset(sources)
        return [m for m in self.members(self.source_lists.holders(wanted)) if m.counts_any(wanted)]

    def members(self, ids: np.ndarray | None) -> list[Member]:
        """Members by number (all of them for None), in key order, without their zones."""
        if ids is None:
            return [self._member(number, row) for number, row in enumerate(self.member_rows())]
        return self._members(np.unique(ids).tolist())

    def by_path(self, path: str) -> tuple[Member, int] | None:
        """One member with its zones, and its serial."""
        number = self._number(path)
        if number is None:
            return None
        zones = {}
        for name in self.columns_with_zones:
            zone = self._vectors.zone(name, number)
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
                raise self._sealed.damaged(f"{path} was taken from it and is not in it")
            found.append(number)
        return np.asarray(found, np.int64)

    def member_rows(self) -> list[MemberRow]:
        rows = self._sealed.query(f"SELECT {_MEMBER} FROM members ORDER BY id")
        return self._sealed_rows(rows, range(self.count()))

    def sources(self) -> list[tuple[Source, int]]:
        """Every source with the sequence that recorded it, by key."""
        return list(self.sources_by_key())

    def sources_by_key(self) -> Iterator[tuple[Source, int]]:
        """The same, one after the other: they are never all in memory."""
        left = len(self._vectors.source_ids)
        before = ""
        for rows in self._sealed.stream(f"SELECT {_SOURCE} FROM sources ORDER BY key"):
            whole = self._sealed.rows(rows)  # before anything is compared: a damaged id need not be a number
            with self._sealed.sound("a source"):
                ids = np.asarray([row[0] for row in whole], np.int64)
            every = self._vectors.source_ids  # sorted
            at = np.minimum(np.searchsorted(every, ids), max(len(every) - 1, 0))
            left -= len(rows)
            if left < 0 or not (every[at] == ids).all():
                raise self._sealed.damaged("sources are missing")
            with self._sealed.sound("a source"):
                for pair in map(_source, whole):
                    if pair[0].key < before:
                        raise ValueError("keys out of order")
                    before = pair[0].key
                    yield pair
        if left:
            raise self._sealed.damaged("sources are missing")

    def source(self, number: int) -> tuple[Source, int] | None:
        rows = self._sealed.query(f"SELECT {_SOURCE} FROM sources WHERE id = ?", (number,))
        if rows:
            whole = self._sealed.row(rows[0])
            with self._sealed.sound("a source"):
                return _source(whole)
        at = int(np.searchsorted(self._vectors.source_ids, number))
        if at < len(self._vectors.source_ids) and self._vectors.source_ids[at] == number:
            raise self._sealed.damaged(f"source {number} is missing")
        return None

    def evidence(self) -> list[Looked]:
        """What is known of the sources' columns; nothing where nobody has looked."""
        if not self._sealed.query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'evidence'"):
            return []
        rows = self._sealed.rows(
            self._sealed.query("SELECT id, mark, content, crc FROM evidence ORDER BY id")
        )
        with self._sealed.sound("evidence"):
            return [Looked(*row) for row in rows]

    def source_count(self) -> int:
        return len(self._vectors.source_ids)

    def bucket_count(self) -> int:
        return len({row[4] for row in self.member_rows()})

    def check(self) -> None:
        """Read all that there is, against its checksum."""
        self.members(None)
        self.sources()
        self.evidence()
        self._sealed.check_vectors()
        for column in self.columns_with_zones:
            self.zone(column)
        _ = self.rows, self.live_rows, self.source_lists

    def close(self) -> None:
        self._sealed.close()

    @cached_property
    def _vectors(self) -> StateVectors:
        return StateVectors(self._sealed, self.meta.members)

    def _members(self, numbers: list[int], *, with_sources: bool = True) -> list[Member]:
        if len(numbers) == 1:
            return [self._member(numbers[0], self._row(numbers[0]), with_sources)]
        some = [numbers[at : at + _AT_ONCE] for at in range(0, len(numbers), _AT_ONCE)]
        rows = [row for wanted in some for row in self._rows_of(wanted)]
        return [self._member(number, row, with_sources) for number, row in zip(numbers, rows, strict=True)]

    def _number(self, path: str) -> int | None:
        return next((number for number in self._vectors.maybe_at(path) if self._row(number)[1] == path), None)

    def _row(self, number: int) -> MemberRow:
        rows = self._sealed.query(f"SELECT {_MEMBER} FROM members WHERE id = ?", (number,))
        if not rows or rows[0][0] != number:
            raise self._sealed.damaged(f"member {number} is missing")
        row: MemberRow = self._sealed.row(rows[0])[1:]
        return row

    def _rows_of(self, numbers: list[int]) -> list[MemberRow]:
        """The rows of a few members, whose numbers rise."""
        marks = ", ".join("?" * len(numbers))
        rows = self._sealed.query(
            f"SELECT {_MEMBER} FROM members WHERE id IN ({marks}) ORDER BY id", tuple(numbers)
        )
        return self._sealed_rows(rows, numbers)

    def _sealed_rows(self, rows: list[tuple[Any, ...]], numbers: Sequence[int]) -> list[MemberRow]:
        if len(rows) != len(numbers) or any(row[0] != at for row, at in zip(rows, numbers, strict=True)):
            raise self._sealed.damaged("members are missing")
        return [row[1:] for row in self._sealed.rows(rows)]

    def _member(self, number: int, row: MemberRow, with_sources: bool = True) -> Member:
        _, path, rows, size, bucket, tick_min, tick_max, key_min, key_max, created_at, tier, minus = row
        if type(path) is not str or not (
            type(rows) is type(size) is type(bucket) is type(tick_min) is type(tick_max) is type(tier) is int
        ):
            raise self._sealed.damaged(f"member {number} has a value of another type")
        if minus is not None and (type(minus) is not bytes or len(minus) % 8):
            raise self._sealed.damaged(f"member {number} has no list of sources where one should be")
        return Member(
            path, rows, size, bucket, tick_min, tick_max, key_min, key_max, created_at, {},
            self._vectors.sources_of(number) if with_sources or minus else (), tier,
            tuple(np.frombuffer(minus, "<i8").tolist()) if minus else (),
        )  # fmt: skip


def zone_loader(members: Sequence[Member]) -> Callable[[str], ZoneVector | None]:
    """Zones of members that aren't in a database yet, column by column."""
    return lambda column: pack([member.zones.get(column) for member in members])


def _source(row: tuple[Any, ...]) -> tuple[Source, int]:
    *fields, sequence = row
    if type(fields[1]) is not str:
        raise TypeError("a key that is not text")
    fields[7] = bool(fields[7])  # racy: SQLite has no booleans
    return Source(*fields), sequence
