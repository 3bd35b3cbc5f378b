"""Manifests and the pointer as files or objects of one storage: a table's folder, a bucket, or memory.

The pointer moves by one `swap`, so publishers on many machines need no lock where the storage has none. An
answer that got lost looks like a lost race: what lies there is read back, and the manifest's content or the
pointer's swap_id tells whose write it was. A reference is relative in a folder, so that a table can be moved,
and a URL in a bucket; one that would leave the root, by `..`, as an absolute path or through a link, is
refused before anything is read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path

from lading.errors import (
    LadingError,
    ManifestGone,
    ManifestParseError,
    ManifestStoreError,
    PublishCurrentError,
    StorageError,
    StoreUnreachable,
)
from lading.layout.table import (
    MANIFEST,
    MANIFESTS,
    POINTER,
    manifest_path,
    parse_manifest,
    parse_manifest_folder,
    timestamp,
)
from lading.model import SnapshotRef
from lading.snapshots.pointer import (
    CONTENT_TYPE,
    MALFORMED,
    POINTER_CONTENT_TYPE,
    POINTER_LIMIT,
    encode_pointer,
    moved_by,
    moves_before,
    new_swap_id,
    parse_pointer,
)
from lading.snapshots.publish import (
    publish_in_two_phases,
    refuse_moved,
    refuse_retired,
    same_pointer,
    successor,
)
from lading.snapshots.stores.protocol import Published, later
from lading.state.sqlite import ELSEWHERE, HINT, SNAPSHOT_LIMIT
from lading.storage.bucket import ObjectStorage
from lading.storage.folder import FolderStorage
from lading.storage.memory import MemoryStorage
from lading.storage.protocol import Storage, SwapLost, TooLarge

_ATTEMPTS = 1_000  # each lost race means that somebody else got through


class FileStore:
    """The store of the table whose root is `storage`'s."""

    def __init__(self, storage: Storage, *, manifest_name: str = MANIFEST) -> None:
        self.storage = storage
        self.manifest_name = manifest_name
        self._seen: tuple[SnapshotRef, str] | None = None  # the pointer read last, and its etag

    @property
    def url(self) -> str:
        return self.storage.url

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
        # Normally there is none, however many there are before it.
        at = later(at, next((one.published_at for one in self._listed(after=timestamp(at))), None))
        while True:
            name = manifest_path(at, run_id, self.manifest_name)
            try:
                self.storage.put_new(name, payload, content_type=CONTENT_TYPE)
            except (FileExistsError, StorageError) as error:
                if not self._holds(name, payload):
                    if isinstance(error, StorageError):
                        raise
                    at = later(at, at)
                    continue
            return f"{self.storage.prefix}{name}", at

    def swap_current(self, expected: SnapshotRef | None, to: SnapshotRef) -> bool:
        """Move the pointer if it is still `expected`, to a manifest that is still there."""
        with self.storage.lock(POINTER):
            etag = None
            if expected is not None:
                seen = self._seen
                if seen is None or not same_pointer(seen[0], expected):
                    seen = self._load()
                if seen is None or not same_pointer(seen[0], expected):
                    return False
                etag = seen[1]
            self._require(to.ref, self.name_of(to.ref))  # after the pointer was read: see delete_manifest
            return self._swap(to, etag)

    def load_current(self) -> SnapshotRef | None:
        self._seen = seen = self._load()
        return seen[0] if seen is not None else None

    def load_manifest(self, ref: str) -> bytes:
        name = self.name_of(ref)
        self.manifest_path(ref)
        try:
            return self.storage.get(name, limit=SNAPSHOT_LIMIT)
        except (OSError, StorageError) as error:
            raise unreadable(f"{self.url}/{name}", error) from error

    def manifest_path(self, ref: str) -> Path | None:
        name, folder = self.name_of(ref), self.storage.folder
        if folder is None:
            return None
        path = os.path.join(folder, name)
        if any(map(os.path.islink, _steps(folder, name))) and not _leads_into(folder, path):
            raise self._leaves(ref)
        return Path(path)

    def list_manifests(self, *, limit: int | None = None) -> list[SnapshotRef]:
        try:
            return list(islice(self._listed(), None if limit is None else min(limit, sys.maxsize)))
        except (OSError, StorageError) as error:
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
        name = self.name_of(ref)
        ref, [_, run_id] = f"{self.storage.prefix}{name}", _parsed(name)
        self._require(ref, name)
        try:
            with self.storage.lock(POINTER):
                for _ in range(_ATTEMPTS):
                    current, etag = self._readable_current()
                    refuse_moved(current, expected)
                    refuse_retired(current, ref)
                    self._require(ref, name)  # again, after the pointer was read: see delete_manifest
                    self.storage.sync(name)  # its writer may be about to
                    to = SnapshotRef(ref, run_id, later(now, None), sequence, swap_id=new_swap_id())
                    to = replace(successor(current, to), held=hold)
                    if self._swap(to, etag) or moved_by(self.load_current(), to):
                        return to
        except (OSError, StorageError, ManifestStoreError) as error:
            raise PublishCurrentError(
                f"the pointer could not be moved to {ref}: {_said(error)}",
                hint="fix the cause and try again; lading status shows what readers see",
                file=f"{self.url}/{POINTER}",
            ) from error
        raise PublishCurrentError(
            f"the pointer moved {_ATTEMPTS} times while it was being set to {ref}",
            hint="try again when fewer publishers are active",
        )

    def delete_manifest(self, ref: str) -> bool:
        """Under the pointer's lock, so that nobody rolls back to it meanwhile. Where there is none, the
        pointer itself says first that the manifest is retired: whoever read it before loses the swap, and
        whoever reads it from then on may not point there. However late the deletion arrives, and whoever is
        killed before it, there is never a pointer to what is gone."""
        name = self.name_of(ref)
        self.manifest_path(ref)
        try:
            with self.storage.lock(POINTER) as held:
                if not self._retire(name, marked=not held):
                    return False
                self.storage.sync(POINTER)  # or a power cut may bring an older one back, which names it
                self.storage.delete(name)
                self.storage.drop_empty(name.rpartition("/")[0])
                if not held:
                    self._forget(name)
        except (OSError, StorageError) as error:
            message = f"{ref} could not be deleted: {_said(error)}"
            raise ManifestStoreError(message, hint="try again", file=ref) from error
        return True

    def name_of(self, ref: str) -> str:
        """The object that `ref` names; ManifestStoreError unless it is a manifest of this root."""
        name = ref.removeprefix(self.storage.prefix)
        last = name.rpartition("/")[2]
        if parse_manifest(name) is None or last in ("", ".", "..") or not name.isprintable():
            raise self._leaves(ref)
        return name

    def in_folders(self, folders: Iterable[str]) -> Iterator[SnapshotRef]:
        """The manifests in `folders` below `manifests/`; other names are somebody else's."""
        for folder in folders:
            parsed = parse_manifest_folder(folder)
            if parsed is not None:
                ref = f"{self.storage.prefix}{MANIFESTS}/{folder}/{self.manifest_name}"
                yield SnapshotRef(ref, parsed[1], parsed[0])

    def pointer(self, data: bytes) -> SnapshotRef:
        """What `_CURRENT` says. A table that was copied out of a bucket names its manifest by URL: where
        references are relative, it is the one of that name."""
        try:
            found = parse_pointer(data)
        except ManifestParseError as error:
            error.file = f"{self.url}/{POINTER}"
            raise
        name = "/".join(found.ref.split("/")[-3:])
        if self.storage.prefix or "://" not in found.ref or parse_manifest(name) is None:
            return found
        return replace(found, ref=name)

    def _listed(self, after: str = "") -> Iterator[SnapshotRef]:
        """The manifests, newest first; names sort as text, so by time."""
        return self.in_folders(self.storage.newest(MANIFESTS, self.manifest_name, after=after))

    def _retire(self, name: str, *, marked: bool) -> bool:
        """Whether the pointer doesn't name the manifest; and with `marked`, never will. Where there is no
        pointer yet, any manifest may become what it names, so none is retired."""
        ref = f"{self.storage.prefix}{name}"
        while (seen := self._load()) is not None:
            if seen[0].ref == ref:
                return False
            if not marked or ref in seen[0].retired:
                return True
            if self._swap(_renewed(seen[0], (*seen[0].retired, ref)), seen[1]):
                return True
        return not marked

    def _forget(self, name: str) -> None:
        """The manifest is gone: nothing needs to be said of it any more, nor of others that went before."""
        ref = f"{self.storage.prefix}{name}"
        while (seen := self._load()) is not None and ref in seen[0].retired:
            left = tuple(one for one in seen[0].retired if one != ref and self.storage.has(self.name_of(one)))
            if self._swap(_renewed(seen[0], left), seen[1]):
                return

    def _require(self, ref: str, name: str) -> None:
        self.manifest_path(ref)
        try:
            self.storage.head(name)
        except (OSError, StorageError) as error:
            raise unreadable(f"{self.url}/{name}", error) from error

    def _load(self) -> tuple[SnapshotRef, str] | None:
        try:
            data, etag = self.storage.get_with_etag(POINTER, limit=POINTER_LIMIT)
        except FileNotFoundError:
            return None
        except (OSError, StorageError) as error:
            raise unreadable(f"{self.url}/{POINTER}", error, MALFORMED) from error
        return self.pointer(data), etag

    def _swap(self, to: SnapshotRef, etag: str | None) -> bool:
        """False when the pointer is another one; also after a lost answer, which the caller looks into."""
        try:
            self.storage.swap(POINTER, encode_pointer(to), etag, content_type=POINTER_CONTENT_TYPE)
        except SwapLost:
            return False
        except StorageError:
            if moved_by(self.load_current(), to):
                return True
            raise
        return True

    def _readable_current(self) -> tuple[SnapshotRef | None, str | None]:
        """The pointer and its etag; a malformed one says nothing, and may be replaced."""
        try:
            data, etag = self.storage.get_with_etag(POINTER, limit=POINTER_LIMIT)
        except FileNotFoundError:
            return None, None
        except TooLarge as error:
            return None, error.etag
        try:
            return self.pointer(data), etag
        except ManifestParseError:
            return None, etag

    def _holds(self, name: str, payload: bytes) -> bool:
        """Whether the manifest lies there already: then only the answer to our own write got lost."""
        try:
            return self.storage.get(name, limit=len(payload)) == payload
        except (OSError, StorageError):
            return False

    def _leaves(self, ref: str) -> ManifestStoreError:
        return ManifestStoreError(
            f"the reference {ref!r} points outside {self.url} or names no manifest in it",
            hint="pick one of the listed snapshots; if the pointer names it, someone edited it",
            file=f"{self.url}/{POINTER}",
        )


