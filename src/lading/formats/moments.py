"""Days and times from text in a pattern: what its parts say, put together for a whole array at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.config.date_patterns import ABBREVIATED, DAYS, MONTHS, DatePattern

_SECOND = 1_000_000  # microseconds
_DAY = 86_400 * _SECOND
_MONTH_NAMES = [name[:ABBREVIATED] for name in MONTHS]
_DAY_NAMES = [name[:ABBREVIATED] for name in DAYS]
_SHIFT = 24 * 60  # minutes, added to offsets, so that none is negative
_LENGTHS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


@dataclass(frozen=True, slots=True)
class Moments:
    """What texts say, in UTC where they have a zone. Numbers are undefined where they say nothing."""

    days: np.ndarray  # since 1970
    micros: np.ndarray
    there: np.ndarray  # whether the text is a day and time that exists
    zoned: np.ndarray  # whether it says a zone

    def dates(self, where: np.ndarray) -> pa.Array:
        return pa.array(self.days.astype(np.int32), mask=~where).cast(pa.date32())

    def timestamps(self, where: np.ndarray, dtype: pa.DataType) -> pa.Array:
        return pa.array(self.micros, mask=~where).cast(dtype)


def moments(texts: pa.Array, pattern: DatePattern) -> Moments:
    """Of texts, some of which may be null or not in the pattern at all."""
    found = _Parts(texts, pattern)
    year, month, day = found.year(), found.month(), found.number("day", 1)
    hour = found.hour()
    minute, second = found.number("minute", 0), found.number("second", 0)
    there = found.there & (month >= 1) & (month <= 12) & (hour < 24) & (minute < 60) & (second < 60)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    length = _LENGTHS[np.clip(month, 1, 12) - 1] + (leap & (month == 2))
    there &= (year >= 1) & (day >= 1) & (day <= length)
    days = _days(year, month, day)
    said, weekday = found.weekday()
    there &= ~said | (weekday == (days + 3) % 7)
    fraction = found.fraction()
    there &= fraction % 1000 == 0
    zoned, offset = found.zone()
    clock = (hour * 60 + minute - offset) * 60 + second
    return Moments(days, days * _DAY + clock * _SECOND + fraction // 1000, there, zoned)


def _days(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> np.ndarray:
    """Days since 1970 in the Gregorian calendar, whose years are counted from March: leap days come last."""
    y = year - (month <= 2)
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days: np.ndarray = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    return days


_Read = Callable[[pa.Array], pa.Array]


def _as_it_is(text: pa.Array) -> pa.Array:
    return text


class _Parts:
    """The parts of texts in a pattern. One that an optional section leaves out is the default."""

    def __init__(self, texts: pa.Array, pattern: DatePattern) -> None:
        self._found = pc.extract_regex(texts, pattern.regex)
        self._parts = pattern.parts
        self._size = len(texts)
        self.there = _numpy(pc.is_valid(self._found))

    def year(self) -> np.ndarray:
        years = self.number("year", -1)
        return np.where(years == -1, 2000 + self.number("short_year", 0), years)

    def month(self) -> np.ndarray:
        months = self.number("month", -1)
        said, name = self._name("month_name", _MONTH_NAMES)
        self.there &= ~said | (months == -1) | (months == name + 1)
        return np.where(said, name + 1, np.where(months == -1, 1, months))

    def hour(self) -> np.ndarray:
        if "half" not in self._parts:
            return self.number("hour", 0)
        half = self.number("half_hour", -1)
        said, after = self._name("half", ["am", "pm"])
        self.there &= (half == -1) | ((half >= 1) & (half <= 12) & said)
        return np.where(half == -1, self.number("hour", 0), half % 12 + 12 * (after == 1))

    def weekday(self) -> tuple[np.ndarray, np.ndarray]:
        return self._name("day_name", _DAY_NAMES)

    def fraction(self) -> np.ndarray:
        """Nanoseconds."""
        return self.number("fraction", 0, lambda text: pc.utf8_rpad(text, 9, "0"))

    def zone(self) -> tuple[np.ndarray, np.ndarray]:
        """Whether one is there, and its offset in minutes."""
        shifted = self.number("zone", -1, _offset)
        return shifted != -1, np.where(shifted == -1, 0, shifted - _SHIFT)

    def number(self, part: str, default: int, read: _Read = _as_it_is) -> np.ndarray:
        """Each number of a part. A part that is there twice has to say the same twice."""
        numbers = np.full(self._size, default, np.int64)
        said = np.zeros(self._size, bool)
        for text in self._texts(part):
            made = pc.cast(read(text), pa.int64())
            here = _numpy(pc.is_valid(made))
            found = made.fill_null(default).to_numpy(zero_copy_only=False)
            self.there &= ~(here & said) | (found == numbers)
            numbers = np.where(here, found, numbers)
            said |= here
        return numbers

    def _name(self, part: str, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        length, known = len(names[0]), pa.array(names)

        def place(text: pa.Array) -> pa.Array:
            return pc.index_in(pc.utf8_slice_codeunits(pc.ascii_lower(text), 0, length), known)

        places = self.number(part, -1, place)
        return places != -1, places

    def _texts(self, part: str) -> list[pa.Array]:
        """Of each group; null where it is left out."""
        groups = [place for place, name in enumerate(self._parts) if name == part]
        found = [pc.struct_field(self._found, f"g{place}") for place in groups]
        return [pc.if_else(pc.not_equal(text, ""), text, None) for text in found]


def _offset(text: pa.Array) -> pa.Array:
    """The offset of `Z`, `+02`, `+0230` and `+02:30` in minutes, and `_SHIFT` more."""
    digits = pc.utf8_rpad(pc.replace_substring(pc.utf8_slice_codeunits(text, 1), ":", ""), 4, "0")
    hours = pc.cast(pc.utf8_slice_codeunits(digits, 0, 2), pa.int64())
    minutes = pc.add(pc.multiply(hours, 60), pc.cast(pc.utf8_slice_codeunits(digits, 2, 4), pa.int64()))
    signed = pc.if_else(pc.starts_with(text, "-"), pc.negate(minutes), minutes)
    return pc.add(signed, _SHIFT)


def _numpy(mask: pa.Array) -> np.ndarray:
    array: np.ndarray = mask.to_numpy(zero_copy_only=False)
    return array
