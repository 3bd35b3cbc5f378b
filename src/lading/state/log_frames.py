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

import gc
import struct
from dataclasses import dataclass
from typing import BinaryIO

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

_crc32c = google_crc32c.value
_prefix_at = _PREFIX.unpack_from
_crc_at = _CRC.unpack_from
_NOTHING = (b"", 0, 0)
_RESIDUE = _crc32c(_CRC.pack(_crc32c(b"")))  # of anything that is followed by its own CRC
_between = struct.Struct("<I4sII").unpack_from  # the end of a frame and the head of the next
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
        return framed(_HEADER_MAGIC, _encode(self))


@dataclass(frozen=True, slots=True)
class Frames:
    """The commits found behind an offset, and where the valid bytes end."""

    commits: list[Commit]
    end: int
    torn: bool
    last: int = 0  # where the last of them begins


def encode_commit(commit: Commit) -> bytes:
    return framed(_FRAME_MAGIC, _encode(commit))


def decode_header(data: bytes) -> tuple[LogHeader, int]:
    """The header and the offset of the first frame."""
    payload = payload_at(data, 0, _HEADER_MAGIC)
    if payload is None:
        raise LogCorrupt(
            "manifest.log does not start with a valid header (offset 0)",
            hint="restore manifest.log from a backup, or run `lading collection rebuild`",
        )
    version = msgspec.msgpack.decode(payload).get("version")
    if version != FORMAT_VERSION:
        raise LogCorrupt(
            f"manifest.log has format version {version}, this lading reads {FORMAT_VERSION}",
            hint="open it with the version of lading that wrote it",
        )
    return msgspec.msgpack.decode(payload, type=LogHeader), _OVERHEAD + len(payload)


def decode_frames(data: bytes, start: int, *, offset: int = 0) -> Frames:
    """The whole frames of `data` from `start`; `offset` is where `data` begins in the file, for errors."""
    payloads = _payloads_from(data, start)
    position = start + sum(map(len, payloads)) + _OVERHEAD * len(payloads)
    if position < len(data):
        _refuse_if_followed(data, position, offset)
    last = position - len(payloads[-1]) - _OVERHEAD if payloads else position
    return Frames(_commits(payloads, offset + start), position, position < len(data), last)


@dataclass(frozen=True, slots=True)
class Salvage:
    """What can be read of a damaged log: the commits before the damage, and how many lie behind it."""

    header: LogHeader | None
    commits: list[Commit]
    behind: int


def salvage(data: bytes) -> Salvage:
    """Everything up to the first byte that can't be trusted. Never raises: this is for damaged logs."""
    try:
        header, position = decode_header(data)
    except (LogCorrupt, msgspec.DecodeError):
        header, position = None, 0
    commits: list[Commit] = []
    whole = True
    behind = 0
    while position < len(data):
        payload = payload_at(data, position, _FRAME_MAGIC)
        if payload is None:
            whole = False
            position = data.find(_FRAME_MAGIC, position + 1)
            if position < 0:
                break
            continue
        position += _OVERHEAD + len(payload)
        if whole:
            try:
                commits.append(_decode_commit(payload))
                continue
            except msgspec.DecodeError:
                whole = False
        behind += 1
    return Salvage(header, commits, behind)


def framed(magic: bytes, payload: bytes) -> bytes:
    head = magic + _CRC.pack(len(payload))
    return head + _CRC.pack(_crc32c(head)) + payload + _CRC.pack(_crc32c(payload))


def _payloads_from(data: bytes, position: int) -> list[bytes]:
    """The payloads up to the first frame that isn't valid. As `payload_at` again and again, but there may be
    a thousand of them, and whoever opens a table waits."""
    found: list[bytes] = []
    size = len(data)
    good: dict[int, int] = {}  # length -> its checksum: commits of one file are mostly of one length
    last = size - _CRC.size - _PREFIX.size  # a frame that ends behind it has none behind it
    magic, length, crc = _prefix_at(data, position) if position + _PREFIX.size <= size else _NOTHING
    while magic == _FRAME_MAGIC:
        body = position + _PREFIX.size
        end = body + length
        if end + _CRC.size > size:
            break
        if good.get(length) != crc:
            if _crc32c(data[position : position + 8]) != crc:
                break
            good[length] = crc
        payload = data[body:end]
        expected, magic, length, crc = (
            _between(data, end) if end <= last else (*_crc_at(data, end), *_NOTHING)
        )
        if _crc32c(payload) != expected:
            break
        found.append(payload)
        position = end + _CRC.size
    return found


def payload_at(data: bytes, position: int, magic: bytes) -> bytes | None:
    """The payload of a valid frame at `position`, or None; nothing is copied before its length is checked."""
    body = position + _PREFIX.size
    if body > len(data):
        return None
    found, length, crc = _prefix_at(data, position)
    end = body + length
    if found != magic or end + _CRC.size > len(data) or _crc32c(data[position : position + 8]) != crc:
        return None
    payload = data[body:end]
    return payload if _crc32c(payload) == _crc_at(data, end)[0] else None


def read_payload(file: BinaryIO, magic: bytes) -> memoryview | None:
    """The payload of the one valid frame that a file is, or None; only the payload is kept in memory."""
    prefix = file.read(_PREFIX.size)
    rest = file.read()
    if len(prefix) < _PREFIX.size or len(rest) < _CRC.size:
        return None
    found, length, crc = _prefix_at(prefix, 0)
    whole = length == len(rest) - _CRC.size and _crc32c(prefix[:8]) == crc and _crc32c(rest) == _RESIDUE
    return memoryview(rest)[:length] if whole and found == magic else None


def _refuse_if_followed(data: bytes, position: int, offset: int) -> None:
    candidate = data.find(_FRAME_MAGIC, position + 1)
    while candidate != -1:
        if payload_at(data, candidate, _FRAME_MAGIC) is not None:
            raise LogCorrupt(
                f"manifest.log is damaged at offset {offset + position}: "
                f"a complete commit follows at offset {offset + candidate}",
                hint="restore manifest.log from a backup, or run `lading collection rebuild`",
            )
        candidate = data.find(_FRAME_MAGIC, candidate + 1)


def _commits(payloads: list[bytes], offset: int) -> list[Commit]:
    """All of them at once, and without a garbage collection in between, which would take as long again:
    what a log holds behind its checkpoint decides how quickly it opens."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return [_decode_commit(payload) for payload in payloads]
    except msgspec.DecodeError as error:
        raise LogCorrupt(
            f"manifest.log holds a commit after offset {offset} that can't be decoded: {error}",
            hint="it was written by another version of lading: open it with that one",
        ) from error
    finally:
        if collecting:
            gc.enable()
