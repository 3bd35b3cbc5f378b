"""A shard file on disk: proven to be the one that was published before it answers anything.

Its size is compared every time, its SHA-256 once a process: what was found is remembered for exactly
this file (device, inode, size and times), so a file that is replaced or rewritten is hashed again.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import threading
from pathlib import Path

from lading import clock
from lading.errors import LadingError, ShardError
from lading.layout.table import SHARD
from lading.serve.open.limit import out_of_files, too_many
from lading.serve.shard_file import Cursor, apsw_or_none, engine_errors
from lading.snapshots.manifest import ShardMeta
from lading.state.sqlite import require_plain_tables

HINT = "restore the file, roll back to an earlier snapshot, or build the table again: lading run --full"

Identity = tuple[int, int, int, int, int]

_RACY_NS = 2_000_000_000  # a file this young could change again without its times showing it
_REMEMBERED = 65_536
_SHA256 = re.compile(r"[0-9a-f]{64}")

_proven: dict[Identity, str] = {}
_proven_lock = threading.Lock()


def checksum_of(shard: ShardMeta) -> str | None:
    """The SHA-256 that the manifest gives; a shard of ours that can't be proven doesn't answer. Another
    writer's checkpoint may be any name: None, and then its file is taken as it is."""
    if shard.checkpoint_id is None or _SHA256.fullmatch(shard.checkpoint_id) is None:
        if shard.db_bytes is None:
            return None
        raise ShardError(
            f"the manifest has no SHA-256 for shard {shard.db_id}, so its file can't be trusted",
            hint="publish the table with lading, which records one",
        )
    return shard.checkpoint_id


def local_path(root: Path, shard: ShardMeta) -> Path:
    """Where a shard of a table in `root` lies, links resolved; never outside the root."""
    url = shard.db_url or ""
    steps = url.split("/")
    outside = ShardError(
        f"shard {shard.db_id} is said to be at {url!r}, which is not below {root}",
        hint="someone edited the manifest: roll back to an earlier snapshot",
    )
    if not url or any(step in ("", ".", "..") for step in steps) or "\0" in url:
        raise outside
    try:
        path = (root / url / SHARD).resolve()
        inside = path.is_relative_to(root.resolve())
    except (OSError, ValueError, RuntimeError) as error:
        raise outside from error
    if not inside:
        raise outside
    return path


def proven(path: Path, size: int | None, sha256: str | None) -> Identity:
    """What the file at `path` is, once it is shown to be the published one; ShardError otherwise. None is
    what the manifest doesn't say."""
    try:
        with open(path, "rb") as file:
            before = identity_of(os.fstat(file.fileno()))
            if size is not None and before[2] != size:
                raise _wrong(path, f"it has {before[2]} bytes, the published one {size}")
            if sha256 is None or _proven.get(before) == sha256:
                return before
            found = hashlib.file_digest(file, "sha256").hexdigest()
            after = identity_of(os.fstat(file.fileno()))
    except OSError as error:
        raise _refused(path, error) from error
    if found != sha256 or after != before:
        raise _wrong(path, "its SHA-256 is not the published one")
    _remember(before, sha256)
    return before


def check_size(path: Path, size: int | None) -> None:
    """ShardError unless a file of that size is there; of any, if the manifest doesn't say."""
    try:
        found = path.stat().st_size
    except OSError as error:
        raise _refused(path, error) from error
    if size is not None and found != size:
        raise _wrong(path, f"it has {found} bytes, the published one {size}")


def connect(path: Path, identity: Identity) -> Cursor:
    """A cursor on the file that was proven, mapped and never locked; ShardError if another lies there.

    Where apsw is installed it answers; what is refused is decided by Python's own sqlite3 either way."""
    uri = f"{path.as_uri()}?mode=ro&immutable=1"
    try:
        connection = sqlite3.connect(
            uri, uri=True, isolation_level=None, check_same_thread=False, cached_statements=32
        )
    except sqlite3.Error as error:
        raise _refused(path, error) from error
    apsw, quick = apsw_or_none(), None
    try:
        if apsw is not None:
            quick = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        if identity_of(os.stat(path)) != identity:
            raise _wrong(path, "it was replaced while it was being opened")
        connection.execute("PRAGMA trusted_schema = OFF").close()
        require_plain_tables(connection, ("kv",))
        answering = connection if quick is None else quick
        for pragma in (f"mmap_size = {identity[2]}", "trusted_schema = OFF"):
            answering.execute(f"PRAGMA {pragma}").close()
        if quick is not None:
            connection.close()
        return answering.cursor()
    except BaseException as error:
        ours = isinstance(error, (*engine_errors(), LadingError, OSError))
        told = _refused(path, error) if isinstance(error, Exception) and ours else None
        connection.close()
        if quick is not None:
            quick.close()
        if told is not None:
            raise told from error
        raise


def identity_of(status: os.stat_result) -> Identity:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _remember(identity: Identity, sha256: str) -> None:
    if clock.wall_ns() - identity[4] < _RACY_NS:
        return
    with _proven_lock:
        if len(_proven) >= _REMEMBERED:
            _proven.clear()
        _proven[identity] = sha256


def _refused(path: Path, error: Exception) -> ShardError:
    if isinstance(error, ShardError):
        return error
    if isinstance(error, FileNotFoundError):
        return ShardError(f"the shard {path} is missing", hint=HINT, file=str(path))
    if out_of_files(error) if isinstance(error, OSError) else _could_be_opened(path, error):
        return too_many(str(path))
    return ShardError(f"the shard {path} can't be used: {error}", hint=HINT, file=str(path))


def _could_be_opened(path: Path, error: Exception) -> bool:
    """SQLite says that it can't open a file, never why. One that is there and may be read: there are too many
    files open, now or a moment ago."""
    return "unable to open database file" in str(error) and os.access(path, os.R_OK)


def _wrong(path: Path, why: str) -> ShardError:
    return ShardError(f"{path} is not the shard that was published: {why}", hint=HINT, file=str(path))
