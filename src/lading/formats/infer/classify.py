"""Which types each text could be read as: by its bytes where they tell, by the reader's rules where they
don't.

Every text of every file goes through here, so a column of one kind costs a few passes over its bytes, and a
column of words a look at how they begin and end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import pyarrow as pa

from lading.config.date_patterns import date_pattern
from lading.formats.text_shapes import EXACT_DIGITS
from lading.formats.values import Texts
from lading.model import Column

TEXT_TYPES = ("boolean", "bigint", "double", "date", "timestamp_ntz", "timestamp")  # narrowest first
BOOLEAN, BIGINT, DOUBLE, DATE, TIMESTAMP_NTZ, TIMESTAMP = (1 << place for place in range(len(TEXT_TYPES)))

_SURE_DIGITS = 18  # of an integer that surely fits 64 bits; one more may
_MANY = 255  # bytes of a text that are counted in a byte
_DAY = 10  # characters of an ISO date
_LOWER = 0x20  # the bit by which a letter differs from its capital
_DIGIT_FIRST = r"\A(?P<g0>[0-9]"  # how the regular expression of a pattern begins that begins with a number


class Spelling:
    """The bytes of texts, none of which is null. Where one is empty, only lengths can be asked for."""

    def __init__(self, texts: pa.Array) -> None:
        _, offsets, data = texts.buffers()
        bounds = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4)
        self.codes = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]]
        self.starts = bounds[:-1] - bounds[0]
        self.lengths = np.diff(bounds)

    @cached_property
    def first(self) -> np.ndarray:
        first: np.ndarray = self.codes[self.starts]
        return first

    @cached_property
    def last(self) -> np.ndarray:
        last: np.ndarray = self.codes[self.starts + (self.lengths - 1)]
        return last

    def count(self, where: np.ndarray) -> np.ndarray:
        """How many bytes of each text are at a place that is marked. Texts have to be short."""
        if not where.any():
            return np.zeros(len(self.starts), np.uint8)
        counts: np.ndarray = np.add.reduceat(where.view(np.uint8), self.starts)
        return counts


def classify(texts: Texts, values: pa.Array, *, numbers: bool = True) -> np.ndarray:
    """A bit for each of `TEXT_TYPES` that a value, none of which is null, could be read as. Without
    `numbers`, only dates and times are looked for."""
    bits = np.zeros(len(values), np.uint8)
    if not len(values):
        return bits
    seen = Spelling(values)
    if not seen.lengths.all():
        _mark(bits, values, seen.lengths > 0, lambda some: classify(texts, some, numbers=numbers))
        return bits
    iso = _like_iso(seen)
    if numbers:
        _mark(bits, values, _is_boolean(seen), lambda some: np.full(len(some), BOOLEAN, np.uint8))
        _mark(bits, values, _like_number(seen, texts.decimal) & ~iso, lambda some: _numbers(texts, some))
    if texts.dates or texts.timestamps:
        begins = _is_digit(seen.first) if _begin_with_digits(texts) else np.ones(len(values), bool)
        _mark(bits, values, begins, lambda some: _in_formats(texts, some))
    else:
        _mark(bits, values, iso, lambda some: _iso(texts, some))
    return bits


def _mark(
    bits: np.ndarray, values: pa.Array, where: np.ndarray, found: Callable[[pa.Array], np.ndarray]
) -> None:
    """Set the bits that are found of the values there."""
    places = np.flatnonzero(where)
    if len(places) == len(values):
        bits |= found(values)
    elif len(places):
        bits[places] |= found(values.take(pa.array(places)))


def _is_digit(codes: np.ndarray) -> np.ndarray:
    digit: np.ndarray = codes - ord("0") <= 9  # of bytes, so that what is less is far more
    return digit


def _is_boolean(seen: Spelling) -> np.ndarray:
    found = np.zeros(len(seen.starts), bool)
    initials = seen.first | _LOWER
    for word in (b"true", b"false"):
        places = np.flatnonzero((seen.lengths == len(word)) & (initials == word[0]))
        for at, letter in enumerate(word):
            places = places[seen.codes[seen.starts[places] + at] | _LOWER == letter]
        found[places] = True
    return found


def _like_number(seen: Spelling, mark: str) -> np.ndarray:
    """Begins and ends as one."""
    first, last, point = seen.first, seen.last, ord(mark)
    begins = _is_digit(first) | (first == ord("-")) | (first == point)
    like: np.ndarray = begins & (_is_digit(last) | (last == point))
    return like


def _numbers(texts: Texts, values: pa.Array) -> np.ndarray:
    """What begins and ends as a number."""
    seen = Spelling(values)
    point = ord(texts.decimal)
    signed = seen.first == ord("-")
    size = seen.lengths - signed
    lead = seen.codes[seen.starts + signed]
    several = size > 1
    zero = lead == ord("0")
    others = seen.count(~_is_digit(seen.codes)) - signed
    is_point = seen.codes == point
    points = seen.count(is_point)
    bits = np.zeros(len(values), np.uint8)

    whole = others == 0
    plain = whole & ~(zero & (several | signed))
    bits[plain & (size <= _SURE_DIGITS)] = BIGINT
    bits[plain & (size <= EXACT_DIGITS)] = BIGINT | DOUBLE
    bits[whole & zero & signed & ~several] = DOUBLE  # -0
    second = is_point[seen.starts + signed + several]
    bits[(others == 1) & (points == 1) & several & ~(zero & ~second)] = DOUBLE

    unsure = (plain & (size == _SURE_DIGITS + 1)) | (seen.lengths > _MANY)
    letters = seen.count(seen.codes | _LOWER == ord("e"))
    unsure |= (letters == 1) & (points <= 1) & (others - points <= 2)
    bits[unsure] = 0
    _mark(bits, values, unsure, lambda some: _by_rules(texts, some, bigint=BIGINT, double=DOUBLE))
    return bits


def _like_iso(seen: Spelling) -> np.ndarray:
    """Whether there may be a date in ISO 8601 at the beginning."""
    like = np.zeros(len(seen.starts), bool)
    places = np.flatnonzero(seen.lengths >= _DAY)
    for at in (4, 7):
        places = places[seen.codes[seen.starts[places] + at] == ord("-")]
    like[places] = True
    return like


def _iso(texts: Texts, values: pa.Array) -> np.ndarray:
    bits = np.zeros(len(values), np.uint8)
    day = Spelling(values).lengths == _DAY
    _mark(bits, values, day, lambda some: _by_rules(texts, some, date=DATE | TIMESTAMP_NTZ))
    _mark(bits, values, ~day, lambda some: _by_rules(texts, some, timestamp_ntz=TIMESTAMP_NTZ))
    left = ~day & (bits == 0)
    _mark(bits, values, left, lambda some: _by_rules(texts, some, timestamp=TIMESTAMP))
    return bits


def _in_formats(texts: Texts, values: pa.Array) -> np.ndarray:
    return _by_rules(texts, values, date=DATE, timestamp_ntz=TIMESTAMP_NTZ, timestamp=TIMESTAMP)


def _begin_with_digits(texts: Texts) -> bool:
    """Whether dates and times do, in whatever format."""
    return all(date_pattern(one).regex.startswith(_DIGIT_FIRST) for one in (*texts.dates, *texts.timestamps))


def _by_rules(texts: Texts, values: pa.Array, **types: int) -> np.ndarray:
    bits = np.zeros(len(values), np.uint8)
    for kind, mark in types.items():
        bits[texts.fits(values, Column("", kind, inferred=True))] |= mark
    return bits
