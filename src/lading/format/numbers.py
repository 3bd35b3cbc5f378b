"""Integers next to each other, each in as few bytes as the widest of them needs.

What is known of all members at once mostly differs little: null counts are zero, row counts alike, the keys
of neighbours close. So a vector is its least value and how far each one lies above it: what is asked of a
million members is read and checked in a few milliseconds, and equal values take no room at all.

    width (u8: 0, 1, 2, 4 or 8), 7 zeros, count (u64), base (i64), then count unsigned integers of `width`
    bytes, padded to 8; value = base + integer, and at width 8 the int64 itself. All little-endian.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

_HEADER = struct.Struct("<B7xQq")
_BASE = 16  # where it stands in the header
_INT64 = np.dtype("<i8")
_WIDTHS: dict[int, np.dtype[Any]] = {1: np.dtype("<u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4")}


def packed(numbers: npt.NDArray[np.signedinteger]) -> bytes:
    """The bytes of an int64 array, for `unpacked`."""
    count = len(numbers)
    base = int(numbers.min()) if count else 0
    span = int(numbers.max()) - base if count else 0
    if span == 0:
        return _HEADER.pack(0, count, base)
    width = next((width for width in _WIDTHS if span < 1 << 8 * width), 8)
    if width == 8:
        return _HEADER.pack(8, count, 0) + np.ascontiguousarray(numbers, _INT64).tobytes()
    body = (numbers - base).astype(_WIDTHS[width]).tobytes()
    return b"".join((_HEADER.pack(width, count, base), body, b"\0" * (-len(body) % 8)))


def unpacked(blob: bytes, at: int = 0) -> tuple[Numbers, int]:
    """The array that begins at `at`, and where the next thing does; ValueError if there is none."""
    body = at + _HEADER.size
    if body > len(blob):
        raise ValueError(f"{len(blob) - at} bytes are too short for a header")
    width, count, base = _HEADER.unpack_from(blob, at)
    if width == 0:  # one value, seen `count` times
        return np.ndarray((count,), _INT64, blob, at + _BASE, (0,)), body
    end = body + width * count
    if end > len(blob) or (width != 8 and width not in _WIDTHS):
        raise ValueError(f"{count} numbers of {width} bytes at {at} of {len(blob)}")
    if width == 8:
        return np.frombuffer(blob, _INT64, count, body), end
    found = np.frombuffer(blob, _WIDTHS[width], count, body).astype(_INT64)
    found += base
    return found, end + -end % 8
