"""A folder of links that Spark may read in one go.

Spark hides names with a leading `_` or `.`, takes `[1]` in a path for a pattern, and applies one header
to all files of a read. None of that reaches it here: each file is a link called after its source id,
grouped by header, below `column=value` folders for the columns that come from its name.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lading.errors import SchemaDrift, SourceError, StorageError
from lading.formats.copies import Copying, has_blank_records, write_copy
from lading.formats.drift import check_columns
from lading.formats.heads import Dialect, delimited_header, first_record, parquet_columns
from lading.formats.magic import refuse_what_is_no_text
from lading.formats.opening import compression
from lading.formats.types import widens
from lading.model import DELIMITERS, Column, Drift, Format, FoundFile, StagedGroup
from lading.sources.fingerprint import source_id
from lading.sources.names import columns_from_name as values_in_name
from lading.sources.names import name_columns
from lading.words import count_words

_NULL = "__HIVE_DEFAULT_PARTITION__"


def stage(
    files: Sequence[FoundFile],
    *,
    folder: Path,
    fmt: Format,
    read_options: Mapping[str, Any],
    columns: tuple[Column, ...],
    name_values: Mapping[str, Mapping[str, str | None]],
    drift: Drift = "strict",
    aside: Callable[[FoundFile, SourceError], None] | None = None,
) -> tuple[StagedGroup, ...]:
    """Check each file's columns and link it below `folder`; files without a record are left out, and so
    are those that don't do if there is an `aside` to be told of them."""
    names = tuple(next(iter(name_values.values()), {}))
    check = _Check(fmt, read_options, columns, names, drift)
    groups: dict[_Head, list[FoundFile]] = {}
    for found in files:
        with _or_aside(found, aside):
            head = check.head(found)
            if head is not None:
                groups.setdefault(head, []).append(found)
    links = _Links(fmt, name_values, read_options)
    staged = []
    for number, (head, members) in enumerate(groups.items()):
        group = folder / f"g{number:04d}"
        ids = []
        for found in members:
            with _or_aside(found, aside):
                links.link(found, group)
                ids.append(source_id(found.key))
        if ids:
            staged.append(StagedGroup(str(group), head.header, tuple(ids), head.types, head.ignored))
    return tuple(staged)


def refusals(
    files: Sequence[FoundFile],
    *,
    fmt: Format,
    read_options: Mapping[str, Any],
    columns: tuple[Column, ...],
    columns_from_name: str | None,
    drift: Drift,
) -> Iterator[SourceError]:
    """What `stage` would refuse the files for, by their names and their heads alone."""
    check = _Check(fmt, read_options, columns, name_columns(columns_from_name), drift)
    for found in files:
        try:
            if columns_from_name is not None:
                values_in_name(columns_from_name, [found], columns)
            if fmt != "parquet":
                encoding = str(read_options.get("encoding", "utf-8"))
                refuse_what_is_no_text(found.key, found.path, fmt, encoding)
            check.head(found)
        except SourceError as error:
            yield error


def name_refusals(
    files: Sequence[FoundFile], columns_from_name: str | None, columns: tuple[Column, ...]
) -> Iterator[SourceError]:
    """The same by their names alone, for files that can't be opened yet."""
    if columns_from_name is None:
        return
    for found in files:
        try:
            values_in_name(columns_from_name, [found], columns)
        except SourceError as error:
            yield error


@contextmanager
def _or_aside(found: FoundFile, aside: Callable[[FoundFile, SourceError], None] | None) -> Iterator[None]:
    try:
        yield
    except SourceError as error:
        if aside is None:
            raise
        aside(found, error)


