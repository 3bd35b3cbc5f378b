"""Run records: `runs/<timestamp>_run_id=<run>_<hex>/run.yaml`, one a run, for people and for cleaning.

A record carries a lease that a small thread keeps alive, so that a run whose machine died can be told
from one that is slow. The lease guides cleaning only: a run never waits for another one's.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import msgspec
import yaml

from lading import clock
from lading.config.yaml import construct
from lading.errors import ConfigError, ManifestParseError, ManifestStoreError, StorageError
from lading.layout.table import (
    RUNS,
    SHARD_TEMPLATE,
    SHARDS,
    is_record_of,
    is_run_id,
    record_folder,
    record_path,
)
from lading.secrets import hide_within
from lading.storage.place import Where, folder_of, storage_of
from lading.storage.protocol import NotPlain, TooLarge

LEASE = timedelta(minutes=5)
FORMAT_VERSION = 1  # of shardyfusion's records

Status = Literal["running", "succeeded", "failed"]

_log = logging.getLogger(__name__)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # libyaml's: a run writes its record again and again


@dataclass(frozen=True, slots=True)
class RunOutput:
    """Where a run's shards go, as shardyfusion's records say it."""

    s3_prefix: str = ""
    shard_prefix: str = SHARDS
    db_path_template: str = SHARD_TEMPLATE


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What run.yaml says; times are ISO-8601 in UTC. The fields of shardyfusion's records are written beside
    these: see `_fields`."""

    run_id: str
    status: Status
    started_at: str
    finished_at: str | None
    lease_until: str | None  # None once the run has ended
    manifest_ref: str | None
    error: str | None
    tables: tuple[str, ...]
    host: str
    pid: int
    # When somebody moved the pointer by hand: "rollback", "release", "publish" or "repair".
    action: str | None = None
    moved_from: str | None = None  # what the pointer named before this run moved it, or set out to
    given_up: bool = False  # its lease lapsed, and cleaning took it for dead
    checks: list[dict[str, Any]] | None = None  # how each check of lading.yaml went
    updated_at: str | None = None  # when the record was last written
    output: RunOutput = RunOutput()

    def alive(self, now: datetime | None = None) -> bool:
        """Whether the run may still be at work; one whose lease has lapsed is taken for dead."""
        if self.status != "running" or self.lease_until is None:
            return False
        until = _time(self.lease_until)
        return until is not None and until > _clock(now)

    def state(self, now: datetime | None = None) -> str:
        """`running`, `succeeded`, `failed`, or `dead`: running by its record, with a lease that lapsed."""
        return "dead" if self.status == "running" and not self.alive(now) else self.status

    def as_json(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        return {**asdict(self), "state": self.state()}


class RunHandle:
    """One run's record. As a context manager it keeps the lease alive and never leaves `running` behind."""

    def __init__(self, file: RecordFile, record: RunRecord, lease: timedelta) -> None:
        self.file = file
        self.record = record
        self._lease = lease
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def path(self) -> Path:
        """Of a record on disk."""
        return self.file.path

    def heartbeat(self, now: datetime | None = None) -> None:
        """Prolong the lease, unless the run has ended."""
        with self._lock:
            if self.record.status == "running":
                until = _iso(_clock(now) + self._lease)
                self._write(replace(self.record, lease_until=until), now)

    def moving(self, moved_from: str | None) -> None:
        """Note what readers see until now: cleaning leaves it alone for a while."""
        with self._lock:
            self._write(replace(self.record, moved_from=moved_from))

    def finish(
        self,
        status: Literal["succeeded", "failed"],
        *,
        manifest_ref: str | None = None,
        error: str | None = None,
        checks: list[dict[str, Any]] | None = None,
        now: datetime | None = None,
    ) -> None:
        """Record how the run ended."""
        self._stop.set()
        with self._lock:
            self._write(
                replace(
                    self.record,
                    status=status,
                    finished_at=_iso(_clock(now)),
                    lease_until=None,
                    manifest_ref=manifest_ref,
                    error=error,
                    checks=checks,
                ),
                now,
            )

    def __enter__(self) -> RunHandle:
        self._thread = threading.Thread(target=self._keep_alive, name="lading-lease", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self.record.status != "running":
            return
        if error is None:
            self.finish("succeeded")
            return
        try:
            self.finish("failed", error=f"{type(error).__name__}: {error}")
        except (OSError, StorageError) as unwritten:  # the run's own error is the one to show
            error.add_note(f"{self.file} could not be written either: {unwritten}")

    def _keep_alive(self) -> None:
        while not self._stop.wait(self._lease.total_seconds() / 3):
            try:
                self.heartbeat()
            except (OSError, StorageError) as error:  # a lease that lapses must not fail the run
                _log.warning("the lease in %s could not be renewed: %s", self.file, error)

    def _write(self, record: RunRecord, now: datetime | None = None) -> None:
        record = replace(record, updated_at=_iso(_clock(now)))
        text = yaml.dump(hide_within(_fields(record)), Dumper=_DUMPER, sort_keys=False, allow_unicode=True)
        self.file.write(text.encode())
        self.record = record


def _fields(record: RunRecord) -> dict[str, Any]:
    """run.yaml, shardyfusion's fields first: its own tools can read the record. A lease ends with its run."""
    told = asdict(record) | {"tables": list(record.tables)}
    del told["output"]
    kind, _, message = (record.error or "").partition(": ")
    named = kind.isidentifier() and bool(message)
    theirs = {
        "format_version": FORMAT_VERSION,
        "run_id": record.run_id,
        "writer_type": "lading",
        "status": record.status,
        "started_at": record.started_at,
        "updated_at": record.updated_at,
        "lease_expires_at": record.lease_until or record.finished_at or record.updated_at,
        **asdict(record.output),
        "manifest_ref": record.manifest_ref,
        "error_type": None if record.error is None else kind if named else "LadingError",
        "error_message": None if record.error is None else message if named else record.error,
    }
    return theirs | told


def start(
    root: Where,
    run_id: str,
    now: datetime | None = None,
    *,
    tables: Sequence[str] = (),
    lease: timedelta = LEASE,
    action: str | None = None,
    output: RunOutput | None = None,
) -> RunHandle:
    """Write a record that says `running` below `root`, and return the handle to it. `output` is where the
    shards go; None: below `root`, as by default."""
    if not is_run_id(run_id):
        raise ConfigError(
            f"{run_id!r} can't be part of a folder's name", hint="use letters, digits, '-', '_' and '.'"
        )
    at = _clock(now)
    record = RunRecord(
        run_id=run_id,
        status="running",
        started_at=_iso(at),
        finished_at=None,
        lease_until=_iso(at + lease),
        manifest_ref=None,
        error=None,
        tables=tuple(tables),
        host=socket.gethostname(),
        pid=os.getpid(),
        action=action,
        output=output or RunOutput(storage_of(root).prefix.rstrip("/")),
    )
    handle = RunHandle(RecordFile(root, record_folder(at, run_id)), record, lease)
    handle._write(record, now)
    return handle


def give_up(root: Where, one: Registered, now: datetime | None = None) -> None:
    """Mark the record of a run whose lease has lapsed. Should it wake up, its heartbeat takes that back."""
    handle = RunHandle(RecordFile(root, one.folder), replace(one.record, given_up=True), LEASE)
    handle.finish(
        "failed",
        manifest_ref=one.record.manifest_ref,
        error="its lease expired: lading clean declared it dead",
        now=now,
    )


def last_run(root: Where) -> dict[str, Any] | None:
    """What the newest record of a run below `root` says, None when there is none; `state` tells a run that
    is dead from one that is slow."""
    for file in record_files(root):
        fields = _load(file)
        if fields is not None and fields.get("action") is None:
            record = _typed(fields)
            return fields | {"state": record.state() if record is not None else fields.get("status")}
    return None


@dataclass(frozen=True, slots=True)
class Registered:
    """A record and the folder that it lies in."""

    folder: str  # its name
    record: RunRecord

    @property
    def started_at(self) -> datetime | None:
        return _time(self.record.started_at)

    @property
    def finished_at(self) -> datetime | None:
        return _time(self.record.finished_at) if self.record.finished_at is not None else None


def newest_runs(root: Where, limit: int, skip: int = 0) -> tuple[list[Registered], int]:
    """`limit` records behind the `skip` newest ones, newest first, and how many there are. Only those are
    read; a folder whose record can't be told is passed over."""
    files = record_files(root)
    found = (_registered(file) for file in files[skip : skip + limit])
    return [one for one in found if one is not None], len(files)


def run_named(root: Where, run_id: str) -> Registered | None:
    """The record of one run, however many there are: the folders' names tell which it is."""
    named = (file for file in record_files(root) if is_record_of(file.folder, run_id))
    return next((one for one in map(_registered, named) if one and one.record.run_id == run_id), None)


def _registered(file: RecordFile) -> Registered | None:
    try:
        fields = _load(file)
    except ManifestParseError:
        return None
    record = _typed(fields) if fields is not None else None
    return Registered(file.folder, record) if record is not None else None


def list_runs(root: Where) -> tuple[list[Registered], list[str]]:
    """Every record below `root`, newest first, and the names of folders whose record can't be told."""
    found, unknown = [], []
    for file in record_files(root):
        one = _registered(file)
        if one is None:
            unknown.append(file.folder)
        else:
            found.append(one)
    return found, unknown


def _typed(fields: dict[str, Any]) -> RunRecord | None:
    known = {name: fields[name] for name in RunRecord.__dataclass_fields__ if name in fields}
    said = {name: fields[name] for name in RunOutput.__dataclass_fields__ if name in fields}
    known["output"] = said
    try:
        return msgspec.convert(known, RunRecord)
    except msgspec.ValidationError:
        return None


def _time(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _load(file: RecordFile) -> dict[str, Any] | None:
    """None where there is no record."""
    data = file.read()
    if data is None:
        return None
    try:
        record = construct(data.decode())
    except (yaml.YAMLError, ValueError, AttributeError, LookupError) as error:  # of `!!bool x`, too
        record = error
    if not isinstance(record, dict):
        raise ManifestParseError(
            f"{file} is not a run record", hint="delete its folder: it is a report, nothing depends on it"
        )
    return record


def _clock(now: datetime | None) -> datetime:
    return (now or clock.now()).astimezone(UTC)


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="microseconds")


_LIMIT = 1 << 26  # bytes; a real one has a few thousand


@dataclass(frozen=True, slots=True)
class RecordFile:
    """One record's file."""

    where: Where
    folder: str  # its name

    @property
    def path(self) -> Path:
        """Of a record on disk."""
        return folder_of(self.where) / self._name

    def __str__(self) -> str:
        return f"{self.where}/{self._name}"

    def write(self, data: bytes) -> None:
        storage_of(self.where).put(self._name, data, content_type="application/x-yaml")

    def read(self) -> bytes | None:
        """None for the folder of a run that was killed before its first write, or that isn't a run's."""
        try:
            return storage_of(self.where).get(self._name, limit=_LIMIT)
        except (FileNotFoundError, NotADirectoryError, NotPlain):
            return None
        except TooLarge as error:
            raise ManifestParseError(error.message, hint="delete its folder: it is a report") from error
        except OSError as error:
            raise ManifestStoreError(
                f"{self} can't be read: {error.strerror}", hint="check its permissions", file=str(self)
            ) from error

    @property
    def _name(self) -> str:
        return record_path(self.folder)


def record_files(where: Where) -> list[RecordFile]:
    """The records below a table, newest first."""
    return [RecordFile(where, folder) for folder in reversed(storage_of(where).folders(RUNS))]
