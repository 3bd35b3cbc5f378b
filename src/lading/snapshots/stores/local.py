"""Manifests and the pointer in a table's own directory.

The pointer is compared under a lock and replaced by a rename: readers take no lock and see the old or
the new one. References are relative to the root, so a table can be moved; one that would leave the
root, by `..`, as an absolute path or through a link, is refused before anything is read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PurePosixPath

from lading.errors import LadingError, ManifestParseError, ManifestStoreError, PublishCurrentError
from lading.layout.table import (
    MANIFEST,
    MANIFESTS,
    POINTER,
    POINTER_LOCK,
    manifest_path,
    parse_manifest,
    parse_manifest_folder,
)
from lading.model import SnapshotRef
from lading.snapshots.pointer import MALFORMED, POINTER_LIMIT, encode_pointer, new_swap_id, parse_pointer
from lading.snapshots.publish import publish_in_two_phases, refuse_moved, same_pointer
from lading.snapshots.stores.protocol import Published, later
from lading.state.sqlite import HINT, SNAPSHOT_LIMIT
from lading.storage import folder as local


class LocalStore:
    """The store of the table whose directory is `root`."""

    def __init__(self, root: Path, *, manifest_name: str = MANIFEST) -> None:
        self.root = root
        self.manifest_name = manifest_name

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
        at = later(now, self._newest())
        while True:
            ref = manifest_path(at, run_id, self.manifest_name)
            try:
                local.write_new(self.root / ref, payload)
            except FileExistsError:
                at = later(at, at)
            else:
                return ref, at

    def swap_current(self, expected: SnapshotRef | None, to: SnapshotRef) -> bool:
        """Move the pointer if it is still `expected`."""
        with local.locked(self.root / POINTER_LOCK):
            if not same_pointer(self.load_current(), expected):
                return False
            local.write_atomic(self.root / POINTER, encode_pointer(to))
            return True

    def load_current(self) -> SnapshotRef | None:
        path = self.root / POINTER
        try:
            return _copied(parse_pointer(_read(path, POINTER_LIMIT)))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(path, error, MALFORMED) from error
        except ManifestParseError as error:
            error.file = str(path)
            raise

    def load_manifest(self, ref: str) -> bytes:
        path = self.manifest_path(ref)
        try:
            return _read(path, SNAPSHOT_LIMIT)
        except OSError as error:
            raise _unreadable(path, error, HINT) from error

    def manifest_path(self, ref: str) -> Path:
        """Where the manifest `ref` lies, links resolved; ManifestStoreError if that isn't in the root."""
        steps = ref.split("/")
        outside = ManifestStoreError(
            f"the manifest reference {ref!r} leaves {self.root}",
            hint="roll back to a listed snapshot: somebody edited the pointer",
            file=str(self.root / POINTER),
        )
        if PurePosixPath(ref).is_absolute() or any(step in ("", ".", "..") for step in steps):
            raise outside
        try:
            path = (self.root / ref).resolve()
            inside = path.is_relative_to(self.root.resolve())
        except (OSError, ValueError, RuntimeError) as error:  # a NUL, undecodable text, a loop of links
            raise outside from error
        if not inside:
            raise outside
        return path

    def list_manifests(self, *, limit: int | None = None) -> list[SnapshotRef]:
        found: list[SnapshotRef] = []
        for name in sorted(self._folders(), reverse=True):
            if limit is not None and len(found) >= limit:
                break
            parsed = parse_manifest_folder(name)
            # A folder without a manifest is what a kill before the write leaves behind.
            if parsed and (self.root / MANIFESTS / name / self.manifest_name).is_file():
                at, run_id = parsed
                found.append(SnapshotRef(f"{MANIFESTS}/{name}/{self.manifest_name}", run_id, at))
        return found

    def set_current(
        self,
        ref: str,
        *,
        hold: bool = True,
        sequence: int = 0,
        expected: SnapshotRef | None = None,
        now: datetime | None = None,
    ) -> SnapshotRef:
        parsed = parse_manifest(ref)
        absent = ManifestStoreError(
            f"there is no manifest {ref!r} in {self.root}", hint="pick one of the listed snapshots"
        )
        if parsed is None or not self.manifest_path(ref).is_file():
            raise absent
        try:
            with local.locked(self.root / POINTER_LOCK):
                if not self.manifest_path(ref).is_file():
                    raise absent  # deleted in between: see delete_manifest
                current = self._readable_current()
                refuse_moved(current, expected)
                at = later(now, current.published_at if current is not None else None)
                to = SnapshotRef(ref, parsed[1], at, sequence, held=hold, swap_id=new_swap_id())
                local.write_atomic(self.root / POINTER, encode_pointer(to))
        except OSError as error:
            raise PublishCurrentError(
                f"the pointer could not be moved to {ref}: {error}",
                hint="readers see what they saw before; mend the cause and try again",
                file=str(self.root / POINTER),
            ) from error
        return to

    def delete_manifest(self, ref: str) -> bool:
        """Under the pointer's lock, so that nobody rolls back to it meanwhile; its folder goes too if that
        holds nothing else."""
        if parse_manifest(ref) is None:
            raise ManifestStoreError(
                f"there is no manifest {ref!r} in {self.root}", hint="pick one of the listed snapshots"
            )
        path = self.manifest_path(ref)
        try:
            with local.locked(self.root / POINTER_LOCK):
                current = self.load_current()
                if current is not None and current.ref == ref:
                    return False
                path.unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    path.parent.rmdir()
        except OSError as error:
            raise _unreadable(path, error) from error
        return True

    def _readable_current(self) -> SnapshotRef | None:
        """The pointer; a malformed one says nothing, and may be replaced."""
        try:
            return self.load_current()
        except ManifestParseError:
            return None

    def _newest(self) -> datetime | None:
        """When the youngest manifest was written: names sort as text, so by time."""
        names = self._folders()
        parsed = parse_manifest_folder(max(names, default=""))
        if parsed is None and names:  # somebody else's name comes last
            parsed = next(filter(None, map(parse_manifest_folder, sorted(names, reverse=True))), None)
        return parsed[0] if parsed is not None else None

    def _folders(self) -> list[str]:
        try:
            return os.listdir(self.root / MANIFESTS)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unreadable(self.root / MANIFESTS, error) from error


def _copied(pointer: SnapshotRef) -> SnapshotRef:
    """A table that was copied out of a bucket names its manifest by URL: here it is the one of that name."""
    name = "/".join(pointer.ref.split("/")[-3:])
    if "://" not in pointer.ref or parse_manifest(name) is None:
        return pointer
    return replace(pointer, ref=name)


def _read(path: Path, limit: int) -> bytes:
    """The bytes of a regular file that is no link and no longer than `limit`."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if status.st_size > limit:
            raise OSError(errno.EFBIG, f"it has {status.st_size} bytes, more than {limit}")
        return file.read()


def _unreadable(path: Path, error: OSError, malformed: str = HINT) -> LadingError:
    """`malformed` is the hint for what is too long to be what it should be."""
    if error.errno == errno.EFBIG:
        return ManifestParseError(f"{path} is malformed: {error.strerror}", hint=malformed, file=str(path))
    return ManifestStoreError(
        f"{path} can't be read: {error.strerror or error}",
        hint="check that it exists and its permissions; the other snapshots are listed beside it",
        file=str(path),
    )
