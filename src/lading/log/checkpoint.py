"""The log's state at one sequence as a SQLite file: manifest.db, replaced whole or not at all, or objects
in a bucket (object_checkpoint.py)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from lading.errors import LadingError, LogCorrupt, ManifestParseError
from lading.layout.table import CHECKPOINT, CHECKPOINT_FOLDER
from lading.log.object_checkpoint import connect_each, connect_newest, newest_checkpoint, put_checkpoint
from lading.model import Place
from lading.state.members import MemberStore
from lading.state.tables import StateColumns, StateMeta, write_state
from lading.storage.folder import write_atomic
from lading.storage.place import storage_of


def write_checkpoint(place: Place, meta: StateMeta, state: StateColumns) -> None:
    con = sqlite3.connect(":memory:", isolation_level=None)
    try:
        con.execute("BEGIN")
        write_state(con, meta, state)
        con.execute("COMMIT")
        payload = con.serialize()
    finally:
        con.close()
    folder = storage_of(place).folder
    if folder is None:
        put_checkpoint(place, meta.sequence, payload)
    else:
        write_atomic(folder / CHECKPOINT, payload)


def newest_name(place: Place) -> str | None:
    """What the newest checkpoint is called; None when none was written yet."""
    storage = storage_of(place)
    if storage.folder is None:
        return newest_checkpoint(place)
    return CHECKPOINT if storage.has(CHECKPOINT) else None


def open_checkpoint(place: Place) -> MemberStore | None:
    """The checkpoint, mapped and not decoded; None when none was written yet."""
    folder = storage_of(place).folder
    if folder is None:
        return _open_object(place)
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    damaged = _damaged(path)
    try:
        con = sqlite3.connect(uri, uri=True, check_same_thread=False)
    except sqlite3.Error as error:
        raise damaged(str(error)) from error
    store = MemberStore(con, place, damaged)
    try:
        con.execute("PRAGMA mmap_size = 1073741824")
        _ = store.meta
    except sqlite3.Error as error:
        con.close()
        raise damaged(str(error)) from error
    except BaseException:
        con.close()
        raise
    return store


def each_checkpoint(place: Place) -> Iterator[MemberStore]:
    """Every checkpoint that can be opened, the newest first."""
    if storage_of(place).folder is None:
        yield from (MemberStore(connection, place) for connection in connect_each(place))
        return
    with suppress(LadingError):
        found = open_checkpoint(place)
        if found is not None:
            yield found


def _open_object(place: Place) -> MemberStore | None:
    try:
        found = connect_newest(place)
    except ManifestParseError as error:
        raise _damaged(f"{place}/{CHECKPOINT_FOLDER}")(error.message) from error
    if found is None:
        return None
    con, shown = found
    store = MemberStore(con, place, _damaged(shown))
    try:
        _ = store.meta
    except BaseException:
        con.close()
        raise
    return store


def _damaged(path: Path | str) -> Callable[[str], LadingError]:
    def error(what: str) -> LadingError:
        return LogCorrupt(
            f"{path} is not a whole checkpoint: {what}",
            hint="delete it, the log rebuilds it; if the log was compacted: `lading collection rebuild`",
            file=str(path),
        )

    return error
