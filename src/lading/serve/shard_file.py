"""One shard as a file: a SQLite table of keys and values, written once, in key order, read for good.

`kv(k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID` keeps a row where its key is, so a get is one walk
down one tree. In key order every page is filled and left behind. Nothing is journalled: a file that was
not finished is not a shard. docs/format/shards.md has the format.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DDL = "CREATE TABLE kv(k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID"

_PAGE = 8192  # fewer, fuller pages than SQLite's 4096, and values of up to 2 kB stay in the tree
_TOGETHER = 100  # rows a statement: nearly twice as fast as one by one
_INSERT = f"INSERT INTO kv VALUES {', '.join(['(?, ?)'] * _TOGETHER)}"
_PRAGMAS = (
    f"page_size = {_PAGE}",
    "journal_mode = OFF",
    "synchronous = OFF",  # one fsync at the end
    "locking_mode = EXCLUSIVE",
    "cache_size = -16384",
)


@dataclass(frozen=True, slots=True)
class Written:
    """What a finished file is."""

    rows: int
    size: int
    sha256: str
    first: bytes  # the least key, as stored
    last: bytes


class ShardWriter:
    """Rows in, in the order of their keys; then `finish`, or `abort`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows = 0
        self._first = self._last = b""
        self._con = create(str(path))
        try:
            for pragma in _PRAGMAS:
                self._con.execute(f"PRAGMA {pragma}")
            self._con.execute("BEGIN")
            self._con.execute(DDL)
        except BaseException:
            self._con.close()
            raise

    def add(self, keys: list[bytes], values: list[bytes]) -> None:
        if not keys:
            return
        if not self._rows:
            self._first = keys[0]
        self._last = keys[-1]
        self._rows += len(keys)
        whole = len(keys) - len(keys) % _TOGETHER
        for begin in range(0, whole, _TOGETHER):
            row = [b""] * (2 * _TOGETHER)
            row[::2] = keys[begin : begin + _TOGETHER]
            row[1::2] = values[begin : begin + _TOGETHER]
            self._con.execute(_INSERT, row)
        self._con.executemany("INSERT INTO kv VALUES (?, ?)", zip(keys[whole:], values[whole:], strict=True))

    def finish(self) -> Written:
        """Make the file durable."""
        self._con.execute("COMMIT")
        self._con.close()
        with open(self._path, "rb") as file:
            os.fsync(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Written(self._rows, self._path.stat().st_size, digest, self._first, self._last)

    def abort(self) -> None:
        with contextlib.suppress(*engine_errors()):
            self._con.close()
        self._path.unlink(missing_ok=True)


# A connection or a cursor of sqlite3 or of apsw: what is used of them, both have.
Connection = Any
Cursor = Any


def apsw_or_none() -> Any:
    try:
        import apsw
    except ImportError:
        return None
    return apsw


def engine_errors() -> tuple[type[Exception], ...]:
    """What either may raise about a file."""
    apsw = apsw_or_none()
    return (sqlite3.Error,) if apsw is None else (sqlite3.Error, apsw.Error)


def create(path: str) -> Connection:
    """A connection that writes `path`; transactions are the caller's."""
    apsw = apsw_or_none()
    return sqlite3.connect(path, isolation_level=None) if apsw is None else apsw.Connection(path)
