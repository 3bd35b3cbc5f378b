"""One snapshot, open: what a reader holds on to until it is refreshed, and which snapshot that is.

Members serve scan and lookup, shards serve get. Both belong to one manifest, so everything a reader
says comes from one snapshot. When a newer one takes over, the old one closes as soon as nobody uses it.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lading.errors import ConfigError, LadingError, ManifestParseError, ManifestStoreError
from lading.log.table import Table
from lading.model import Place, SnapshotRef
from lading.serve.decode import decoder, encoding_of
from lading.serve.get import KeyReader, Superseded
from lading.serve.open.places import ShardPlaces
from lading.snapshots.history import Wanted, find, gate_failures, published_by_hand
from lading.snapshots.manifest import read_snapshot
from lading.snapshots.opening import members_in, no_parts, open_manifest
from lading.snapshots.stores.protocol import ManifestStore
from lading.state.members import MemberStore
from lading.storage.place import storage_of

FALLBACKS = 3  # earlier snapshots that are tried when the current one's manifest is malformed


_ATTEMPTS = 20  # snapshots that vanish while they are being opened


class SnapshotFallback(UserWarning):
    """Readers see an earlier snapshot than the pointer names, because that one's manifest is malformed."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """What could not be parsed."""

    ref: str
    reason: str


class View:
    """One snapshot's members and shards. One that another writer made has shards only."""

    superseded = Superseded

    def __init__(
        self,
        ref: SnapshotRef,
        members: MemberStore | None,
        keys: KeyReader,
        close: Callable[[], None],
        fallback: Fallback | None = None,
    ) -> None:
        """`close` closes the manifest."""
        self.ref = ref
        self.keys = keys
        self.close = close
        self._members = members
        self.get = keys.get  # one step less on the way that is gone most often
        self.fallback = fallback
        self.encoding = encoding_of(keys.meta)
        self._decode = decoder(keys.meta)
        self._users = 0
        self._retired = False
        self._lock = threading.Lock()

    @property
    def has_parts(self) -> bool:
        return self._members is not None

    @property
    def members(self) -> MemberStore:
        """The parts; NotFound for a snapshot that has none."""
        if self._members is None:
            raise no_parts(self.ref.ref)
        return self._members

    @property
    def table(self) -> str:
        """What the table is called; another writer's manifest doesn't say."""
        return self._members.meta.table if self._members is not None else ""

    @property
    def rows(self) -> int:
        """Rows of the table, or keys where that is all there is."""
        return self._members.row_count() if self._members is not None else self.keys.count

    @contextmanager
    def in_use(self) -> Iterator[View]:
        """Keeps the members open; Superseded when they no longer are."""
        with self._lock:
            if self._retired:
                raise Superseded
            self._users += 1
        try:
            yield self
        finally:
            with self._lock:
                self._users -= 1
                last = self._retired and self._users == 0
            if last:
                self.close()

    def shows(self, ref: SnapshotRef) -> bool:
        """Whether this is what a reader of `ref` gets to see."""
        return ref.ref == (self.ref.ref if self.fallback is None else self.fallback.ref)

    def decoded(self, value: bytes) -> Any:
        """A stored value as it was before it was encoded."""
        return self._decode(value)

    def retire(self, newer: View | None = None) -> None:
        """Close what `newer` doesn't have, as soon as its last user is done."""
        with self._lock:
            if self._retired:
                return
            self._retired = True
            unused = self._users == 0
        self.keys.retire(None if newer is None else newer.keys)
        if unused:
            self.close()


@dataclass(frozen=True, slots=True)
class Opener:
    """Where the snapshots of one table are found, and which of them is wanted."""

    root: Place
    store: ManifestStore
    wanted: Wanted
    places: ShardPlaces
    fallbacks: int = FALLBACKS
    store_url: str | None = None  # None: the store is `root`'s own, or was handed over open

    def latest(self) -> SnapshotRef:
        """What is wanted, as of now."""
        return find(self.store, self.wanted, self.root)

    def open_latest(self, before: View | None = None) -> View:
        """The snapshot that is wanted now; `before` itself when that is the one it shows."""
        ref = self.latest()
        for _ in range(_ATTEMPTS):
            if before is not None and before.shows(ref):
                before.ref = ref if before.fallback is None else before.ref
                return before
            try:
                return self.open(ref, before)
            except ManifestStoreError:
                # Published over and cleaned away between the two reads: there is a newer one.
                seen, ref = ref, self.latest()
                if ref.ref == seen.ref:
                    raise
        return self.open(ref, before)

    def open(self, ref: SnapshotRef, before: View | None = None) -> View:
        """The snapshot `ref`; if its manifest is malformed and it is the current one, an earlier one."""
        try:
            return self._view(ref, before)
        except ManifestParseError as error:
            if not self.wanted.is_current:
                raise
            found = self._earlier(ref, error, before)
            if found is None:
                raise
            message = f"{ref.ref} is malformed ({error.message}); reading {found.ref.ref} instead"
        warnings.warn(message, SnapshotFallback, stacklevel=4)
        return found

    def need_parts(self, view: View) -> None:
        """Scan and lookup read the table's own files."""
        if view.has_parts and storage_of(self.root).folder is None and not Table.exists(self.root):
            raise ConfigError(
                f"{self.root} has the table's manifests and shards, not its parts",
                hint="open the table in its warehouse instead, and pass this place as store=",
            )

    def _view(self, ref: SnapshotRef, before: View | None, fallback: Fallback | None = None) -> View:
        connection = open_manifest(self.store, ref.ref)
        try:
            snapshot = read_snapshot(connection)
            members = members_in(connection, self.root)
            places = self.places.copied_from(snapshot.meta.s3_prefix)
            keys = KeyReader(
                snapshot,
                places,
                None if before is None else before.keys,
                foreign=members is None,
            )
            return View(ref, members, keys, connection.close, fallback)
        except BaseException:
            connection.close()
            raise

    def _earlier(self, ref: SnapshotRef, error: LadingError, before: View | None) -> View | None:
        """The newest one before `ref` that can be read and was meant to be seen."""
        listed = self.store.list_manifests()
        at = next((number for number, one in enumerate(listed) if one.ref == ref.ref), None)
        older = listed[at + 1 :] if at is not None else [one for one in listed if _is_before(one, ref)]
        for one in older[: self.fallbacks]:
            try:
                view = self._view(one, before, Fallback(ref.ref, error.message))
            except ManifestParseError:
                continue  # as malformed as the one it was to stand in for
            if self._was_seen(view):
                return view
            view.close()
        return None

    def _was_seen(self, view: View) -> bool:
        refused = gate_failures(view.keys.meta.custom)
        return not refused or view.ref.ref in published_by_hand(self.root)


def _is_before(one: SnapshotRef, other: SnapshotRef) -> bool:
    return one.published_at < other.published_at
