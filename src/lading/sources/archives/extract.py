"""Streaming an archive's members into a fresh folder, within limits.

Nothing that the archive says of itself is believed: entries and bytes are counted as they come, each
file is created by us under a checked name, and links and devices don't exist here. Whatever is wrong
refuses the whole archive and names the member; half an archive is never taken for the whole.
"""

from __future__ import annotations

import hashlib
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from lading.config.archives import RATIO_FLOOR, ArchiveLimits
from lading.errors import ArchiveRefused, SourceError
from lading.layout.project import flat_name
from lading.sources.archives.names import BadName, safe_name, same_name

Kind = Literal["zip", "tar", "tar.gz", "gz"]

CHUNK = 1 << 16

_SUFFIXES: tuple[tuple[str, Kind], ...] = (
    (".tar.gz", "tar.gz"),
    (".tgz", "tar.gz"),
    (".tar", "tar"),
    (".zip", "zip"),
    (".gz", "gz"),
)
_ENDS = tuple(suffix for suffix, _ in _SUFFIXES)


@dataclass(frozen=True, slots=True)
class ExtractedFile:
    """One file that was made: by extraction, or by a preprocess script."""

    path: str  # relative to its folder, with "/"
    size: int
    mtime_ns: int
    sha256: str


def archive_kind(name: str) -> Kind | None:
    """By the name's end; case doesn't matter. A `.gz` may also be a compressed CSV: the caller knows."""
    lowered = name.lower()
    if not lowered.endswith(_ENDS):  # at once: there may be a million names
        return None
    return next((kind for suffix, kind in _SUFFIXES if lowered.endswith(suffix)), None)


def extract(
    archive: Path, kind: Kind, out: Path, *, shown: str, limits: ArchiveLimits, password: bytes | None = None
) -> list[ExtractedFile]:
    """Every member of `archive` below the empty folder `out`; `shown` is how people know the archive."""
    job = Extraction(out, shown, limits, password)
    job.unpack(archive, kind, "", 1)
    return job.outputs


@dataclass(slots=True)
class Extraction:
    """One archive being unpacked: where to, within what, and what came out so far."""

    out: Path
    shown: str
    limits: ArchiveLimits
    password: bytes | None
    outputs: list[ExtractedFile] = field(default_factory=list)
    _taken: dict[str, str] = field(default_factory=dict)
    _folders: set[str] = field(default_factory=set)
    _members: int = 0
    _bytes: int = 0
    _packed: int = 0  # size of the outermost archive: what the ratio is taken against
    _member: str | None = None  # the member at hand, for errors

    def unpack(self, archive: Path, kind: Kind, below: str, depth: int) -> None:
        from lading.sources.archives.tar import unpack_gz, unpack_tar
        from lading.sources.archives.zip import unpack_zip

        with self._blamed():
            if depth == 1:
                self._packed = archive.stat().st_size
            if kind == "zip":
                unpack_zip(self, archive, below, depth)
            elif kind == "gz":
                unpack_gz(self, archive, below, depth)
            else:
                unpack_tar(self, archive, kind, below, depth)

    def refused(self, problem: str, *, hint: str = "") -> ArchiveRefused:
        member = f": its member {self._member!r}" if self._member is not None else ""
        return ArchiveRefused(
            f"{self.shown}{member} {problem}",
            hint=hint or "get a good copy, or exclude the archive from `path`; nothing was extracted",
            file=self.shown,
        )

    def entry(self, name: str) -> str:
        """Count and check one entry, folders too; the safe relative path."""
        self._member = name
        self._members += 1
        if self._members > self.limits.max_members:
            raise self.over(f"is one of more than {self.limits.max_members:,} members", "max_members")
        try:
            return safe_name(name)
        except BadName as problem:
            raise self.refused(f"{problem}") from None

    def file(self, name: str, source: IO[bytes], below: str, depth: int, *, chunk: int = CHUNK) -> int:
        """Write one member under its checked name; its size as counted."""
        nested = archive_kind(name)
        if nested is not None and nested != "gz" and depth >= self.limits.max_nesting:
            deepest = self.limits.max_nesting
            raise self.over(f"is an archive inside an archive, nested deeper than {deepest}", "max_nesting")
        path = below + name
        other = self._taken.setdefault(same_name(path), path)
        if other is not path:
            raise self.refused("appears twice" if other == path else f"looks like {other!r}")
        target = self.out / path
        self._make_folder(path.rpartition("/")[0])
        size, sha256 = self._write(target, source, chunk)
        if nested is not None and nested != "gz":
            self._unpack_nested(target, nested, path, depth)
        else:
            self.outputs.append(ExtractedFile(path, size, target.stat().st_mtime_ns, sha256))
        return size

    def add_bytes(self, count: int) -> None:
        """Count what came out, before it is kept."""
        self._bytes += count
        if self._bytes > self.limits.max_bytes:
            raise self.over(f"takes it over {self.limits.max_bytes:,} bytes", "max_bytes")
        if self._bytes > RATIO_FLOOR and self._bytes > self._packed * self.limits.max_ratio:
            ratio = self.limits.max_ratio
            raise self.over(f"takes it over {ratio:,} times its packed size", "max_ratio")

    def over(self, problem: str, key: str) -> ArchiveRefused:
        hint = f"if you trust it, raise {key} under `archives:` in lading.yaml; nothing was extracted"
        return self.refused(problem, hint=hint)

    def _write(self, target: Path, source: IO[bytes], chunk: int) -> tuple[int, str]:
        sha = hashlib.sha256()
        size = 0
        # O_EXCL: also where the file system takes two names for one, nothing is ever overwritten.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(target, flags, 0o644)
        except FileExistsError:
            raise self.refused("has the same name as another member") from None
        with open(fd, "wb") as file:
            while data := source.read(chunk):
                self.add_bytes(len(data))
                sha.update(data)
                file.write(data)
                size += len(data)
        return size, sha.hexdigest()

    def _make_folder(self, folder: str) -> None:
        if not folder or folder in self._folders:
            return
        self._make_folder(folder.rpartition("/")[0])
        try:
            os.mkdir(self.out / folder)
        except FileExistsError:
            raise self.refused(f"needs a folder {folder!r} where another member is a file") from None
        self._folders.add(folder)

    def _unpack_nested(self, target: Path, kind: Kind, path: str, depth: int) -> None:
        head, _, name = path.rpartition("/")
        below = f"{head}/{flat_name(name)}/" if head else f"{flat_name(name)}/"
        self.unpack(target, kind, below, depth + 1)
        target.unlink()

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        """What the libraries raise on bad archives, as an error that names archive and member."""
        damage = (
            zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError,
            ValueError, OverflowError, RecursionError, struct.error,
        )  # fmt: skip
        try:
            yield
        except ArchiveRefused:
            raise
        except damage as error:
            raise self.refused(f"is damaged or cut off ({_words(error)})") from error
        except OSError as error:
            # gzip's own errors are OSErrors without a number; the rest is the disk's, and no archive's fault.
            if error.errno is None:
                raise self.refused(f"is damaged or cut off ({_words(error)})") from error
            raise SourceError(
                f"{self.shown} can't be extracted: {error.strerror}",
                hint="check the file and the cache folder's free space and permissions, then run again",
                file=self.shown,
            ) from error


def _words(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
