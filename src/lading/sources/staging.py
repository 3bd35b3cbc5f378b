"""A folder of links that Spark may read in one go.

Spark hides names with a leading `_` or `.`, takes `[1]` in a path for a pattern, and applies one header
to all files of a read. None of that reaches it here: each file is a link called after its source id,
grouped by header, below `column=value` folders for the columns that come from its name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lading.errors import SchemaDrift, SourceError
from lading.model import Column, FoundFile, StagedGroup
from lading.sources.heads import Dialect, check_columns, delimited_header, first_record, parquet_columns
from lading.sources.ids import source_id
from lading.sources.opening import compression

_NULL = "__HIVE_DEFAULT_PARTITION__"


def stage(
    files: Sequence[FoundFile],
    *,
    folder: Path,
    format: str,
    read_options: Mapping[str, Any],
    columns: tuple[Column, ...],
    name_values: Mapping[str, Mapping[str, str | None]],
) -> tuple[StagedGroup, ...]:
    """Check each file's columns and link it below `folder`; files without a record are left out."""
    names = tuple(next(iter(name_values.values()), {}))
    groups: dict[tuple[str, ...] | None, list[FoundFile]] = {}
    for found in files:
        if found.size == 0 and format != "parquet":
            continue
        header: tuple[str, ...] | None = None
        if format in ("csv", "tsv"):
            header = _settled_header(found, read_options, format, columns, names)
            if header is None:
                continue
        elif format == "parquet":
            check_columns(found, parquet_columns(found.path), columns, names)
        groups.setdefault(header, []).append(found)
    staged = []
    for number, (header, members) in enumerate(groups.items()):
        group = folder / f"g{number:04d}"
        _link_all(members, group, format, name_values)
        staged.append(StagedGroup(str(group), header, tuple(source_id(found.key) for found in members)))
    return tuple(staged)


def partition_folder(column: str, value: str | None) -> str:
    """`column=value` as Spark reads it back: `%XX` stands for one character below U+0100.

    Other characters stand for themselves. A last `_` is escaped too, since Spark ignores folders that
    end in `._COPYING_` and takes `__HIVE_DEFAULT_PARTITION__` for null.
    """
    return f"{_escaped(column)}={_NULL if value is None else _escaped(value)}"


def _settled_header(
    found: FoundFile,
    read_options: Mapping[str, Any],
    format: str,
    columns: tuple[Column, ...],
    names: tuple[str, ...],
) -> tuple[str, ...] | None:
    dialect = Dialect.of(read_options, format)
    if dialect.header:
        header = delimited_header(found.path, read_options, format)
        if header is not None:
            check_columns(found, header, columns, names)
        return header
    record = first_record(found.path, dialect)
    if record is None:
        return None
    header = tuple(column.name for column in columns if column.name not in names)
    if len(record.fields) != len(header):
        raise SchemaDrift(
            f"{found.key}: line {record.last_line} has {len(record.fields)} fields, "
            f"the schema has {len(header)} columns",
            hint="without a header the columns are the schema's, in its order: fix the file or the schema",
            file=found.key,
        )
    return header


def _link_all(
    members: Sequence[FoundFile],
    group: Path,
    format: str,
    name_values: Mapping[str, Mapping[str, str | None]],
) -> None:
    made: set[str] = set()
    for found in members:
        values = name_values.get(found.key, {})
        below = "/".join([str(group), *(partition_folder(*item) for item in values.items())])
        link = f"{below}/s{source_id(found.key)}.{format}{compression(found.path) or ''}"
        try:
            if below not in made:
                os.makedirs(below, exist_ok=True)
                made.add(below)
            os.symlink(found.path, link)
        except OSError as error:
            raise SourceError(
                f"{found.key} can't be staged at {link}: {error.strerror}",
                hint="check the cache folder's space and rights, and the length of the values in the name",
                file=found.key,
            ) from error


def _escaped(text: str) -> str:
    escaped = re.sub(r"[\x00-\xff]", lambda char: _percent(char[0]), text)
    return escaped[:-1] + "%5F" if escaped.endswith("_") else escaped


def _percent(char: str) -> str:
    return char if re.fullmatch(r"[A-Za-z0-9._-]", char) else f"%{ord(char):02X}"
