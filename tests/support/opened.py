"""Which files were opened, by whom ever: Python, its workers, pyarrow or the JVM. The kernel says so."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_IN_OPEN = 0x20
_EVENT = struct.Struct("iIII")  # watch, what happened, cookie, length of the name behind it

_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def opened_among(files: Iterable[Path]) -> Iterator[set[Path]]:
    """Those of `files` that anybody opens inside the block; complete only once it has ended. To look at a
    file's status is not to open it."""
    fd = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    opened: set[Path] = set()
    try:
        watched = {_checked(_libc.inotify_add_watch(fd, os.fsencode(file), _IN_OPEN)): file for file in files}
        assert watched, "there is nothing to watch"
        yield opened
        opened.update(watched[one] for one in _events(fd))
    finally:
        os.close(fd)


def _events(fd: int) -> Iterator[int]:
    while True:
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            watch, what, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            if what & _IN_OPEN:
                yield watch


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
