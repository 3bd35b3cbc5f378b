"""Run records: `runs/<timestamp>_run_id=<run>_<hex>/run.yaml`, one a run, for people and for cleaning.

A record carries a lease that a small thread keeps alive, so that a run whose machine died can be told
from one that is slow. The lease guides cleaning only: a run never waits for another one's.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import yaml

from lading.errors import ConfigError, ManifestParseError, ManifestStoreError
from lading.snapshots.stores.protocol import is_run_id, timestamp
from lading.storage.local import write_atomic

RUNS = "runs"
LEASE = timedelta(minutes=5)

Status = Literal["running", "succeeded", "failed"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What run.yaml says; times are ISO-8601 in UTC."""

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


class RunHandle:
    """One run's record. As a context manager it keeps the lease alive and never leaves `running` behind."""

    def __init__(self, path: Path, record: RunRecord, lease: timedelta) -> None:
        self.path = path
        self.record = record
        self._lease = lease
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def heartbeat(self, now: datetime | None = None) -> None:
        """Prolong the lease, unless the run has ended."""
        with self._lock:
            if self.record.status == "running":
                self._write(replace(self.record, lease_until=_iso(_clock(now) + self._lease)))

    def finish(
        self,
        status: Literal["succeeded", "failed"],
        *,
        manifest_ref: str | None = None,
        error: str | None = None,
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
                )
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
        except OSError as unwritten:  # the run's own error is the one to show
            error.add_note(f"{self.path} could not be written either: {unwritten}")

    def _keep_alive(self) -> None:
        while not self._stop.wait(self._lease.total_seconds() / 3):
            try:
                self.heartbeat()
            except OSError as error:  # a lease that lapses must not fail the run
                _log.warning("the lease in %s could not be prolonged: %s", self.path, error)

    def _write(self, record: RunRecord) -> None:
        fields = asdict(record) | {"tables": list(record.tables)}
        text = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)
        write_atomic(self.path, text.encode())
        self.record = record


def start(
    root: Path,
    run_id: str,
    now: datetime | None = None,
    *,
    tables: Sequence[str] = (),
    lease: timedelta = LEASE,
) -> RunHandle:
    """Write a record that says `running` below `root`, and return the handle to it."""
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
    )
    folder = f"{timestamp(at)}_run_id={run_id}_{uuid.uuid4().hex}"
    handle = RunHandle(root / RUNS / folder / "run.yaml", record, lease)
    handle._write(record)
    return handle


def last_run(root: Path) -> dict[str, Any] | None:
    """What the newest record below `root` says, None when there is none."""
    try:
        folders = sorted(os.listdir(root / RUNS), reverse=True)
    except FileNotFoundError:
        return None
    for folder in folders:
        path = root / RUNS / folder / "run.yaml"
        try:
            return _load(path)
        except (FileNotFoundError, NotADirectoryError):
            continue  # killed before its first write, or not a run's folder
        except OSError as error:
            raise ManifestStoreError(
                f"{path} can't be read: {error.strerror}", hint="check its permissions", file=str(path)
            ) from error
    return None


def _load(path: Path) -> dict[str, Any]:
    try:
        record = yaml.safe_load(path.read_bytes())
    except (yaml.YAMLError, ValueError) as error:
        record = error
    if not isinstance(record, dict):
        raise ManifestParseError(
            f"{path} is not a run record", hint="delete its folder: it is a report, nothing depends on it"
        )
    return record


def _clock(now: datetime | None) -> datetime:
    return (now or datetime.now(UTC)).astimezone(UTC)


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="microseconds")
