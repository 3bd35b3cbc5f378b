"""Manifests and the pointer in a bucket, laid out as in a table's directory.

The pointer moves by one conditional PUT on one key, so publishers on many machines need no lock. An
answer that got lost looks like a lost race: what lies there is read back, and the manifest's content
or the pointer's swap_id tells whose write it was. A reference is the object's URL; only one below
this store's root is ever followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from lading.errors import (
    LadingError,
    ManifestParseError,
    ManifestStoreError,
    PublishCurrentError,
    StorageError,
)
from lading.layout.table import MANIFEST, MANIFESTS, POINTER, manifest_path, parse_manifest, timestamp
from lading.model import SnapshotRef
from lading.snapshots.pointer import (
    CONTENT_TYPE,
    MALFORMED,
    POINTER_CONTENT_TYPE,
    POINTER_LIMIT,
    encode_pointer,
    new_swap_id,
    parse_pointer,
)
from lading.snapshots.publish import publish_in_two_phases, refuse_moved, same_pointer
from lading.snapshots.stores.protocol import Published, later
from lading.state.sqlite import HINT, SNAPSHOT_LIMIT
from lading.storage.bucket import ObjectStorage, TooLarge
from lading.storage.protocol import Named, SwapLost

_ATTEMPTS = 1_000  # each lost race means that somebody else got through


class S3Store:
    """The store of the table whose root is the URL `s3://bucket/prefix`."""

    def __init__(
        self, url: str, options: Mapping[str, str] | None = None, *, manifest_name: str = MANIFEST
    ) -> None:
        self._storage = ObjectStorage(url, options)
        self.names = Names(self._storage.url, manifest_name)
        self._seen: tuple[SnapshotRef, str] | None = None  # the pointer read last, and its etag

    @property
    def url(self) -> str:
        return self.names.url

    @property
    def storage(self) -> ObjectStorage:
        """The bucket below this root, for what lies beside the manifests."""
        return self._storage

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
        """Write a manifest under a fresh name; one that was there is never overwritten."""
        at = later(now, None)
        at = later(at, self._newest_from(at))
        while True:
            name = self.names.of(at, run_id)
            try:
                self._storage.put_new(name, payload, content_type=CONTENT_TYPE)
            except (FileExistsError, StorageError) as error:
                if not self._holds(name, payload):
                    if isinstance(error, StorageError):
                        raise
                    at = later(at, at)
                    continue
            return self.names.ref(name), at

    def swap_current(self, expected: SnapshotRef | None, to: SnapshotRef) -> bool:
        """Move the pointer if it is still `expected`, by one conditional PUT."""
        etag = None
        if expected is not None:
            seen = self._seen
            if seen is None or not same_pointer(seen[0], expected):
                seen = self._load()
            if seen is None or not same_pointer(seen[0], expected):
                return False
            etag = seen[1]
        return self._swap(to, etag)

    def load_current(self) -> SnapshotRef | None:
        self._seen = seen = self._load()
        return seen[0] if seen is not None else None

    def load_manifest(self, ref: str) -> bytes:
        name = self.names.name(ref)
        try:
            return self._storage.get(name, limit=SNAPSHOT_LIMIT)
        except (FileNotFoundError, StorageError) as error:
            raise unreadable(ref, error) from error

    def list_manifests(self, *, limit: int | None = None) -> list[SnapshotRef]:
        try:
            return self.names.listed(self._storage.list(MANIFESTS))[:limit]
        except StorageError as error:
            raise unreadable(f"{self.url}/{MANIFESTS}", error) from error

    def set_current(
        self,
        ref: str,
        *,
        hold: bool = True,
        sequence: int = 0,
        expected: SnapshotRef | None = None,
        now: datetime | None = None,
    ) -> SnapshotRef:
        name = self.names.name(ref)
        ref, run_id = self.names.ref(name), self.names.run_id(name)
        self._require(name)
        try:
            for _ in range(_ATTEMPTS):
                current, etag = self._readable_current()
                refuse_moved(current, expected)
                self._require(name)  # again, after the pointer was read: see delete_manifest
                at = later(now, current.published_at if current is not None else None)
                to = SnapshotRef(ref, run_id, at, sequence, held=hold, swap_id=new_swap_id())
                if self._swap(to, etag) or same_pointer(self.load_current(), to):
                    return to
        except (StorageError, ManifestStoreError) as error:
            raise PublishCurrentError(
                f"the pointer could not be moved to {ref}: {error.message}",
                hint="mend the cause and try again; lading status shows what readers see",
            ) from error
        raise PublishCurrentError(
            f"the pointer moved {_ATTEMPTS} times while it was being set to {ref}",
            hint="try again when fewer publishers are at work",
        )

    def delete_manifest(self, ref: str) -> bool:
        """There is no lock to take. So the pointer is renewed after the deletion: whoever looked for the
        manifest before it loses the swap and looks again; whoever was quicker gets the manifest back."""
        name = self.names.name(ref)
        try:
            seen = self._load()
            if seen is not None and seen[0].ref == self.names.ref(name):
                return False
            payload = self._storage.get(name, limit=SNAPSHOT_LIMIT)
            self._storage.delete(name)
            while seen is not None and not self._swap(_renewed(seen[0]), seen[1]):
                seen = self._load()
                if seen is not None and seen[0].ref == self.names.ref(name):
                    self._storage.put_new(name, payload, content_type=CONTENT_TYPE)
                    return False
        except FileNotFoundError:
            return True
        except (FileExistsError, StorageError) as error:
            what = error.message if isinstance(error, StorageError) else "it was written again meanwhile"
            message = f"{ref} could not be deleted: {what}"
            raise ManifestStoreError(message, hint="try again", file=ref) from error
        return True

    def _require(self, name: str) -> None:
        try:
            self._storage.head(name)
        except (FileNotFoundError, StorageError) as error:
            raise unreadable(self.names.ref(name), error) from error

    def _load(self) -> tuple[SnapshotRef, str] | None:
        try:
            data, etag = self._storage.get_with_etag(POINTER, limit=POINTER_LIMIT)
        except FileNotFoundError:
            return None
        except StorageError as error:
            raise unreadable(f"{self.url}/{POINTER}", error, MALFORMED) from error
        return self.names.pointer(data), etag

    def _swap(self, to: SnapshotRef, etag: str | None) -> bool:
        """False when the pointer is another one; also after a lost answer, which the caller looks into."""
        try:
            self._storage.swap(POINTER, encode_pointer(to), etag, content_type=POINTER_CONTENT_TYPE)
        except SwapLost:
            return False
        except StorageError:
            if same_pointer(self.load_current(), to):
                return True
            raise
        return True

    def _readable_current(self) -> tuple[SnapshotRef | None, str | None]:
        """The pointer and its etag; a malformed one says nothing, and may be replaced."""
        try:
            seen = self._storage.head(POINTER)
            if seen.size > POINTER_LIMIT:
                return None, seen.etag
            data, etag = self._storage.get_with_etag(POINTER)
        except FileNotFoundError:
            return None, None
        try:
            return self.names.pointer(data), etag
        except ManifestParseError:
            return None, etag

    def _newest_from(self, at: datetime) -> datetime | None:
        """The newest manifest that isn't older than `at`: normally none, however many there are."""
        found = self.names.listed(self._storage.list(MANIFESTS, after=f"{MANIFESTS}/{timestamp(at)}"))
        return found[0].published_at if found else None

    def _holds(self, name: str, payload: bytes) -> bool:
        """Whether the manifest lies there already: then only the answer to our own write got lost."""
        try:
            return self._storage.get(name, limit=len(payload)) == payload
        except (FileNotFoundError, StorageError):
            return False


