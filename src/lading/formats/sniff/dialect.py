"""What separates the values of a text, what quotes them, where its table begins and whether that is named.

Every hypothesis that the text gives reason for is tried on it, and the one that explains it best is taken:
records of one width, of values that look like values. Two that do equally well are nobody's to choose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lading.formats.sniff.cells import is_blank, is_typed
from lading.formats.sniff.fixed_width import columns_by_place
from lading.formats.sniff.header import header_of
from lading.formats.sniff.reading import DELIMITERS, Reading, reading_of
from lading.formats.sniff.records import Record, Way, lines_of, records_of

NO_QUOTE = "\x07"  # what no text holds: nothing is ever quoted then

_COMMENTS = "#%!"
_SEEN = 0.08  # share of the lines in which a delimiter has to be
_CLOSE = 0.985  # a reading that reaches so much of the best one's score does equally well
_LEAST = 0.12
_BLANK = 0.2  # share of values that may be empty where a space or a colon separates them
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class DelimitedText:
    """What was found, with the evidence by option. `names` stand in no file where `header` is False."""

    way: Way
    width: int
    header: bool
    skip: int
    comment: str | None
    names: tuple[str, ...]
    rows: list[list[str]]  # of the sample, as wide as the table
    short: int = 0  # records with fewer values
    misfits: tuple[int, ...] = ()  # lines of records with more values, or with one
    because: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Undecided:
    """Nothing that can be written down, and what was tried."""

    message: str
    hint: str


def dialect_of(text: str, *, cut: bool = False) -> DelimitedText | Undecided:
    """`cut` says that the text goes on: its last line may be half of one."""
    lines = lines_of(text.removeprefix("\ufeff"))
    if cut and len(lines) > 1:
        lines.pop()
    if not any(line.strip() for line in lines):
        return Undecided("it is empty", "add it once it holds a record")
    if text.count("\x00") > len(lines):
        return Undecided("it is not text: it holds bytes that are 0", "export it as CSV or Parquet")
    readings = sorted(_readings(lines), key=lambda one: one.score, reverse=True)
    if not readings or readings[0].score < _LEAST or _is_one_column(lines, readings[0]):
        places = columns_by_place(lines)
        return _by_place(places) if places else _single(lines)
    best = readings[0]
    for other in readings[1:]:
        if other.way.delimiter != best.way.delimiter and other.score >= _CLOSE * best.score:
            return Undecided(
                f"{_word(best.way.delimiter)} and {_word(other.way.delimiter)} separate its values "
                "equally well",
                "write the table by hand with the `delimiter` that is right",
            )
    return _found(lines, best)


def _readings(lines: Sequence[str]) -> Iterator[Reading]:
    """The best reading for each delimiter."""
    for delimiter in DELIMITERS:
        if sum(delimiter in line for line in lines) >= max(1, _SEEN * len(lines)):
            tried = [reading_of(lines, way) for way in _ways(lines, delimiter)]
            found = [one for one in tried if one is not None]
            if found:
                best = max(found, key=lambda one: one.score)  # of equals the first, which is the plainer
                yield _without_comments(lines, best)


def _ways(lines: Sequence[str], delimiter: str) -> Iterator[Way]:
    yield Way(delimiter)
    text = "".join(lines)
    for quote in "\"'":
        if quote not in text:
            continue
        at = rf"(?:^|[\r\n]|{re.escape(delimiter)}){quote}"
        if quote == "'" and not re.search(rf"{at}[^\r\n']*'(?:$|[\r\n]|{re.escape(delimiter)})", text):
            continue
        if quote != '"':
            yield Way(delimiter, quote)
        open_lines = any(line.count(quote) % 2 for line in lines)
        escaped = f"\\{quote}" in text
        if escaped:
            yield Way(delimiter, quote, "\\")
        if open_lines:
            yield Way(delimiter, quote, None, multiline=True)
            if escaped:
                yield Way(delimiter, quote, "\\", multiline=True)
        if quote == '"' and re.search(at, text):
            yield Way(delimiter, None)


def _without_comments(lines: Sequence[str], reading: Reading) -> Reading:
    """The same without lines that begin with a mark, where that explains more."""
    if reading.fit == 1.0 and reading.start == 0:
        return reading
    best = reading
    for comment in _COMMENTS:
        marked = sum(line.startswith(comment) for line in lines)
        if marked and marked < len(lines) / 2 + 3:
            other = reading_of(lines, reading.way, comment)
            if other is not None and other.score > best.score * 1.001:
                best = other
    return best


def _is_one_column(lines: Sequence[str], best: Reading) -> bool:
    """A colon or a space that is a part of values: of times, names, words."""
    if best.way.delimiter not in ": ":
        return best.fit < 0.5
    cells = [text for record in best.table for text in record.fields]
    if sum(not text for text in cells) > _BLANK * len(cells):
        return True  # spaces in a row align values
    bare = [line.rstrip("\r\n") for line in lines if line.strip()]
    body = bare[1:] or bare
    if best.fit < 0.98 or sum(is_typed(line) for line in body) >= 0.9 * len(body):
        return True
    # Words with a space between them are a text, unless some of them are values.
    columns = list(zip(*(one.fields for one in best.table[1:] if len(one.fields) == best.width), strict=True))
    return not any(column and all(is_typed(text) or is_blank(text) for text in column) for column in columns)


def _by_place(places: Sequence[tuple[int, int]]) -> Undecided:
    columns = ", ".join(f"{{name: …, start: {start}, length: {length}}}" for start, length in places[:12])
    return Undecided(
        f"it looks like fixed width, with {len(places)} columns told apart by where they stand",
        "write the table by hand, with `format: fixed_width` and `spec: FILE.yaml`; in that file, `columns` "
        f"may be {columns}",
    )


def _single(lines: Sequence[str]) -> DelimitedText | Undecided:
    """One column: the whole line is the value."""
    quoted = sum(line.startswith('"') for line in lines)
    way = Way(",", '"', multiline=bool(quoted) and any(line.count('"') % 2 for line in lines))
    records = records_of(lines, way)
    comment = None
    for mark in _COMMENTS:
        marked = [line for line in lines if line.startswith(mark)]
        if 0 < len(marked) < len(lines) / 2 and all(line[1:2] in " \t" for line in marked):
            comment = mark
            records = [one for one in records if not one.fields[0].startswith(mark)]
            break
    if len(records) < 2 or _is_prose(records) or any(len(record.fields) > 1 for record in records):
        return Undecided(
            "it does not look like a table: no character separates its values in a regular way",
            "tried comma, tab, semicolon, pipe, colon, space and others; if it is one, write it by hand",
        )
    return _found(lines, Reading(way, comment, records, 1, 0, 0.0, 1.0))


def _is_prose(records: Sequence[Record]) -> bool:
    return sum(len(one.fields[0].split()) > 6 for one in records) > len(records) / 2


def _found(lines: Sequence[str], best: Reading) -> DelimitedText:
    table = best.table
    first = table[0]
    rows = [record.fields for record in table[1:] if len(record.fields) == best.width]
    because = {"delimiter": f"{best.width:,} values in {_share(best)}"}
    before = best.records[best.start - 1] if best.start else None
    names = _names_above(before, first, table, best.width) if before is not None else None
    if names is not None and before is not None:
        return DelimitedText(
            best.way, best.width, False, before.line + before.lines - 1, best.comment, names,
            [first.fields, *rows], because={**because, **_evidence(lines, best, before.line),
            "header": f"line {before.line} names {len(before.fields)} of {best.width} columns; "
            "the schema file names them all"},
        )  # fmt: skip
    header = header_of(first.fields, rows)
    skip = first.line - 1 if best.start else 0
    because |= _evidence(lines, best, skip)
    because["header"] = header.because
    names = tuple(first.fields) if header.there else tuple(f"column_{n + 1}" for n in range(best.width))
    short, misfits = _odd(table, best.width)
    return DelimitedText(
        best.way, best.width, header.there, skip, best.comment, names,
        rows if header.there else [first.fields, *rows], short, misfits, because,
    )  # fmt: skip


def _names_above(
    before: Record, first: Record, table: Sequence[Record], width: int
) -> tuple[str, ...] | None:
    """A header with a name too few: R leaves out that of the row names, others end rows with a delimiter."""
    if len(before.fields) != width - 1 or width < 3 or before.line + before.lines != first.line:
        return None
    if any(is_blank(text) or is_typed(text) for text in before.fields):
        return None
    body = [record.fields for record in table if len(record.fields) == width]
    if not header_of(before.fields, [fields[1:] for fields in body]).there:
        return None
    if all(not fields[-1].strip() for fields in body):
        return (*before.fields, f"column_{width}")
    if len({fields[0] for fields in body}) == len(body):
        return ("row_name" if "row_name" not in before.fields else "row_name_2", *before.fields)
    return None


def _odd(table: Sequence[Record], width: int) -> tuple[int, tuple[int, ...]]:
    """Records that leave out values at their end; lines of those that are wrong in another way."""
    short, misfits = 0, []
    for record in table:
        have = len(record.fields)
        if have == width:
            continue
        if 1 < have < width or (have == 1 and width == 2):
            short += 1
        else:
            misfits.append(record.line)
    return short, tuple(misfits)


def _evidence(lines: Sequence[str], best: Reading, skip: int) -> dict[str, str]:
    because: dict[str, str] = {}
    if best.start and skip:
        because["skip"] = f"line 1 is {_shown(lines[0])}"
    if best.comment is not None:
        marked = [line for line in lines if line.startswith(best.comment)]
        because["comment"] = f"{_lines(len(marked))} with it, such as {_shown(marked[0])}"
    if best.way.multiline:
        spanning = next((record for record in best.records if record.lines > 1), None)
        if spanning is not None:
            last = spanning.line + spanning.lines - 1
            because["multiline"] = f"the record in line {spanning.line} goes on to line {last}"
    if best.way.quote is None:
        because["quote"] = "a character that the file doesn't have: its quotes are part of values"
    elif best.way.quote != '"':
        because["quote"] = "values begin and end with it"
    if best.way.escape is not None:
        because["escape"] = f"quotes within quotes are written {best.way.escape}{best.way.quote}"
    return because


def _share(best: Reading) -> str:
    fitting = sum(len(record.fields) == best.width for record in best.table)
    total = len(best.table)
    return f"all {total:,} records looked at" if fitting == total else f"{fitting:,} of {total:,} records"


def _lines(count: int) -> str:
    return "1 line begins" if count == 1 else f"{count:,} lines begin"


def _shown(line: str) -> str:
    text = line.rstrip("\r\n")
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def _word(delimiter: str) -> str:
    return {",": "comma", ";": "semicolon", "\t": "tab", " ": "space", "|": "pipe", ":": "colon"}.get(
        delimiter, repr(delimiter)
    )
