"""manifest.db: the log's state at one sequence as a SQLite file, replaced whole or not at all."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote

from lading.errors import LogCorrupt
from lading.format.members import MemberStore, StateColumns, StateMeta, write_state
from lading.storage.local import write_atomic

NAME = "manifest.db"


def write_checkpoint(folder: Path, meta: StateMeta, state: StateColumns) -> None:
    con = sqlite3.connect(":memory:", isolation_level=None)
    try:
        con.execute("BEGIN")
        write_state(con, meta, state)
        con.execute("COMMIT")
        payload = con.serialize()
    finally:
        con.close()
    write_atomic(folder / NAME, payload)


def open_checkpoint(folder: Path) -> MemberStore | None:
    """The checkpoint, mapped and not decoded; None when none was written yet."""
    path = folder / NAME
    if not path.exists():
        return None
    uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    con = sqlite3.connect(uri, uri=True, check_same_thread=False)
    try:
        con.execute("PRAGMA mmap_size = 1073741824")
        store = MemberStore(con, str(folder))
        _ = store.meta
    except Exception as error:
        con.close()
        raise LogCorrupt(
            f"{path} is not a checkpoint: {error}",
            hint="delete it, the log rebuilds it; if the log was compacted: `lading collection rebuild`",
        ) from error
    return store
