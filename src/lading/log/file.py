"""manifest.log on the local file system: one write and one fsync a commit, under one lock.

A torn tail is cut off before the next append; otherwise a later commit would lie behind garbage and
be lost. What a failed append may have left is cut off at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import xxhash

from lading.errors import CommitUnknown, Conflict, LogCorrupt, NotFound
from lading.layout.table import CHECKPOINT, LOG, LOG_LOCK, OVERLAY
from lading.state.log_frames import Frames, LogHeader, Salvage, decode_frames, decode_header, salvage
from lading.state.overlay import Covered, Overlay, read_overlay
from lading.storage.folder import locked, write_atomic, write_new, write_passing

_PIECE = 64 << 10  # bytes of the log that are looked at at once


@dataclass(frozen=True, slots=True)
class Tip:
    """The last frame that was read: it may be one that is being written, which is cut off if that fails."""

    start: int
    end: int
    ending: bytes  # its checksum, and what fits in before it

    @staticmethod
    def of(frame: bytes, start: int) -> Tip:
        return Tip(start, start + len(frame), frame[-16:])


@dataclass(frozen=True, slots=True)
class LogTail:
    """The log's header and the commits read from it; `frames.end` is where the next frame goes."""

    header: LogHeader
    frames: Frames
    data: bytes = b""  # that the commits were decoded from; nothing in a bucket
    tip: Tip | None = None  # None in a bucket, where what can be read is durable, and if there are no frames


class Trail:
    """The very bytes behind a checkpoint that were read, and those that were written since: what an overlay
    may say that it stands for."""

    def __init__(self, log_id: str, base: int, start: int) -> None:
        self._from = (log_id, base, start)
        self._end = start
        self._hash = xxhash.xxh3_64()

    def add(self, data: bytes | memoryview) -> None:
        self._end += len(data)
        self._hash.update(data)

    def follow(self, file: BinaryIO, end: int) -> None:
        """Add what lies before `end`, piece by piece: it is only looked at, and may be long."""
        piece = memoryview(bytearray(min(_PIECE, max(0, end - self._end))))
        file.seek(self._end)
        while self._end < end and (size := file.readinto(piece[: end - self._end])):  # type: ignore[attr-defined]
            self.add(piece[:size])

    def covered(self) -> Covered:
        return Covered(*self._from, self._end, self._hash.intdigest())


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """All that lies behind a checkpoint: the commits that an overlay covers, if there is one, and those
    behind it; and the trail of both. In a bucket there are commits only."""

    tail: LogTail
    overlay: Overlay | None = None
    trail: Trail | None = None


