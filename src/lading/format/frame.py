"""The log's bytes: a header, then one checksummed frame a commit.

    log    = header frame*
    frame  = magic length crc(magic length) payload crc(payload)      all integers little-endian u32
    header = a frame whose magic is "LDGH"; a commit's magic is "LDGF"
    payload = msgpack of LogHeader or Commit

A commit is whole or not there: a frame that is short or fails a checksum at the very end is a torn
write and counts for nothing. A bad frame with a valid one behind it can't be a torn write, so it is
corruption and never passed over. CRC32C of the length lets a flipped length be told from a short file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import google_crc32c
import msgspec

from lading.errors import LogCorrupt
from lading.model import Commit

FORMAT_VERSION = 1
_HEADER_MAGIC = b"LDGH"
_FRAME_MAGIC = b"LDGF"
_PREFIX = struct.Struct("<4sII")
_CRC = struct.Struct("<I")
_OVERHEAD = _PREFIX.size + _CRC.size

_encode = msgspec.msgpack.Encoder().encode
_decode_commit = msgspec.msgpack.Decoder(Commit).decode


class LogHeader(msgspec.Struct, frozen=True):
    """The first frame. `log_id` changes with every compaction, so an offset into another log is known."""

    version: int
    table: str
    table_id: str
    log_id: str
    created_at: str
    base: int  # every frame here has a greater sequence

    def to_bytes(self) -> bytes:
        return _frame(_HEADER_MAGIC, _encode(self))


@dataclass(frozen=True, slots=True)
class Frames:
    """The commits found behind an offset, and where the valid bytes end."""

    commits: list[Commit]
    end: int
    torn: bool


def encode_commit(commit: Commit) -> bytes:
    return _frame(_FRAME_MAGIC, _encode(commit))


def decode_header(data: bytes) -> tuple[LogHeader, int]:
    """The header and the offset of the first frame."""
    payload = _payload_at(data, 0, _HEADER_MAGIC)
    if payload is None:
        raise LogCorrupt(
            "manifest.log does not start with a valid header (offset 0)",
            hint="restore manifest.log from a backup, or run `lading collection rebuild`",
        )
    header = msgspec.msgpack.decode(payload, type=LogHeader)
    if header.version != FORMAT_VERSION:
        raise LogCorrupt(
            f"manifest.log has format version {header.version}, this lading reads {FORMAT_VERSION}",
            hint="open it with the version of lading that wrote it",
        )
    return header, _OVERHEAD + len(payload)


def decode_frames(data: bytes, start: int, *, offset: int = 0) -> Frames:
    """The whole frames of `data` from `start`; `offset` is where `data` begins in the file, for errors."""
    commits: list[Commit] = []
    position = start
    size = len(data)
    while position < size:
        payload = _payload_at(data, position, _FRAME_MAGIC)
        if payload is None:
            _refuse_if_followed(data, position, offset)
            return Frames(commits, position, torn=True)
        commits.append(_commit(payload, offset + position))
        position += _OVERHEAD + len(payload)
    return Frames(commits, position, torn=False)


def _frame(magic: bytes, payload: bytes) -> bytes:
    head = magic + _CRC.pack(len(payload))
    crc = google_crc32c.value
    return head + _CRC.pack(crc(head)) + payload + _CRC.pack(crc(payload))


def _payload_at(data: bytes, position: int, magic: bytes) -> bytes | None:
    """The payload of a valid frame at `position`, or None; nothing is copied before its length is checked."""
    body = position + _PREFIX.size
    if body > len(data):
        return None
    found, length, crc = _PREFIX.unpack_from(data, position)
    if found != magic or google_crc32c.value(data[position : position + 8]) != crc:
        return None
    end = body + length
    if end + _CRC.size > len(data):
        return None
    payload = data[body:end]
    if google_crc32c.value(payload) != _CRC.unpack_from(data, end)[0]:
        return None
    return payload


def _refuse_if_followed(data: bytes, position: int, offset: int) -> None:
    candidate = data.find(_FRAME_MAGIC, position + 1)
    while candidate != -1:
        if _payload_at(data, candidate, _FRAME_MAGIC) is not None:
            raise LogCorrupt(
                f"manifest.log is damaged at offset {offset + position}: "
                f"a whole commit follows at offset {offset + candidate}",
                hint="restore manifest.log from a backup, or run `lading collection rebuild`",
            )
        candidate = data.find(_FRAME_MAGIC, candidate + 1)


def _commit(payload: bytes, offset: int) -> Commit:
    try:
        return _decode_commit(payload)
    except msgspec.DecodeError as error:
        raise LogCorrupt(
            f"manifest.log holds a commit at offset {offset} that can't be decoded: {error}",
            hint="it was written by another version of lading: open it with that one",
        ) from error
