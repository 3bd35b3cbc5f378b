"""Which SQLite reads and writes shards: apsw's where it is installed, Python's own otherwise.

The files are the same SQLite files either way. apsw comes with a recent SQLite and does less around every
statement: it answers a get in little more than half the time and writes rows more than twice as fast. It is
no dependency, so everything works without it.
"""

from __future__ import annotations

import sqlite3
from typing import Any

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
