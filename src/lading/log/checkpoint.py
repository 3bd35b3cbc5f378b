"""The log's state at one sequence as a SQLite file: manifest.db, replaced whole or not at all, or
`checkpoint/<sequence>` objects in a bucket, written once, of which the newest is found by listing.

An object is downloaded once and opened where the copy lies, as on disk. The copy's name has the object's
etag, so that a table that was made anew is never read from an old copy.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from lading.errors import Conflict, LadingError, LogCorrupt, ManifestParseError
from lading.layout.project import CHECKPOINT_COPIES
from lading.layout.table import CHECKPOINT, CHECKPOINT_FOLDER, checkpoint_object, number_of
from lading.model import Place
from lading.state.members import MemberStore
from lading.state.root_copy import RootCopy
from lading.state.roots import require_state_tables
from lading.state.sqlite import MAGIC
from lading.state.tables import StateMeta
from lading.storage.folder import make_dirs, write_atomic
from lading.storage.place import storage_of
from lading.storage.protocol import Named


def write_checkpoint(
    place: Place, meta: StateMeta, store: MemberStore, replaced: MemberStore | None = None
) -> MemberStore:
    """Keep a state: its pages first, then the root that names them; gives it as it lies there. Pages that
    only the checkpoint that is `replaced` named count as new from now on, so that cleaning leaves them for a
    while to whoever has that one open."""
    saved = store.save(meta)
    if replaced is not None:
        saved.shelf.touch(replaced.page_names() - saved.page_names())
    con = sqlite3.connect(":memory:", isolation_level=None)
    try:
        con.execute("BEGIN")
        saved.write_root(con, meta, evidence=True)
        con.execute("COMMIT")
        payload = con.serialize()
    finally:
        con.close()
    folder = storage_of(place).folder
    if folder is None:
        return saved if put_checkpoint(place, meta.sequence, payload) else _of_another(place, meta) or saved
    write_atomic(folder / CHECKPOINT, payload)
    saved.mark = _signature(f"{folder}/{CHECKPOINT}")
    return saved


def _of_another(place: Place, meta: StateMeta) -> MemberStore | None:
    """The checkpoint that somebody else wrote of the same state: its pages have other names than ours, and
    only what it names is sure to stay. None if it went meanwhile, or can't be read."""
    shown = f"{place.url}/{checkpoint_object(meta.sequence)}"
    try:
        con = _connected(place, storage_of(place).head(checkpoint_object(meta.sequence)), shown)
    except (FileNotFoundError, LogCorrupt, ManifestParseError):
        return None
    store = MemberStore(con, place, damaged_checkpoint(shown))
    with suppress(LadingError):
        if store.meta.table_id == meta.table_id and store.page_names() is not None:
            return store
    store.close()
    return None


def newest_name(place: Place) -> str | None:
    """What the newest checkpoint is called; None when none was written yet."""
    storage = storage_of(place)
    if storage.folder is None:
        return newest_checkpoint(place)
    return CHECKPOINT if storage.has(CHECKPOINT) else None


def open_checkpoint(place: Place, copy: RootCopy | None = None) -> MemberStore | None:
    """The checkpoint, not decoded; None when none was written yet. If `copy` is one of it, SQLite isn't
    asked."""
    folder = storage_of(place).folder
    if folder is None:
        return _open_object(place)
    path = os.path.join(os.getcwd(), f"{folder}/{CHECKPOINT}")
    opened = _signature(path)
    if opened is None:
        return None
    damaged = damaged_checkpoint(path, lambda: _signature(path) != opened)
    if copy is not None and copy.is_of(_content(path)):
        store = MemberStore(copy.root(), place, damaged)
        store.mark, store.copy = opened, copy
        return store
    uri = f"file:{quote(path)}?mode=ro&immutable=1"
    try:
        con = sqlite3.connect(uri, uri=True, check_same_thread=False)
    except sqlite3.Error as error:
        raise damaged(str(error)) from error
    store = MemberStore(con, place, damaged)
    try:
        _ = store.meta
    except sqlite3.Error as error:
        con.close()
        raise damaged(str(error)) from error
    except BaseException:
        con.close()
        raise
    store.mark = opened
    return store


def is_in_place(place: Place, store: MemberStore) -> bool:
    """Whether the file, of a checkpoint in a folder, is the one that `store` was opened from."""
    return store.mark is not None and _signature(f"{storage_of(place).folder}/{CHECKPOINT}") == store.mark


def copy_of(place: Place, store: MemberStore | None) -> RootCopy | None:
    """A copy of a checkpoint's root, for an overlay. None if none is worth it, or if the file was replaced
    since `store` was opened."""
    if store is not None and store.copy is None and store.mark is not None:
        file = _content(f"{storage_of(place).folder}/{CHECKPOINT}")
        if is_in_place(place, store):
            store.copy = RootCopy.of(store, file)
    return None if store is None else store.copy


