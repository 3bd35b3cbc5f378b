"""Date and time patterns from the shapes of values: `05.11.2024` is `00.00.0000`, and that is `dd.MM.yyyy`.

Shapes can be counted over any number of values. They say all but one thing: whether `05/11` is a day of
November or of May. The largest number in each of the two places does, or nothing does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

_MOST = 60  # shapes of a column of dates
_DATE = re.compile(
    r"(?P<iso>0000(?P<i>[-/.])0{1,2}(?P=i)0{1,2})"
    r"|(?P<two>0{1,2}(?P<t>[-/.])0{1,2}(?P=t)(?P<year>0000|00))"
    r"|(?P<weekday>aaa,? )?(?P<named>0{1,2}(?P<n>[- /])a{3,4}(?P=n)(?P<named_year>0000|00))"
    r"|(?P<us>a{3,4} 0{1,2}, 0000)"
)
_TIME = re.compile(
    r"(?P<sep>[T ]|, )(?P<clock>0{1,2}:00(?::00(?P<fraction>\.f)?)?)"
    r"(?P<half> ?aa)?(?P<zone> ?[Z]| ?[+-]00:?00)?"
)
_TWO_NUMBERS = r"\A(?P<a>[0-9]{1,2})[-/.](?P<b>[0-9]{1,2})[-/.]"
_SHORT_YEAR = r"\A[0-9]{1,2}[-/. ](?:[0-9]{1,2}|[A-Za-z]{3,9})[-/. ](?P<y>[0-9]{2})(?:\z|[^0-9])"
_LATEST = 30  # a year of two digits beyond it may be of the last century


@dataclass(frozen=True, slots=True)
class DatesFound:
    """The patterns of a column, or a remark on why there are none."""

    patterns: tuple[str, ...] = ()
    timed: bool = False
    either: tuple[str, str] | None = None  # both fit: day first, month first
    remark: str = ""


@dataclass(slots=True)
class Shapes:
    """What was seen of a column's values that are no numbers."""

    shapes: set[str] = field(default_factory=set)
    hopeless: bool = False  # at least one is not a date's: there is no need to look at more
    first: int = 0  # the largest first number of those with two before the year
    second: int = 0
    year: int = 0  # the largest of two digits
    example: str = ""

    def see(self, values: pa.Array) -> None:
        self.example = self.example or str(values[0])
        values = pc.unique(values)
        self.shapes.update(pc.unique(_shapes(values)).to_pylist())
        self.hopeless = len(self.shapes) > _MOST or not all(map(_is_date, self.shapes))
        if self.hopeless:
            return
        numbers = pc.extract_regex(values, _TWO_NUMBERS)
        self.first = max(self.first, _largest(pc.struct_field(numbers, "a")))
        self.second = max(self.second, _largest(pc.struct_field(numbers, "b")))
        years = pc.extract_regex(values, _SHORT_YEAR)
        self.year = max(self.year, _largest(pc.struct_field(years, "y")))

    def dates(self) -> DatesFound:
        """The patterns that all the shapes are of."""
        if not self.shapes or self.hopeless:
            return DatesFound()
        timed = {_split(shape)[1] is not None for shape in self.shapes}
        if len(timed) > 1 and any(not _is_iso(shape) for shape in self.shapes):
            return DatesFound(remark="some values have a time and some have none")
        if self.year > _LATEST:
            return DatesFound(
                remark=f"years of two digits, up to {self.year:02}: no telling of which century"
            )
        return self._patterns(timed == {True} or len(timed) > 1)

    def _patterns(self, timed: bool) -> DatesFound:
        families: dict[str, list[str]] = {}
        for shape in sorted(self.shapes):
            families.setdefault(_family(*_split(shape)), []).append(shape)
        found: list[str] = []
        for shapes in families.values():
            day_first = _pattern(shapes, day_first=True)
            month_first = _pattern(shapes, day_first=False)
            if day_first == month_first:
                found.append(day_first)
            elif self.first > 12 and self.second > 12:
                return DatesFound(remark="the day stands first in some values and second in others")
            elif self.second > 12:
                found.append(month_first)
            elif self.first > 12 or "." in day_first:
                found.append(day_first)
            else:
                return DatesFound(timed=timed, either=(day_first, month_first))
        return DatesFound(tuple(found), timed)


def is_iso(pattern: str) -> bool:
    """Whether values in the pattern are read without being told it."""
    return re.fullmatch(r"yyyy-MM-dd(?:(?:'T'| )HH:mm(?::ss(?:\.S+)?)?(?:XXX|XX)?)?", pattern) is not None


