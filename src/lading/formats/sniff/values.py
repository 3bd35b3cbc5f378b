"""What the values of a table's columns are written in: words for nothing, decimal commas, dates and times.

Fed with columns of text, block by block. An option is for all columns of a table, so what a column needs is
only written down if no other column contradicts it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lading.formats.sniff.cells import NULL_WORDS
from lading.formats.sniff.dates import DatesFound, Shapes, is_iso
from lading.formats.text_shapes import PLAIN_BIGINT, PLAIN_DOUBLE, whole
from lading.formats.values import Texts
from lading.model import Column

# Nobody means these as a value, whatever the column.
_NEVER_VALUES = frozenset({"\\N", "NULL", "null", "#N/A", "N/A", "n/a", "<NA>", "(null)", "[NULL]", "#NULL!"})
_NUMBER = whole(f"(?:{PLAIN_BIGINT}|{PLAIN_DOUBLE})")
_COMMA = r"\A-?(?:0|[1-9][0-9]*),[0-9]+(?:[eE][+-]?[0-9]{1,4})?\z"
_THOUSANDS = r"\A-?[1-9][0-9]{0,2}(?:,[0-9]{3})+\z"
_BIGINT = Column("", "bigint", inferred=True)
_BOOLEAN = r"(?i)\A(?:true|false)\z"


@dataclass(frozen=True, slots=True)
class Values:
    """What was found, with the evidence by option."""

    null: tuple[str, ...] = ()
    decimal: str | None = None
    trim: bool = False
    date_format: tuple[str, ...] = ()
    timestamp_format: tuple[str, ...] = ()
    because: dict[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()  # what could not be decided, by column


class ValuesLook:
    """Goes through the blocks of all files of a table."""

    def __init__(self, names: Sequence[str]) -> None:
        self._columns = {name: _Column() for name in names}

    def see(self, name: str, values: pa.Array) -> None:
        """Texts of a column; null and "" are nothing."""
        self._columns[name].see(values)

    def found(self) -> Values:
        because: dict[str, str] = {}
        remarks: list[str] = []
        null = self._null(because)
        decimal = self._decimal(because, remarks)
        trim = self._trim(because)
        dates = {name: one.dates() for name, one in self._columns.items() if one.is_dates}
        for name, found in dates.items():
            if found.remark:
                remarks.append(f"{name} stays text: {found.remark}")
        dates = _settled(dates, remarks)
        examples = {name: self._columns[name].dates_example for name in dates}
        day_columns = {name: found for name, found in dates.items() if found.patterns and not found.timed}
        time_columns = {name: found for name, found in dates.items() if found.patterns and found.timed}
        days = _patterns(day_columns, "date_format", because, examples)
        times = _patterns(time_columns, "timestamp_format", because, examples)
        return Values(null, decimal, trim, days, times, because, tuple(remarks))

    def _null(self, because: dict[str, str]) -> tuple[str, ...]:
        words: dict[str, list[str]] = {}
        for name, column in self._columns.items():
            for word in column.words:
                if column.is_typed or word in _NEVER_VALUES:
                    words.setdefault(word, []).append(name)
        found = tuple(sorted(words, key=lambda word: (-self._count(word), word)))
        if found:
            because["null"] = "; ".join(
                f"{_times(self._count(word))} {word!r}{self._where(word, words[word])}" for word in found[:4]
            )
        return found

    def _count(self, word: str) -> int:
        return sum(column.words[word] for column in self._columns.values())

    def _where(self, word: str, names: Sequence[str]) -> str:
        also = [name for name, column in self._columns.items() if column.words[word] and name not in names]
        text = f" in {_few(names)}"
        return text + (f" (also in {_few(also)}, which is text)" if also else "")

    def _decimal(self, because: dict[str, str], remarks: list[str]) -> str | None:
        commas = [name for name, one in self._columns.items() if one.is_comma]
        points = [name for name, one in self._columns.items() if one.is_point]
        for name, one in self._columns.items():
            if one.is_thousands:
                remarks.append(
                    f"{name} stays text: a comma stands before every three digits, as in thousands"
                )
        if commas and points:
            remarks.append(
                f"{_few(commas)} stays text: written with a decimal comma, but {_few(points)} with a point"
            )
            return None
        if commas:
            because["decimal"] = f"{self._columns[commas[0]].example!r} in {commas[0]}"
        return "," if commas else None

    def _trim(self, because: dict[str, str]) -> bool:
        spaced = [name.strip() for name, one in self._columns.items() if one.asks_for_trim]
        if spaced:
            because["trim"] = f"spaces around the values of {_few(spaced)}"
        return bool(spaced)


class _Column:
    def __init__(self) -> None:
        self.words: Counter[str] = Counter()
        self.values = 0
        self.spaced = 0
        self.example = ""  # with a decimal comma
        self._numbers = 0
        self._points = 0
        self._commas = 0
        self._thousands = 0  # of those with a comma
        self._booleans = 0
        self._others = 0
        self._shapes = Shapes()

    def see(self, values: pa.Array) -> None:
        values = values.filter(pc.and_(pc.is_valid(values), pc.not_equal(values, "")))
        self.values += len(values)
        bare = pc.utf8_trim_whitespace(values)
        self.spaced += pc.sum(pc.not_equal(bare, values)).as_py() or 0
        values = bare.filter(pc.not_equal(bare, ""))
        word = pc.is_in(values, pa.array(NULL_WORDS))
        for entry in pc.value_counts(values.filter(word)).to_pylist():
            self.words[entry["values"]] += entry["counts"]
        values = values.filter(pc.invert(word))
        if self.is_text:
            self._others += len(values)
            return
        values = self._without_numbers(values)
        comma = pc.match_substring_regex(values, _COMMA)
        if pc.any(comma).as_py():
            found = values.filter(comma)
            self._commas += len(found)
            self._thousands += pc.sum(pc.match_substring_regex(found, _THOUSANDS)).as_py() or 0
            self.example = self.example or found[0].as_py()
            values = values.filter(pc.invert(comma))
        grouped = pc.match_substring_regex(values, _THOUSANDS)
        if pc.any(grouped).as_py():
            self._commas += pc.sum(grouped).as_py()
            self._thousands += pc.sum(grouped).as_py()
            values = values.filter(pc.invert(grouped))
        boolean = pc.match_substring_regex(values, _BOOLEAN)
        self._booleans += pc.sum(boolean).as_py() or 0
        values = values.filter(pc.invert(boolean))
        self._others += len(values)
        if len(values):
            self._shapes.see(values)

    def _without_numbers(self, values: pa.Array) -> pa.Array:
        if len(values) and Texts().all_fit(values, _BIGINT):
            self._numbers += len(values)
            return values.slice(0, 0)
        number = pc.match_substring_regex(values, _NUMBER)
        self._numbers += number.true_count
        self._points += pc.match_substring(values.filter(number), ".").true_count
        return values.filter(pc.invert(number))

    def dates(self) -> DatesFound:
        return self._shapes.dates()

    @property
    def dates_example(self) -> str:
        return self._shapes.example

    @property
    def asks_for_trim(self) -> bool:
        """Spaces around numbers and dates, or around every single text."""
        return bool(self.spaced) and (self.is_typed or self.spaced == self.values > 2)

    @property
    def is_text(self) -> bool:
        """Whether that is settled: nothing that comes can change it."""
        mixed = self._others and (self._numbers or self._commas or self._booleans)
        return self._shapes.hopeless or bool(mixed)

    @property
    def is_dates(self) -> bool:
        return self._others > 0 and not self.is_text

    @property
    def is_comma(self) -> bool:
        """Numbers with a decimal comma. `1,234` alone may be a thousand and more."""
        alone = not (self._others or self._booleans or self._points)
        return alone and self._commas > self._thousands

    @property
    def is_point(self) -> bool:
        return self._points > 0 and not (self._others or self._booleans or self._commas)

    @property
    def is_thousands(self) -> bool:
        return 0 < self._commas == self._thousands and not (self._others or self._booleans)

    @property
    def is_typed(self) -> bool:
        if self._others:
            found = self.dates()
            return self.is_dates and bool(found.patterns or found.either)
        kinds = (self._numbers > 0 and not self._commas, self.is_comma, self._booleans > 0)
        return sum(kinds) == 1


def _settled(dates: dict[str, DatesFound], remarks: list[str]) -> dict[str, DatesFound]:
    """Columns that read with the day first and with the month first follow those that only read one way."""
    sure = {pattern for found in dates.values() for pattern in found.patterns}
    settled: dict[str, DatesFound] = {}
    for name, found in dates.items():
        if found.either is None:
            settled[name] = found
            continue
        votes = [pattern for pattern in found.either if any(_same_order(pattern, one) for one in sure)]
        if len(votes) == 1:
            settled[name] = DatesFound((votes[0],), found.timed)
        else:
            day, month = found.either
            option = "timestamp_format" if found.timed else "date_format"
            remarks.append(
                f"{name} stays text: it reads as {day} and as {month}; set {option} to the right one"
            )
    return _of_one_order(settled, remarks)


def _same_order(one: str, other: str) -> bool:
    return _order(one) == _order(other)


def _order(pattern: str) -> str:
    """`M/d` or `d/M`, with the mark between them; "" where the order says itself."""
    match = re.match(r"(d{1,2}|M{1,2})([-/])(?:d{1,2}|M{1,2})\2y", pattern)
    return f"{match[1][0]}{match[2]}" if match else ""


def _of_one_order(dates: dict[str, DatesFound], remarks: list[str]) -> dict[str, DatesFound]:
    """Patterns are tried on every column: with day and month either way, one would misread the other."""
    orders = Counter(_order(p) for found in dates.values() for p in found.patterns if _order(p))
    kept: dict[str, DatesFound] = {}
    for name, found in dates.items():
        wrong = [p for p in found.patterns if _order(p) and any(
            other[1] == _order(p)[1] and other != _order(p) and count >= orders[_order(p)]
            and (count > orders[_order(p)] or other < _order(p))
            for other, count in orders.items() if other
        )]  # fmt: skip
        if wrong:
            remarks.append(f"{name} stays text: {wrong[0]}, while other columns have day and month swapped")
        else:
            kept[name] = found
    return kept


def _patterns(
    dates: dict[str, DatesFound], option: str, because: dict[str, str], examples: dict[str, str]
) -> tuple[str, ...]:
    """All that are needed; none when ISO is all that there is."""
    patterns = tuple(dict.fromkeys(pattern for found in dates.values() for pattern in found.patterns))
    if all(is_iso(pattern) for pattern in patterns):
        return ()
    because[option] = "; ".join(f"{examples[name]!r} in {name}" for name in list(dates)[:3])
    return patterns


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
