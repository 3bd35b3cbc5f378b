"""Reading from a state's tables what can be trusted: every row and every vector against its checksum.

SQLite has no checksums of its own. Whatever fails one, is missing, or can't be read as what it should be is
the same named error, so that damage (or malice) is never a wrong answer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from lading.errors import LadingError
from lading.state.sound import Sound
from lading.state.tables import row_crc


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

    def rows(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Rows without their checksums, which have to be right."""
        found = [row[:-1] for row in rows]
        with self.sound("a row"):
            crcs = list(map(row_crc, found))
        if crcs != [row[-1] for row in rows]:
            wrong = next(row[:2] for row, crc in zip(rows, crcs, strict=True) if crc != row[-1])
            raise self.damaged(f"row {wrong} fails its checksum")
        return found

    def sound(self, what: str) -> Sound:
        return Sound(self.damaged, what)
