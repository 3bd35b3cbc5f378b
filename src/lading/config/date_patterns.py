"""`date_format` and `timestamp_format`: Java's date patterns, as regular expressions.

Spark's users know these patterns. What a text says has to be found without Spark, so the letters that people
use are translated here; a pattern with any other is refused when the config is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
ABBREVIATED = 3  # letters of a name


def _names(names: tuple[str, ...], letters: int | None = None) -> str:
    return f"(?i:{'|'.join(name[:letters] for name in names)})"


_HOURS = "(?:0[0-9]|1[0-7])"
_BARE = rf"[+-](?:{_HOURS}[0-5][0-9]|1800)"
_COLON = rf"[+-](?:{_HOURS}:[0-5][0-9]|18:00)"
_SHORT = rf"[+-](?:{_HOURS}(?:[0-5][0-9])?|18(?:00)?)"
_TWO, _ONE_OR_TWO = "[0-9]{2}", "[0-9]{1,2}"

# What the letters stand for: the part of a moment, and its shape.
_LETTERS = {
    "y": ("year", "[0-9]{1,4}"),
    "yy": ("short_year", _TWO),
    "yyyy": ("year", "[0-9]{4}"),
    "M": ("month", _ONE_OR_TWO),
    "MM": ("month", _TWO),
    "MMM": ("month_name", _names(MONTHS, ABBREVIATED)),
    "MMMM": ("month_name", _names(MONTHS)),
    "d": ("day", _ONE_OR_TWO),
    "dd": ("day", _TWO),
    "H": ("hour", _ONE_OR_TWO),
    "HH": ("hour", _TWO),
    "h": ("half_hour", _ONE_OR_TWO),
    "hh": ("half_hour", _TWO),
    "a": ("half", "(?i:am|pm)"),
    "m": ("minute", _ONE_OR_TWO),
    "mm": ("minute", _TWO),
    "s": ("second", _ONE_OR_TWO),
    "ss": ("second", _TWO),
    "E": ("day_name", _names(DAYS, ABBREVIATED)),
    "EEEE": ("day_name", _names(DAYS)),
    "X": ("zone", f"(?:Z|{_SHORT})"),
    "XX": ("zone", f"(?:Z|{_BARE})"),
    "XXX": ("zone", f"(?:Z|{_COLON})"),
    "x": ("zone", _SHORT),
    "xx": ("zone", _BARE),
    "xxx": ("zone", _COLON),
    "Z": ("zone", _BARE),
    "ZZZZZ": ("zone", f"(?:Z|{_COLON})"),
}
_SAME = {"u": "y", "uu": "yy", "uuuu": "yyyy", "EE": "E", "EEE": "E", "ZZ": "Z", "ZZZ": "Z"}
_ALL = _LETTERS | {other: _LETTERS[one] for other, one in _SAME.items()}
_ALL |= {"S" * digits: ("fraction", f"[0-9]{{1,{digits}}}") for digits in range(1, 10)}

_VARIABLE = frozenset({"y", "u", "M", "d", "H", "h", "m", "s"})  # as many digits as the number has
_NUMBERS = ("y", "u", "d", "H", "h", "m", "s", "S")  # and M, unless it is a name
_DAY = frozenset({"year", "short_year", "month", "month_name", "day", "day_name"})
_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>([A-Za-z])\3*)|(?P<other>.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class DatePattern:
    """What texts in a pattern look like. A part that stands twice has a group for each."""

    text: str
    regex: str  # of a whole text, with a group for each part
    parts: tuple[str, ...]  # of the groups, in their order; group n is named `g<n>`

    @property
    def is_day(self) -> bool:
        """Whether it says nothing of the time."""
        return _DAY.issuperset(self.parts)

    @property
    def is_full(self) -> bool:
        """Whether it says which day, not only the month or the year."""
        said = {
            part.removeprefix("short_").removesuffix("_name") for part in self.parts if part != "day_name"
        }
        return said >= {"year", "month", "day"}


def date_pattern(text: str) -> DatePattern:
    """A pattern, understood; ValueError says what is wrong with it."""
    out: list[str] = []
    parts: list[str] = []
    before = ""  # the letters just before
    depth = 0
    for token in _TOKEN.finditer(text):
        letters, other = token["letters"], token["other"]
        if letters is not None:
            part, shape = _part(letters, text)
            if before in _VARIABLE and _is_number(letters):
                raise ValueError(
                    f"{text!r}: in {before + letters!r} it isn't clear where {before!r} ends; "
                    f"write {before * 2!r}, or put something between them"
                )
            out.append(f"(?P<g{len(parts)}>{shape})")
            parts.append(part)
        elif other in ("[", "]"):
            depth += 1 if other == "[" else -1
            if depth < 0:
                break
            out.append("(?:" if other == "[" else ")?")
            continue
        elif other in ("{", "}", "#", "'"):
            raise ValueError(f"{text!r}: {other!r} has no meaning in a pattern; quote it: {_quoted(other)}")
        else:
            literal = other if other is not None else token["quoted"].replace("''", "'") or "'"
            out.append(re.escape(literal))
        before = letters or ""
    if depth:
        raise ValueError(f"{text!r}: a '[' or ']' has no partner")
    _check(text, parts)
    return DatePattern(text, rf"\A{''.join(out)}\z", tuple(parts))


def _part(letters: str, text: str) -> tuple[str, str]:
    if letters in _ALL:
        return _ALL[letters]
    if letters[0] in "zVO":
        raise ValueError(
            f"{text!r}: {letters!r} is the name of a time zone, which lading doesn't read; "
            "write X, XX or XXX for an offset such as +02:00"
        )
    raise ValueError(
        f"{text!r}: {letters!r} is none of the letters that lading reads: yyyy yy y, MM M MMM MMMM, dd d, "
        "E EEEE, HH H hh h a, mm m, ss s, S to SSSSSSSSS, X XX XXX x xx xxx Z; put other text in quotes: "
        f"{_quoted(letters)}"
    )


def _check(text: str, parts: list[str]) -> None:
    if "year" not in parts and "short_year" not in parts:
        raise ValueError(f"{text!r} has no year; write yyyy where the year stands")
    if ("half_hour" in parts) != ("half" in parts):
        raise ValueError(f"{text!r}: h and a (AM or PM) only make sense together; H is the hour from 0 to 23")


def _is_number(letters: str) -> bool:
    return letters.startswith(_NUMBERS) or letters in ("M", "MM")


def _quoted(text: str) -> str:
    return "''" if text == "'" else f"'{text}'"
