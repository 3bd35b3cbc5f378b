"""A date or a timestamp of lading.yaml, read the way Spark's cast reads it.

Spark takes more than ISO: `2024`, `2024-1-5`, `2024-01-01 10:00:00 Europe/Oslo`, years of seven digits, and
behind a date whatever one likes. A check means the same whoever evaluates it, so all of that is taken here.
Only `today`, `now` and a time without a date are not: they would be another moment tomorrow.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

_DATE = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?)(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?([^\d.].*)?)?)?)?)?)?",
    re.ASCII,
)
_EPOCH = re.compile(r"epoch(?: +(\S+))?", re.IGNORECASE)
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:(\d\d)(\d\d)(\d\d)?|(\d{1,2})(?::(\d{1,2})(?::(\d\d))?)?)", re.ASCII
)
_UTC = ("Z", "UTC", "GMT", "UT")
_BLANK = "".join(map(chr, range(33))) + "\x7f"
_CYCLE = 146_097  # days of 400 years, after which the calendar repeats itself
_FURTHEST = 18 * 3600  # seconds that a zone may be away from UTC


def days_of(text: str) -> int | None:
    """Days since 1970-01-01, as a 32-bit number; None if Spark sees no date in the text."""
    text = text.strip(_BLANK)
    if _is_epoch(text):
        return 0
    match = _DATE.fullmatch(text)
    days = None if match is None else _days(*match.groups())
    return days if days is not None and -(2**31) <= days < 2**31 else None


def micros_of(text: str, *, zoned: bool) -> int | None:
    """Microseconds since 1970, as a 64-bit number. In a column without zones a zone is passed over; in one
    with zones a text without is UTC."""
    text = text.strip(_BLANK)
    if _is_epoch(text):
        return 0
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    *day, hour, minute, second, fraction, zone = match.groups()
    days = _days(*day)
    hour, minute, second = int(hour or 0), int(minute or 0), int(second or 0)
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    if zone is not None:
        offset = _offset(zone.strip(_BLANK), seconds)
        if offset is None:
            return None
        seconds -= offset if zoned else 0
    micros = seconds * 1_000_000 + int((fraction or "")[:6].ljust(6, "0"))
    return micros if -(2**63) <= micros < 2**63 else None


def date_text(days: int) -> str:
    """A date as Spark writes it: years beyond four digits have a sign."""
    cycles, rest = divmod(days, _CYCLE)
    day = date.fromordinal(date(2000, 1, 1).toordinal() + (rest - 10_957) % _CYCLE)
    year = day.year - 400 * (rest < 10_957) + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{day.month:02d}-{day.day:02d}"


def _is_epoch(text: str) -> bool:
    match = _EPOCH.fullmatch(text)
    return match is not None and (match[1] is None or _offset(match[1], 0) is not None)


def _days(sign: str, year: str, month: str | None, day: str | None) -> int | None:
    number = -int(year) if sign == "-" else int(year)
    within = 2000 + number % 400
    try:
        days = date(within, int(month or 1), int(day or 1)).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        return None
    return days + _CYCLE * ((number - within) // 400)


def _offset(zone: str, local: int) -> int | None:
    """The seconds that a zone is ahead of UTC, at a local time in seconds since 1970."""
    if zone in _UTC:
        return 0
    match = _OFFSET.fullmatch(zone)
    if match is None:
        return _offset_of_place(zone, local)
    sign, *parts = match.groups()
    hours, minutes, seconds = (int(part or 0) for part in (parts[:3] if parts[0] else parts[3:]))
    ahead = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or ahead > _FURTHEST:
        return None
    return -ahead if sign == "-" else ahead


def _offset_of_place(zone: str, local: int) -> int | None:
    try:
        at = datetime.fromtimestamp(local, UTC).replace(tzinfo=ZoneInfo(zone))
        ahead = at.utcoffset()
    except (KeyError, ValueError, OSError, OverflowError):  # no such zone, or a year that no zone knows
        return None
    return None if ahead is None else int(ahead.total_seconds())
