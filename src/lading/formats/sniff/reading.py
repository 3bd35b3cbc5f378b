"""How well a hypothesis explains a text: where its table begins, how wide it is, how tidy its values are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from lading.formats.sniff.cells import is_blank, is_typed, tidiness
from lading.formats.sniff.records import Record, Way, records_of

# People choose these in this order; a colon or a space is more often a part of a value.
DELIMITERS = {
    ",": 1.0, "\t": 1.0, ";": 1.0, "|": 1.0, "\x1f": 1.0, "\x01": 1.0, "^": 0.9, "~": 0.9,
    ":": 0.7, " ": 0.65,
}  # fmt: skip

_WEIGHED = 400  # records whose values are looked at
_WIDTHS = 4  # widths that are tried


@dataclass(frozen=True, slots=True)
class Reading:
    """The records of a text under a hypothesis. The table's are those from `start` on."""

    way: Way
    comment: str | None
    records: list[Record]
    width: int
    start: int
    score: float
    fit: float  # share of the table's records that have its width; those that are shorter count for less
    spans: int = 0  # records that take more than a line

    @property
    def table(self) -> list[Record]:
        return self.records[self.start :]


@dataclass(slots=True)
class _Shape:
    width: int
    start: int
    fit: float
    score: float = field(default=0.0)


def reading_of(lines: Sequence[str], way: Way, comment: str | None = None) -> Reading | None:
    """None where the text has no record, or none of two values."""
    if comment is not None:
        lines = [_blank(line) if line.startswith(comment) else line for line in lines]
    records = records_of(lines, way)
    shape = _shape(records)
    if shape is None:
        return None
    table = records[shape.start :]
    score = shape.score * _tidiness(table, shape.width, way.delimiter) ** 2 * DELIMITERS[way.delimiter]
    spans = sum(record.lines > 1 for record in table)
    return Reading(way, comment, records, shape.width, shape.start, score, shape.fit, spans)


def _blank(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _shape(records: Sequence[Record]) -> _Shape | None:
    """The width that explains most of the records, and where it begins."""
    widths = [len(record.fields) for record in records]
    common = [width for width, _ in Counter(widths).most_common(_WIDTHS)]
    shapes = [_shaped(records, widths, width) for width in dict.fromkeys([*common, *widths[:3]]) if width > 1]
    return max(shapes, key=lambda one: one.score, default=None)


def _shaped(records: Sequence[Record], widths: Sequence[int], width: int) -> _Shape:
    start = widths.index(width)
    while _is_padded_title(records, widths, start, width):
        start = widths.index(width, start + 1)
    below = widths[start:]
    exact = sum(one == width for one in below)
    # A row may leave out empty values at its end; a line of one value is rather a remark.
    short = sum(1 < one < width for one in below)
    fit = (exact + (0.9 if _heads(records[start].fields, below) else 0.6) * short) / len(below)
    cover = len(below) / len(widths)
    wide = 1 - 1 / (width + 1) ** 2
    lead = 1.0 if start == 0 else 0.93
    return _Shape(width, start, fit, fit**2 * (0.4 + 0.6 * cover) * wide * lead)


def _heads(fields: Sequence[str], below: Sequence[int]) -> bool:
    """Whether a record may name the columns of rows that are of any length up to its own."""
    names = {text.strip().lower() for text in fields}
    plain = len(names) == len(fields) and not any(is_blank(text) or is_typed(text) for text in fields)
    return plain and max(below) == len(fields)


def _is_padded_title(records: Sequence[Record], widths: Sequence[int], at: int, width: int) -> bool:
    """Spreadsheets write a title above the table with as many delimiters as the table has."""
    if width < 3:
        return False
    here = _said(records[at])
    below = (records[n] for n in range(at + 1, len(records)) if widths[n] == width and _said(records[n]))
    following = next(below, None)
    return following is not None and here <= max(1, width // 3) and _said(following) >= width - 1


def _said(record: Record) -> int:
    return sum(not is_blank(text) for text in record.fields)


def _tidiness(table: Sequence[Record], width: int, delimiter: str) -> float:
    step = max(1, len(table) // _WEIGHED)
    looked = [record.fields for record in table[::step] if len(record.fields) == width]
    total = sum(_cell(text, delimiter) for fields in looked for text in fields[:200])
    count = sum(len(fields[:200]) for fields in looked)
    return total / count if count else 0.0


def _cell(text: str, delimiter: str) -> float:
    if delimiter in text or "\n" in text:
        return 0.9  # it was quoted, and for a reason
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" and not is_typed(text):
        return 0.3  # a quote that is still there was meant as one
    return tidiness(text)
