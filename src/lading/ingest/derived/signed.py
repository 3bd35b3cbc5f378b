"""Rows that came or went, without their content. Spark's tasks read them, so nothing is imported here that
only a driver needs: a fresh worker would wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lading.ingest.derived.slots import Cut, row_hashes
from lading.layout.table import SOURCE
from lading.model import Member, Place
from lading.parts.pick import picked


@dataclass(frozen=True, slots=True)
class Side:
    """Rows of some sources in one snapshot. Travels to Spark's workers."""

    place: Place
    members: tuple[Member, ...]
    schema: bytes  # Arrow IPC schema of the table
    sources: frozenset[int]
    sign: int  # -1: these went, 1: these came

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """With `_source` as the last column."""
        schema = pa.ipc.read_schema(pa.py_buffer(self.schema))
        ids = np.fromiter(self.sources, np.int64, len(self.sources))

        def held(rows: pa.RecordBatch) -> np.ndarray:
            return np.isin(rows.column(SOURCE).to_numpy(zero_copy_only=False), ids)

        yield from picked(self.place, self.members, schema, [*columns, SOURCE], [SOURCE], held)

    @property
    def rows(self) -> int:
        return sum(n for member in self.members for source, n in member.sources if source in self.sources)

    @property
    def bytes(self) -> int:
        return sum(member.bytes for member in self.members)


@dataclass(frozen=True, slots=True)
class Signed:
    """Rows without their content: for each kind of them its slot, its source, its hash (two halves; 0 where
    rows are only counted), and how many came, or went if it is negative."""

    slots: np.ndarray
    sources: np.ndarray
    high: np.ndarray
    low: np.ndarray
    counts: np.ndarray

    @staticmethod
    def of(several: Sequence[Signed]) -> Signed:
        """All of them, one after the other."""
        kinds = (np.int64, np.int64, np.uint64, np.uint64, np.int64)
        columns = [
            np.concatenate([np.zeros(0, kind), *(one.columns()[at] for one in several)])
            for at, kind in enumerate(kinds)
        ]
        return Signed(*columns)

    def columns(self) -> tuple[np.ndarray, ...]:
        return (self.slots, self.sources, self.high, self.low, self.counts)

    def condensed(self, by: Sequence[str]) -> Signed:
        """Those that are alike in these columns as one, in their order; where they cancel out, none."""
        ordered = self._ordered(by)
        first = np.flatnonzero(ordered._starts(by))
        if not len(first):
            return self
        counts = np.add.reduceat(ordered.counts, first)
        kept = first[counts != 0]
        slots, sources, high, low = (column[kept] for column in ordered.columns()[:4])
        return Signed(slots, sources, high, low, counts[counts != 0])

    def without_even(self, by: Sequence[str]) -> Signed:
        """All but those that are alike in these columns and cancel each other out."""
        ordered = self._ordered(by)
        starts = ordered._starts(by)
        first = np.flatnonzero(starts)
        if not len(first):
            return self
        uneven = np.add.reduceat(ordered.counts, first) != 0
        return ordered._where(uneven[np.cumsum(starts) - 1])

    def signs(self) -> tuple[Signed, Signed]:
        """Those that went, and those that came."""
        return self._where(self.counts < 0), self._where(self.counts > 0)

    def _ordered(self, by: Sequence[str]) -> Signed:
        return self._where(np.lexsort([getattr(self, name) for name in reversed(by)]))

    def _starts(self, by: Sequence[str]) -> np.ndarray:
        """Where another one begins, of rows in their order."""
        starts = np.zeros(len(self.counts), bool)
        starts[:1] = True
        for name in by:
            column = getattr(self, name)
            starts[1:] |= column[1:] != column[:-1]
        return starts

    def _where(self, which: np.ndarray) -> Signed:
        return Signed(*(column[which] for column in self.columns()))


def signed_rows(sides: Iterable[Side], columns: Sequence[str], cut: Cut, exact: bool) -> Signed:
    """In this process, or in a task of its own."""
    return Signed.of(
        [_signed(rows, side.sign, columns, cut, exact) for side in sides for rows in side.batches(columns)]
    )


def _signed(rows: pa.RecordBatch, sign: int, columns: Sequence[str], cut: Cut, exact: bool) -> Signed:
    counts = np.full(rows.num_rows, sign, np.int64)
    sources = rows.column(SOURCE).to_numpy(zero_copy_only=False)
    nothing = np.zeros(rows.num_rows, np.uint64)
    high, low = row_hashes(rows.select(list(columns))) if exact else (nothing, nothing)
    one = Signed(cut.of(rows), sources, high, low, counts)
    return one.condensed(("slots", "sources", "high", "low"))


def compared(
    tasks: Sequence[Sequence[Side]], columns: Sequence[str], cut: Cut, exact: bool, number: int
) -> bytes:
    """One task's answer."""
    found = signed_rows(tasks[number], columns, cut, exact)
    return b"".join(column.view(np.int64).tobytes() for column in found.columns())


def told(answer: bytes) -> Signed:
    slots, sources, high, low, counts = np.frombuffer(answer, np.int64).reshape(5, -1)
    return Signed(slots, sources, high.view(np.uint64), low.view(np.uint64), counts)
