"""Every name below a table: how it is made, how it is told from others, and its kind.

Cleaning goes by these names alone before it looks at a file: only what has one can be lading's, so a user's
own file never is. A shard is known by the shape of its path, whatever `shard_prefix` was when it was written:
a prefix that no manifest and no config names any more must not hide what lies below it.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from datetime import UTC, datetime
from typing import Literal, NamedTuple, get_args

import xxhash

from lading import ids
from lading.layout.beside import BESIDE, lock_of, temporary_of

SOURCE = "_source"  # the column that says which file a row came from
NOBODY = 0  # its value in rows that no single file gave: those of a `per: table` transform, say

LOG = "manifest.log"  # in a bucket: objects below LOG_FOLDER
LOG_LOCK = "manifest.lock"
OVERLAY = "manifest.overlay"
CHECKPOINT = "manifest.db"  # in a bucket: objects below CHECKPOINT_FOLDER
TABLE_MANIFEST = "manifest.json"
TABLE_MANIFEST_TEMPORARY = "manifest.json.tmp"  # one name always: one writer at a time
POINTER = "_CURRENT"
POINTER_LOCK = lock_of(POINTER)
LOG_FOLDER = "log"
CHECKPOINT_FOLDER = "checkpoint"
PAGES = "pages"
BUCKET = "bucket="  # how a folder of parts begins
SLOT = "slot="  # how the key of a slot begins
PART_SUFFIX = ".parquet"
QUARANTINE = "quarantine"
MANIFESTS = "manifests"
MANIFEST = "manifest"  # the file in a folder of its own
RUNS = "runs"
METADATA = "metadata"  # what Iceberg readers go by
VERSION_HINT = f"{METADATA}/version-hint.text"
UNSETTLED = f"{METADATA}/unsettled.json"  # which snapshot was looked through and can't be shown
RECORD = "run.yaml"  # the same
SHARDS = "shards"  # unless the config names another
SHARD_TEMPLATE = "db={db_id:05d}"  # the same
SHARD = "shard.db"
SHARD_TEMPORARY = temporary_of(SHARD)

NOT_DATA = (
    CHECKPOINT_FOLDER,
    LOG_FOLDER,
    MANIFESTS,
    PAGES,
    QUARANTINE,
    RUNS,
    SHARDS,
)  # folders without members

PageKind = Literal["members", "sources", "evidence"]
Cleaned = Literal[
    "part", "page", "shard", "quarantine", "record", "temporary", "log", "checkpoint", "iceberg"
]
Kind = Cleaned | Literal["manifest", "state", "pointer", "lock", "hint"]
CLEANED = get_args(Cleaned)  # may be deleted by cleaning; a manifest by its store only, the others by nobody
RETURNING: tuple[Kind, ...] = ("page", "iceberg")  # named by their content: what went may be written again

_RUN = "run_id="
_ATTEMPT = "attempt="
_DIGITS = 20

_HEX = "[0-9a-f]"
_BUCKET = rf"{BUCKET}(?P<bucket>-?[0-9]+)"
# A UUID of version 8 whose first 48 bits are the run's token.
_STEM = rf"part-(?P<token>{_HEX}{{8}}-{_HEX}{{4}})-8{_HEX}{{3}}-{_HEX}{{4}}-{_HEX}{{12}}"
_PART = rf"{_STEM}\.parquet"
_PASSING = rf"\.{_STEM}\.arrow\.tmp"
_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z"
_OF_RUN = rf"(?P<time>{_TIME})_{_RUN}(?P<run>[^/]+)"
_RECORD = rf"{RUNS}/{_OF_RUN}_{_HEX}{{32}}"
_PAGE = rf"(?P<kind>{'|'.join(get_args(PageKind))})-{_HEX}{{32}}(?:-{_HEX}{{12}})?"
_VERSION = r"v(?P<version>[1-9][0-9]*)\.metadata\.json"
_DATA, _DELETES, _POSITIONS = "data.avro", "deletes.avro", "positions.parquet"
_NAMED = re.compile(
    rf"(?P<of>snap-[0-9]+|{_HEX}{{32}})-(?P<check>{_HEX}{{16}})"
    rf"(?:\.|-)(?P<kind>avro|(?:{re.escape(_DATA)}|{re.escape(_DELETES)}|{re.escape(_POSITIONS)}))"
)
_ICEBERG = rf"(?:{_VERSION}|{_NAMED.pattern})"


def _anonymous(pattern: str) -> str:
    """A name can't stand twice in a pattern."""
    return re.sub(r"\?P<\w+>", "?:", pattern)


