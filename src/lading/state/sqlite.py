"""Opening a stranger's SQLite file: a manifest's bytes become a connection that can do no harm.

A manifest may come from a bucket that others write to. The magic is checked before SQLite parses
anything, sizes and work are bounded, and no view, virtual table or computed column of somebody else's
is ever run. Whatever can go wrong with the bytes is ManifestParseError.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lading.errors import ManifestGone, ManifestParseError, ManifestStoreError

MAGIC = b"SQLite format 3\0"
SNAPSHOT_LIMIT = 1 << 30  # bytes of one manifest
FIELD_LIMIT = 16 << 20  # bytes of one field of build_meta or shards
HINT = "roll back to an earlier snapshot (lading rollback TABLE --offset 1), or: lading repair"
ELSEWHERE = "the other snapshots are listed beside it: roll back to one"

_WORK = 200_000_000  # SQLite instructions that one statement on build_meta or shards may take
_TABLES = ("build_meta", "shards")
_PLAIN = re.compile(r"CREATE\s+TABLE\b", re.IGNORECASE)


def open_snapshot(payload: bytes, *, check: bool = False) -> sqlite3.Connection:
    """A read-only connection to the manifest in `payload`."""
    _check_head(payload[: len(MAGIC)], len(payload))
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        with bounded(connection, work=None):
            connection.deserialize(payload)
    except BaseException:
        connection.close()
        raise
    return _distrust(connection, check)


def open_snapshot_file(path: Path, *, check: bool = False) -> sqlite3.Connection:
    """A read-only connection to the manifest at `path`, read in place; it never changes there."""
    try:
        with open(path, "rb") as file:
            head = file.read(len(MAGIC))
            size = path.stat().st_size
    except FileNotFoundError as error:
        raise ManifestGone(f"there is no {path}", hint=ELSEWHERE, file=str(path)) from error
    except OSError as error:
        raise ManifestStoreError(
            f"{path} can't be read: {error.strerror}", hint="check the table's directory", file=str(path)
        ) from error
    _check_head(head, size)
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    try:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise ManifestStoreError(f"{path} can't be opened: {error}", hint=HINT, file=str(path)) from error
    return _distrust(connection, check)


def check_size(payload: bytes) -> bytes:
    """`payload`, if readers will take that much."""
    _check_size(len(payload))
    return payload


def require_plain_tables(connection: sqlite3.Connection, names: Sequence[str]) -> None:
    """Refuse a manifest in which one of `names` is absent or anything but an ordinary table."""
    with bounded(connection):
        marks = ", ".join("?" * len(names))
        found = connection.execute(
            "SELECT name, type, rootpage, sql FROM sqlite_master"
            f" WHERE name COLLATE NOCASE IN ({marks}) AND type IS NOT 'trigger'",
            names,
        ).fetchall()
        for name in names:
            entries = [entry for called, *entry in found if called.lower() == name.lower()]
            if not entries:
                raise ManifestParseError(f"there is no table {name}", hint=HINT)
            if len(entries) > 1 or not _is_plain(*entries[0]) or _has_hidden_columns(connection, name):
                raise ManifestParseError(f"{name} is not a plain table", hint=HINT)


@contextmanager
def bounded(connection: sqlite3.Connection, work: int | None = _WORK) -> Iterator[None]:
    """Bound the size of a field and the work; whatever SQLite objects to is a malformed manifest."""
    before = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, FIELD_LIMIT)
    if work is not None:
        connection.set_progress_handler(lambda: 1, work)
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning, UnicodeError, MemoryError, OverflowError) as error:
        raise ManifestParseError(f"the manifest is malformed: {error}", hint=HINT) from error
    finally:
        connection.set_progress_handler(None, 0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, before)


def _is_plain(kind: object, root: object, sql: object) -> bool:
    stored = isinstance(root, int) and root > 0
    return kind == "table" and stored and isinstance(sql, str) and _PLAIN.match(sql) is not None


def _has_hidden_columns(connection: sqlite3.Connection, name: str) -> bool:
    """Whether SQLite would compute one of its columns. The pragma itself: asking the table-valued function of
    that name takes three times as long, and each open of a snapshot asks."""
    return any(hidden for *_, hidden in connection.execute(f'PRAGMA table_xinfo("{name}")'))


def _check_head(head: bytes, size: int) -> None:
    if head != MAGIC:
        raise ManifestParseError("not a snapshot manifest: it doesn't start like a SQLite file", hint=HINT)
    _check_size(size)


def _check_size(size: int) -> None:
    if size > SNAPSHOT_LIMIT:
        raise ManifestParseError(f"the manifest has {size} bytes, more than {SNAPSHOT_LIMIT}", hint=HINT)


def _distrust(connection: sqlite3.Connection, check: bool) -> sqlite3.Connection:
    """The connection, set up for a stranger's file; closed when the file is no manifest."""
    try:
        with bounded(connection, work=None):
            for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
                connection.execute(f"PRAGMA {pragma}")
            if check and connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise ManifestParseError("the manifest fails SQLite's quick_check", hint=HINT)
        require_plain_tables(connection, _TABLES)
        _refuse_code(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_code(connection: sqlite3.Connection) -> None:
    """A manifest is data. Nothing here would ever run a trigger or a view of its own, but whoever planted one
    had no good in mind: what else they changed can't be told."""
    with bounded(connection):
        found = connection.execute(
            "SELECT type, substr(name, 1, 100) FROM sqlite_master WHERE type IN ('trigger', 'view') LIMIT 1"
        ).fetchone()
    if found is not None:
        raise ManifestParseError(f"the {found[0]} {found[1]!r} is not a plain table", hint=HINT)