def _content(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:  # told by whoever opens it
        return b""


def each_checkpoint(place: Place, *, whole: bool = False) -> Iterator[MemberStore]:
    """Every checkpoint that can be opened, the newest first; with `whole`, one that can't is an error."""
    if storage_of(place).folder is None:
        for con, shown in connect_each(place, whole=whole):
            yield MemberStore(con, place, damaged_checkpoint(shown))
        return
    try:
        found = open_checkpoint(place)
    except LadingError:
        if whole:
            raise
        return
    if found is not None:
        yield found


def _open_object(place: Place) -> MemberStore | None:
    try:
        found = connect_newest(place)
    except ManifestParseError as error:
        raise damaged_checkpoint(f"{place}/{CHECKPOINT_FOLDER}")(error.message) from error
    if found is None:
        return None
    con, shown = found
    store = MemberStore(con, place, damaged_checkpoint(shown, lambda: not _is_newest(place, shown)))
    try:
        _ = store.meta
    except BaseException:
        con.close()
        raise
    return store


def damaged_checkpoint(
    path: Path | str, replaced: Callable[[], bool] = lambda: False
) -> Callable[[str], LadingError]:
    """Makes the error for what isn't as it was written. Whoever had a checkpoint open until it was
    `replaced`, and what it named cleaned away, has slept: nothing is damaged."""

    def error(what: str) -> LadingError:
        if replaced():
            return Conflict(
                f"{path} was replaced since it was opened, and is not what it was: {what}",
                hint="run again: it will start from the new state",
            )
        return LogCorrupt(
            f"{path} is not an intact checkpoint: {what}",
            hint="delete the checkpoint; lading makes it anew from the log. If the log was compacted: "
            "`lading collection rebuild`",
            file=str(path),
        )

    return error


_ATTEMPTS = 10  # checkpoints that vanish while they are being opened


def put_checkpoint(place: Place, sequence: int, payload: bytes) -> bool:
    """Keep the state at `sequence`; False if one is there already, which says the same."""
    try:
        storage_of(place).put_new(checkpoint_object(sequence), payload)
    except FileExistsError:
        return False
    return True


def connect_newest(place: Place) -> tuple[sqlite3.Connection, str] | None:
    """The newest checkpoint, read-only, and its name for people; None when none was written yet."""
    for _ in range(_ATTEMPTS):
        newest = _newest(place)
        if newest is None:
            return None
        shown = f"{place.url}/{newest.name}"
        try:
            return _connected(place, newest, shown), shown
        except FileNotFoundError:
            continue  # a newer one made it superfluous meanwhile
    raise LogCorrupt(
        f"the checkpoints of {place} vanish while they are being opened", hint="is someone deleting them?"
    )


def connect_each(place: Place, *, whole: bool = False) -> Iterator[tuple[sqlite3.Connection, str]]:
    """Every checkpoint that can be opened, and its name for people, the newest first."""
    for one in reversed(
        [one for one in storage_of(place).list(CHECKPOINT_FOLDER) if number_of(one.name) is not None]
    ):
        shown = f"{place.url}/{one.name}"
        try:
            connection = _connected(place, one, shown)
        except FileNotFoundError:
            continue
        except (LogCorrupt, ManifestParseError):
            if whole:
                raise
            continue
        yield connection, shown


def checkpoints_from(place: Place, sequence: int) -> list[Named]:
    """The checkpoints of `sequence` and later ones."""
    after = checkpoint_object(sequence - 1) if sequence else None
    listed = storage_of(place).list(CHECKPOINT_FOLDER, after=after)
    return [one for one in listed if number_of(one.name) is not None]


def newest_checkpoint(place: Place) -> str | None:
    """The name of the newest one."""
    newest = _newest(place)
    return newest.name if newest is not None else None


def _is_newest(place: Place, shown: str) -> bool:
    newest = newest_checkpoint(place)
    return newest is not None and shown.endswith(f"/{newest}")


def _signature(path: str) -> tuple[int, int, int] | None:
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return None
    return there.st_ino, there.st_mtime_ns, there.st_size


def _newest(place: Place) -> Named | None:
    listed = [one for one in storage_of(place).list(CHECKPOINT_FOLDER) if number_of(one.name) is not None]
    return listed[-1] if listed else None


def _connected(place: Place, newest: Named, shown: str) -> sqlite3.Connection:
    if place.cache is None:
        con = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        payload = storage_of(place).get(newest.name)
        _check_magic(payload[: len(MAGIC)], shown)
        con.deserialize(payload)
    else:
        path = _copied(place, Path(place.cache), newest)
        with open(path, "rb") as file:
            _check_magic(file.read(len(MAGIC)), shown)
        uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
        try:
            con = sqlite3.connect(uri, uri=True, check_same_thread=False)
        except sqlite3.OperationalError as error:
            raise FileNotFoundError(path) from error  # dropped for a newer one in this very moment
    try:
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
            con.execute(f"PRAGMA {pragma}")
        require_state_tables(con)
    except BaseException:
        con.close()
        raise
    return con


def _check_magic(head: bytes, shown: str) -> None:
    if head != MAGIC:
        raise LogCorrupt(
            f"{shown} is not a checkpoint: it doesn't start like a SQLite file",
            hint="delete it: the log and the checkpoint before it hold everything that it should",
            file=shown,
        )


def _copied(place: Place, cache: Path, newest: Named) -> Path:
    """The copy of a checkpoint; those of older ones go. Whoever has one open keeps it."""
    folder = cache / CHECKPOINT_COPIES / hashlib.sha256(place.url.encode()).hexdigest()[:32]
    mark = hashlib.sha256(newest.etag.encode()).hexdigest()[:16]
    path = folder / f"{newest.name.rpartition('/')[2]}-{mark}.db"
    if not path.exists():
        make_dirs(folder)
        storage_of(place).download(newest.name, path)
        for entry in os.scandir(folder):
            if entry.name < path.name and entry.name.endswith(".db"):
                with suppress(FileNotFoundError):
                    os.unlink(entry.path)
    return path
