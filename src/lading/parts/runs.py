"""Sorted runs on disk, and their merge, for a task that holds more rows than its memory allows.

Runs are merged by ranges: each range is found in every run by binary search and sorted alone. Ranges end
between two values of the leading column, and inside one value only if that value alone is too much.

Runs are mapped, and whoever bounds a process's memory counts what it has touched of a file as its own. One
value that is looked at may count as megabytes, since pages of a file come in groups. So of each run, what was
looked at is let go before the next one is: the memory of a merge doesn't grow with the number of runs.
"""

from __future__ import annotations

import math
import mmap
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from lading.parts.digest import digests
from lading.parts.sort import in_order, plain_keys, settling_keys
from lading.storage.temporary import temporary_folder

_DIGEST = "__lading_digest"
_SAMPLES = 64  # values that are looked at for a pivot, and one of every run in any case
_RUN_BATCH = 65_536


@dataclass(frozen=True, slots=True)
class Run:
    """Sorted rows, or some of them that follow each other."""

    rows: pa.Table
    map: mmap.mmap | None = None  # where they lie, if not in memory

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def slice(self, start: int, length: int | None = None) -> Run:
        return Run(self.rows.slice(start, length), self.map)

    def copied(self) -> pa.Table:
        """The rows, in memory."""
        if self.map is None:
            return self.rows
        kinds = zip(self.rows.columns, self.rows.schema.types, strict=True)
        arrays = [pa.concat_arrays(column.chunks or [pa.array([], kind)]) for column, kind in kinds]
        self.let_go()
        return pa.Table.from_arrays(arrays, schema=self.rows.schema)

    def let_go(self) -> None:
        """Give back the memory of what was looked at. Pages that are wanted again are read again."""
        if self.map is not None:
            self.map.madvise(mmap.MADV_DONTNEED)


class SortedRuns:
    """Sorted runs in a temporary folder, memory-mapped when they are read back."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lading-runs-", dir=temporary_folder())
        self._paths: list[Path] = []

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

    def opened(self) -> list[Run]:
        return [_opened(path) for path in self._paths]

    def close(self) -> None:
        self._folder.cleanup()


def _opened(path: Path) -> Run:
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    run = Run(pa.ipc.open_file(pa.py_buffer(mapped)).read_all(), mapped)
    run.let_go()  # of every batch, the head was looked at
    return run


def merged(runs: Sequence[Run], keys: Sequence[str], limit: int) -> Iterator[pa.Table]:
    """The rows of sorted runs as sorted tables of about `limit` rows, ascending from one to the next."""
    if not runs:
        return
    schema = runs[0].rows.schema
    ranges = _Ranges(limit).of(_filled(runs), plain_keys(schema, keys), settling_keys(schema, keys))
    for slices in ranges:
        together = pa.concat_tables(one.copied() for one in slices).select(schema.names).combine_chunks()
        if len(slices) > 1:
            together = together.take(in_order(together, keys))
        yield together


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Cuts sorted runs into ranges of at most `limit` rows."""

    limit: int

    def of(
        self, slices: list[Run], keys: list[str], settling: list[str], level: int = 0
    ) -> Iterator[list[Run]]:
        rows = sum(map(len, slices))
        if rows == 0:
            return
        if rows <= self.limit:
            yield slices
            return
        if level == len(keys) and settling:
            slices = [_with_digests(part, settling) for part in slices]
            keys, settling = [*keys, _DIGEST], []
        if level == len(keys):  # equal in every key: any order is the order
            yield from ([part] for part in slices)
            return
        below, equal, above = _parted(slices, keys[level])
        yield from self.of(below, keys, settling, level)
        yield from self.of(equal, keys, settling, level + 1)
        yield from self.of(above, keys, settling, level)


def _with_digests(part: Run, settling: list[str]) -> Run:
    own = pa.array(digests(part.rows, settling))
    part.let_go()
    return Run(part.rows.append_column(_DIGEST, own), part.map)


def _parted(slices: list[Run], key: str) -> tuple[list[Run], list[Run], list[Run]]:
    """What lies below a value in about the middle, what has it, and what lies above."""
    pivot = _pivot(slices, key)
    below, equal, above = [], [], []
    for part in slices:
        rank = _ranker(part.rows.column(key))
        start = _search(len(part), lambda i, rank=rank: rank(i) >= pivot)  # type: ignore[misc]
        end = _search(len(part), lambda i, rank=rank: rank(i) > pivot)  # type: ignore[misc]
        part.let_go()
        below.append(part.slice(0, start))
        equal.append(part.slice(start, end - start))
        above.append(part.slice(end))
    return _filled(below), _filled(equal), _filled(above)


def _filled(slices: Sequence[Run]) -> list[Run]:
    return [part for part in slices if len(part)]


def _pivot(slices: list[Run], key: str) -> tuple[int, Any]:
    """About the median: that of a sample in which each value stands for the rows around it."""
    rows = sum(map(len, slices))
    sample: list[tuple[tuple[int, Any], float]] = []
    for part in slices:
        rank = _ranker(part.rows.column(key))
        count = max(1, _SAMPLES * len(part) // rows)
        sample += [(rank(len(part) * (2 * i + 1) // (2 * count)), len(part) / count) for i in range(count)]
        part.let_go()
    sample.sort(key=itemgetter(0))
    below = accumulate(weight for _, weight in sample)
    return next(value for (value, _), upto in zip(sample, below, strict=True) if upto >= rows / 2)


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
