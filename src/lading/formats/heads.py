"""What the head of a file says about its columns, and whether that fits the pinned schema.

Spark takes the columns of a CSV by position and fills what it doesn't find with nulls. So lading
looks at every header itself: names must be the schema's, in any order, and a file that differs
is refused with the column named.
"""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from lading.errors import SourceError
from lading.formats.dialect import Dialect as Dialect
from lading.formats.dialect import header_names
from lading.formats.opening import READ_ERRORS, open_plain, unreadable
from lading.layout.table import SOURCE
from lading.model import Format

# The row's lineage; no source may bring a column of that name.
RESERVED = frozenset({SOURCE})


_limit_lock = threading.Lock()
_limit_users = 0
_limit_before = 0


@contextmanager
def long_fields() -> Iterator[None]:
    """Fields of any length for Python's csv module, whose limit of 128 kB is the whole process's."""
    global _limit_users, _limit_before
    with _limit_lock:
        if not _limit_users:
            _limit_before = csv.field_size_limit(1 << 31)
        _limit_users += 1
    try:
        yield
    finally:
        with _limit_lock:
            _limit_users -= 1
            if not _limit_users:
                csv.field_size_limit(_limit_before)


@dataclass(frozen=True, slots=True)
class FirstRecord:
    fields: tuple[str, ...]
    last_line: int  # physical lines up to and including it


def first_record(path: str, dialect: Dialect) -> FirstRecord | None:
    """The first line that is neither empty nor a comment, as a record; None when there is none."""
    try:
        with (
            open_plain(path) as plain,
            # Undecodable bytes further down are the digest's to report, with their line.
            io.TextIOWrapper(plain, dialect.encoding, errors="surrogateescape", newline="") as text,
            long_fields(),
        ):
            record = _first_record(text, dialect)
        if record is not None:
            "".join(record.fields).encode()
        return record
    except UnicodeError as error:
        raise SourceError(
            f"the first record of {path} is not valid {dialect.encoding.removesuffix('-sig')}",
            hint="set `encoding` in the table's read_options (for example latin-1), or convert the file",
            file=path,
        ) from error
    except csv.Error as error:
        raise SourceError(
            f"the head of {path} can't be read as delimited text: {error}",
            hint="check `delimiter`, `quote` and `escape` in the table's read_options",
            file=path,
        ) from error
    except READ_ERRORS as error:
        raise unreadable(path, error) from error


def delimited_header(path: str, read_options: Mapping[str, Any], fmt: Format) -> tuple[str, ...] | None:
    """The column names in file order; None for a file without a single record."""
    dialect = Dialect.of(read_options, fmt)
    record = first_record(path, dialect)
    if record is None:
        return None
    return header_names(path, record.fields, read_options)


def parquet_columns(path: str) -> dict[str, str]:
    """Names and Spark types from the footer."""
    from lading.formats.parquet import columns
    from lading.formats.source_file import SourceFile

    return columns(SourceFile(path, path, 0))


def _first_record(text: io.TextIOWrapper, dialect: Dialect) -> FirstRecord | None:
    skipped = sum(1 for _ in islice(text, dialect.skip))
    # Spark passes over blanks in search of a header, unless it reads files whole. A blank record is one.
    blanks = None if dialect.header and not dialect.reads_whole else "\r\n"
    for line in text:
        blank = not line.strip(blanks)
        if blank or (dialect.comment is not None and line.lstrip().startswith(dialect.comment)):
            skipped += 1
            continue
        # Without `multiline` a record is a line, whatever its quotes say: Spark splits first.
        lines = chain([line], text) if dialect.multiline else iter([line.rstrip("\r\n")])
        records = dialect.reader(lines)
        fields = next(records)
        return FirstRecord(tuple(fields), skipped + records.line_num)
    return None
