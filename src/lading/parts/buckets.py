"""How wide a bucket is: `bucket = tick // width`, with the order column's value as the tick."""

from __future__ import annotations

import re

import pyarrow as pa

from lading.errors import ConfigError
from lading.formats.file_types import from_arrow

_SPAN = re.compile(r"([1-9][0-9]*)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DAY = 86_400


def bucket_width(
    schema: pa.Schema, order_by: str | None, size: int | str | None, *, table: str, of: str = "the schema"
) -> int | None:
    """In ticks of the order column; None when there is one bucket for all. `of` is whose columns they are."""
    if order_by is None:
        return None
    if order_by not in schema.names:
        raise ConfigError(
            f"{table} is ordered by {order_by!r}, but {of} does not have it",
            hint=f"tables.{table}.order_by: one of {', '.join(schema.names)}",
            table=table,
        )
    dtype = schema.field(order_by).type
    if pa.types.is_nested(dtype):
        raise ConfigError(
            f"{table} can't be ordered by {order_by!r}, which is {from_arrow(dtype)}",
            hint=f"tables.{table}.order_by: choose a column of a plain type",
            table=table,
        )
    return None if size is None else _Width(size, dtype, order_by, table).ticks()


class _Width:
    """A `bucket_size` against the type of the order column."""

    def __init__(self, size: int | str, dtype: pa.DataType, column: str, table: str) -> None:
        self._size = size
        self._type = dtype
        self._column = column
        self._table = table

    def ticks(self) -> int:
        size, dtype = self._size, self._type
        if pa.types.is_signed_integer(dtype):
            if isinstance(size, int):
                return self._within(size)
            raise self._misfit("give a number, such as 100")
        if not (pa.types.is_date(dtype) or pa.types.is_timestamp(dtype)):
            raise self._misfit("remove this key; only ints, dates and timestamps have buckets")
        match = _SPAN.fullmatch(size) if isinstance(size, str) else None
        if match is None:
            raise self._misfit("give a duration, such as 7d")
        seconds = int(match[1]) * _SECONDS[match[2]]
        if not pa.types.is_date(dtype):
            return self._within(seconds * 1_000_000)
        if seconds % _DAY:
            raise self._misfit("give whole days, such as 1d or 30d")
        return self._within(seconds // _DAY)

    def _within(self, ticks: int) -> int:
        if ticks < 2**63:
            return ticks
        raise self._misfit("remove this key to have one bucket for all rows")

    def _misfit(self, remedy: str) -> ConfigError:
        return ConfigError(
            f"bucket_size {self._size} does not fit the order column {self._column!r}, which is "
            f"{from_arrow(self._type)}",
            hint=f"tables.{self._table}.bucket_size: {remedy}",
            table=self._table,
        )
