"""Reading states of version 3, in which members and sources were rows, and vectors lay in blocks.

They are read whole and turned into pages, which the next checkpoint or publish writes. Nothing writes
version 3 any more.
"""

from __future__ import annotations

from typing import Any

import google_crc32c
import msgspec

from lading.late import np
from lading.layout.table import PageKind
from lading.model import Looked, Source
from lading.state.edit import Columns, Edit, MadePage, edited
from lading.state.encoded import Encoded
from lading.state.member_columns import MemberColumns, MemberRow, order_of, path_hash
from lading.state.sealed import Sealed
from lading.state.source_columns import EvidenceColumns, SourceColumns
from lading.state.source_lists import SourceLists
from lading.zones.numbers import Numbers, unpacked
from lading.zones.vector import ZoneVector, pack_bounds

VERSION = 3
TABLES = ("lading", "members", "zones", "vectors", "sources")

_BLOCK = 8192
_MEMBER = (
    "id, serial, path, rows, bytes, bucket, tick_min, tick_max, key_min, key_max, created_at, tier, "
    "minus, crc"
)
_SOURCE = (
    "id, key, hash, sha256, size, mtime_ns, rows, racy, processed_at, archive, rejected, quarantine, aside, "
    "sequence, crc"
)

_encode = msgspec.msgpack.Encoder().encode


def read_as_pages(sealed: Sealed, members: int) -> dict[PageKind, list[MadePage]]:
    """All that a database of version 3 holds, checked; `members` is how many it says that it has."""
    old = _Version3(sealed, members)
    with sealed.sound("a state of version 3"):
        return {
            "members": _pages(old.members()),
            "sources": _pages(old.sources()),
            "evidence": _pages(old.evidence()),
        }


def _pages(columns: Columns) -> list[MadePage]:
    found = edited((), _nothing, Edit({}, columns))
    return [page for page in found if isinstance(page, MadePage)]


def _nothing(number: int) -> Any:
    raise AssertionError(f"there is no page {number}")


class _Version3:
    def __init__(self, sealed: Sealed, members: int) -> None:
        self._sealed = sealed
        self._count = members
        self._sizes = [min(_BLOCK, members - start) for start in range(0, members, _BLOCK)]

    def members(self) -> MemberColumns:
        rows = self._rows()
        order = sorted(range(len(rows)), key=lambda at: order_of(rows[at][7], rows[at][1]))
        columns = MemberColumns(
            Encoded.of([_encode(row) for row in rows]),
            self._numbers("rows"),
            self._numbers("live_rows"),
            np.fromiter((row[4] for row in rows), np.int64, len(rows)),
            pack_bounds([row[7] for row in rows], [row[8] for row in rows], [None] * len(rows)),
            self._source_lists(),
            np.fromiter((path_hash(row[1]) for row in rows), np.int64, len(rows)),
            {name: self._zones(name) for name in self._columns()},
        )
        return columns.take(np.asarray(order, np.int64))

    def sources(self) -> SourceColumns:
        rows = self._sealed.rows(self._sealed.query(f"SELECT {_SOURCE} FROM sources"))
        ids, _ = unpacked(self._blob("vectors", "name", "sources", 0))
        if sorted(row[0] for row in rows) != ids.tolist():
            raise self._sealed.damaged("sources are missing")
        return SourceColumns.of(map(_source, rows))

    def evidence(self) -> EvidenceColumns:
        if not self._sealed.query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'evidence'"):
            return EvidenceColumns.of([])
        rows = self._sealed.rows(self._sealed.query("SELECT id, mark, content, crc FROM evidence"))
        return EvidenceColumns.of(msgspec.convert(row, Looked) for row in rows)

    def _rows(self) -> list[MemberRow]:
        rows = self._sealed.rows(self._sealed.query(f"SELECT {_MEMBER} FROM members ORDER BY id"))
        if [row[0] for row in rows] != list(range(self._count)):
            raise self._sealed.damaged("members are missing")
        return [msgspec.convert((*row[1:-1], _minus(row[-1])), MemberRow) for row in rows]

    def _columns(self) -> list[str]:
        return msgspec.msgpack.decode(self._blob("vectors", "name", "columns", 0), type=list[str])

    def _zones(self, column: str) -> ZoneVector:
        found = []
        for block, size in enumerate(self._sizes):
            one = ZoneVector.from_blob(self._blob("zones", '"column"', column, block))
            if len(one) != size:
                raise ValueError(f"the zones of {column} don't fit the members")
            found.append(one)
        return ZoneVector.concat(found)

    def _numbers(self, name: str) -> Numbers:
        found = [unpacked(self._blob("vectors", "name", name, at))[0] for at in range(len(self._sizes))]
        if [len(one) for one in found] != self._sizes:
            raise ValueError(f"the vector {name} doesn't fit the members")
        return np.concatenate([np.zeros(0, np.int64), *found])

    def _source_lists(self) -> SourceLists:
        found = []
        for block, size in enumerate(self._sizes):
            blob, at, arrays = self._blob("vectors", "name", "source_lists", block), 0, []
            for _ in range(3):
                one, at = unpacked(blob, at)
                arrays.append(one)
            offsets, ids, rows = arrays
            if len(offsets) != size + 1 or offsets[0] != 0 or (np.diff(offsets) < 0).any():
                raise ValueError("the lists of sources don't fit the members")
            if not len(ids) == len(rows) == int(offsets[-1]):
                raise ValueError("the lists of sources don't fit the members")
            found.append(SourceLists(offsets, ids, rows))
        return SourceLists.concat(*found)

    def _blob(self, table: str, named: str, name: str, block: int) -> bytes:
        rows = self._sealed.query(
            f"SELECT vector, crc FROM {table} WHERE {named} = ? AND block = ?", (name, block)
        )
        told = google_crc32c.value(f"{name}:{block}".encode())
        if not rows or type(rows[0][0]) is not bytes or google_crc32c.extend(told, rows[0][0]) != rows[0][1]:
            raise self._sealed.damaged(f"the vector {name} ({block}) is missing or fails its checksum")
        blob: bytes = rows[0][0]
        return blob


def _minus(blob: Any) -> tuple[int, ...]:
    if blob is None:
        return ()
    if type(blob) is not bytes or len(blob) % 8:
        raise ValueError("no list of sources where one should be")
    return tuple(np.frombuffer(blob, "<i8").tolist())


def _source(row: tuple[Any, ...]) -> tuple[Source, int]:
    *fields, sequence = row
    fields[7] = bool(fields[7])  # racy: SQLite has no booleans
    return msgspec.convert((fields, sequence), tuple[Source, int])
