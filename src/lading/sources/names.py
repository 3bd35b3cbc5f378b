"""Columns that a table takes from its files' names: `(?P<port>[a-z]+)_(?P<day>\\d{8})\\.csv`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from lading.errors import ConfigError, SourceError
from lading.model import Column, FoundFile


def name_columns(pattern: str | None) -> tuple[str, ...]:
    """The columns a pattern gives, in the order of its groups."""
    return tuple(_compiled(pattern).groupindex) if pattern is not None else ()


def columns_from_name(
    pattern: str, files: Iterable[FoundFile], columns: Sequence[Column] = ()
) -> dict[str, dict[str, str | None]]:
    """Values by key, then by column. The pattern has to match the whole file name, and a value has to be one
    of the type that the schema gives the column.

    A group that took no part, or matched nothing, is null: Spark's folders can't tell them apart.
    """
    regex = _compiled(pattern)
    typed = [column for column in columns if column.name in regex.groupindex and column.type != "string"]
    values: dict[str, dict[str, str | None]] = {}
    for found in files:
        name = found.key.rpartition("/")[2]
        match = regex.fullmatch(name)
        if match is None:
            raise SourceError(
                f"the name of {found.key} does not match columns_from_name {pattern!r}",
                hint="rename the file, let the table's `path` leave it out, or widen the pattern",
                file=found.key,
            )
        values[found.key] = {column: value or None for column, value in match.groupdict().items()}
        for column in typed:
            _check(found, column, values[found.key][column.name])
    return values


def _check(found: FoundFile, column: Column, value: str | None) -> None:
    import pyarrow as pa  # here: most tables take only text from names

    from lading.sources.infer_fits import Fits
    from lading.sources.kinds import Kinds

    if value is not None and not Fits(Kinds()).all_fit(pa.array([value]), column):
        raise SourceError(
            f"{found.key}: {value!r} in its name is not {column.type}, the type of column {column.name!r}",
            hint="rename the file, or change the type of the column in the table's schema file",
            file=found.key,
        )


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"columns_from_name {pattern!r} is not a regular expression: {error}",
            hint="write it as for Python's `re`, with named groups: (?P<port>[a-z]+)",
        ) from error
