"""Manifests and the pointer in memory. For tests only: another instance or process sees nothing."""

from __future__ import annotations

import threading
from datetime import datetime

from lading.errors import ManifestStoreError
from lading.layout.table import manifest_path
from lading.model import SnapshotRef
from lading.snapshots.pointer import new_swap_id
from lading.snapshots.publish import publish_in_two_phases, refuse_moved, same_pointer
from lading.snapshots.stores.protocol import Published, later


class MemoryStore:
    """A store that lives as long as the object. For tests only."""

    def __init__(self) -> None:
        self._manifests: dict[str, tuple[SnapshotRef, bytes]] = {}
        self._current: SnapshotRef | None = None
        self._lock = threading.Lock()

    def publish(
        self,
        payload: bytes,
        run_id: str,
        *,
        sequence: int,
        expected: SnapshotRef | None = None,
        now: datetime | None = None,
    ) -> Published:
        return publish_in_two_phases(self, payload, run_id, sequence=sequence, expected=expected, now=now)

    def put_manifest(self, payload: bytes, run_id: str, now: datetime | None) -> tuple[str, datetime]:
        with self._lock:
            newest = max((listed.published_at for listed, _ in self._manifests.values()), default=None)
            at = later(now, newest)
            ref = manifest_path(at, run_id)
            self._manifests[ref] = (SnapshotRef(ref, run_id, at), bytes(payload))
            return ref, at

    def swap_current(self, expected: SnapshotRef | None, to: SnapshotRef) -> bool:
        with self._lock:
            if not same_pointer(self._current, expected):
                return False
            self._current = to
            return True

    def load_current(self) -> SnapshotRef | None:
        return self._current

    def load_manifest(self, ref: str) -> bytes:
        return self._find(ref)[1]

    def list_manifests(self, *, limit: int | None = None) -> list[SnapshotRef]:
        listed = [entry for entry, _ in self._manifests.values()]
        return sorted(listed, key=lambda entry: entry.published_at, reverse=True)[:limit]

    def set_current(
        self,
        ref: str,
        *,
        hold: bool = True,
        sequence: int = 0,
        expected: SnapshotRef | None = None,
        now: datetime | None = None,
    ) -> SnapshotRef:
        with self._lock:
            listed, _ = self._find(ref)
            refuse_moved(self._current, expected)
            at = later(now, self._current.published_at if self._current else None)
            to = SnapshotRef(ref, listed.run_id, at, sequence, held=hold, swap_id=new_swap_id())
            self._current = to
            return to

    def delete_manifest(self, ref: str) -> bool:
        with self._lock:
            if self._current is not None and self._current.ref == ref:
                return False
            self._manifests.pop(ref, None)
            return True

    def _find(self, ref: str) -> tuple[SnapshotRef, bytes]:
        try:
            return self._manifests[ref]
        except KeyError:
            raise ManifestStoreError(
                f"there is no manifest {ref!r}", hint="pick one of the listed snapshots"
            ) from None
