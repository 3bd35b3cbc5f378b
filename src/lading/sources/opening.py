"""The bytes that a reader of a source file sees: compressed text is text.

Spark chooses a codec by the file's suffix; every look that lading takes itself has to agree with it.
"""

from __future__ import annotations

import bz2
import gzip
import io
import os
import zlib
from typing import IO, cast

from lading.errors import SourceError

COMPRESSED = (".gz", ".bz2", ".zst")

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
        return cast(IO[bytes], bz2.open(path, "rb"))
    if suffix == ".zst":
        import pyarrow as pa

        return cast(IO[bytes], io.BufferedReader(pa.input_stream(path, compression="zstd")))
    return open(path, "rb")


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
