"""Whether the first record of a table names its columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lading.formats.sniff.cells import is_blank, is_typed

_LOOKED = 500
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9]*(?:[_.-][A-Za-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Header:
    there: bool
    because: str


def header_of(first: Sequence[str], rows: Sequence[Sequence[str]]) -> Header:
    """`rows` are those below it that are as wide."""
    rows = rows[:_LOOKED]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(first)
    years = _are_years(first, columns)
    if years:
        return Header(True, f"the first record counts up from {years}, which no row does")
    typed = [text for text in first if is_typed(text)]
    if typed:
        return Header(False, f"the first record holds a value, {typed[0]!r}")
    if not rows:
        return Header(True, "the only record, and it holds nothing but words")
    telling = [
        name for name, column in zip(first, columns, strict=True) if not is_blank(name) and _is_typed(column)
    ]
    if telling:
        return Header(True, f"{telling[0]!r} stands above numbers or dates")
    return _among_words(first, columns)


def _is_typed(column: Sequence[str]) -> bool:
    there = [text for text in column if not is_blank(text)]
    return bool(there) and sum(map(is_typed, there)) >= 0.9 * len(there)


def _are_years(first: Sequence[str], columns: Sequence[Sequence[str]]) -> str | None:
    """Statistics have a column a year, named by it."""
    numbers = [text.strip() for text in first if is_typed(text)]
    if len(numbers) < 2 or len(numbers) == len(first) or not all(map(str.isdigit, numbers)):
        return None
    counted = [int(text) for text in numbers]
    steps = {after - before for before, after in pairwise(counted)}
    if len(steps) != 1 or not 0 < abs(steps.pop()) <= 10:
        return None
    below = {text.strip() for column in columns for text in column}
    return None if all(text in below for text in numbers) else numbers[0]


def _among_words(first: Sequence[str], columns: Sequence[Sequence[str]]) -> Header:
    """Every column is text: names differ from values in what they are made of."""
    again = [text for text, column in zip(first, columns, strict=True) if text.strip() and text in column]
    if again:
        return Header(False, f"the first record is like the others: {again[0]!r} comes again below")
    if len({text.strip().lower() for text in first}) < len(first) and not any(
        is_blank(text) for text in first
    ):
        return Header(False, "the first record holds a text twice, as names don't")
    names = sum(_NAME.fullmatch(text.strip()) is not None for text in first)
    alike = sum(_alike(text, column) for text, column in zip(first, columns, strict=True))
    if alike > len(first) / 2 and names < len(first):
        return Header(False, "the first record looks like those below it")
    if alike == len(first) and len(columns[0]) >= 3:
        return Header(False, "the first record looks like those below it")
    return Header(True, "the first record is all words, and none of them comes again below")


def _alike(text: str, column: Sequence[str]) -> bool:
    """Whether a text has the shape of nearly all those below it, and that shape says something."""
    shape = _shape(text)
    there = [one for one in column if not is_blank(one)]
    if not there:
        return False
    same = sum(_shape(one) == shape for one in there) >= 0.9 * len(there)
    telling = shape not in ("a", "Aa")
    lengths = {len(one) for one in there}
    return same and (telling or (len(lengths) == 1 and len(text) in lengths))


def _shape(text: str) -> str:
    """`Ab-12` is `Aa-0`: runs of letters and digits, everything else as it is."""
    text = re.sub(r"[0-9]+", "0", text.strip())
    text = re.sub(r"[a-zà-ÿ]+", "a", text)
    return re.sub(r"[A-Z]+", "A", text)
