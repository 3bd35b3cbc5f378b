"""Reading from a state's tables what can be trusted: every row and every vector against its checksum.

SQLite has no checksums of its own. Whatever fails one, is missing, or can't be read as what it should be is
the same named error, so that damage (or malice) is never a wrong answer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from lading.errors import LadingError, LogCorrupt
from lading.late import np
from lading.state.tables import row_crc, vector_crc
from lading.zones.numbers import Numbers, Packed, packed_at
from lading.zones.vector import ZoneVector

_AT_A_TIME = 4096  # rows
_VECTOR = {
    "vectors": "SELECT block, vector, crc FROM vectors WHERE name = ? AND block BETWEEN ? AND ?",
    "zones": 'SELECT block, vector, crc FROM zones WHERE "column" = ? AND block BETWEEN ? AND ?',
}


class Sealed:
    """A database and its checks; `damaged` makes the error for what fails them."""

    def __init__(self, con: sqlite3.Connection, damaged: Callable[[str], LadingError]) -> None:
        self._con = con
        self.damaged = damaged

    def close(self) -> None:
        self._con.close()

    def query(self, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        try:
            return self._con.execute(sql, parameters).fetchall()
        except (sqlite3.Error, UnicodeError, OverflowError, MemoryError) as error:
            raise self.damaged(str(error)) from error

    def stream(self, sql: str) -> Iterator[list[Any]]:
        """The same, some rows at a time."""
        try:
            cursor = self._con.execute(sql)
            while rows := cursor.fetchmany(_AT_A_TIME):
                yield rows
        except (sqlite3.Error, UnicodeError, OverflowError, MemoryError) as error:
            raise self.damaged(str(error)) from error

    def row(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """A row without its checksum, which has to be right."""
        [content] = self.rows([row])
        return content

    def rows(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        found = [row[:-1] for row in rows]
        if list(map(row_crc, found)) != [row[-1] for row in rows]:
            wrong = next(row[0] for row in rows if row_crc(row[:-1]) != row[-1])
            raise self.damaged(f"row {wrong} fails its checksum")
        return found

    def vector(self, name: str, block: int = 0, *, table: str = "vectors") -> bytes:
        [found] = self.vectors(name, [block], table=table)
        return found

    def vectors(self, name: str, wanted: Sequence[int], *, table: str = "vectors") -> list[bytes]:
        """Some blocks of a vector, whose numbers rise; neighbours come with one statement."""
        found: dict[int, bytes] = {}
        for first, last in _runs(wanted):
            for block, vector, crc in self.query(_VECTOR[table], (name, first, last)):
                if type(vector) is bytes and vector_crc(name, block, vector) == crc:
                    found[block] = vector
        missing = next((block for block in wanted if block not in found), None)
        if missing is not None:
            raise self.damaged(f"the vector {name} ({missing}) is missing or fails its checksum")
        return [found[block] for block in wanted]

    def check_vectors(self) -> None:
        """Every vector there is."""
        for table, name in (("vectors", "name"), ("zones", '"column"')):
            for one, block in self.query(f"SELECT {name}, block FROM {table}"):
                self.vector(one, block, table=table)

    def numbers(self, name: str, block: int = 0, *, count: int | None = None) -> Numbers:
        """A vector of integers; with `count`, of so many."""
        [found] = self.arrays(name, block, 1)
        if count is not None and len(found) != count:
            raise self._unfitting(name)
        return found

    def arrays(self, name: str, block: int, how_many: int) -> list[Numbers]:
        """A vector that is several arrays of integers, one after the other."""
        found = self._split(name, self.vector(name, block), how_many)
        with self.sound(f"the vector {name}"):
            return [np.asarray(one) for one in found]

    def packed_of(self, name: str, counts: Mapping[int, int]) -> list[Packed]:
        """Some blocks of a vector of integers; `counts` has their numbers and how many each should hold."""
        blobs = self.vectors(name, list(counts))
        found = [one for blob in blobs for one in self._split(name, blob, 1)]
        if any(len(one) != count for one, count in zip(found, counts.values(), strict=True)):
            raise self._unfitting(name)
        return found

    def zones(self, name: str, block: int, count: int, *, table: str = "zones") -> ZoneVector:
        [found] = self.zones_of(name, {block: count}, table=table)
        return found

    def zones_of(
        self, name: str, counts: Mapping[int, int], *, table: str = "zones", as_packed: bool = False
    ) -> list[ZoneVector]:
        """As `packed_of`, of a zone vector."""
        blobs = self.vectors(name, list(counts), table=table)
        with self.sound(f"the vector {name}"):
            found = [ZoneVector.from_blob(blob, as_packed=as_packed) for blob in blobs]
        if any(len(one) != count for one, count in zip(found, counts.values(), strict=True)):
            raise self._unfitting(name)
        return found

    def _split(self, name: str, blob: bytes, how_many: int) -> list[Packed]:
        found, at = [], 0
        with self.sound(f"the vector {name}"):
            for _ in range(how_many):
                one, at = packed_at(blob, at)
                found.append(one)
        if at != len(blob):
            raise self._unfitting(name)
        return found

    def _unfitting(self, name: str) -> LadingError:
        return self.damaged(f"the vector {name} doesn't fit the members")

    @contextmanager
    def sound(self, what: str) -> Iterator[None]:
        """A checksum tells damage, not malice: content that is no content is the same error."""
        try:
            yield
        except (ValueError, TypeError, OverflowError, LogCorrupt, msgspec.MsgspecError) as error:
            raise self.damaged(f"{what} can't be read: {error}") from error


def _runs(wanted: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of each run of neighbours."""
    start = 0
    for at in range(1, len(wanted) + 1):
        if at == len(wanted) or wanted[at] != wanted[at - 1] + 1:
            yield wanted[start], wanted[at - 1]
            start = at
