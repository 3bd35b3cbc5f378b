"""The bytes that a reader of a source file sees: compressed text is text.

Spark chooses a codec by the file's suffix; every look that lading takes itself has to agree with it. A few
bytes may stand for more than a machine can hold, so a compressed file is read within bounds.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable
from typing import IO, Any, cast

from lading.config.archives import RATIO_FLOOR, ArchiveLimits
from lading.errors import LadingError, SourceError, StorageError

COMPRESSED = (".gz", ".bz2", ".zst", ".xz")

_PACKED = 1 << 16  # bytes of a compressed file that are read at once

# What reading a file that is gone, forbidden or cut off raises.
READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)

BLOCK = 1 << 20  # bytes of a file that are read at once
_BUFFER = 1 << 16
_DICTIONARY = 128 << 20  # bytes that xz may remember; `xz -9` takes half of it
_bounds: dict[str, ArchiveLimits] = {}  # by the folder that files lie below


class BeyondBounds(OSError):
    """A compressed file that holds more than `archives:` allows."""


def bound_below(folder: str, limits: ArchiveLimits) -> None:
    """Compressed files below `folder` are read within `limits` from now on, others within the defaults."""
    _bounds[os.path.join(folder, "")] = limits


def compression(path: str) -> str | None:
    """`.gz`, `.bz2`, `.zst`, `.xz`, or None; case doesn't matter."""
    suffix = os.path.splitext(path)[1].lower()
    return suffix if suffix in COMPRESSED else None


def open_plain(path: str) -> IO[bytes]:
    """Open for reading, decompressed when the suffix says so."""
    suffix = compression(path)
    if suffix is None:
        return open(path, "rb")
    return unpacked(open(path, "rb"), suffix, os.path.getsize(path), limits_of(path))


def limits_of(path: str) -> ArchiveLimits:
    """The bounds within which it is read."""
    below = [folder for folder in tuple(_bounds) if path.startswith(folder)]
    return _bounds[max(below, key=len)] if below else ArchiveLimits()


def unpacked(packed: IO[bytes], suffix: str, size: int, limits: ArchiveLimits) -> IO[bytes]:
    """The text of a compressed file of `size` bytes; it is closed with the stream."""
    return cast(IO[bytes], io.BufferedReader(_Bounded(packed, suffix, size, limits), _BUFFER))


def _unpacking(packed: IO[bytes], suffix: str) -> IO[bytes]:
    if suffix == ".gz":
        return cast(IO[bytes], gzip.GzipFile(fileobj=packed, mode="rb"))
    if suffix == ".bz2":
        return cast(IO[bytes], io.BufferedReader(_Streams(packed, bz2.BZ2Decompressor)))
    if suffix == ".xz":
        return cast(IO[bytes], io.BufferedReader(_Streams(packed, _xz, padding=4)))
    import pyarrow as pa

    return cast(IO[bytes], pa.input_stream(pa.PythonFile(packed, mode="r"), compression="zstd"))


class _Bounded(io.RawIOBase):
    """The text of a compressed file, for as long as it stays within bounds."""

    def __init__(self, packed: IO[bytes], suffix: str, size: int, limits: ArchiveLimits) -> None:
        self._limits = limits
        self._packed = size
        self._seen = 0
        self._line = 0  # bytes since the last line end
        self._file = packed
        self._plain = _unpacking(packed, suffix)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._plain.read(len(buffer))
        buffer[: len(data)] = data
        self._count(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            if hasattr(self, "_plain"):
                self._plain.close()
            self._file.close()
        super().close()

    def _count(self, data: bytes) -> None:
        self._seen += len(data)
        if self._seen > RATIO_FLOOR and self._seen > self._packed * self._limits.max_ratio:
            raise BeyondBounds(
                f"it unpacks to more than {self._limits.max_ratio:,} times its size (max_ratio)"
            )
        ends = [at for end in (b"\n", b"\r") if (at := data.rfind(end)) >= 0]
        first = min(at for end in (b"\n", b"\r") if (at := data.find(end)) >= 0) if ends else len(data)
        if self._line + first > self._limits.max_line:
            raise BeyondBounds(f"it has a line of more than {self._limits.max_line:,} bytes (max_line)")
        self._line = len(data) - 1 - max(ends) if ends else self._line + len(data)


def _xz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_DICTIONARY)


class _Streams(io.RawIOBase):
    """Streams one after another, as Python's own readers take them. Those take whatever else stands behind a
    stream for the end of the file, and rows would be lost without a word; here it is an error, as it is with
    gzip and zstd."""

    def __init__(self, packed: IO[bytes], fresh: Callable[[], Any], *, padding: int = 0) -> None:
        super().__init__()
        self._file = packed
        self._fresh = fresh
        self._padding = padding  # NULs may stand between streams, in multiples of so many
        self._stream = fresh()
        self._begun = True  # whether the stream at hand has to come to its end; a file has at least one

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data:
            packed = b""
            if self._stream.eof:
                packed, self._stream = self._behind(self._stream.unused_data), self._fresh()
                self._begun = False
            if self._stream.needs_input and not packed:
                packed = self._file.read(_PACKED)
                if not packed and self._begun:
                    raise EOFError("compressed file ended before the end of its data")
                if not packed:
                    return 0
            self._begun = True
            data = self._stream.decompress(packed, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _behind(self, packed: bytes) -> bytes:
        """What follows a stream, without its padding."""
        if not self._padding:
            return packed
        nuls = 0
        while True:
            rest = packed.lstrip(b"\0")
            nuls += len(packed) - len(rest)
            packed = rest or self._file.read(_PACKED)
            if rest or not packed:
                break
        if nuls % self._padding:
            raise lzma.LZMAError("Corrupt input data")
        return packed

    def close(self) -> None:
        self._file.close()
        super().close()


def undecodable(key: str, path: str, encoding: str) -> SourceError:
    """Says where the first bytes are that are none of the encoding's."""
    line = None
    with open_plain(path) as plain:
        for number, text in enumerate(plain, start=1):
            try:
                text.decode(encoding)
            except UnicodeDecodeError:
                line = number
                break
    return SourceError(
        f"{key}{f':{line}' if line else ''}: bytes that are not {encoding}",
        hint="set the right `encoding` in the table's read_options, or fix the file",
        file=key,
    )


# What is no fault of the file: whoever meets it may try again, and must not take the file for a bad one.
_OF_THE_MACHINE = frozenset(
    {
        errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.ENOSPC, errno.EDQUOT,
        errno.EAGAIN, errno.ETIMEDOUT, errno.ECONNRESET, errno.ENOTCONN, errno.EHOSTDOWN,
    }
)  # fmt: skip


def unreadable(path: str, error: Exception) -> LadingError:
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        return StorageError(
            f"{path} can't be read just now: {error.strerror}",
            hint="check the machine (open files, memory, disk, network), then run again",
            file=path,
        )
    if isinstance(error, BeyondBounds):
        limit = str(error).rpartition("(")[2].rstrip(")")
        return SourceError(
            f"{path} can't be read: {error}",
            hint=f"if you trust the file, raise {limit} under `archives:` in lading.yaml",
            file=path,
        )
    if isinstance(error, FileNotFoundError):
        return SourceError(
            f"{path} is gone: it was there when the files were listed",
            hint="run again: the rows of files that are gone are retracted",
            file=path,
        )
    return SourceError(
        f"{path} can't be read: {getattr(error, 'strerror', None) or error}",
        hint="make the file readable and complete, or exclude it from the table's `path`, then run again",
        file=path,
    )