def _renewed(pointer: SnapshotRef) -> SnapshotRef:
    """The same as another object. Somebody else's stays theirs: it has no swap_id."""
    if pointer.swap_id:
        return replace(pointer, swap_id=new_swap_id())
    return replace(pointer, published_at=later(pointer.published_at, pointer.published_at))


class Names:
    """What objects are called below one root, and what a reference may name."""

    def __init__(self, url: str, manifest_name: str = MANIFEST) -> None:
        self.url = url
        self.manifest_name = manifest_name

    def of(self, at: datetime, run_id: str) -> str:
        return manifest_path(at, run_id, self.manifest_name)

    def ref(self, name: str) -> str:
        return f"{self.url}/{name}"

    def name(self, ref: str) -> str:
        """The object that `ref` names; ManifestStoreError unless it is a manifest of this root."""
        name = ref.removeprefix(f"{self.url}/")
        last = name.rpartition("/")[2]
        if parse_manifest(name) is None or last in ("", ".", "..") or not name.isprintable():
            raise ManifestStoreError(
                f"the reference {ref!r} names no manifest in {self.url}",
                hint="pick one of the listed snapshots",
            )
        return name

    def run_id(self, name: str) -> str:
        parsed = parse_manifest(name)
        assert parsed is not None  # `name` has seen to it
        return parsed[1]

    def listed(self, found: Iterable[Named]) -> list[SnapshotRef]:
        """The manifests among `found`, newest first."""
        refs = []
        for one in found:
            steps = one.name.split("/")
            parsed = parse_manifest(one.name)
            if parsed is not None and steps[2] == self.manifest_name:
                refs.append((steps[1], SnapshotRef(self.ref(one.name), parsed[1], parsed[0])))
        return [ref for _, ref in sorted(refs, key=lambda entry: entry[0], reverse=True)]

    def pointer(self, data: bytes) -> SnapshotRef:
        try:
            return parse_pointer(data)
        except ManifestParseError as error:
            error.file = f"{self.url}/{POINTER}"
            raise


def unreadable(what: str, error: FileNotFoundError | StorageError, hint: str = HINT) -> LadingError:
    """`error` met while `what` was being read; `hint` is for what can't be what it should be."""
    if isinstance(error, TooLarge):
        return ManifestParseError(error.message, hint=hint, file=what)
    if isinstance(error, StorageError):
        return ManifestStoreError(f"{what} can't be read: {error.message}", hint=error.hint, file=what)
    return ManifestStoreError(
        f"there is no {what}", hint="the other snapshots are listed beside it: roll back to one", file=what
    )
