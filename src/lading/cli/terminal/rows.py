"""Rows as a table on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lading.cli.terminal.screen import show_table
from lading.late import pa
from lading.read.text import flat

if TYPE_CHECKING:
    from lading.read.scan import Scan


def print_table(scan: Scan, limit: int | None) -> int:
    """Print at most `limit` rows; gives back how many."""
    records: list[tuple[Any, ...]] = []
    for batch in scan:
        columns = [column.to_pylist() for column in flat(batch).columns]
        records.extend(zip(*columns, strict=True))
    shown = records[:limit]
    numbers = [
        field.name
        for field in scan.schema
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    ]
    show_table(scan.schema.names, ([as_is(value) for value in row] for row in shown), right=numbers)
    return len(shown)


def as_is(value: Any) -> str | None:
    """A row's value is data: an id of 4711 is not 4,711."""
    return None if value is None else str(value)
