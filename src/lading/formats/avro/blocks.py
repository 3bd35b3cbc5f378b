"""The blocks of an Avro file: a number of records, a number of bytes, the bytes, and a marker.

The marker is the file's own and stands behind every block, so whoever starts in the middle of a file looks
for it, and damage is noticed at the next one.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

from lading.config.archives import ArchiveLimits
from lading.formats.opening import BeyondBounds
from lading.formats.reader import Piece

MAGIC = b"Obj\x01"
_SYNC = 16
_HEADER = 16 << 20  # bytes that a header may have
_SOUGHT = 1 << 16  # bytes in which a marker is looked for at once
_DICTIONARY = 128 << 20  # bytes that xz may remember


@dataclass(frozen=True, slots=True)
class Header:
    schema: bytes
    codec: str
    sync: bytes
    length: int  # in bytes: where the first block begins


def read_header(raw: IO[bytes]) -> Header:
    if raw.read(len(MAGIC)) != MAGIC:
        raise ValueError("it does not begin like an Avro file")
    entries: dict[bytes, bytes] = {}
    at = _At(raw, len(MAGIC))
    while count := at.long():
        if count < 0:
            at.long()  # how many bytes the entries take
        for _ in range(abs(count)):
            key = at.take(at.long(), _HEADER)
            entries[key] = at.take(at.long(), _HEADER)
            if at.place > _HEADER:
                raise EOFError(f"its header has more than {_HEADER:,} bytes")
    sync = at.take(_SYNC, _SYNC)
    codec = entries.get(b"avro.codec", b"null").decode("ascii", "replace")
    return Header(entries.get(b"avro.schema", b""), codec, sync, at.place)


def blocks(
    raw: IO[bytes], header: Header, piece: Piece, size: int, limits: ArchiveLimits
) -> Iterator[tuple[int, bytes]]:
    """Records and bytes of each block that begins in the piece. `raw` stands at the first block, or, for a
    piece that begins behind it, a marker's length before the piece."""
    unpack = _CODECS.get(header.codec)
    if unpack is None:
        raise ValueError(f"it is compressed with {header.codec!r}; known are {', '.join(sorted(_CODECS))}")
    at = _At(raw, header.length)
    if piece.start > header.length:
        at.place = piece.start - _SYNC
        if not at.find(header.sync):
            return
    while piece.end is None or at.place < piece.end:
        start = at.place
        count = at.long_or_end()
        if count is None:
            return
        length = at.long()
        if length > size - at.place:
            raise EOFError(f"the file ends in the block at byte {start:,}")
        packed = at.take(length, limits.max_line)
        if at.take(_SYNC, _SYNC) != header.sync:
            raise ValueError(f"the block at byte {start:,} is damaged")
        try:
            data = unpack(packed, limits.max_line)
        except (zlib.error, lzma.LZMAError, OSError, EOFError, pa.ArrowException) as error:
            if isinstance(error, BeyondBounds):
                raise
            raise ValueError(f"the block at byte {start:,} is damaged: {error}") from error
        # No type that lading takes has values of no bytes.
        if not 0 <= count <= len(data):
            raise ValueError(f"the block at byte {start:,} is damaged: it can't hold {count:,} records")
        if count:
            yield count, data


class _At:
    """A stream, and how far it has been read."""

    def __init__(self, raw: IO[bytes], place: int) -> None:
        self._raw = raw
        self._ahead = b""  # read, and not yet asked for
        self.place = place

    def long(self) -> int:
        number = self.long_or_end()
        if number is None:
            raise EOFError("the file ends too early")
        return number

    def long_or_end(self) -> int | None:
        rest, shift = 0, 0
        while byte := self._read(1):
            rest |= (byte[0] & 0x7F) << shift
            if byte[0] < 0x80:
                return (rest >> 1) ^ -(rest & 1)
            shift += 7
            if shift > 63:
                raise ValueError(f"there is no number at byte {self.place:,}")
        if shift:
            raise EOFError("the file ends too early")
        return None

    def take(self, length: int, limit: int) -> bytes:
        if length < 0:
            raise ValueError(f"there is no length at byte {self.place:,}")
        if length > limit:
            raise _too_large(limit)
        data = self._read(length)
        if len(data) < length:
            raise EOFError("the file ends too early")
        return data

    def find(self, sign: bytes) -> bool:
        """Go on to behind the next `sign`; False if there is none."""
        seen = b""
        while data := self._raw.read(_SOUGHT):
            seen += data
            found = seen.find(sign)
            if found >= 0:
                self.place += found + len(sign)
                self._ahead = seen[found + len(sign) :]
                return True
            kept = len(sign) - 1
            self.place += max(0, len(seen) - kept)
            seen = seen[-kept:]
        return False

    def _read(self, length: int) -> bytes:
        data = self._raw.read(length) if not self._ahead else self._ahead[:length]
        if self._ahead:
            self._ahead = self._ahead[length:]
            data += self._raw.read(length - len(data))
        self.place += len(data)
        return data


def _too_large(limit: int) -> BeyondBounds:
    return BeyondBounds(f"it has a block of more than {limit:,} bytes (max_line)")


def _within(data: bytes, limit: int, complete: bool = True) -> bytes:
    if len(data) > limit:
        raise _too_large(limit)
    if not complete:
        raise EOFError("it ends too early")
    return data


def _null(packed: bytes, limit: int) -> bytes:
    return packed


def _deflate(packed: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(-15)
    data = stream.decompress(packed, limit + 1)
    return _within(data, limit, stream.eof)


def _bzip2(packed: bytes, limit: int) -> bytes:
    stream = bz2.BZ2Decompressor()
    data = stream.decompress(packed, limit + 1)
    return _within(data, limit, stream.eof)


def _xz(packed: bytes, limit: int) -> bytes:
    stream = lzma.LZMADecompressor(memlimit=_DICTIONARY)
    data = stream.decompress(packed, limit + 1)
    return _within(data, limit, stream.eof)


def _zstandard(packed: bytes, limit: int) -> bytes:
    with pa.input_stream(pa.BufferReader(packed), compression="zstd") as stream:
        return _within(stream.read(limit + 1), limit)


def _snappy(packed: bytes, limit: int) -> bytes:
    """A length, the data, and a checksum of what it unpacks to."""
    length, shift = 0, 0
    for byte in packed[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if length > limit:
        raise _too_large(limit)
    data = bytes(pa.decompress(packed[:-4], decompressed_size=length, codec="snappy", asbytes=True))
    if zlib.crc32(data) != int.from_bytes(packed[-4:], "big"):
        raise EOFError("its checksum is not the one that was written")
    return data


_CODECS: dict[str, Callable[[bytes, int], bytes]] = {
    "null": _null,
    "deflate": _deflate,
    "bzip2": _bzip2,
    "xz": _xz,
    "zstandard": _zstandard,
    "snappy": _snappy,
}