_NO_SHARDS = (
    rf"(?:{_anonymous(_BUCKET)}|{QUARANTINE}|{RUNS}|{MANIFESTS}|{METADATA}|{LOG_FOLDER}|{CHECKPOINT_FOLDER}"
    rf"|{PAGES})/"
)
_STATE = "|".join(map(re.escape, (LOG, CHECKPOINT, OVERLAY, TABLE_MANIFEST)))

_ANYWHERE: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("part", re.compile(rf"{_BUCKET}/{_PART}")),
    ("quarantine", re.compile(rf"{QUARANTINE}/{_PART}")),
    ("page", re.compile(rf"{PAGES}/{_PAGE}")),
    ("record", re.compile(rf"{_RECORD}/{re.escape(RECORD)}")),
    (
        "shard",
        re.compile(
            rf"(?!{_NO_SHARDS})[^/].*/{_RUN}(?P<run>[^/]+)/[^/]+/{_ATTEMPT}[0-9]+/"
            rf"(?:{re.escape(SHARD)}|{re.escape(SHARD_TEMPORARY)})"
        ),
    ),
    ("manifest", re.compile(rf"{MANIFESTS}/{_OF_RUN}/{MANIFEST}")),
    ("iceberg", re.compile(rf"{METADATA}/{_ICEBERG}|{re.escape(UNSETTLED)}")),
    ("hint", re.compile(re.escape(VERSION_HINT))),
    ("pointer", re.compile(POINTER)),
    ("state", re.compile(_STATE)),
)
# What a write that was killed leaves behind in a folder; an object is whole or not there.
_IN_FOLDERS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        "temporary",
        re.compile(
            _anonymous(
                rf"(?:{_BUCKET}|{QUARANTINE})/\.{_PART}\.tmp|{_BUCKET}/{_PASSING}"
                rf"|{re.escape(TABLE_MANIFEST_TEMPORARY)}|{BESIDE}"
                rf"|(?:{_RECORD}|{MANIFESTS}/{_OF_RUN}|{METADATA}|{PAGES})/{BESIDE}"
            )
        ),
    ),
    ("lock", re.compile("|".join(map(re.escape, (LOG_LOCK, POINTER_LOCK, lock_of(VERSION_HINT)))))),
)
# In a bucket the log is one object a commit; number 0 is its header.
_IN_BUCKETS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("log", re.compile(rf"{LOG_FOLDER}/(?!0{{20}})[0-9]{{20}}")),
    ("checkpoint", re.compile(rf"{CHECKPOINT_FOLDER}/[0-9]{{20}}")),
    ("state", re.compile(rf"{LOG_FOLDER}/0{{20}}")),
)
_PART_NAMES = (re.compile(rf"\.?{_PART}(\.tmp)?"), re.compile(_PASSING))
_BUCKET_FOLDER = re.compile(_BUCKET)
_IN_BUCKET = re.compile(rf"{_BUCKET}/[^/]+")
_RUN_FOLDER = re.compile(_OF_RUN)
_PAGE_NAME = re.compile(_PAGE)
_NUMBER = re.compile(rf"[0-9]{{{_DIGITS}}}")
# What a table's root holds already, and steps that mean something below its shards.
_TAKEN = re.compile(
    rf"{BUCKET}.*|{MANIFESTS}|{METADATA}|{RUNS}|{QUARANTINE}|{LOG_FOLDER}|{CHECKPOINT_FOLDER}|{PAGES}"
    r"|manifest\..*|_.*|\.+"
)
_SHARD_STEP = re.compile(rf"(?:{_RUN}|{_ATTEMPT}).*")


def kind_of(path: str, *, in_bucket: bool) -> tuple[Kind, str | None] | None:
    """What a file of this name below a table is, and, where a folder says so, of which run; None if it isn't
    lading's."""
    for kind, pattern in (*_ANYWHERE, *(_IN_BUCKETS if in_bucket else _IN_FOLDERS)):
        match = pattern.fullmatch(path)
        if match is not None:
            return kind, match.groupdict().get("run")
    return None


