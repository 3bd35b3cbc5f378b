"""Integers next to each other, each in as few bytes as the widest of them needs.

What is known of all members at once mostly differs little: null counts are zero, row counts alike, the keys
of neighbours close. So a vector is its least value and how far each one lies above it: what is asked of a
million members is read and checked in a few milliseconds, and equal values take no room at all.

    width (u8: 0, 1, 2, 4 or 8), 7 zeros, count (u64), base (i64), then count unsigned integers of `width`
    bytes, padded to 8; value = base + integer, and at width 8 the int64 itself. All little-endian.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from lading.late import np

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]
else:
    Numbers = Mask = Any

COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "!=": operator.ne,
}

_HEADER = struct.Struct("<B7xQq")
_ONE = struct.Struct("<q")
_MOST = 2**63 - 1
_INT64 = "<i8"
_SEEN_AGAIN = (0,)  # the strides of an array that is one value, seen as often as it is long
_WIDTHS = {1: "<u1", 2: "<u2", 4: "<u4"}


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


class Packed(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An array as it lies in a blob, compared where it lies: a comparison of bytes costs an eighth of one of
    int64s, and equal values are one comparison. Whatever else is asked of it turns it into an array."""

    count: int
    base: int
    above: npt.NDArray[Any] | None  # how far each value lies above `base`; None: not at all

    def __len__(self) -> int:
        return self.count

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        found = self._array()
        return found.astype(dtype or _INT64, copy=bool(copy))

    def __getitem__(self, which: Any) -> Any:
        if not isinstance(which, int):
            return self._array()[which]
        if not 0 <= which < self.count:
            raise IndexError(which)
        return np.int64(self.base + (0 if self.above is None else int(self.above[which])))

    def some(self, places: Sequence[int]) -> list[int]:
        """The numbers at these places, which count from the end where they are negative."""
        if self.above is None:
            return [self.base] * len(places)
        base, above = self.base, self.above.data
        return [base + above[at] for at in places]

    def _array(self) -> Numbers:
        if self.above is None:
            return np.ndarray((self.count,), _INT64, _ONE.pack(self.base), 0, _SEEN_AGAIN)
        if self.above.dtype == _INT64:
            return self.above
        found: Numbers = self.above.astype(_INT64)
        found += self.base
        return found

    def holds(self, op: str, value: int) -> Mask:
        """Where `number op value`."""
        holds = COMPARED[op]
        value -= self.base
        if self.above is None:
            return same(self.count, holds(0, value))
        found: Mask
        if self.above.dtype == _INT64:
            found = holds(self.above, value)
        elif value < 0:  # below all of them, or above what their width can hold
            found = same(self.count, holds(0, -1))
        elif value >> 8 * self.above.itemsize:
            found = same(self.count, holds(0, 1))
        else:
            found = holds(self.above, self.above.dtype.type(value))
        return found


def differ(left: Packed | Numbers, right: Packed | Numbers | int) -> Mask:
    """Where two arrays aren't equal, or an array and a number."""
    if isinstance(left, Packed):
        if isinstance(right, int):
            return left.holds("!=", right)
        if isinstance(right, Packed) and right.above is None:
            return left.holds("!=", right.base)
        if isinstance(right, Packed) and left.above is None:
            return right.holds("!=", left.base)
    found: Mask = np.not_equal(left, right)
    return found


@lru_cache(maxsize=64)
def same(count: int, answer: bool) -> Mask:
    """A mask that says the same of all, without being so long. It can't be written to."""
    return np.ndarray((count,), np.bool_, b"\1" if answer else b"\0", 0, _SEEN_AGAIN)


def both(one: Mask, other: Mask) -> Mask:
    """Where both are true; a mask that says the same of all costs no comparison."""
    if one.strides == _SEEN_AGAIN and len(one):
        return other if one[0] else one
    if other.strides == _SEEN_AGAIN and len(other):
        return one if other[0] else other
    return one & other


def either(one: Mask, other: Mask) -> Mask:
    """Where one of them is."""
    if one.strides == _SEEN_AGAIN and len(one):
        return one if one[0] else other
    if other.strides == _SEEN_AGAIN and len(other):
        return other if other[0] else one
    return one | other


def unpacked(blob: bytes, at: int = 0) -> tuple[Numbers, int]:
    """The array that begins at `at`, and where the next thing does; ValueError if there is none."""
    found, end = packed_at(blob, at)
    return np.asarray(found), end


def packed_at(blob: bytes, at: int = 0) -> tuple[Packed, int]:
    """As `unpacked`, left as it lies."""
    body = at + _HEADER.size
    if body > len(blob):
        raise ValueError(f"{len(blob) - at} bytes are too short for a header")
    width, count, base = _HEADER.unpack_from(blob, at)
    if width == 0 and count <= _MOST:
        return Packed(count, base, None), body
    end = body + width * count
    if end > len(blob) or (width != 8 and width not in _WIDTHS):
        raise ValueError(f"{count} numbers of {width} bytes at {at} of {len(blob)}")
    if width == 8:
        return Packed(count, 0, np.frombuffer(blob, _INT64, count, body)), end
    above = np.frombuffer(blob, _WIDTHS[width], count, body)
    if base > _MOST - (1 << 8 * width) and count and base + int(above.max()) > _MOST:
        raise ValueError(f"numbers beyond 64 bits at {at}")
    return Packed(count, base, above), end + -end % 8
