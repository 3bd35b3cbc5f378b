"""A table's state as SQLite tables: what a checkpoint and a snapshot have in common, and how it is written.

Members are rows, numbered in key order. What a scan or a lookup asks of all of them at once (zones, key
ranges, row counts, source lists, where a path is) is kept as vectors, so that pruning is one comparison
over an array and nothing is decoded member by member. Vectors are cut into blocks (blocks.py), one blob
each, with a summary in front, so that a question about few members reads few blocks.

SQLite has no checksums of its own, and a flipped bit in a zone would silently hide rows. So every row
and every vector carries a CRC32C of its content and place, checked when it is read and not before: what
isn't needed is neither read nor checked.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import google_crc32c
import msgspec
import xxhash

from lading.late import np
from lading.model import Bound, Looked, Member, Source, Zone
from lading.state.blocks import SUMMARY, block_count, blocks, summary_of
from lading.state.key_index import reaches
from lading.state.log_frames import LogHeader
from lading.state.source_lists import SourceLists
from lading.zones.numbers import packed
from lading.zones.vector import ZoneVector, pack, pack_bounds

STATE_VERSION = 3

_TABLES = """
CREATE TABLE lading(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE members(
  id INTEGER PRIMARY KEY, serial INTEGER NOT NULL, path TEXT NOT NULL, rows INTEGER NOT NULL,
  bytes INTEGER NOT NULL, bucket INTEGER NOT NULL, tick_min INTEGER NOT NULL, tick_max INTEGER NOT NULL,
  key_min, key_max, created_at TEXT NOT NULL, tier INTEGER NOT NULL, minus BLOB, crc INTEGER NOT NULL);
CREATE TABLE zones(
  "column" TEXT NOT NULL, block INTEGER NOT NULL, vector BLOB NOT NULL, crc INTEGER NOT NULL,
  PRIMARY KEY("column", block));
CREATE TABLE vectors(
  name TEXT NOT NULL, block INTEGER NOT NULL, vector BLOB NOT NULL, crc INTEGER NOT NULL,
  PRIMARY KEY(name, block));
CREATE TABLE sources(
  id INTEGER PRIMARY KEY, key TEXT NOT NULL, hash TEXT NOT NULL, sha256 TEXT NOT NULL, size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL, rows INTEGER NOT NULL, racy INTEGER NOT NULL, processed_at TEXT NOT NULL,
  archive TEXT, rejected INTEGER NOT NULL, quarantine TEXT, aside TEXT, sequence INTEGER NOT NULL,
  crc INTEGER NOT NULL);
"""
_EVIDENCE = (
    "CREATE TABLE evidence(id INTEGER PRIMARY KEY, mark INTEGER NOT NULL, content BLOB NOT NULL, "
    "crc INTEGER NOT NULL)"
)

# A member as its row: serial, path, rows, bytes, bucket, tick_min, tick_max, key_min, key_max, created_at,
# tier, minus.
MemberRow = tuple[int, str, int, int, int, int, int, Bound | None, Bound | None, str, int, bytes | None]

_Vector = tuple[str, int, bytes]  # name, block, content

_encode = msgspec.msgpack.Encoder().encode
_crc32c = google_crc32c.value


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
    members: int = 0  # how many; counted when it is written
    log_id: str = ""  # checkpoint only: the log that `log_offset` counts in
    log_offset: int = 0
    version: int = STATE_VERSION
    facts: bytes = b""  # what `recipe` is the hash of; b"" where lading 0.1 committed

    @staticmethod
    def before_the_first_commit(header: LogHeader) -> StateMeta:
        return StateMeta(
            table=header.table, table_id=header.table_id, created_at=header.created_at, sequence=0,
            data_sequence=0, at=header.created_at, recipe="", schema=b"", order_by=None, next_serial=0,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class StateColumns:
    """A whole state, ready to be written; every vector follows `members` in order."""

    members: list[MemberRow]
    zones: dict[str, ZoneVector]
    source_lists: SourceLists
    sources: list[tuple[Source, int]]  # with the sequence that recorded them
    evidence: list[Looked] = field(default_factory=list)  # of sources; a snapshot has none

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
            self.evidence,
        )


def row_of(member: Member, serial: int) -> MemberRow:
    """A key range that is open at one end, or beyond what SQLite counts to, rules nothing out: no range."""
    low, high = member.key_min, member.key_max
    if not (storable(low) and storable(high)):
        low = high = None
    return (
        serial, member.path, member.rows, member.bytes, member.bucket, member.tick_min, member.tick_max,
        low, high, member.created_at, member.tier,
        np.asarray(member.minus, "<i8").tobytes() if member.minus else None,
    )  # fmt: skip


def storable(key: Bound | None) -> bool:
    """Whether a key bound can be kept, and so whether a search for it can find anything."""
    return key is not None and not (isinstance(key, int) and not -(2**63) <= key < 2**63)


def create_tables(con: sqlite3.Connection) -> None:
    for statement in _TABLES.strip().split(";\n"):  # not `executescript`, which commits what is under way
        con.execute(statement)


def write_state(con: sqlite3.Connection, meta: StateMeta, state: StateColumns) -> None:
    """Fill a database that has no state yet, with or without its tables; the caller commits or serialises
    it."""
    if con.execute("SELECT 1 FROM sqlite_master WHERE name = 'lading'").fetchone() is None:
        create_tables(con)
    meta = msgspec.structs.replace(meta, members=len(state.members))
    fields = sorted(msgspec.structs.asdict(meta).items())
    con.executemany("INSERT INTO lading VALUES (?, ?)", [*fields, ("crc", row_crc(fields))])
    state = state.in_key_order()
    con.executemany(f"INSERT INTO members VALUES (?{', ?' * 13})", _sealed(enumerate(state.members)))
    rows = np.fromiter((row[2] for row in state.members), np.int64, len(state.members))
    con.executemany("INSERT INTO zones VALUES (?, ?, ?, ?)", _checked(_zones(state, rows)))
    con.executemany("INSERT INTO vectors VALUES (?, ?, ?, ?)", _checked(_vectors(state, rows)))
    sources = sorted((*msgspec.structs.astuple(source), sequence) for source, sequence in state.sources)
    # As SQLite gives it back: it has no booleans.
    plain = (tuple(int(v) if isinstance(v, bool) else v for v in row) for row in sources)
    con.executemany(f"INSERT INTO sources VALUES (?{', ?' * 14})", ((*row, row_crc(row)) for row in plain))
    if state.evidence:
        con.execute(_EVIDENCE)
        looked = sorted(msgspec.structs.astuple(one) for one in state.evidence)
        con.executemany("INSERT INTO evidence VALUES (?, ?, ?, ?)", ((*row, row_crc(row)) for row in looked))


def row_crc(row: object) -> int:
    """The checksum that stands at the end of a row."""
    crc: int = _crc32c(_encode(row))
    return crc


def vector_crc(name: str, block: int, vector: bytes) -> int:
    """The checksum of a vector under its name and block, so that no two can be mistaken for one another."""
    return int(google_crc32c.extend(google_crc32c.value(f"{name}:{block}".encode()), vector))


def path_hash(path: str) -> int:
    """What members are found by, given a path."""
    value: int = xxhash.xxh3_64_intdigest(path.encode("utf-8", "surrogateescape"))
    return value - (value >> 63 << 64)


def _sealed(rows: Iterable[tuple[int, MemberRow]]) -> Iterable[tuple[object, ...]]:
    for number, row in rows:
        numbered = (number, *row)
        yield (*numbered, row_crc(numbered))


def _checked(vectors: Iterable[_Vector]) -> Iterable[tuple[str, int, bytes, int]]:
    return ((name, block, vector, vector_crc(name, block, vector)) for name, block, vector in vectors)


def _zones(state: StateColumns, rows: np.ndarray) -> Iterable[_Vector]:
    for name, vector in sorted(state.zones.items()):
        if block_count(len(rows)) > 1:  # one block is its own summary
            yield name, SUMMARY, summary_of(vector, rows).to_blob()
        for block, part in blocks(len(rows)):
            yield name, block, vector.part(part).to_blob()


def _vectors(state: StateColumns, rows: np.ndarray) -> Iterable[_Vector]:
    yield "columns", 0, _encode(sorted(state.zones))
    yield "sources", 0, _bytes(np.sort(np.fromiter((source.id for source, _ in state.sources), np.int64)))
    yield from _keys(state.members)
    live = rows - _rows_taken_away(state)
    for name, counts in (("rows", rows), ("live_rows", live)):
        yield name, SUMMARY, _bytes([counts[part].sum() for _, part in blocks(len(rows))])
        yield from ((name, block, _bytes(counts[part])) for block, part in blocks(len(rows)))
    for block, part in blocks(len(rows)):
        lists = state.source_lists.part(part)
        yield "source_lists", block, _bytes(lists.offsets, lists.ids, lists.rows)
    yield from _paths(state.members)


def _paths(rows: list[MemberRow]) -> Iterable[_Vector]:
    """Where a path is: hashes in their order, and whose they are; the summary has each block's first."""
    hashes = np.fromiter((path_hash(row[1]) for row in rows), np.int64, len(rows))
    order = np.argsort(hashes, kind="stable")
    yield "paths", SUMMARY, _bytes([hashes[order[part.start]] for _, part in blocks(len(rows))])
    yield from (
        ("paths", block, _bytes(hashes[order[part]], order[part])) for block, part in blocks(len(rows))
    )


def _bytes(*numbers: Sequence[int] | np.ndarray) -> bytes:
    return b"".join(packed(np.asarray(one, np.int64)) for one in numbers)


def _rows_taken_away(state: StateColumns) -> np.ndarray:
    taken = np.zeros(len(state.members), np.int64)
    for number, row in enumerate(state.members):
        if row[11] is not None:
            gone = set(np.frombuffer(row[11], "<i8").tolist())
            taken[number] = sum(n for source, n in state.source_lists.one(number) if source in gone)
    return taken


def _keys(rows: list[MemberRow]) -> Iterable[_Vector]:
    """Where each member begins and how far it and those before it reach (see key_index.py). The summary has
    each block's first beginning and last reach, and how many of its members have no key."""
    lows = [row[7] for row in rows]
    reach = reaches((row[7], row[8]) for row in rows)
    far = (
        reach
        if None not in lows
        else [None if low is None else f for low, f in zip(lows, reach, strict=True)]
    )
    vector = pack_bounds(lows, far, [None] * len(rows))
    heads = []
    for _, part in blocks(len(rows)):
        keyed = [low for low in lows[part] if low is not None]
        last = reach[part.stop - 1]
        heads.append(Zone(keyed[0] if keyed else None, last, len(lows[part]) - len(keyed)))
    kind_of_all = (
        pack(heads) if vector.kind != "none" else pack([Zone(None, None, one.nulls) for one in heads])
    )
    yield "keys", SUMMARY, kind_of_all.to_blob()
    yield from (("keys", block, vector.part(part).to_blob()) for block, part in blocks(len(rows)))
