"""Reading from a state's tables what can be trusted: every row and every vector against its checksum.

SQLite has no checksums of its own. Whatever fails one, is missing, or can't be read as what it should be is
the same named error, so that damage (or malice) is never a wrong answer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np

from lading.errors import LadingError, LogCorrupt
from lading.format.state_file import row_crc, vector_crc
from lading.format.zones import ZoneVector

_VECTOR = {
    "vectors": "SELECT vector, crc FROM vectors WHERE name = ? AND block = ?",
    "zones": 'SELECT vector, crc FROM zones WHERE "column" = ? AND block = ?',
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

    def row(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """A row without its checksum, which has to be right."""
        content = row[:-1]
        if row_crc(content) != row[-1]:
            raise self.damaged(f"row {row[0]} fails its checksum")
        return content

    def vector(self, name: str, block: int = 0, *, table: str = "vectors") -> bytes:
        for vector, crc in self.query(_VECTOR[table], (name, block)):
            if type(vector) is bytes and vector_crc(name, block, vector) == crc:
                return vector
        raise self.damaged(f"the vector {name} ({block}) is missing or fails its checksum")

    def check_vectors(self) -> None:
        """Every vector there is."""
        for table, name in (("vectors", "name"), ("zones", '"column"')):
            for one, block in self.query(f"SELECT {name}, block FROM {table}"):
                self.vector(one, block, table=table)

    def numbers(self, name: str, block: int = 0, *, count: int | None = None) -> np.ndarray:
        """A vector of integers; with `count`, of so many."""
        vector = self.vector(name, block)
        with self.sound(f"the vector {name}"):
            found = np.frombuffer(vector, "<i8")
        if count is not None and len(found) != count:
            raise self.damaged(f"the vector {name} doesn't fit the members")
        return found

    def zones(self, name: str, block: int, count: int, *, table: str = "zones") -> ZoneVector:
        vector = self.vector(name, block, table=table)
        with self.sound(f"the vector {name}"):
            found = ZoneVector.from_blob(vector)
        if len(found) != count:
            raise self.damaged(f"the vector {name} doesn't fit the members")
        return found

    @contextmanager
    def sound(self, what: str) -> Iterator[None]:
        """A checksum tells damage, not malice: content that is no content is the same error."""
        try:
            yield
        except (ValueError, TypeError, OverflowError, LogCorrupt, msgspec.MsgspecError) as error:
            raise self.damaged(f"{what} can't be read: {error}") from error
