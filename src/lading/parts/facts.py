"""What the log wants to know of many short runs of rows, worked out for all of them at once.

A changed file whose rows lie in every bucket leaves a part of a few rows in each. To ask Arrow about each
column of each of them takes longer than to write them: the question costs more than the rows do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.layout.table import SOURCE
from lading.model import Bound, Zone
from lading.parts.sort import whole_numbers
from lading.zones.bounds import shorten


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one run. A column that isn't among them has to be asked about by itself."""

    zones: dict[str, Zone]
    repeating: dict[str, bool]  # whether at most every second value is a new one
    sources: dict[int, int]  # rows of each


def facts_of_runs(table: pa.Table, starts: Sequence[int]) -> list[Facts]:
    """The facts of the rows from each of `starts` to the next, of which the first is 0."""
    runs = _Runs(np.array(starts), table.num_rows)
    found = [Facts({}, {}, {}) for _ in starts]
    for name in table.schema.names:
        column = runs.column(table.column(name))
        if column is None:
            continue
        for facts, low, high, repeats in zip(found, *column, strict=True):
            facts.zones[name] = shorten(Zone(low, high, 0))
            facts.repeating[name] = repeats
    if SOURCE in table.schema.names:
        for facts, counts in zip(found, runs.counts(table.column(SOURCE)), strict=True):
            facts.sources.update(counts)
    return found


class _Runs:
    """Runs of rows, each of at least one."""

    def __init__(self, starts: np.ndarray, rows: int) -> None:
        self._starts = starts
        self._lengths = np.diff(starts, append=rows)
        self._run = np.repeat(np.arange(len(starts)), self._lengths)  # of each row

    def column(self, column: pa.ChunkedArray) -> tuple[Sequence[Bound], Sequence[Bound], list[bool]] | None:
        """The least and the greatest value of each run, and whether its values repeat. None of a column with
        nulls, and of types whose bounds are more than the values themselves."""
        numbers = whole_numbers(column)
        if numbers is not None:
            coded = pa.array(numbers).dictionary_encode()
            lows, highs = self._ends(numbers)
            return lows.tolist(), highs.tolist(), self._repeat(coded)
        if column.null_count or not _is_text(column.type):
            return None
        coded = column.combine_chunks().dictionary_encode()
        return *self._texts(coded), self._repeat(coded)

    def counts(self, column: pa.ChunkedArray) -> list[dict[int, int]]:
        """How many rows of each run have which number."""
        coded = column.combine_chunks().dictionary_encode()
        values = coded.dictionary.to_pylist()
        pairs, rows = self._pairs(coded)
        runs, codes = (one.tolist() for one in np.divmod(pairs, len(values)))
        found: list[dict[int, int]] = [{} for _ in self._starts]
        for run, code, count in zip(runs, codes, rows.tolist(), strict=True):
            found[run][values[code]] = count
        return found

    def _ends(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.minimum.reduceat(numbers, self._starts), np.maximum.reduceat(numbers, self._starts)

    def _texts(self, coded: pa.DictionaryArray) -> tuple[list[str], list[str]]:
        order = pc.sort_indices(coded.dictionary).to_numpy()
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        ends = self._ends(rank[coded.indices.to_numpy()])
        lows, highs = (coded.dictionary.take(pa.array(order[end])).to_pylist() for end in ends)
        return lows, highs

    def _repeat(self, coded: pa.DictionaryArray) -> list[bool]:
        pairs, _ = self._pairs(coded)
        distinct = np.bincount(pairs // len(coded.dictionary), minlength=len(self._starts))
        repeat: list[bool] = (2 * distinct <= self._lengths).tolist()
        return repeat

    def _pairs(self, coded: pa.DictionaryArray) -> tuple[np.ndarray, np.ndarray]:
        """A number for each run and value that it has, ascending, and in how many rows."""
        pairs = np.sort(self._run * len(coded.dictionary) + coded.indices.to_numpy())
        firsts = np.flatnonzero(np.diff(pairs, prepend=-1))
        return pairs[firsts], np.diff(firsts, append=len(pairs))


def _is_text(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype))