@dataclass(frozen=True, slots=True)
class _Head:
    """What files must have in common to be read in one go."""

    header: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Check:
    format: Format
    read_options: Mapping[str, Any]
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    drift: Drift

    def head(self, found: FoundFile) -> _Head | None:
        """None for a file without a record; SchemaDrift for one whose columns don't do."""
        if found.size == 0 and self.format != "parquet":
            return None
        if self.format in DELIMITERS:
            return self._delimited(found)
        return self._parquet(found) if self.format == "parquet" else _Head()

    def _delimited(self, found: FoundFile) -> _Head | None:
        dialect = Dialect.of(self.read_options, self.format)
        if not dialect.header:
            return self._headless(found, dialect)
        header = delimited_header(found.path, self.read_options, self.format)
        if header is None:
            return None
        ignored = check_columns(found.key, header, self.columns, self.names, drift=self.drift)
        return _Head(header, ignored=ignored)

    def _headless(self, found: FoundFile, dialect: Dialect) -> _Head | None:
        record = first_record(found.path, dialect)
        if record is None:
            return None
        header = tuple(column.name for column in self.columns if column.name not in self.names)
        if len(record.fields) != len(header):
            raise SchemaDrift(
                f"{found.key}: line {record.last_line} has {count_words(len(record.fields), 'field')}, "
                f"the schema has {count_words(len(header), 'column')}",
                hint="without a header, columns follow the order of the schema; fix the file or the schema",
                file=found.key,
            )
        return _Head(header)

    def _parquet(self, found: FoundFile) -> _Head:
        have = parquet_columns(found.path)
        ignored = check_columns(found.key, have, self.columns, self.names, drift=self.drift)
        pinned = {column.name: column.type for column in self.columns}
        if all(widens(kind, pinned[name]) for name, kind in have.items() if name in pinned):
            return _Head(ignored=ignored)  # Spark reads them as the schema says by itself
        kept = {name: kind for name, kind in have.items() if name in pinned}
        return _Head(tuple(kept), tuple(kept.values()), ignored)


def partition_folder(column: str, value: str | None) -> str:
    """`column=value` as Spark reads it back: `%XX` stands for one character below U+0100.

    Other characters stand for themselves. A last `_` is escaped too, since Spark ignores folders that
    end in `._COPYING_` and takes `__HIVE_DEFAULT_PARTITION__` for null.
    """
    return f"{_escaped(column)}={_NULL if value is None else _escaped(value)}"


class _Links:
    """Lays files out for Spark: as links, or where it couldn't read them as they are, as copies."""

    def __init__(
        self,
        fmt: Format,
        name_values: Mapping[str, Mapping[str, str | None]],
        read_options: Mapping[str, Any],
    ) -> None:
        self._format = fmt
        self._values = name_values
        self._dialect = Dialect.of(read_options, fmt)
        plain = codecs.lookup(self._dialect.encoding).name in ("utf-8", "utf-8-sig", "ascii")
        self._to_utf8 = fmt == "fixed_width" and not plain
        self._made: set[str] = set()

    def _copying(self, found: FoundFile) -> Copying:
        text = self._format in DELIMITERS
        blank = self._dialect if text and has_blank_records(found.path, self._dialect) else None
        return Copying(self._dialect.skip, self._to_utf8, blank)

    def link(self, found: FoundFile, group: Path) -> None:
        values = self._values.get(found.key, {})
        below = "/".join([str(group), *(partition_folder(*item) for item in values.items())])
        link = f"{below}/s{source_id(found.key)}.{self._format}"
        try:
            if below not in self._made:
                os.makedirs(below, exist_ok=True)
                self._made.add(below)
            if how := self._copying(found):
                write_copy(found, link, self._dialect.encoding, how)
            else:
                os.symlink(found.path, link + (compression(found.path) or ""))
        except OSError as error:
            # A disk that is full is no fault of the file: that must not set it aside.
            kind = SourceError if error.errno == errno.ENAMETOOLONG else StorageError
            raise kind(
                f"{found.key} can't be staged at {link}: {error.strerror}",
                hint="check the cache folder's space and permissions, and the length of values in the name",
                file=found.key,
            ) from error


def _escaped(text: str) -> str:
    escaped = re.sub(r"[\x00-\xff]", lambda char: _percent(char[0]), text)
    return escaped[:-1] + "%5F" if escaped.endswith("_") else escaped


def _percent(char: str) -> str:
    return char if re.fullmatch(r"[A-Za-z0-9._-]", char) else f"%{ord(char):02X}"
