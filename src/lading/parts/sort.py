"""The order of rows in a part: by the order column, `_source`, the other columns by name.

Equal logical content gives equal files, so nothing may be left to the order in which rows arrive. Nested
columns, by which Arrow can't sort, come last and count as numbers made of them (digest.py), which are worked
out only for rows that no other column tells apart.

When a task holds more than its memory allows, it keeps sorted runs on disk and merges them by ranges:
each range is found in every run by binary search and sorted alone. Ranges end between two values of
the leading column, and inside one value only if that value alone is too much.
"""

from __future__ import annotations

import math
import mmap
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.layout.table import SOURCE
from lading.parts.digest import digests
from lading.storage.temporary import temporary_folder

_DIGEST = "__lading_digest"
_SAMPLES = 64  # values a run offers as pivots
_RUN_BATCH = 65_536
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
    plain = _plain(table.schema, keys)
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


def _plain(schema: pa.Schema, keys: Sequence[str]) -> list[str]:
    """Those of the keys that Arrow can sort by."""
    return [key for key in keys if not pa.types.is_nested(schema.field(key).type)]


def _settling(schema: pa.Schema, keys: Sequence[str]) -> list[str]:
    """Those in which rows may differ that are equal to Arrow: zero has a sign. A single key leaves the
    order of equal rows to whoever asks for it."""
    kinds = [(key, schema.field(key).type) for key in keys if len(keys) > 1]
    return [key for key, kind in kinds if pa.types.is_nested(kind) or pa.types.is_floating(kind)]


def _settled(table: pa.Table, keys: Sequence[str], rows: np.ndarray, values: pa.Table) -> np.ndarray:
    """Rows in the order of their plain keys, which are `values`, in the order of all keys."""
    settling = _settling(table.schema, keys)
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


def merged(
    runs: Sequence[pa.Table], keys: Sequence[str], limit: int, let_go: Callable[[], None] = lambda: None
) -> Iterator[pa.Table]:
    """The rows of sorted runs as sorted tables of about `limit` rows, ascending from one to the next.
    `let_go` is called whenever what was looked at isn't needed any more."""
    if not runs:
        return
    schema = runs[0].schema
    ranges = _Ranges(limit, let_go).of(_filled(runs), _plain(schema, keys), _settling(schema, keys))
    for slices in ranges:
        together = pa.concat_tables(slices).select(schema.names).combine_chunks()
        if len(slices) > 1:
            together = together.take(in_order(together, keys))
        yield together
        let_go()


class SortedRuns:
    """Sorted runs in a temporary folder, memory-mapped when they are read back."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lading-runs-", dir=temporary_folder())
        self._paths: list[Path] = []
        self._maps: list[mmap.mmap] = []

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, tables: Iterator[pa.Table]) -> None:
        """One more run: tables in order. Nothing is kept if there are none."""
        first = next(tables, None)
        if first is None:
            return
        path = Path(self._folder.name) / f"{len(self._paths)}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, first.schema) as writer:
            for table in chain([first], tables):
                writer.write_table(table, max_chunksize=_RUN_BATCH)
        self._paths.append(path)

    def tables(self) -> list[pa.Table]:
        for path in self._paths:
            with path.open("rb") as file:
                self._maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return [pa.ipc.open_file(pa.py_buffer(one)).read_all() for one in self._maps]

    def let_go(self) -> None:
        """Give back the memory of what was read of them. Else all of it would count as this process's own,
        and whoever bounds that would end it. Pages that are wanted again are read again."""
        for one in self._maps:
            one.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        self._folder.cleanup()


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Cuts sorted runs into ranges of at most `limit` rows."""

    limit: int
    let_go: Callable[[], None]

    def of(
        self, slices: list[pa.Table], keys: list[str], settling: list[str], level: int = 0
    ) -> Iterator[list[pa.Table]]:
        rows = sum(part.num_rows for part in slices)
        if rows == 0:
            return
        if rows <= self.limit:
            yield slices
            return
        if level == len(keys) and settling:
            slices = [part.append_column(_DIGEST, pa.array(digests(part, settling))) for part in slices]
            keys, settling = [*keys, _DIGEST], []
        if level == len(keys):  # equal in every key: any order is the order
            yield from ([part] for part in slices)
            return
        below, equal, above = _parted(slices, keys[level])
        self.let_go()
        yield from self.of(below, keys, settling, level)
        yield from self.of(equal, keys, settling, level + 1)
        yield from self.of(above, keys, settling, level)


def _parted(slices: list[pa.Table], key: str) -> tuple[list[pa.Table], list[pa.Table], list[pa.Table]]:
    """What lies below a value in about the middle, what has it, and what lies above."""
    pivot = _pivot(slices, key)
    below, equal, above = [], [], []
    for part in slices:
        rank = _ranker(part.column(key))
        start = _search(part.num_rows, lambda i, rank=rank: rank(i) >= pivot)  # type: ignore[misc]
        end = _search(part.num_rows, lambda i, rank=rank: rank(i) > pivot)  # type: ignore[misc]
        below.append(part.slice(0, start))
        equal.append(part.slice(start, end - start))
        above.append(part.slice(end))
    return _filled(below), _filled(equal), _filled(above)


def _filled(slices: Sequence[pa.Table]) -> list[pa.Table]:
    return [part for part in slices if part.num_rows]


def _pivot(slices: list[pa.Table], key: str) -> tuple[int, Any]:
    """The median of a sample that weighs each run by its rows."""
    rows = sum(part.num_rows for part in slices)
    sample = []
    for part in slices:
        rank = _ranker(part.column(key))
        count = max(1, _SAMPLES * part.num_rows // rows)
        sample += [rank(part.num_rows * i // count) for i in range(count)]
    return sorted(sample)[len(sample) // 2]


def _ranker(column: pa.ChunkedArray) -> Callable[[int], tuple[int, Any]]:
    """Row number to a value that Python orders as Arrow sorts: numbers, then NaN, then null."""
    if pa.types.is_temporal(column.type):
        width = pa.int32() if column.type.bit_width == 32 else pa.int64()
        column = column.cast(width)  # Python's own dates end with the year 9999

    def rank(row: int) -> tuple[int, Any]:
        value = column[row].as_py()
        if value is None:
            return (2, 0)
        if isinstance(value, float) and math.isnan(value):
            return (1, 0)
        return (0, value)

    return rank


def _search(rows: int, reached: Callable[[int], bool]) -> int:
    """The first row for which `reached` holds; once it does it keeps holding."""
    low, high = 0, rows
    while low < high:
        middle = (low + high) // 2
        if reached(middle):
            high = middle
        else:
            low = middle + 1
    return low