def bucket_key(bucket_id: int) -> str:
    """`000123`, `-000123`: at least six digits after the sign, as in the directory `bucket=000123`."""
    return f"-{-bucket_id:06d}" if bucket_id < 0 else f"{bucket_id:06d}"


def slot_key(slot: int, *, of_bucket: bool = False) -> str:
    """`slot=00017`, the key that a slot has as a source; of one that is a bucket, `slot=000123`."""
    return f"{SLOT}{bucket_key(slot)}" if of_bucket else f"{SLOT}{slot:05d}"


def slot_of(key: str) -> int | None:
    """The number of the slot that has this key, also without `slot=` in front; None if it is none."""
    match = re.fullmatch(rf"(?:{SLOT})?(-?[0-9]{{1,19}})", key)
    return int(match[1]) if match else None


def bucket_folder(bucket_id: int) -> str:
    return f"{BUCKET}{bucket_key(bucket_id)}"


def bucket_key_of(folder: str) -> str | None:
    """The key that a bucket's folder has, `7` for `bucket=7`; None for another folder."""
    match = _BUCKET_FOLDER.fullmatch(folder)
    return match["bucket"] if match else None


def bucket_of(path: str) -> int | None:
    """The bucket that a file lies in; None if it lies elsewhere."""
    match = _IN_BUCKET.fullmatch(path)
    return int(match["bucket"]) if match else None


def part_name(run_id: str) -> str:
    """A fresh name: a UUID (version 8) whose first 48 bits are the run's token, the rest random."""
    return f"{_stem(run_id)}{PART_SUFFIX}"


def _stem(run_id: str) -> str:
    value = (_token(run_id) << 80) | int.from_bytes(ids.random_bytes(10))
    value = value & ~(0xF << 76) | (0x8 << 76)
    value = value & ~(0x3 << 62) | (0x2 << 62)
    return f"part-{uuid.UUID(int=value)}"


def part_path(bucket_id: int, run_id: str) -> str:
    """A fresh part of a bucket, relative to the table."""
    return f"{bucket_folder(bucket_id)}/{part_name(run_id)}"


def passing_path(bucket_id: int, run_id: str) -> str:
    """A fresh part that only passes, in a folder: a temporary file."""
    return f"{bucket_folder(bucket_id)}/{temporary_of(_stem(run_id) + '.arrow')}"


def is_passing(path: str) -> bool:
    return _PART_NAMES[1].fullmatch(path.rsplit("/", 1)[-1]) is not None


def quarantine_path(run_id: str) -> str:
    """A fresh file of rows that are set aside, relative to the table."""
    return f"{QUARANTINE}/{part_name(run_id)}"


def is_part_of(name: str, run_id: str) -> bool:
    """Whether `name` (a part's, or that of one left half written or on its way) was given by this run."""
    matches = (pattern.fullmatch(name.rsplit("/", 1)[-1]) for pattern in _PART_NAMES)
    return any(match and int(match["token"].replace("-", ""), 16) == _token(run_id) for match in matches)


def _token(run_id: str) -> int:
    return xxhash.xxh3_64_intdigest(run_id.encode()) >> 16


def log_object(number: int) -> str:
    """Of a commit; 0 is the header."""
    return f"{LOG_FOLDER}/{number:0{_DIGITS}}"


def checkpoint_object(sequence: int) -> str:
    return f"{CHECKPOINT_FOLDER}/{sequence:0{_DIGITS}}"


def number_of(name: str) -> int | None:
    """Of a log object or a checkpoint; None for a name that is neither's."""
    last = name.rpartition("/")[2]
    return int(last) if _NUMBER.fullmatch(last) else None


def page_name(kind: PageKind, content: bytes) -> str:
    """Of a page of the table's state, by what it holds: SHA-256, its first 128 bits."""
    return f"{kind}-{hashlib.sha256(content).hexdigest()[:32]}"


def fresh_page_name(name: str) -> str:
    """The same content under a name that nobody had before."""
    return f"{name}-{ids.fresh()[:12]}"


def content_name(name: str) -> str:
    """What a page is named by its content alone."""
    return "-".join(name.split("-")[:2])


def page_path(name: str) -> str:
    return f"{PAGES}/{name}"


def is_page_name(name: str, kind: PageKind) -> bool:
    match = _PAGE_NAME.fullmatch(name)
    return match is not None and match["kind"] == kind


