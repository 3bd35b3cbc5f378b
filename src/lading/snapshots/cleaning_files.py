"""The files below a table's root that lading itself wrote, and taking one away.

Only names that lading gives are ever candidates, and only regular files that are reached from the root
without a link. So no manifest, whatever paths it names, can lead cleaning anywhere else, and a user's
own file is never deleted.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from lading.format.snapshot_file import MAGIC
from lading.snapshots.run_files import RUNS
from lading.snapshots.stores.protocol import MANIFESTS, parse_folder

FileKind = Literal["part", "shard", "quarantine", "record", "temporary"]

QUARANTINE = "quarantine"
SHARD_FILE = "shard.db"
SHARD_TEMPORARY = ".shard.db.tmp"

_BUCKET = re.compile(r"bucket=-?[0-9]+")
# A UUID of version 8 whose first 48 bits are the run's token: see pipeline/parts.py.
_PART = re.compile(r"part-[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\.parquet")
_BESIDE = re.compile(r"\..+\.[0-9a-f]{32}\.tmp|manifest\.json\.tmp")
_SHARD_RUN = re.compile(r"run_id=([^/]+)")
_RECORD = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z_run_id=.+_[0-9a-f]{32}")
_ATTEMPT = re.compile(r"attempt=\d+")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that lading may have written: its name says so."""

    path: str  # relative to the root, with "/"
    kind: FileKind
    bytes: int
    modified: datetime
    inode: int
    run_id: str | None = None  # of a shard: by its folder


def files_of(root: Path, shard_prefixes: frozenset[str]) -> Iterator[FoundFile]:
    """Every candidate below `root`. Shards lie below `shard_prefixes`, as the manifests name them."""
    for entry in _entries(root):
        if entry.is_dir(follow_symlinks=False):
            if _BUCKET.fullmatch(entry.name) or entry.name == QUARANTINE:
                yield from _in_bucket(root, entry.name)
            elif entry.name in (MANIFESTS, RUNS):
                yield from _in_folders(root, entry.name)
        elif _BESIDE.fullmatch(entry.name):
            yield from _file(root, entry.name, "temporary")
    for prefix in sorted(shard_prefixes):
        yield from _shards(root, prefix)


def delete(root: Path, file: FoundFile) -> bool:
    """Remove `file` if it still is the one that was found; every step of its path is opened without
    following links. A folder of lading's that it leaves empty goes too."""
    steps = file.path.split("/")
    folder = _open_folder(root, steps[:-1])
    if folder is None:
        return False
    try:
        now = os.stat(steps[-1], dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(now.st_mode) or (now.st_ino, now.st_size) != (file.inode, file.bytes):
            return False
        os.unlink(steps[-1], dir_fd=folder)
    except FileNotFoundError:
        return False
    finally:
        os.close(folder)
    if file.kind in ("shard", "record") or steps[0] in (MANIFESTS, RUNS):
        _drop_empty(root, steps[:-1])
    return True


def is_shard_file(root: Path, file: FoundFile) -> bool:
    """Whether it is called as lading calls shards and, once it is whole, begins as a SQLite file does;
    anything else below shards/ is somebody else's."""
    name = file.path.rpartition("/")[2]
    if name == SHARD_TEMPORARY:
        return True
    if name != SHARD_FILE:
        return False
    try:
        with open(root / file.path, "rb") as opened:
            return opened.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def part_origin(root: Path, file: FoundFile) -> tuple[str, str] | None:
    """Table id and run id from a Parquet file's footer; None if it has none or can't be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(root / file.path) as opened:
            footer = opened.metadata.metadata or {}
    except (pa.ArrowException, OSError):
        return None
    table_id, run_id = footer.get(b"lading.table_id"), footer.get(b"lading.run_id")
    if table_id is None or run_id is None:
        return None
    return table_id.decode("utf-8", "replace"), run_id.decode("utf-8", "replace")


def _in_bucket(root: Path, bucket: str) -> Iterator[FoundFile]:
    for entry in _entries(root / bucket):
        name = entry.name
        if _PART.fullmatch(name):
            yield from _file(root, f"{bucket}/{name}", "quarantine" if bucket == QUARANTINE else "part")
        elif name.startswith(".") and name.endswith(".tmp") and _PART.fullmatch(name[1:-4]):
            yield from _file(root, f"{bucket}/{name}", "temporary")


def _in_folders(root: Path, top: str) -> Iterator[FoundFile]:
    """Records, and what a killed write left beside one or beside a manifest. Manifests themselves are
    their store's to delete."""
    for entry in _entries(root / top):
        own = _RECORD.fullmatch(entry.name) if top == RUNS else parse_folder(entry.name)
        if not own or not entry.is_dir(follow_symlinks=False):
            continue
        for inner in _entries(root / top / entry.name):
            path = f"{top}/{entry.name}/{inner.name}"
            if top == RUNS and inner.name == "run.yaml":
                yield from _file(root, path, "record")
            elif _BESIDE.fullmatch(inner.name):
                yield from _file(root, path, "temporary")


def _shards(root: Path, prefix: str) -> Iterator[FoundFile]:
    """Files of the form <prefix>/run_id=<run>/…/attempt=<n>/<file>."""
    if not prefix or _open_folder_exists(root, prefix.split("/")) is False:
        return
    for entry in _entries(root / prefix):
        match = _SHARD_RUN.fullmatch(entry.name)
        if match is None or not entry.is_dir(follow_symlinks=False):
            continue
        for file in _below(root, f"{prefix}/{entry.name}", "shard"):
            if any(_ATTEMPT.fullmatch(step) for step in file.path.split("/")[:-1]):
                yield FoundFile(file.path, "shard", file.bytes, file.modified, file.inode, match[1])


def _below(root: Path, folder: str, kind: FileKind) -> Iterator[FoundFile]:
    for entry in _entries(root / folder):
        path = f"{folder}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _below(root, path, kind)
        else:
            yield from _file(root, path, kind)


def _file(root: Path, path: str, kind: FileKind) -> Iterator[FoundFile]:
    try:
        found = os.lstat(root / path)
    except FileNotFoundError:
        return
    if stat.S_ISREG(found.st_mode):
        modified = datetime.fromtimestamp(found.st_mtime, UTC)
        yield FoundFile(path, kind, found.st_size, modified, found.st_ino)


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


def _open_folder_exists(root: Path, steps: list[str]) -> bool:
    try:
        handle = _open_folder(root, steps)
    except FileNotFoundError:
        return False
    if handle is None:
        return False
    os.close(handle)
    return True


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
