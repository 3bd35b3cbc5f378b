"""What every store offers.

A store keeps two things: manifests, which never change once written, and one pointer, which is all
that moves. It treats a manifest as opaque bytes and never touches a data file.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, Protocol

from lading import clock
from lading.model import SnapshotRef

Outcome = Literal["current", "superseded", "held"]


@dataclass(frozen=True, slots=True)
class Published:
    """What became of a publish. The manifest is durable in any case."""

    ref: str  # the manifest written
    outcome: Outcome  # superseded: somebody published a newer state; held: a rollback holds the pointer
    current: SnapshotRef  # what readers see now


class ManifestStore(Protocol):
    """A place for one table's manifests and pointer."""

    def publish(
        self,
        payload: bytes,
        run_id: str,
        *,
        sequence: int,
        expected: SnapshotRef | None = None,
        now: datetime | None = None,
    ) -> Published:
        """Write the manifest, then move the pointer to it, unless it is held or names a newer state.

        `expected` is the pointer the caller built upon: if it moved since, an equal sequence wins too.
        PublishManifestError: nothing is visible. PublishCurrentError: durable, but not visible.
        """
        ...

    def put_manifest(self, payload: bytes, run_id: str, now: datetime | None) -> tuple[str, datetime]:
        """Write the manifest only; its reference and time. `snapshots.publish.keep_manifest` names errors."""
        ...

    def load_current(self) -> SnapshotRef | None:
        """What the pointer names, None before the first publish."""
        ...

    def load_manifest(self, ref: str) -> bytes:
        """The manifest's bytes as they were published; ManifestStoreError when they can't be read."""
        ...

    def manifest_path(self, ref: str) -> Path | None:
        """Where the manifest is a file that SQLite can open in place, links resolved; None if it has to be
        fetched."""
        ...

    def list_manifests(self, *, limit: int | None = None) -> list[SnapshotRef]:
        """Manifests, newest first, told by their names: no payload is read, `sequence` is 0."""
        ...

    def set_current(
        self,
        ref: str,
        *,
        hold: bool = True,
        sequence: int = 0,
        expected: SnapshotRef | None = None,
        now: datetime | None = None,
    ) -> SnapshotRef:
        """Point at a manifest that is there. With `hold`, runs leave the pointer where it is now.
        `expected` is the pointer that the caller decided by: Conflict if it moved since."""
        ...

    def delete_manifest(self, ref: str) -> bool:
        """Remove a manifest unless the pointer names it: False then. One that isn't there is gone."""
        ...


class AsyncManifestStore(Protocol):
    """The reading half of a store, for asynchronous code. There is nothing that writes."""

    async def load_current(self) -> SnapshotRef | None: ...

    async def load_manifest(self, ref: str) -> bytes: ...

    async def list_manifests(self, *, limit: int | None = None) -> list[SnapshotRef]: ...


def later(now: datetime | None, than: datetime | None) -> datetime:
    """`now` (the clock's, if None), but always after `than`: two events never share a microsecond."""
    at = (now or clock.now()).astimezone(UTC)
    return at if than is None or at > than else than + timedelta(microseconds=1)