def is_run_id(run_id: str) -> bool:
    """Whether `run_id` can be part of a folder's name."""
    return bool(run_id) and run_id.isprintable() and "/" not in run_id and len(run_id.encode()) <= 150


def timestamp(at: datetime) -> str:
    """`at` in UTC, as manifest and run folders begin: six digits always, so that text sorts as time does."""
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def manifest_path(at: datetime, run_id: str, name: str = MANIFEST) -> str:
    """`manifests/<timestamp>_run_id=<run>/manifest`."""
    return f"{MANIFESTS}/{_of_run(at, run_id)}/{name}"


def parse_manifest(path: str) -> tuple[datetime, str] | None:
    """Time and run of a manifest, whatever the file in its folder is called; None for a path that is none."""
    steps = path.split("/")
    return parse_manifest_folder(steps[1]) if len(steps) == 3 and steps[0] == MANIFESTS else None


def parse_manifest_folder(name: str) -> tuple[datetime, str] | None:
    match = _RUN_FOLDER.fullmatch(name)
    if match is None:
        return None
    try:
        return datetime.fromisoformat(match["time"]), match["run"]
    except ValueError:  # digits that are no date: not a folder of ours
        return None


def version_path(number: int) -> str:
    """Of Iceberg's metadata, whole: each version has its own."""
    return f"{METADATA}/v{number}.metadata.json"


def version_of(path: str) -> int | None:
    match = re.fullmatch(rf"{METADATA}/{_VERSION}", path)
    return int(match["version"]) if match is not None else None


def iceberg_list(snapshot: int, check: int) -> str:
    """Which manifests an Iceberg snapshot has. Its name, like those of all files that it leads to, ends with
    the checksum of the content."""
    return f"{METADATA}/snap-{snapshot}-{check:016x}.avro"


def iceberg_manifest(page: str, check: int, *, deletes: bool = False) -> str:
    """Of a page, by a hash of what it is."""
    return f"{METADATA}/{page}-{check:016x}-{_DELETES if deletes else _DATA}"


def positions_path(minus: str, check: int) -> str:
    """Which rows of a part no longer count, by a hash of part and sources."""
    return f"{METADATA}/{minus}-{check:016x}-{_POSITIONS}"


class IcebergName(NamedTuple):
    of: str  # a hash: of a page, or of a part and its `minus`; a list's snapshot
    check: int
    is_of_deletes: bool


def parse_iceberg(path: str) -> IcebergName | None:
    """What the name of such a file says; None for any other."""
    match = _NAMED.fullmatch(path.rpartition("/")[2])
    if match is None:
        return None
    return IcebergName(match["of"], int(match["check"], 16), match["kind"] == _DELETES)


def record_folder(at: datetime, run_id: str) -> str:
    """Below `RUNS`, a fresh one: `<timestamp>_run_id=<run>_<hex>`."""
    return f"{_of_run(at, run_id)}_{ids.fresh()}"


def is_record_of(folder: str, run_id: str) -> bool:
    """Whether a folder below `RUNS` is that run's."""
    return f"_{_RUN}{run_id}_" in folder


def record_path(folder: str) -> str:
    return f"{RUNS}/{folder}/{RECORD}"


def _of_run(at: datetime, run_id: str) -> str:
    return f"{timestamp(at)}_{_RUN}{run_id}"


def shards_of_run(prefix: str, run_id: str) -> str:
    return f"{prefix}/{_RUN}{run_id}"


def attempt_folder(shard: str, attempt: int) -> str:
    """Below a shard's own folder; with `SHARD` in it."""
    return f"{shard}/{_ATTEMPT}{attempt:02d}"


ANY_ATTEMPT = f"*/{_ATTEMPT}*/"  # a glob below `shards_of_run`


def is_shard_of(db_url: str, run_id: str) -> bool:
    return f"/{_RUN}{run_id}/" in db_url


def is_run_step(step: str) -> bool:
    """Whether a shard's path names its run here."""
    return step.startswith(_RUN)


def is_taken(prefix: str) -> bool:
    """Whether shards below `prefix` would mix with what a table's root holds, or couldn't be told."""
    steps = prefix.split("/")
    return bool(_TAKEN.fullmatch(steps[0]) or any(map(_SHARD_STEP.fullmatch, steps)))
