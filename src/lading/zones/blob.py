"""A zone vector's bytes: how they are written, and a walk over them that believes nothing.

Blob: 16 bytes of header (b"LZV2", kind, two flags, one zero, count as u64), then the null counts, then
the minima and the maxima; then a byte a member for each mask that its flag announces. Numbers are packed
(numbers.py), floats by their bits; text is int32 offsets (one more than there are members), padded to 8
bytes, then the bytes, padded to 8. All little-endian.
"""

from __future__ import annotations

import struct
from typing import Any, Literal

from lading.errors import LogCorrupt
from lading.late import np, pa
from lading.zones.numbers import Mask, Numbers, Packed, packed, packed_at

Kind = Literal["none", "int", "float", "str", "bytes"]

KINDS: tuple[Kind, ...] = ("none", "int", "float", "str", "bytes")
DTYPES = {"int": "<i8", "float": "<f8"}
TEXTS = {"str": "string", "bytes": "binary"}  # as Arrow names them
_HEADER = struct.Struct("<4sBBBxQ")
_MAGIC = b"LZV2"


def header_bytes(kind: Kind, has_min: bool, has_max: bool, count: int) -> bytes:
    return _HEADER.pack(_MAGIC, KINDS.index(kind), has_min, has_max, count)


def bound_bytes(kind: Kind, values: Any) -> bytes:
    if kind in DTYPES:
        return packed(values.astype(DTYPES[kind], copy=False).view("<i8"))
    # A slice shares its parent's buffers: offsets are counted from zero again.
    _, offsets_buffer, text = values.buffers()
    offsets = np.zeros(1, "<i4")
    if offsets_buffer is not None and offsets_buffer.size:
        offsets = np.frombuffer(offsets_buffer, "<i4", len(values) + 1, 4 * values.offset)
    start, end = int(offsets[0]), int(offsets[-1])
    head = (offsets - start).astype("<i4").tobytes()
    body = b"" if text is None else memoryview(text)[start:end].tobytes()
    return b"".join((head, b"\0" * (-len(head) % 8), body, b"\0" * (-len(body) % 8)))


class ZoneCursor:
    """Walks a blob and refuses to step over its end."""

    def __init__(self, blob: bytes, as_packed: bool) -> None:
        self._blob = blob
        self._at = 0
        self._as_packed = as_packed

    def header(self) -> tuple[Kind, bool, bool, int]:
        if len(self._blob) < _HEADER.size:
            raise _corrupt(f"{len(self._blob)} bytes are too short for a header")
        magic, kind, has_min, has_max, count = _HEADER.unpack_from(self._blob)
        if magic != _MAGIC or kind >= len(KINDS):
            raise _corrupt(f"unknown header {self._blob[:5]!r}")
        self._at = _HEADER.size
        return KINDS[kind], bool(has_min), bool(has_max), count

    def values(self, kind: Kind, count: int) -> Any:
        if kind == "int":
            return self.numbers(count)
        if kind == "float":
            return np.asarray(self.numbers(count)).view(DTYPES[kind])
        offsets = self._plain(np.dtype("<i4"), count + 1)
        self._skip(-4 * (count + 1) % 8)
        size = int(offsets[-1])
        if offsets[0] != 0 or not (offsets[1:] >= offsets[:-1]).all():
            raise _corrupt("text offsets that run backwards")
        start = self._skip(size)
        self._skip(-size % 8)
        text = pa.py_buffer(memoryview(self._blob)[start : start + size])
        return pa.Array.from_buffers(
            pa.type_for_alias(TEXTS[kind]), count, [None, pa.py_buffer(offsets), text]
        )

    def numbers(self, count: int) -> Numbers | Packed:
        try:
            found, self._at = packed_at(self._blob, self._at)
        except ValueError as error:
            raise _corrupt(str(error)) from error
        if found.count != count or self._at > len(self._blob):
            raise _corrupt(f"{found.count} numbers where {count} should be")
        return found if self._as_packed else np.asarray(found)

    def mask(self, count: int) -> Mask:
        known: Mask = self._plain(np.dtype(np.uint8), count) != 0
        return known

    def _plain(self, dtype: np.dtype[Any], count: int) -> Any:
        start = self._skip(dtype.itemsize * count)
        return np.frombuffer(self._blob, dtype, count, start)

    def end(self) -> None:
        if self._at != len(self._blob):
            raise _corrupt(f"{len(self._blob) - self._at} bytes too many")

    def _skip(self, size: int) -> int:
        start = self._at
        if size > len(self._blob) - start:
            raise _corrupt(f"{size} bytes wanted at {start} of {len(self._blob)}")
        self._at = start + size
        return start


def _corrupt(what: str) -> LogCorrupt:
    return LogCorrupt(
        f"a zone vector can't be read: {what}",
        hint="restore manifest.db or the snapshot from a copy, or rebuild the table: `lading run --full`",
    )
