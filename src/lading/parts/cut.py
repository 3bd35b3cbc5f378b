"""Cuts a sorted stream of rows into parts.

A part ends where its bucket ends, or when it is big enough, or when one more source would be more
than a member may list. Cuts fall between two values of the order column, so that the parts of one
commit and bucket cover disjoint ranges and a lookup opens one of them; only a value that alone
exceeds a limit is cut through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.layout.table import SOURCE
from lading.model import Member, Place
from lading.parts.facts import Facts, facts_of_runs
from lading.parts.footer import Origin
from lading.parts.passing import PassingWriter, passes_in
from lading.parts.sort import value_ends, value_starts, whole_numbers
from lading.parts.write import FIRST, ROW_GROUP, PartWriter

_AT_ONCE = 16  # parts that are made durable
_WAITING = 64  # parts that wait for it
_WORTH = 1 << 20  # bytes of parts for which threads are set to work
_FEW = 4_096  # rows a bucket, of which all buckets are described at once


@dataclass(frozen=True, slots=True)
class Limits:
    """When a part is full."""

    rows: int = 8_000_000
    bytes: int = 256 << 20
    sources: int = 4_096


class Cutter:
    """Takes sorted tables, ascending from one to the next, and writes parts."""

    def __init__(
        self,
        table_dir: Place,
        schema: pa.Schema,
        origin: Origin,
        bucket_size: int | None,
        limits: Limits,
        *,
        bucket: int = 0,
        replaces: Sequence[str] = (),
        passing: bool = False,
    ) -> None:
        """Without a `bucket_size` everything goes to `bucket`; `replaces` and `passing` as in PartWriter."""
        self._passing = passing
        self._table_dir = table_dir
        self._schema = schema
        self._origin = origin
        self._bucket_size = bucket_size
        self._limits = limits
        self._part: PartWriter | PassingWriter | None = None
        self._bucket = self._home = bucket
        self._replaces = replaces
        self._closing = _Closing()
        self._sources: set[int] = set()  # of the rows at hand

    def add(self, table: pa.Table) -> None:
        """Write `table`, which begins where the last one ended or later."""
        self._sources = set(_distinct(table))
        for bucket, rows, facts in self._by_bucket(table):
            if bucket != self._bucket:
                self._end_part()
                self._bucket = bucket
            for piece in self._pieces(rows):
                self._put(piece, facts)

    def finish(self) -> list[Member]:
        """End the last part; all of them."""
        if self._part is not None:
            part, self._part = self._part, None
            self._closing.last(part)
        return self._closing.members()

    def abort(self) -> None:
        """Drop the part under construction; those that are complete stay, unreferenced."""
        self._closing.stop()
        if self._part is not None:
            self._part.abort()
            self._part = None

    def _by_bucket(self, table: pa.Table) -> Iterator[tuple[int, pa.Table, Facts | None]]:
        """The rows of each bucket, and what is known of them where there are only a few in each."""
        if self._bucket_size is None or not self._origin.order_by:
            yield self._home, table, None
            return
        numbers = whole_numbers(table.column(self._origin.order_by))
        assert numbers is not None, "rows without an order value are no part's"
        buckets = numbers // self._bucket_size
        if not len(buckets):
            return
        starts = [0, *(np.flatnonzero(np.diff(buckets)) + 1).tolist()]
        ends = [*starts[1:], len(buckets)]
        few = not self._passing and len(starts) > 1 and len(buckets) <= _FEW * len(starts)
        known = facts_of_runs(table, starts) if few else [None for _ in starts]
        for start, end, facts in zip(starts, ends, known, strict=True):
            yield (
                int(buckets[start]),
                table.slice(start, end - start),
                facts if end - start <= FIRST else None,
            )

    def _pieces(self, table: pa.Table) -> Iterator[pa.Table]:
        """Row groups that end between two order values, longer only where one value is. Of rows that only
        pass, whoever folds them finds such ends."""
        key = None if self._passing else self._origin.order_by
        ends = value_ends(table.column(key), ROW_GROUP) if key else _even_ends(table.num_rows)
        begin = 0
        for end in ends:
            yield table.slice(begin, end - begin)
            begin = end

    def _put(self, piece: pa.Table, facts: Facts | None) -> None:
        """Write rows that should stay together, in a new part if this one can't take them."""
        if self._part is not None and not self._fits(piece, self._part):
            self._end_part()
        for rows in self._bearable(piece):
            if self._part is not None and not self._fits(rows, self._part):
                self._end_part()
            if self._part is None:
                self._part = self._fresh()
            self._part.write(rows, facts if rows.num_rows == piece.num_rows else None)

    def _fresh(self) -> PartWriter | PassingWriter:
        if self._passing and passes_in(self._table_dir):
            return PassingWriter(self._table_dir, self._bucket, self._schema, self._origin)
        return PartWriter(
            self._table_dir,
            self._bucket,
            self._schema,
            self._origin,
            replaces=self._replaces,
            passing=self._passing,
        )

    def _fits(self, rows: pa.Table, part: PartWriter | PassingWriter) -> bool:
        if part.rows + rows.num_rows > self._limits.rows or part.bytes >= self._limits.bytes:
            return False
        fewer = min(rows.num_rows, len(self._sources))
        if len(part.sources) + fewer <= self._limits.sources:
            return True
        return len(part.sources.keys() | set(_distinct(rows))) <= self._limits.sources

    def _bearable(self, piece: pa.Table) -> Iterator[pa.Table]:
        """The piece whole, or in as few as a fresh part each can take."""
        while piece.num_rows:
            end = self._most(piece)
            if end < piece.num_rows and self._origin.order_by:
                starts = value_starts(piece.column(self._origin.order_by))
                place = int(np.searchsorted(starts, end, side="right"))
                end = int(starts[place - 1]) if place else end
            yield piece.slice(0, end)
            piece = piece.slice(end)

    def _most(self, piece: pa.Table) -> int:
        """How many of these rows a fresh part can take."""
        end: int = min(piece.num_rows, self._limits.rows)
        if min(end, len(self._sources)) > self._limits.sources:
            sources = piece.column(SOURCE).slice(0, end)
            if pc.count_distinct(sources).as_py() > self._limits.sources:
                _, first = np.unique(sources.to_numpy(), return_index=True)
                end = int(np.sort(first)[self._limits.sources])
        return end

    def _end_part(self) -> None:
        if self._part is not None:
            part, self._part = self._part, None
            self._closing.add(part)


