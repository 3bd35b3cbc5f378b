"""The bytes that a reader of a source file sees: compressed text is text.

Spark chooses a codec by the file's suffix; every look that lading takes itself has to agree with it.
"""

from __future__ import annotations

import bz2
import gzip
import io
import os
import zlib
from typing import IO, Any, cast

from lading.errors import SourceError

COMPRESSED = (".gz", ".bz2", ".zst")

_PACKED = 1 << 16  # bytes of a compressed file that are read at once

# What reading a file that is gone, forbidden or cut off raises.
READ_ERRORS = (OSError, EOFError, zlib.error)


def compression(path: str) -> str | None:
    """`.gz`, `.bz2`, `.zst`, or None; case doesn't matter."""
    suffix = os.path.splitext(path)[1].lower()
    return suffix if suffix in COMPRESSED else None


def open_plain(path: str) -> IO[bytes]:
    """Open for reading, decompressed when the suffix says so."""
    suffix = compression(path)
    if suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if suffix == ".bz2":
        return cast(IO[bytes], io.BufferedReader(_Bz2(path)))
    if suffix == ".zst":
        import pyarrow as pa

        return cast(IO[bytes], io.BufferedReader(pa.input_stream(path, compression="zstd")))
    return open(path, "rb")


class _Bz2(io.RawIOBase):
    """Streams one after another, as Python's own reader takes them. That one takes whatever else stands
    behind a stream for the end of the file, and rows would be lost without a word; here it is an error, as
    it is in the other formats."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._file = open(path, "rb")  # noqa: SIM115 (closed with the stream)
        self._stream = bz2.BZ2Decompressor()
        self._begun = True  # whether the stream at hand has to come to its end; a file has at least one

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data:
            packed = b""
            if self._stream.eof:
                packed, self._stream = self._stream.unused_data, bz2.BZ2Decompressor()
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
        hint="set another `encoding` in the table's read_options, or fix the file",
        file=key,
    )


def unreadable(path: str, error: Exception) -> SourceError:
    return SourceError(
        f"{path} can't be read: {getattr(error, 'strerror', None) or error}",
        hint="make the file readable and whole, or take it out of the table's `path`, then run again",
        file=path,
    )
