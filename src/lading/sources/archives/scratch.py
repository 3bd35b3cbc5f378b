"""What a task makes of archives, and of files that a script reads, on the disk of its own machine.

Where machines share no path, nobody can extract an archive for the others. So whoever needs a member makes
it: first to learn what there is (`looked_at`), then to read it (`member`). Nothing outlives the task.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from lading.config.archives import ArchiveLimits
from lading.errors import ArchiveRefused, SourceError
from lading.formats.source_file import SourceFile
from lading.model import FoundFile
from lading.sources.archives.index import Index, read_index
from lading.sources.archives.input import joined_sha256

_REQUEST = 16 << 20  # bytes of an object that are asked for at once


class Members(Protocol):
    """An archive of which single members can be had."""

    def write(self, path: str, size: int, target: Path) -> bool:
        """Write the member, and no more than `size` bytes of it; False if only the whole archive gives it."""
        ...


@dataclass(frozen=True, slots=True)
class Making:
    """How files are made of objects in a bucket. Travels to Spark's workers, with a password if need be."""

    inputs: tuple[SourceFile, ...]
    names: tuple[str, ...]  # what the copies of the objects are called
    fill: Callable[[Sequence[str], str, str], str]  # from copies, a folder and a SHA-256 to the folder made
    members: Callable[[SourceFile], Members] | None = None

    @property
    def key(self) -> str:
        return "\0".join(f"{one.place}/{one.path}\0{one.etag}" for one in self.inputs)


class Looked(msgspec.Struct, frozen=True):
    """What there is to be made, or why it isn't."""

    sha256: str  # of the input
    index: Index | None = None
    refused: str | None = None
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Apart:
    """The files that can be made of one input: none of them lies anywhere."""

    making: Callable[[], Making]
    together: str | None = None  # says that whoever makes one of them makes them all

    def source_file(self, file: FoundFile, limits: ArchiveLimits) -> SourceFile:
        name = file.key.partition("/")[2]
        made = partial(member, self.making(), name, file.size)
        return SourceFile(file.key, file.path, file.size, limits=limits, made=made)


@contextmanager
def scratch() -> Iterator[None]:
    """While it lasts, files can be made. What was made goes with the last user."""
    _scratch.enter()
    try:
        yield
    finally:
        _scratch.leave()


def scratch_folder() -> str:
    """Where it all is made."""
    return str(_scratch.folder)


def looked_at(making: Making) -> str:
    """A `Looked` as JSON. All files are made to see what they are, and none is kept."""
    with scratch():
        return msgspec.json.encode(_scratch.looked_at(making)).decode()


def member(making: Making, name: str, size: int) -> str:
    """The path of one file, made if it isn't there yet; for as long as the scratch folder lasts."""
    return _scratch.member(making, name, size)


class _Scratch:
    """The one scratch folder of this process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._users = 0
        self._forget()

    def _forget(self) -> None:
        self._folder: Path | None = None
        self._made: dict[str, Path] = {}
        self._open: dict[str, Members] = {}
        self._single: dict[tuple[str, str], str] = {}

    def enter(self) -> None:
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
            self._forget()

    def looked_at(self, making: Making) -> Looked:
        with self._lock:
            copies, sha256 = self._copied(making)
            try:
                made = making.fill(copies, self._fresh("made"), sha256)
            except ArchiveRefused as error:
                return Looked(sha256, None, error.message, error.hint)
            return Looked(sha256, read_index(Path(made)))

    def member(self, making: Making, name: str, size: int) -> str:
        with self._lock:
            single = self._single_member(making, name, size)
            if single is not None:
                return single
            if making.key not in self._made:
                copies, sha256 = self._copied(making)
                self._made[making.key] = Path(making.fill(copies, self._fresh("made"), sha256))
                for copy in copies:
                    os.unlink(copy)
            return str(self._made[making.key] / name)

    def _single_member(self, making: Making, name: str, size: int) -> str | None:
        if making.members is None or making.key in self._made:
            return None
        there = self._single.get((making.key, name))
        if there is None:
            if making.key not in self._open:
                self._open[making.key] = making.members(making.inputs[0])
            there = self._fresh(os.path.basename(name))
            if not self._open[making.key].write(name, size, Path(there)):
                return None
            self._single[making.key, name] = there
        return there

    def _copied(self, making: Making) -> tuple[list[str], str]:
        """Copies of the objects, and the SHA-256 of the input that they are."""
        copies, digests = [], {}
        for file, name in zip(making.inputs, making.names, strict=True):
            copies.append(self._fresh(name))
            digests[file.key] = _copied(file, copies[-1])
        return copies, joined_sha256(digests)

    def _fresh(self, name: str) -> str:
        """A path of that name, where nothing is."""
        return os.path.join(tempfile.mkdtemp(dir=self.folder), name)

    @property
    def folder(self) -> Path:
        assert self._users, "files are made within `scratch()` only"
        if self._folder is None:
            # Where Spark keeps its own: big enough for a shuffle, and cleared should this process be killed.
            there = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
            self._folder = Path(tempfile.mkdtemp(prefix="lading-", dir=there))
        return self._folder


_scratch = _Scratch()


def _copied(file: SourceFile, to: str) -> str:
    sha256 = hashlib.sha256()
    try:
        with file.seekable() as source, open(to, "wb") as out:
            while data := source.read(_REQUEST):
                sha256.update(data)
                out.write(data)
    except FileNotFoundError:
        raise SourceError(
            f"{file.place}/{file.key} is gone: it was there when the run listed its files",
            hint="run again; nothing was committed",
            file=file.key,
        ) from None
    except OSError as error:
        raise SourceError(
            f"{file.key} can't be copied to {os.path.dirname(to)}: {error.strerror or error}",
            hint="check the free space of Spark's local folders, then run again",
            file=file.key,
        ) from error
    return sha256.hexdigest()
