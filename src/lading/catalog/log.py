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

from lading.errors import LogCorrupt, NotFound
from lading.format.frame import Frames, LogHeader, decode_frames, decode_header
from lading.storage.local import locked, write_atomic, write_new

NAME = "manifest.log"
_LOCK = "manifest.lock"


@dataclass(frozen=True, slots=True)
class LogTail:
    """The log's header and the commits read from it; `end` is where the next frame goes."""

    header: LogHeader
    frames: Frames


class LogFile:
    """The log of one collection directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / NAME

    def exists(self) -> bool:
        return self.path.exists()

    def size(self) -> int:
        return self.path.stat().st_size

    def create(self, header: LogHeader) -> None:
        """Start a log; FileExistsError if there is one."""
        write_new(self.path, header.to_bytes())

    def replace(self, header: LogHeader) -> None:
        """Start over with an empty log whose base is a checkpoint: what compaction does last."""
        write_atomic(self.path, header.to_bytes())

    @contextmanager
    def lock(self) -> Iterator[None]:
        with locked(self._folder / _LOCK):
            yield

    def read(self, log_id: str = "", offset: int = 0) -> LogTail:
        """The commits behind `offset` if it counts in this very log (`log_id`), else all of them.

        Whoever noted an offset had synced the log up to there: a shorter one lost commits.
        """
        try:
            with open(self.path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                head = file.read(min(size, 4096))
                header, first = decode_header(head)
                start = max(first, offset) if header.log_id == log_id else first
                if size < start:
                    raise self._truncated(size, start)
                file.seek(start)
                data = file.read()
        except FileNotFoundError:
            raise NotFound(
                f"{self._folder} has no {NAME}", hint="is this a lading table? `lading status` lists them"
            ) from None
        frames = decode_frames(data, 0, offset=start)
        return LogTail(header, Frames(frames.commits, start + frames.end, frames.torn))

    def append(self, frame: bytes, end: int) -> int:
        """Write a frame at `end`, cutting off whatever torn bytes lie there; the caller holds the lock."""
        fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            if size < end:
                raise self._truncated(size, end)
            if size > end:
                os.ftruncate(fd, end)
            try:
                _write_all(fd, frame, end)
                os.fsync(fd)
            except BaseException:
                os.ftruncate(fd, end)
                raise
        finally:
            os.close(fd)
        return end + len(frame)

    def _truncated(self, size: int, end: int) -> LogCorrupt:
        return LogCorrupt(
            f"{self.path} is {size} bytes long where {end} were read before",
            hint="somebody truncated it: restore it, or run `lading collection rebuild`",
            file=str(self.path),
        )


def _write_all(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view = view[written:]
        offset += written