def _is_date(shape: str) -> bool:
    date = _DATE.match(shape)
    return date is not None and (date.end() == len(shape) or _TIME.fullmatch(shape, date.end()) is not None)


def _split(shape: str) -> tuple[re.Match[str], re.Match[str] | None]:
    """A date's shape, and the time's behind it."""
    date = _DATE.match(shape)
    assert date is not None
    return date, _TIME.fullmatch(shape, date.end())


def _is_iso(shape: str) -> bool:
    return re.fullmatch(r"0000-00-00(?:[T ]00:00(?::00(?:\.f)?)?)?", shape) is not None


def _shapes(values: pa.Array) -> pa.Array:
    """Digits as 0, letters as a (four for a long word), a fraction of a second, whose length varies, as f."""
    # Letters that mean something are hidden from those who replace letters.
    out = pc.replace_substring_regex(values, r"(:[0-9]{2})\.[0-9]{1,9}", "\\1\x01")
    out = pc.replace_substring_regex(out, r"([0-9])T([0-9])", "\\1\x02\\2")
    out = pc.replace_substring_regex(out, r"([0-9\x01] ?)Z\z", "\\1\x03")
    for pattern, letter in ((r"[A-Za-z]{4,}", "aaaa"), (r"[A-Za-z]", "a"), (r"[0-9]", "0")):
        out = pc.replace_substring_regex(out, pattern, letter)
    for hidden, shown in (("\x01", ".f"), ("\x02", "T"), ("\x03", "Z")):
        out = pc.replace_substring(out, hidden, shown)
    return out


def _largest(numbers: pa.Array) -> int:
    there = numbers.filter(pc.and_(pc.is_valid(numbers), pc.not_equal(numbers, "")))
    return int(pc.max(there.cast(pa.int64())).as_py() or 0) if len(there) else 0


def _family(date: re.Match[str], time: re.Match[str] | None) -> str:
    """Shapes of one family differ only in how many digits a day, a month or an hour has."""
    kind = date.lastgroup or ""
    mark = date["i"] or date["t"] or date["n"] or ""
    year = date["year"] or date["named_year"] or ""
    clock = ""
    if time is not None:
        clock = f"{time['sep']}{time['clock'].count(':')}{bool(time['fraction'])}{time['half']}{_zone(time)}"
    return f"{kind}{mark}{year}{date['weekday']}|{clock}"


def _zone(time: re.Match[str]) -> str:
    zone = time["zone"] or ""
    space = " " if zone.startswith(" ") else ""
    return "" if not zone else f"{space}{'XXX' if ':' in zone or 'Z' in zone else 'XX'}"


def _pattern(shapes: Iterable[str], *, day_first: bool) -> str:
    splits = [_split(shape) for shape in shapes]
    date = splits[0][0]
    parts = [re.findall(r"0+|a+", one[0]) for one, _ in splits]
    if date["weekday"]:
        parts = [runs[1:] for runs in parts]

    # Who writes 1 for a day writes it for a month.
    single = any(len(run) == 1 for runs in parts for run in runs)

    def digits(letter: str) -> str:
        return letter if single else letter * 2

    def month(at: int) -> str:
        return "MMMM" if any(len(runs[at]) > 3 for runs in parts) else "MMM"

    if date["iso"]:
        mark = date["i"]
        text = f"yyyy{mark}{digits('M')}{mark}{digits('d')}"
    elif date["two"]:
        mark = date["t"]
        letters = ("d", "M") if day_first else ("M", "d")
        year = "yyyy" if date["year"] == "0000" else "yy"
        text = f"{digits(letters[0])}{mark}{digits(letters[1])}{mark}{year}"
    elif date["named"]:
        mark = date["n"]
        year = "yyyy" if date["named_year"] == "0000" else "yy"
        lead = f"E{(date['weekday'] or '')[3:]}" if date["weekday"] else ""
        text = f"{lead}{digits('d')}{mark}{month(1)}{mark}{year}"
    else:
        text = f"{month(0)} {digits('d')}, yyyy"
    return text + _clock([time for _, time in splits])


def _clock(times: list[re.Match[str] | None]) -> str:
    time = times[0]
    if time is None:
        return ""
    letter = "h" if time["half"] else "H"
    hour = letter if any(one is not None and one["clock"].index(":") == 1 for one in times) else letter * 2
    text = "'T'" if time["sep"] == "T" else time["sep"]
    text += f"{hour}:mm" + (":ss" if time["clock"].count(":") == 2 else "")
    text += ".SSSSSSSSS" if time["fraction"] else ""
    text += time["half"].replace("aa", "a") if time["half"] else ""
    return text + _zone(time)
