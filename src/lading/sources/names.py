"""Columns that a table takes from its files' names: `(?P<port>[a-z]+)_(?P<day>\\d{8})\\.csv`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from lading.config.patterns import names_of, re2_of
from lading.errors import ConfigError, SourceError
from lading.model import Column, FoundFile

T = TypeVar("T")


def name_columns(pattern: str | None) -> tuple[str, ...]:
    """The columns a pattern gives, in the order of its groups."""
    return _checked(names_of, pattern) if pattern is not None else ()


def columns_from_name(
    pattern: str, files: Iterable[FoundFile], columns: Sequence[Column] = ()
) -> dict[str, dict[str, str | None]]:
    """Values by key, then by column. The pattern has to match the whole file name, and a value has to be one
    of the type that the schema gives the column.

    A group that took no part, or matched nothing, is null: Spark's folders can't tell them apart.
    """
    files = list(files)
    names = name_columns(pattern)
    typed = [column for column in columns if column.name in names and column.type != "string"]
    values: dict[str, dict[str, str | None]] = {}
    for found, match in zip(files, _matches(pattern, [one.key for one in files]), strict=True):
        if match is None:
            raise SourceError(
                f"the name of {found.key} does not match columns_from_name {pattern!r}",
                hint="rename the file, exclude it from the table's `path`, or widen the pattern",
                file=found.key,
            )
        values[found.key] = {column: value or None for column, value in match.items()}
        for column in typed:
            _check(found, column, values[found.key][column.name])
    return values


def _check(found: FoundFile, column: Column, value: str | None) -> None:
    import pyarrow as pa  # here: most tables take only text from names

    from lading.formats.values import Texts

    if value is not None and not Texts(empty_is_null=False).all_fit(pa.array([value]), column):
        raise SourceError(
            f"{found.key}: {value!r} in its name is not {column.type}, the type of column {column.name!r}",
            hint="rename the file, or change the type of the column in the table's schema file",
            file=found.key,
        )


def _matches(pattern: str, keys: list[str]) -> list[dict[str, str] | None]:
    """The groups of each file's name, or None; in time that grows with the names' lengths only."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = name_columns(pattern)
    names = pa.array([key.rpartition("/")[2] for key in keys], pa.string())
    try:
        found = pc.extract_regex(names, _checked(re2_of, pattern)).to_pylist()
    except pa.ArrowInvalid as error:
        raise _refused(pattern, str(error)) from error
    return [None if groups is None else dict(zip(columns, groups.values(), strict=True)) for groups in found]


def _checked(ask: Callable[[str], T], pattern: str) -> T:
    try:
        return ask(pattern)
    except ValueError as error:
        raise _refused(pattern, str(error)) from error


def _refused(pattern: str, why: str) -> ConfigError:
    return ConfigError(
        f"columns_from_name {pattern!r}: {why}",
        hint="write it as for Python's `re`, with named groups: (?P<port>[a-z]+)",
    )
