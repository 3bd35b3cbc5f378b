"""The files below a table's root that lading itself wrote, on disk or in a bucket, and taking one away.

On disk only regular files count that are reached from the root without a link. So no manifest, whatever
paths it names, can lead cleaning anywhere else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lading.layout.table import CLEANED, MANIFESTS, RUNS, SHARD_TEMPORARY, Kind, kind_of, number_of
from lading.model import Place
from lading.parts.open import open_parquet
from lading.serve.shard_file import DDL
from lading.state.sqlite import MAGIC
from lading.storage.folder import modified_at
from lading.storage.place import Where, root_of, storage_of

_FIRST_PAGE = 65_536  # bytes at most: it holds the schema


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that lading may have written: its name says so."""

    where: Where  # the root that it lies below
    path: str  # relative to it, with "/"
    kind: Kind
    bytes: int
    modified: datetime
    identity: str  # another one under the same name has another: an inode, an etag
    run_id: str | None = None  # by its folder, where that says so

    @property
    def number(self) -> int:
        """Of a log object or a checkpoint: its sequence."""
        number = number_of(self.path)
        assert number is not None  # of no other kind
        return number


def files_of(
    where: Where, folder: str = "", *, named: Callable[[str], bool] = lambda path: True
) -> Iterator[FoundFile]:
    """Every candidate below `where`, in order of their names; with `folder`, only those below that. Only
    files that `named` takes by their paths are looked at."""
    if isinstance(where, Place):
        for one in storage_of(where).list(folder):
            found = _candidate(one.name, in_bucket=True)
            if found is not None and named(one.name):
                yield FoundFile(where, one.name, found[0], one.size, one.modified, one.etag, found[1])
        return
    for path in _walk(where, folder):
        found = _candidate(path, in_bucket=False)
        if found is not None and named(path):
            yield from _file(where, path, *found)


def delete(file: FoundFile) -> bool:
    """Remove `file` if it still is the one that was found. In a folder every step of its path is opened
    without following links, and a folder of lading's that it leaves empty goes too."""
    if isinstance(file.where, Place):
        return _delete_object(file.where, file)
    steps = file.path.split("/")
    folder = _open_folder(file.where, steps[:-1])
    if folder is None:
        return False
    try:
        now = os.stat(steps[-1], dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(now.st_mode) or (str(now.st_ino), now.st_size) != (file.identity, file.bytes):
            return False
        os.unlink(steps[-1], dir_fd=folder)
    except FileNotFoundError:
        return False
    finally:
        os.close(folder)
    if file.kind in ("shard", "record") or steps[0] in (MANIFESTS, RUNS):
        _drop_empty(file.where, steps[:-1])
    return True


def is_shard_file(file: FoundFile) -> bool:
    """Whether it is, once it is whole, the SQLite file that lading makes of a shard; anything else below a
    folder of shards is somebody else's."""
    if file.path.endswith(f"/{SHARD_TEMPORARY}"):
        return True
    try:
        first = _first_bytes(file, min(file.bytes, _FIRST_PAGE))
    except OSError:
        return False
    return first.startswith(MAGIC) and DDL.encode() in first


def part_origin(file: FoundFile) -> tuple[str, str] | None:
    """Table id and run id from a Parquet file's footer; None if it has none or can't be read."""
    import pyarrow as pa

    try:
        with open_parquet(root_of(file.where), file.path, file.bytes) as opened:
            footer = opened.metadata.metadata or {}
    except (pa.ArrowException, OSError):
        return None
    table_id, run_id = footer.get(b"lading.table_id"), footer.get(b"lading.run_id")
    if table_id is None or run_id is None:
        return None
    return table_id.decode("utf-8", "replace"), run_id.decode("utf-8", "replace")


def _candidate(path: str, *, in_bucket: bool) -> tuple[Kind, str | None] | None:
    found = kind_of(path, in_bucket=in_bucket)
    return found if found is not None and found[0] in CLEANED else None


def _first_bytes(file: FoundFile, count: int) -> bytes:
    if isinstance(file.where, Place):
        return storage_of(file.where).get_range(file.path, 0, count) if count else b""
    with open(file.where / file.path, "rb") as opened:
        return opened.read(count)


def _delete_object(place: Place, file: FoundFile) -> bool:
    storage = storage_of(place)
    try:
        now = storage.head(file.path)
    except FileNotFoundError:
        return False
    if (now.etag, now.size) != (file.identity, file.bytes):
        return False
    storage.delete(file.path)
    return True


def _walk(root: Path, folder: str) -> Iterator[str]:
    """Every path below `folder` that is no folder; links are not followed."""
    for entry in _entries(root / folder):
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(root, path)
        else:
            yield path


def _file(root: Path, path: str, kind: Kind, run_id: str | None) -> Iterator[FoundFile]:
    try:
        found = os.lstat(root / path)
    except FileNotFoundError:
        return
    if stat.S_ISREG(found.st_mode):
        modified = modified_at(found)
        yield FoundFile(root, path, kind, found.st_size, modified, str(found.st_ino), run_id)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _open_folder(root: Path, steps: list[str]) -> int | None:
    """A handle on a folder below `root`, None if a step is missing, a link or no folder."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    handle = os.open(root, flags)
    for step in steps:
        if step in ("", ".", ".."):
            os.close(handle)
            return None
        try:
            deeper = os.open(step, flags | os.O_NOFOLLOW, dir_fd=handle)
        except OSError:
            return None
        finally:
            os.close(handle)
        handle = deeper
    return handle


def _drop_empty(root: Path, steps: list[str]) -> None:
    while len(steps) > 1:
        parent = _open_folder(root, steps[:-1])
        if parent is None:
            return
        try:
            os.rmdir(steps[-1], dir_fd=parent)
        except OSError:  # not empty, or somebody was quicker
            return
        finally:
            os.close(parent)
        steps = steps[:-1]
