"""A table's state as SQLite tables: what a checkpoint and a snapshot have in common.

Members are rows, numbered in key order and found by key range through an index. What a scan asks of
all of them at once (zones, row counts, source lists) is kept as vectors, one blob each, so that
pruning is one comparison over an array and nothing is decoded member by member.

`reach` is the greatest key_max up to and including a row: walking back from the last member that
starts at or before a key, the first row whose reach is below the key ends the search, however the
ranges overlap.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from lading.format.expression import Predicate
from lading.format.prune import may_match
from lading.format.source_lists import SourceLists
from lading.format.zones import ZoneVector, pack
from lading.model import Bound, Member, Source

_TABLES = """
CREATE TABLE lading(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE members(
  id INTEGER PRIMARY KEY, serial INTEGER NOT NULL, path TEXT NOT NULL, rows INTEGER NOT NULL,
  bytes INTEGER NOT NULL, bucket INTEGER NOT NULL, tick_min INTEGER NOT NULL, tick_max INTEGER NOT NULL,
  key_min, key_max, reach, created_at TEXT NOT NULL, tier INTEGER NOT NULL, minus BLOB);
CREATE TABLE zones("column" TEXT PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE vectors(name TEXT PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE sources(
  id INTEGER PRIMARY KEY, key TEXT NOT NULL, hash TEXT NOT NULL, sha256 TEXT NOT NULL, size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL, rows INTEGER NOT NULL, racy INTEGER NOT NULL, processed_at TEXT NOT NULL,
  archive TEXT, sequence INTEGER NOT NULL);
"""
_INDEXES = """
CREATE INDEX members_by_key ON members(key_min, reach);
CREATE UNIQUE INDEX members_by_path ON members(path);
"""
_MEMBER = "serial, path, rows, bytes, bucket, tick_min, tick_max, key_min, key_max, created_at, tier, minus"
_SOURCE = "id, key, hash, sha256, size, mtime_ns, rows, racy, processed_at, archive, sequence"

# A member as its row: the columns of _MEMBER.
MemberRow = tuple[int, str, int, int, int, int, int, Bound | None, Bound | None, str, int, bytes | None]


class StateMeta(msgspec.Struct, frozen=True, kw_only=True):
    """What a state says of itself; one row a field in the table `lading`."""

    table: str
    table_id: str
    created_at: str
    sequence: int  # of the last commit
    data_sequence: int  # of the last commit that changed rows
    at: str  # when that last commit was made
    recipe: str
    schema: bytes  # Arrow IPC schema, b"" before the first commit
    order_by: str | None
    next_serial: int
    log_id: str = ""  # checkpoint only: the log that `log_offset` counts in
    log_offset: int = 0


@dataclass(frozen=True, slots=True)
class StateColumns:
    """A whole state, ready to be written; every vector follows `members` in order."""

    members: list[MemberRow]
    zones: dict[str, ZoneVector]
    source_lists: SourceLists
    sources: list[tuple[Source, int]]  # with the sequence that recorded them

    def in_key_order(self) -> StateColumns:
        """Sorted by key (members without one first), then path, so that equal states dump alike."""
        rows = self.members
        order = sorted(range(len(rows)), key=lambda i: (rows[i][7] is not None, rows[i][7], rows[i][1]))
        if order == list(range(len(rows))):
            return self
        at = np.asarray(order, np.int64)
        return StateColumns(
            [rows[i] for i in order],
            {name: vector.take(at) for name, vector in self.zones.items()},
            self.source_lists.take(at),
            self.sources,
        )


def row_of(member: Member, serial: int) -> MemberRow:
    """A key range that is open at one end, or beyond what SQLite counts to, rules nothing out: no range."""
    low, high = member.key_min, member.key_max
    if not (_storable(low) and _storable(high)):
        low = high = None
    return (
        serial, member.path, member.rows, member.bytes, member.bucket, member.tick_min, member.tick_max,
        low, high, member.created_at, member.tier,
        np.asarray(member.minus, "<i8").tobytes() if member.minus else None,
    )  # fmt: skip


def write_state(con: sqlite3.Connection, meta: StateMeta, state: StateColumns) -> None:
    """Fill an empty database with a state; the caller commits or serialises it."""
    _execute_all(con, _TABLES)
    con.executemany("INSERT INTO lading VALUES (?, ?)", sorted(msgspec.structs.asdict(meta).items()))
    state = state.in_key_order()
    con.executemany(f"INSERT INTO members VALUES (?{', ?' * 13})", _numbered(state.members))
    con.executemany(
        "INSERT INTO zones VALUES (?, ?)",
        ((name, vector.to_blob()) for name, vector in sorted(state.zones.items())),
    )
    con.executemany("INSERT INTO vectors VALUES (?, ?)", _vectors(state).items())
    con.executemany(
        f"INSERT INTO sources VALUES (?{', ?' * 10})",
        sorted((*msgspec.structs.astuple(source), sequence) for source, sequence in state.sources),
    )
    _execute_all(con, _INDEXES)


class MemberStore:
    """A state that lies in a SQLite database; a `MemberSet` for readers."""

    def __init__(self, con: sqlite3.Connection, root: str) -> None:
        self._con = con
        self.root = root

    @cached_property
    def meta(self) -> StateMeta:
        return msgspec.convert(dict(self._con.execute("SELECT name, value FROM lading")), StateMeta)

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
        return self._vector("rows")

    @cached_property
    def live_rows(self) -> np.ndarray:
        """Rows a member without those that a `minus` takes away."""
        return self._vector("live_rows")

    @cached_property
    def source_lists(self) -> SourceLists:
        return SourceLists(
            self._vector("source_offsets"), self._vector("source_ids"), self._vector("source_rows")
        )

    def columns_with_zones(self) -> list[str]:
        return [name for (name,) in self._con.execute('SELECT "column" FROM zones ORDER BY "column"')]

    def zone(self, column: str) -> ZoneVector | None:
        row = self._con.execute('SELECT vector FROM zones WHERE "column" = ?', (column,)).fetchone()
        return None if row is None else ZoneVector.from_blob(row[0])

    def candidates(self, where: Predicate | None) -> list[Member]:
        if where is None:
            return self.members(None)
        return self.members(np.flatnonzero(may_match(where, self.zone, self.rows)))

    def holding(self, key: Bound) -> list[Member]:
        """The members whose key range contains `key`, in key order; one without a range may hold any."""
        open_ended = self._con.execute("SELECT id FROM members WHERE key_min IS NULL ORDER BY id").fetchall()
        numbers = [*(row[0] for row in open_ended), *self._in_range(key)]
        return self.members(np.asarray(numbers, np.int64))

    def _in_range(self, key: Bound) -> list[int]:
        if not _storable(key):
            return []
        cursor = self._con.execute(
            "SELECT id, key_max, reach FROM members WHERE key_min <= ? "
            "ORDER BY key_min DESC, reach DESC, id DESC",
            (key,),
        )
        found = []
        for member, key_max, reach in cursor:
            if reach < key:
                break
            if key_max >= key:
                found.append(member)
        return found[::-1]

    def members_of(self, sources: Iterable[int]) -> list[Member]:
        """The members that hold rows of any of `sources`, found without opening a file."""
        return self.members(self.source_lists.holders(sources))

    def members(self, ids: np.ndarray | None) -> list[Member]:
        """Members by number (all of them for None), in key order, without their zones."""
        return [self._member(number, row) for number, row in self._rows(ids)]

    def by_path(self, path: str) -> tuple[Member, int] | None:
        """One member with its zones, and its serial."""
        row = self._con.execute(f"SELECT id, {_MEMBER} FROM members WHERE path = ?", (path,)).fetchone()
        if row is None:
            return None
        zones = {}
        for name in self.columns_with_zones():
            vector = self.zone(name)
            zone = vector.zone(row[0]) if vector is not None else None
            if zone is not None:
                zones[name] = zone
        return msgspec.structs.replace(self._member(row[0], row[1:]), zones=zones), row[1]

    def contains(self, path: str) -> bool:
        return self._con.execute("SELECT 1 FROM members WHERE path = ?", (path,)).fetchone() is not None

    def numbers(self, paths: Iterable[str]) -> np.ndarray:
        """The numbers of the members with these paths; a path that isn't here is left out."""
        find = "SELECT id FROM members WHERE path = ?"
        rows = (self._con.execute(find, (path,)).fetchone() for path in paths)
        return np.fromiter((row[0] for row in rows if row is not None), np.int64)

    def member_rows(self) -> list[MemberRow]:
        return self._con.execute(f"SELECT {_MEMBER} FROM members ORDER BY id").fetchall()

    def sources(self) -> list[tuple[Source, int]]:
        """Every source with the sequence that recorded it, by key."""
        return [_source(row) for row in self._con.execute(f"SELECT {_SOURCE} FROM sources ORDER BY key")]

    def source(self, number: int) -> tuple[Source, int] | None:
        row = self._con.execute(f"SELECT {_SOURCE} FROM sources WHERE id = ?", (number,)).fetchone()
        return None if row is None else _source(row)

    def source_count(self) -> int:
        return int(self._con.execute("SELECT count(*) FROM sources").fetchone()[0])

    def bucket_count(self) -> int:
        return int(self._con.execute("SELECT count(DISTINCT bucket) FROM members").fetchone()[0])

    def close(self) -> None:
        self._con.close()

    def _vector(self, name: str) -> np.ndarray:
        row = self._con.execute("SELECT vector FROM vectors WHERE name = ?", (name,)).fetchone()
        return np.frombuffer(row[0], "<i8")

    def _rows(self, ids: np.ndarray | None) -> list[tuple[int, MemberRow]]:
        if ids is None:
            return list(enumerate(self.member_rows()))
        find = f"SELECT {_MEMBER} FROM members WHERE id = ?"
        return [(number, self._con.execute(find, (number,)).fetchone()) for number in ids.tolist()]

    def _member(self, number: int, row: MemberRow) -> Member:
        _, path, rows, size, bucket, tick_min, tick_max, key_min, key_max, created_at, tier, minus = row
        return Member(
            path, rows, size, bucket, tick_min, tick_max, key_min, key_max, created_at, {},
            self.source_lists.one(number), tier,
            tuple(np.frombuffer(minus, "<i8").tolist()) if minus else (),
        )  # fmt: skip


def _storable(key: Bound | None) -> bool:
    return key is not None and not (isinstance(key, int) and not -(2**63) <= key < 2**63)


def _execute_all(con: sqlite3.Connection, script: str) -> None:
    """Unlike `executescript`, without committing what the caller has under way."""
    for statement in script.strip().split(";\n"):
        con.execute(statement)


def _numbered(rows: list[MemberRow]) -> Iterable[tuple[object, ...]]:
    reach: Bound | None = None
    for number, row in enumerate(rows):
        key_max = row[8]
        if key_max is not None and (reach is None or key_max > reach):  # type: ignore[operator]
            reach = key_max
        yield (number, *row[:9], reach, *row[9:])


def _vectors(state: StateColumns) -> dict[str, bytes]:
    rows = np.fromiter((row[2] for row in state.members), np.int64, len(state.members))
    live = rows.copy()
    for number, row in enumerate(state.members):
        if row[11] is not None:
            gone = np.isin(
                np.asarray([s for s, _ in state.source_lists.one(number)]), np.frombuffer(row[11], "<i8")
            )
            counts = np.asarray([n for _, n in state.source_lists.one(number)])
            live[number] -= int(counts[gone].sum())
    lists = state.source_lists
    named: dict[str, np.ndarray] = {
        "rows": rows,
        "live_rows": live,
        "source_offsets": lists.offsets,
        "source_ids": lists.ids,
        "source_rows": lists.rows,
    }
    return {name: np.ascontiguousarray(vector, "<i8").tobytes() for name, vector in named.items()}


def _source(row: tuple[Any, ...]) -> tuple[Source, int]:
    *fields, sequence = row
    fields[7] = bool(fields[7])  # racy: SQLite has no booleans
    return Source(*fields), sequence


def zone_loader(members: Sequence[Member]) -> Callable[[str], ZoneVector | None]:
    """Zones of members that aren't in a database yet, column by column."""
    return lambda column: pack([member.zones.get(column) for member in members])
