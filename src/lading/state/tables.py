"""A root: what a checkpoint and a snapshot have in common, some SQLite tables that name a state's pages.

Members, sources and evidence lie in pages (page.py) that roots share; a root has one row a page, and for
members a summary of each page as vectors over all pages, so that a question goes to few of them. A page that
is small lies in the root itself: a small table is one file.

SQLite has no checksums of its own, and a flipped bit in a summary would silently hide rows. So every row and
every vector carries a CRC32C of its content and place, checked when it is read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import google_crc32c
import msgspec

from lading.late import np
from lading.layout.table import PageKind
from lading.model import Zone
from lading.state.edit import MadePage, PageRef
from lading.state.log_frames import LogHeader
from lading.zones.vector import ZoneVector, pack

STATE_VERSION = 4
INLINE = 64 << 10  # bytes of a page that lies in the root
KEYS = "keys"  # the summary of the members' key ranges
ZONE = "zone:"  # how that of a column begins

_TABLES = """
CREATE TABLE lading(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE pages(
  kind TEXT NOT NULL, number INTEGER NOT NULL, name TEXT NOT NULL, entries INTEGER NOT NULL,
  first BLOB NOT NULL, last BLOB NOT NULL, rows INTEGER NOT NULL, live_rows INTEGER NOT NULL,
  bytes INTEGER NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY(kind, number)) WITHOUT ROWID;
CREATE TABLE summaries(name TEXT PRIMARY KEY, vector BLOB NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE contents(name TEXT PRIMARY KEY, content BLOB NOT NULL);
"""
TABLES = ("lading", "pages", "summaries", "contents")

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
    inputs: bytes = b""  # JSON of the `Pin`s of a table made of tables; b"" for a table of files

    @staticmethod
    def before_the_first_commit(header: LogHeader) -> StateMeta:
        return StateMeta(
            table=header.table, table_id=header.table_id, created_at=header.created_at, sequence=0,
            data_sequence=0, at=header.created_at, recipe="", schema=b"", order_by=None, next_serial=0,
        )  # fmt: skip


@dataclass(frozen=True)
class PageList:
    """The pages of one kind in their order; of members also what is known of each page, by vector. Checkpoint
    and snapshot are often written of the same list: its rows are made once."""

    refs: tuple[PageRef, ...] = ()
    vectors: Mapping[str, ZoneVector] = field(default_factory=dict)  # KEYS, and ZONE and a column's name

    @property
    def entries(self) -> int:
        return sum(ref.entries for ref in self.refs)

    @cached_property
    def page_rows(self) -> list[tuple[object, ...]]:
        rows = map(_page_row, range(len(self.refs)), self.refs)
        return [(*row, row_crc(row)) for row in rows]

    @cached_property
    def summary_rows(self) -> list[tuple[str, bytes, int]]:
        blobs = ((name, vector.to_blob()) for name, vector in self.vectors.items())
        return [(name, blob, vector_crc(name, blob)) for name, blob in blobs]

    def named(self, names: Mapping[str, str]) -> PageList:
        """With other names for some pages."""
        refs = (msgspec.structs.replace(ref, name=names.get(ref.name, ref.name)) for ref in self.refs)
        return PageList(tuple(refs), self.vectors)

    def after(self, pages: Sequence[int | MadePage]) -> PageList:
        """The list after an edit (edit.py)."""
        fresh = [page for page in pages if not isinstance(page, int)]
        if not fresh and list(pages) == list(range(len(self.refs))):
            return self
        order = np.zeros(len(pages), np.int64)
        refs = []
        made = 0
        for at, page in enumerate(pages):
            if isinstance(page, int):
                order[at] = page
                refs.append(self.refs[page])
            else:
                order[at] = len(self.refs) + made
                refs.append(page.ref)
                made += 1
        summaries = [_summaries(page) for page in fresh]
        names = {*self.vectors, *(name for one in summaries for name in one)}
        vectors = {}
        for name in sorted(names):
            old = self.vectors.get(name)
            old = pack([None] * len(self.refs)) if old is None else old
            new = pack([one.get(name) for one in summaries])
            vector = ZoneVector.concat([old, new]).take(order).normal()
            if name == KEYS or vector.kind != "none" or (vector.nulls >= 0).any():
                vectors[name] = vector
        return PageList(tuple(refs), vectors if refs else {})


def _summaries(page: MadePage) -> dict[str, Zone]:
    if page.keys is None:
        return {}
    return {KEYS: page.keys, **{f"{ZONE}{name}": zone for name, zone in (page.zones or {}).items()}}


def create_tables(con: sqlite3.Connection) -> None:
    for statement in _TABLES.strip().split(";\n"):  # not `executescript`, which commits what is under way
        con.execute(statement.rstrip(";"))


def write_tables(
    con: sqlite3.Connection,
    meta: StateMeta,
    lists: Mapping[PageKind, PageList],
    contents: Mapping[str, bytes],
) -> None:
    """Fill a database that has no state yet, with or without its tables; the caller commits or serialises
    it. `contents` are the pages that lie in it."""
    if con.execute("SELECT 1 FROM sqlite_master WHERE name = 'lading'").fetchone() is None:
        create_tables(con)
    meta = msgspec.structs.replace(meta, members=lists["members"].entries)
    fields = sorted(msgspec.structs.asdict(meta).items())
    con.executemany("INSERT INTO lading VALUES (?, ?)", [*fields, ("crc", row_crc(fields))])
    for one in lists.values():
        con.executemany(f"INSERT INTO pages VALUES (?{', ?' * 9})", one.page_rows)
    con.executemany("INSERT INTO summaries VALUES (?, ?, ?)", lists["members"].summary_rows)
    con.executemany("INSERT INTO contents VALUES (?, ?)", sorted(contents.items()))


def _page_row(number: int, ref: PageRef) -> tuple[object, ...]:
    first, last = _encode(ref.first), _encode(ref.last)
    return (ref.kind, number, ref.name, ref.entries, first, last, ref.rows, ref.live_rows, ref.bytes)


def row_crc(row: object) -> int:
    """The checksum that stands at the end of a row."""
    crc: int = _crc32c(_encode(row))
    return crc


def vector_crc(name: str, vector: bytes) -> int:
    """The checksum of a vector under its name, so that no two can be mistaken for one another."""
    return int(google_crc32c.extend(google_crc32c.value(name.encode()), vector))


def lies_in_root(size: int) -> bool:
    """Whether a page of so many bytes does."""
    return size <= INLINE
