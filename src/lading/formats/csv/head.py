"""What stands above the records of a delimited file: lines to skip, blank ones, comments, the header."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from lading.errors import SourceError
from lading.formats.csv.scan import Marks, Record, Scanner
from lading.formats.dialect import Dialect, header_names
from lading.formats.lines import LONGEST, encoding_name, text_lines
from lading.formats.magic import HEAD, refuse_no_text
from lading.formats.reader import ReadSpec
from lading.formats.source_file import SourceFile

_MOST_COLUMNS = 100_000
_MOST_LINES = 10_000  # of a header
_CHECK = "check `delimiter`, `quote` and `escape` in the table's read_options"


@dataclass(frozen=True, slots=True)
class Top:
    """`names` are the table's columns that records have, in the file's order; None without a header or a
    record."""

    names: tuple[str, ...] | None
    starts: tuple[int, ...] = field(default=(), repr=False)  # of the lines above the first record
    size: int = 0  # bytes of those lines, as `lines.utf8_chunks` counts them


@dataclass(frozen=True, slots=True)
class _First:
    """The record that comes first, or is the header."""

    fields: list[str] | None  # None: there is none
    line: int
    above: int  # bytes of the lines that are skipped
    starts: tuple[int, ...]  # of all lines up to its end
    size: int  # bytes of them


def top_of(file: SourceFile, spec: ReadSpec) -> Top:
    dialect = Dialect.of(spec.options, spec.format)
    first = _first_of(file, spec, dialect)
    if first.fields is None:
        return Top(None, first.starts, first.size)
    if dialect.header:
        naming = spec.naming.knowing(column.name for column in spec.columns)
        names = header_names(file.key, first.fields, spec.options, naming, first.line)
        return Top(names, first.starts, first.size)
    names = tuple(column.name for column in spec.columns)
    padded = spec.options.get("ragged") == "pad" and len(first.fields) < len(names)
    if len(first.fields) != len(names) and not padded:
        raise SourceError(
            f"{file.key}: line {first.line} has {len(first.fields)} fields, "
            f"the schema has {len(names)} columns",
            hint="without a header, columns follow the order of the schema; fix the file or the schema",
            file=file.key,
        )
    return Top(names, first.starts[: dialect.skip], first.above)


def width_of(file: SourceFile, spec: ReadSpec) -> int | None:
    """How many fields the first record of a file without a header has; None without a record."""
    fields = _first_of(file, spec, Dialect.of(spec.options, spec.format)).fields
    return None if fields is None else len(fields)


def _first_of(file: SourceFile, spec: ReadSpec, dialect: Dialect) -> _First:
    with file.open() as stream:
        start = stream.peek(HEAD)[:HEAD]  # type: ignore[attr-defined]
        refuse_no_text(file.key, start, spec.format, dialect.encoding.removesuffix("-sig"))
        return _first(file.key, text_lines(stream, dialect.encoding), dialect)


def _first(key: str, lines: Iterator[tuple[str, int]], dialect: Dialect) -> _First:
    starts: list[int] = []
    size = 0
    for _, length in islice(lines, dialect.skip):
        starts.append(size)
        size += length
    above = size
    for line, length in lines:
        starts.append(size)
        size += length
        if not _is_above(line, dialect):
            break
    else:
        return _First(None, 0, above, tuple(starts), size)
    number = len(starts)
    fields, more = _fields(key, line, lines, dialect)
    for length in more:
        starts.append(size)
        size += length
    return _First(fields, number, above, tuple(starts), size)


def _is_above(line: str, dialect: Dialect) -> bool:
    """Whether it is blank or a comment. A line of only spaces is a record, but no header."""
    if dialect.comment is not None and line.startswith(dialect.comment):
        return True
    return not (line.strip() if dialect.header else line.strip("\r\n"))


def _fields(
    key: str, line: str, lines: Iterator[tuple[str, int]], dialect: Dialect
) -> tuple[list[str], list[int]]:
    """The fields of the record that begins with a line, and the lengths of the lines that it goes on over."""
    if len(line) >= LONGEST:
        raise SourceError(f"{key}: its first line is longer than {LONGEST >> 20} MiB", hint=_CHECK, file=key)
    scanner = Scanner(Marks.of(dialect))
    data = line.encode("utf-8", "surrogatepass")
    record: Record | None
    more: list[int] = []
    if not dialect.multiline:
        record = scanner.record(data.rstrip(b"\r\n"))
    else:
        record = _whole(scanner, data)
        while record is None and len(more) < _MOST_LINES and (following := next(lines, None)):
            data += following[0].encode("utf-8", "surrogatepass")
            more.append(following[1])
            record = _whole(scanner, data)
        record = record or scanner.record(data)
    assert record is not None
    if record.problem is not None and dialect.header:
        raise SourceError(
            f"the head of {key} can't be read as delimited text: {record.problem}", hint=_CHECK, file=key
        )
    if len(record.fields) > _MOST_COLUMNS:
        raise SourceError(
            f"{key} has {len(record.fields):,} columns; lading reads up to {_MOST_COLUMNS:,}",
            hint="check that `delimiter` is right; if it is, turn those columns into rows first",
            file=key,
        )
    try:
        return [(one or b"").decode() for one in record.fields], more
    except UnicodeDecodeError as error:
        if not dialect.header:
            return [(one or b"").decode(errors="replace") for one in record.fields], more
        raise SourceError(
            f"the first record of {key} is not valid {encoding_name(dialect.encoding)}",
            hint="set `encoding` in the table's read_options (for example latin-1), or convert the file",
            file=key,
        ) from error


def _whole(scanner: Scanner, data: bytes) -> Record | None:
    """The record, if these lines are all of it. A CR at their end is a whole line end."""
    return scanner.record(data + b"\n" if data.endswith(b"\r") else data, final=False)