class LogFile:
    """The log of one collection directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = f"{folder}/{LOG}"

    @property
    def path(self) -> Path:
        return self._folder / LOG

    def exists(self) -> bool:
        return os.path.exists(self._name)

    def size(self) -> int:
        return self.path.stat().st_size

    def mark(self) -> object:
        """Another one as soon as somebody wrote, for two stats."""
        return tuple(_signature(self._folder / name) for name in (LOG, CHECKPOINT))

    def is_behind(self, sequence: int) -> bool:
        """The mark tells."""
        return False

    def last_number(self) -> int:
        """Of commits that have names of their own: none here."""
        return 0

    def salvage(self) -> Salvage:
        """What can be read of a log that may be damaged."""
        try:
            return salvage(self.path.read_bytes())
        except OSError:
            return Salvage(None, [], 0)

    def create(self, header: LogHeader) -> None:
        """Start a log; FileExistsError if there is one."""
        write_new(self.path, header.to_bytes())

    def replace(self, header: LogHeader) -> None:
        """Start over with an empty log whose base is a checkpoint: what compaction does last."""
        write_atomic(self.path, header.to_bytes())
        self.drop_overlay()

    @contextmanager
    def lock(self) -> Iterator[None]:
        with locked(self._folder / LOG_LOCK):
            yield

    def read(self, log_id: str = "", offset: int = 0, tip: Tip | None = None) -> LogTail:
        """The commits behind `offset` if it counts in this very log (`log_id`), else all of them. A log that
        is shorter than that lost commits. Conflict if `tip`, the frame before `offset`, isn't there any more.
        """
        with self._reading(log_id, offset, tip) as (file, header, start):
            file.seek(start)
            return _tail(header, start, file.read())

    def open(self, log_id: str, offset: int, base: int, overlay: Overlay | None = None) -> OpenedLog:
        """As `read`, for whoever has the checkpoint of sequence `base`; what the overlay covers isn't
        decoded."""
        with self._reading(log_id, offset) as (file, header, start):
            trail, begin = Trail(header.log_id, base, start), start
            if overlay is not None:
                begin = overlay.covered.end
                trail.follow(file, begin)
                if overlay.covered != trail.covered():
                    overlay, trail, begin = None, Trail(header.log_id, base, start), start
            file.seek(begin)
            tail = _tail(header, begin, file.read())
        trail.add(tail.data)
        return OpenedLog(tail, overlay, trail)

    def write_overlay(self, overlay: Overlay) -> None:
        write_passing(self._folder / OVERLAY, overlay.to_bytes())

    def drop_overlay(self) -> None:
        (self._folder / OVERLAY).unlink(missing_ok=True)

    def overlay(self) -> Overlay | None:
        """The one that lies there; `open` finds out whether it is of what lies there, too."""
        try:
            with open(f"{self._folder}/{OVERLAY}", "rb", buffering=0) as file:
                return read_overlay(file)
        except OSError:
            return None

    def _opened(self) -> BinaryIO:
        try:
            return open(self._name, "rb", buffering=0)
        except FileNotFoundError:
            raise NotFound(
                f"{self._folder} has no {LOG}", hint="is this a lading table? `lading status` lists them"
            ) from None

    @contextmanager
    def _reading(
        self, log_id: str, offset: int, tip: Tip | None = None
    ) -> Iterator[tuple[BinaryIO, LogHeader, int]]:
        """The file, its header, and `offset` as it counts in this log."""
        with self._opened() as file:
            size = os.fstat(file.fileno()).st_size
            header, first = decode_header(file.read(4096))
            start = max(first, offset) if header.log_id == log_id else first
            if tip is not None and header.log_id == log_id and size >= tip.start:
                self._refuse_taken_back(file, tip)
            if size < start:
                raise self._truncated(size, start)
            yield file, header, start

    def _refuse_taken_back(self, file: BinaryIO, tip: Tip) -> None:
        """Raise Conflict if the last frame that was read is gone, or another one lies there."""
        file.seek(tip.end - len(tip.ending))
        if file.read(len(tip.ending)) != tip.ending:
            raise Conflict(
                f"the last commit that was read from {self.path} was taken back: it could not be synced",
                hint="run again: it will plan from what the log holds now",
            )

    def sync(self) -> None:
        """Let what can be read outlive a power cut."""
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def append(self, frame: bytes, end: int) -> int:
        """Write a frame at `end`, cutting off whatever torn bytes lie there; the caller holds the lock."""
        fd = os.open(self._name, os.O_RDWR | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            if size < end:
                raise self._truncated(size, end)
            if size > end:
                os.ftruncate(fd, end)
            try:
                _write_all(fd, frame, end)
                os.fsync(fd)
            except BaseException as error:
                self._cut_off(fd, end, error)
                raise
        finally:
            os.close(fd)
        return end + len(frame)

    def _cut_off(self, fd: int, end: int, error: BaseException) -> None:
        """What a failed append left. If even that fails, the frame may be there, whole."""
        try:
            os.ftruncate(fd, end)
        except OSError as stuck:
            raise CommitUnknown(
                f"there is no telling whether a commit was made to {self.path}: {error}; then {stuck}",
                hint="check the disk, then run again: it starts from what the log holds by then",
                file=str(self.path),
            ) from error

    def _truncated(self, size: int, end: int) -> LogCorrupt:
        return LogCorrupt(
            f"{self.path} is {size} bytes long, but {end} were read before",
            hint="someone truncated it: restore it, or run `lading collection rebuild`",
            file=str(self.path),
        )


def _tail(header: LogHeader, start: int, data: bytes) -> LogTail:
    """The frames of `data`, which begins at `start` in the file."""
    frames = decode_frames(data, 0, offset=start)
    found = Frames(frames.commits, start + frames.end, frames.torn, start + frames.last)
    tip = Tip.of(data[frames.last : frames.end], found.last) if frames.commits else None
    return LogTail(header, found, data[: frames.end], tip)


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _write_all(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view = view[written:]
        offset += written
