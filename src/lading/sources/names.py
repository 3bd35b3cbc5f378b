"""Columns that a table takes from its files' names: `(?P<port>[a-z]+)_(?P<day>\\d{8})\\.csv`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lading.errors import ConfigError, SourceError
from lading.model import FoundFile


def name_columns(pattern: str | None) -> tuple[str, ...]:
    """The columns a pattern gives, in the order of its groups."""
    return tuple(_compiled(pattern).groupindex) if pattern is not None else ()


def columns_from_name(pattern: str, files: Iterable[FoundFile]) -> dict[str, dict[str, str | None]]:
    """Values by key, then by column. The pattern has to match the whole file name.

    A group that took no part, or matched nothing, is null: Spark's folders can't tell them apart.
    """
    regex = _compiled(pattern)
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
    return values


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"columns_from_name {pattern!r} is not a regular expression: {error}",
            hint="write it as for Python's `re`, with named groups: (?P<port>[a-z]+)",
        ) from error