class LocalStore(FileStore):
    """The store of the table whose directory is `root`."""

    def __init__(self, root: Path, *, manifest_name: str = MANIFEST) -> None:
        super().__init__(FolderStorage(root), manifest_name=manifest_name)
        self.root = root


class BucketStore(FileStore):
    """The store of the table whose root is a URL such as `s3://bucket/prefix`."""

    storage: ObjectStorage

    def __init__(
        self, url: str, options: Mapping[str, str] | None = None, *, manifest_name: str = MANIFEST
    ) -> None:
        super().__init__(ObjectStorage(url, options), manifest_name=manifest_name)


class MemoryStore(FileStore):
    """A store that lives as long as the object. For tests only: another instance or process sees nothing."""

    def __init__(self) -> None:
        super().__init__(MemoryStorage())


def _steps(folder: Path, name: str) -> Iterator[str]:
    """Every step of the way from the root to what `name` names."""
    at = os.fspath(folder)
    for step in name.split("/"):
        yield (at := os.path.join(at, step))


def _leads_into(folder: Path, path: str) -> bool:
    """Whether the links on the way end below the root."""
    root = os.path.realpath(folder)
    return os.path.realpath(path).startswith(f"{root.rstrip('/')}/")


def _parsed(name: str) -> tuple[datetime, str]:
    parsed = parse_manifest(name)
    assert parsed is not None  # `name_of` has seen to it
    return parsed


def _renewed(pointer: SnapshotRef, retired: tuple[str, ...]) -> SnapshotRef:
    """The same as another object. Somebody else's stays theirs: it has no swap_id."""
    if pointer.swap_id:
        return replace(pointer, swap_id=new_swap_id(), retired=retired, before=moves_before(pointer))
    at = later(pointer.published_at, pointer.published_at)
    return replace(pointer, published_at=at, retired=retired)


def unreadable(what: str, error: OSError | StorageError, hint: str = HINT) -> LadingError:
    """`error` met while `what` was being read; `hint` is for what can't be what it should be."""
    if isinstance(error, TooLarge):
        return ManifestParseError(error.message, hint=hint, file=what)
    if isinstance(error, StorageError):
        return StoreUnreachable(f"{what} can't be read: {error.message}", hint=error.hint, file=what)
    if isinstance(error, FileNotFoundError):
        return ManifestGone(f"there is no {what}", hint=ELSEWHERE, file=what)
    return ManifestStoreError(
        f"{what} can't be read: {_said(error)}", hint="check what it is, and its permissions", file=what
    )


def _said(error: OSError | LadingError) -> str:
    return error.message if isinstance(error, LadingError) else error.strerror or str(error)
