"""`manifest/<table>.since.jsonl`: what was recorded since manifest/<table>.json was written.

Writing a file of a million entries takes seconds, and one changed file must not cost that. So beyond some
size what changed is appended here, a line a run, and the large file is written when that has become much, or
when somebody asks for it. Nothing is lost with this file: the log has what it says, but for where files lay
and what failed. A line that is not whole, and all behind it, doesn't count.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import xxhash

from lading.layout.project import SINCE
from lading.sources.entries import FileEntry
from lading.storage.folder import fsync_dir


class Base(msgspec.Struct, frozen=True):
    """Which file it goes with, by what that says of itself."""

    table_id: str
    sequence: int
    at: str
    files_xxh3: str


class Recorded(msgspec.Struct, omit_defaults=True):
    """One line."""

    of: Base
    files: dict[str, FileEntry | None]  # None: the entry is gone
    schema: dict[str, Any]
    lading: dict[str, Any]
    preprocessing: dict[str, Any] | None = None  # None: as before


class _Line(msgspec.Struct):
    record: msgspec.Raw
    xxh3: str  # of the record's bytes


class Since:
    """All lines, one over the other."""

    def __init__(self) -> None:
        self.files: dict[str, FileEntry | None] = {}
        self.last: Recorded | None = None
        self.preprocessing: dict[str, Any] | None = None
        self.whole = True  # each line counts
        self.bytes = 0  # of all lines

    def add(self, recorded: Recorded) -> None:
        self.files |= recorded.files
        self.last = recorded
        if recorded.preprocessing is not None:
            self.preprocessing = recorded.preprocessing


def since_of(path: Path) -> Path:
    """`path` is that of manifest/<table>.json."""
    return path.with_name(path.stem + SINCE)


def load_since(path: Path, base: Base) -> Since:
    """What counts of it; nothing if it goes with another file than that."""
    found = Since()
    try:
        data = since_of(path).read_bytes()
    except FileNotFoundError:
        return found
    found.bytes = len(data)
    for line in data.splitlines(keepends=True):
        recorded = _decoded(line)
        if recorded is None or recorded.of != base:
            found.whole = False
            break
        found.add(recorded)
    return found


def append_since(path: Path, recorded: Recorded) -> None:
    """One line, durable when this returns."""
    record = msgspec.json.encode(recorded)
    line = msgspec.json.encode(_Line(msgspec.Raw(record), xxhash.xxh3_64_hexdigest(record))) + b"\n"
    beside = since_of(path)
    fresh = not beside.exists()
    with open(beside, "ab") as file:
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    if fresh:
        fsync_dir(beside.parent)


def drop_since(path: Path) -> None:
    """All that it says is in the file by now."""
    since_of(path).unlink(missing_ok=True)


def _decoded(line: bytes) -> Recorded | None:
    try:
        outer = msgspec.json.decode(line, type=_Line)
        if not line.endswith(b"\n") or outer.xxh3 != xxhash.xxh3_64_hexdigest(outer.record):
            return None
        return msgspec.json.decode(outer.record, type=Recorded)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
