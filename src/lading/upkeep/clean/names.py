"""Which files below a table's root lading itself wrote, told by their names alone. Pure.

Only names that lading gives are ever candidates for cleaning, so a user's own file is never one. A shard is
known by the shape of its path, whatever `shard_prefix` was when it was written: a prefix that no manifest
and no config names any more must not hide what lies below it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from lading.snapshots.runs import RUNS
from lading.snapshots.stores.protocol import MANIFESTS
from lading.storage.place import Where

FileKind = Literal["part", "shard", "quarantine", "record", "temporary", "log", "checkpoint"]

QUARANTINE = "quarantine"
SHARD_FILE = "shard.db"
SHARD_TEMPORARY = ".shard.db.tmp"

_BUCKET = r"bucket=-?[0-9]+"
# A UUID of version 8 whose first 48 bits are the run's token: see parts/write.py.
_PART = r"part-[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\.parquet"
_BESIDE = r"\.[^/]+\.[0-9a-f]{32}\.tmp"
_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z"
_OF_RUN = rf"{_TIME}_run_id=[^/]+"
_RECORD = rf"{RUNS}/{_OF_RUN}_[0-9a-f]{{32}}"
_OTHERS = rf"(?:{_BUCKET}|{QUARANTINE}|{RUNS}|{MANIFESTS}|log|checkpoint)/"  # never hold shards

_ANYWHERE: tuple[tuple[FileKind, re.Pattern[str]], ...] = (
    ("part", re.compile(rf"{_BUCKET}/{_PART}")),
    ("quarantine", re.compile(rf"{QUARANTINE}/{_PART}")),
    ("record", re.compile(rf"{_RECORD}/run\.yaml")),
    (
        "shard",
        re.compile(
            rf"(?!{_OTHERS})[^/].*/run_id=(?P<run>[^/]+)/[^/]+/attempt=[0-9]+/"
            rf"(?:{re.escape(SHARD_FILE)}|{re.escape(SHARD_TEMPORARY)})"
        ),
    ),
)
# What a write that was killed leaves behind in a folder; an object is whole or not there.
_IN_FOLDERS: tuple[tuple[FileKind, re.Pattern[str]], ...] = (
    (
        "temporary",
        re.compile(
            rf"(?:{_BUCKET}|{QUARANTINE})/\.{_PART}\.tmp|manifest\.json\.tmp|{_BESIDE}"
            rf"|(?:{_RECORD}|{MANIFESTS}/{_OF_RUN})/{_BESIDE}"
        ),
    ),
)
# In a bucket the log is one object a commit; `log/0` is its header.
_IN_BUCKETS: tuple[tuple[FileKind, re.Pattern[str]], ...] = (
    ("log", re.compile(r"log/(?!0{20})[0-9]{20}")),
    ("checkpoint", re.compile(r"checkpoint/[0-9]{20}")),
)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that lading may have written: its name says so."""

    where: Where  # the root that it lies below
    path: str  # relative to it, with "/"
    kind: FileKind
    bytes: int
    modified: datetime
    identity: str  # another one under the same name has another: an inode, an etag
    run_id: str | None = None  # of a shard: by its folder

    @property
    def number(self) -> int:
        """Of a log object or a checkpoint: its sequence."""
        return int(self.path.rpartition("/")[2])


def kind_of(path: str, *, in_bucket: bool) -> tuple[FileKind, str | None] | None:
    """What a file of this name is, and of a shard the run; None if it isn't lading's."""
    for kind, pattern in (*_ANYWHERE, *(_IN_BUCKETS if in_bucket else _IN_FOLDERS)):
        match = pattern.fullmatch(path)
        if match is not None:
            return kind, match.groupdict().get("run")
    return None
