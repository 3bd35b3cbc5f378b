"""The order of rows in a part: by the order column, `_source`, the other columns by name.

Equal logical content gives equal files, so nothing may be left to the order in which rows arrive. Nested
columns, by which Arrow can't sort, come last and count as numbers made of them (digest.py), which are worked
out only for rows that no other column tells apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.layout.table import SOURCE
from lading.parts.digest import digests

_RUNS = 256  # ascending stretches, up to which rows are merged rather than sorted
_DIGIT = 16  # bits by which numpy sorts in one go, without comparing


def sort_keys(schema: pa.Schema, order_by: str | None) -> list[str]:
    """The columns to sort by, in order: all of them, the nested ones last."""
    leading = [name for name in (order_by, SOURCE) if name is not None and name in schema.names]
    rest = sorted(
        (pa.types.is_nested(field.type), field.name) for field in schema if field.name not in leading
    )
    return [*leading, *(name for _, name in rest)]


def in_order(table: pa.Table, keys: Sequence[str]) -> pa.Array:
    """The row numbers of `table` (of one chunk a column) in the order of `keys`.

    Most rows are told apart by the first key; the many-key sort, which is slow, sees only the others.
    """
    plain = plain_keys(table.schema, keys)
    first = table.column(plain[0])
    order = _by_one(first)
    if len(keys) == 1 or table.num_rows < 2:
        return order
    values = first.take(order)
    rising = pc.fill_null(pc.less(values.slice(0, len(values) - 1), values.slice(1)), False).to_numpy()
    alone = np.concatenate([[True], rising]) & np.concatenate([rising, [True]])
    places = np.flatnonzero(~alone)
    if not len(places):
        return order
    numbers = order.to_numpy(zero_copy_only=False).copy()
    tied = numbers[places]
    subset = table.select(plain).take(tied).combine_chunks()
    among = pc.sort_indices(subset, sort_keys=[(key, "ascending") for key in plain])
    tied = tied[among.to_numpy()]
    numbers[places] = _settled(table, keys, tied, subset.take(among))
    return pa.array(numbers)


def _by_one(column: pa.ChunkedArray) -> pa.Array:
    """The row numbers in the order of one column; equal ones stay as they are."""
    numbers = whole_numbers(column)
    if numbers is None or not len(numbers):
        return pc.sort_indices(column)
    if np.count_nonzero(numbers[1:] < numbers[:-1]) < _RUNS:
        return pa.array(np.argsort(numbers, kind="stable"))
    above = (numbers - numbers.min()).view(np.uint64)
    order = np.argsort(above.astype(np.uint16), kind="stable")
    for shift in range(_DIGIT, int(above.max()).bit_length(), _DIGIT):
        digits = (above >> np.uint64(shift)).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return pa.array(order)


def is_whole(kind: pa.DataType) -> bool:
    """Whether values of a type are whole numbers below, as dates and times are."""
    types = pa.types
    return bool(types.is_signed_integer(kind) or types.is_date32(kind) or types.is_timestamp(kind))


def whole_numbers(column: pa.ChunkedArray) -> np.ndarray | None:
    """Integers as they are, days, ticks of a time; None for other types, and if one is null."""
    kind = column.type
    if column.null_count or not is_whole(kind):
        return None
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    numbers: np.ndarray = column.cast(pa.int64()).to_numpy()
    return numbers


def plain_keys(schema: pa.Schema, keys: Sequence[str]) -> list[str]:
    """Those of the keys that Arrow can sort by."""
    return [key for key in keys if not pa.types.is_nested(schema.field(key).type)]


def settling_keys(schema: pa.Schema, keys: Sequence[str]) -> list[str]:
    """Those in which rows may differ that are equal to Arrow: zero has a sign. A single key leaves the
    order of equal rows to whoever asks for it."""
    kinds = [(key, schema.field(key).type) for key in keys if len(keys) > 1]
    return [key for key, kind in kinds if pa.types.is_nested(kind) or pa.types.is_floating(kind)]


def _settled(table: pa.Table, keys: Sequence[str], rows: np.ndarray, values: pa.Table) -> np.ndarray:
    """Rows in the order of their plain keys, which are `values`, in the order of all keys."""
    settling = settling_keys(table.schema, keys)
    if not settling:
        return rows
    same = np.ones(len(rows) - 1, bool)
    for column in values.columns:
        same &= _as_before(column)
    places = np.flatnonzero(np.concatenate([[False], same]) | np.concatenate([same, [False]]))
    if not len(places):
        return rows
    tied = rows[places]
    group = np.concatenate([[0], np.cumsum(~same)])[places]
    settled = rows.copy()
    settled[places] = tied[np.lexsort((digests(table, settling, tied), group))]
    return settled


def _as_before(column: pa.ChunkedArray) -> np.ndarray:
    """For each row but the first, whether Arrow sorts it as the one before."""
    less_one = len(column) - 1
    same = np.asarray(pc.fill_null(pc.equal(column.slice(0, less_one), column.slice(1)), False))
    alike = [pc.is_null(column)]
    if pa.types.is_floating(column.type):
        alike.append(pc.fill_null(pc.is_nan(column), False))
    for one in map(np.asarray, alike):
        same = same | (one[:-1] & one[1:])
    return same


def value_starts(column: pa.ChunkedArray) -> np.ndarray:
    """The rows of a sorted column that begin another value than the row before."""
    changes = pc.not_equal(column.slice(0, max(0, len(column) - 1)), column.slice(1))
    return np.flatnonzero(pc.fill_null(changes, False).to_numpy()) + 1


def value_ends(column: pa.ChunkedArray, rows: int) -> Iterator[int]:
    """Where to cut a sorted column into pieces of at most `rows`, never inside a value.

    A value that has more rows than that makes a longer piece.
    """
    if len(column) <= rows:
        yield len(column)
        return
    starts = np.append(value_starts(column), len(column))
    begin = 0
    while begin < len(column):
        following, beyond = np.searchsorted(starts, [begin, begin + rows], side="right")
        begin = int(starts[max(beyond - 1, following)])
        yield begin