class _Closing:
    """Parts that are complete, made durable while the next ones are written. Many at once: a disk syncs
    sixteen small files in hardly more time than one, and a bucket takes as many. Small parts wait for each
    other: threads that take turns with the one that writes cost more than they save."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._held: list[PartWriter | PassingWriter] = []
        self._bytes = 0  # of those
        self._members: list[Future[Member]] = []

    def add(self, part: PartWriter | PassingWriter) -> None:
        """One more, and others will follow."""
        self._held.append(part)
        self._bytes += part.bytes
        if self._bytes >= _WORTH or len(self._held) >= _WAITING:
            self._begin()

    def last(self, part: PartWriter | PassingWriter) -> None:
        """The last one, here: mostly there was no other."""
        self._held.append(part)
        self._begin(but=1)
        done: Future[Member] = Future()
        self._members.append(done)
        done.set_result(self._held.pop().close())

    def _begin(self, but: int = 0) -> None:
        """Close those that are held, `but` for the last ones. If one can't be, the others stay held."""
        self._bytes = 0
        while len(self._held) > but:
            self._pool = self._pool or ThreadPoolExecutor(_AT_ONCE)
            self._members.append(self._pool.submit(self._held.pop(0).close))
            if len(self._members) > _WAITING:  # each is an open file
                self._members[-1 - _WAITING].result()

    def members(self) -> list[Member]:
        """All of them, once each is where it belongs."""
        try:
            return [one.result() for one in self._members]
        finally:
            self.stop()

    def stop(self) -> None:
        """No more of them; those that nobody began to close are dropped."""
        held, self._held = self._held, []
        for part in held:
            part.abort()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _even_ends(rows: int) -> list[int]:
    return [*range(ROW_GROUP, rows, ROW_GROUP), rows]


def _distinct(rows: pa.Table) -> list[int]:
    found: list[int] = pc.unique(rows.column(SOURCE)).to_pylist()
    return found
