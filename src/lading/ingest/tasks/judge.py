"""Which rows may be written: those with an order value that fail no check which sets rows aside.

Rows are judged in the task that writes them, block by block, with their places at hand; what goes back is
small: counts by source, and the first row of each kind of fault.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from lading.checks.rows import RowChecks
from lading.checks.tally import CheckSpec, Tallying, rows_as_json
from lading.layout.table import SOURCE
from lading.model import BadRow, CheckTally, Place
from lading.parts.aside import write_aside
from lading.parts.footer import Origin

_HELD = 50_000  # bad rows that are held before they are written
_HELD_TEXT = 32 << 20  # and characters of them
_SHOWN = 1_000  # characters of a row that the driver is told of
_QUOTED = 200  # characters of a value that a reason quotes


class AsideOf(msgspec.Struct, frozen=True):
    """Where a task has kept the bad rows of one source."""

    source: int
    start: int  # the piece of the file that their numbers count from
    path: str
    rows: int


class FailingRow(msgspec.Struct, frozen=True):
    """The first row that a task saw fail a check."""

    check: int
    start: int
    row: BadRow


@dataclass(frozen=True, slots=True)
class Places:
    """Where the rows of a block stand; a row that a transform made stands nowhere, and is its own text."""

    texts: Callable[[Sequence[int]], list[str]]
    start: int = 0  # of the piece that is being read
    records: np.ndarray | None = None
    lines: np.ndarray | None = None
    starts: np.ndarray | None = None  # of the piece that each row is of, where a block has rows of several
    cells: Callable[[str, Sequence[int]], list[str | None]] | None = None  # as in `Rows`

    def values(self, batch: pa.RecordBatch, places: np.ndarray, column: str | None) -> list[str | None]:
        """A column's values in rows of the block, as they stand there; None for what is null."""
        if column is None or column not in batch.schema.names:
            return [None] * len(places)
        if self.cells is not None:
            return self.cells(column, places.tolist())
        values = [json.loads(row)[column] for row in as_text(batch.select([column]))(places.tolist())]
        return [one if one is None or isinstance(one, str) else json.dumps(one) for one in values]

    def rows(
        self,
        source: np.ndarray,
        places: np.ndarray,
        column: str | None,
        reason: str,
        blamed: Sequence[str | None] | None = None,
    ) -> list[tuple[int, BadRow]]:
        """Start and description of rows of the block. `blamed` are the values that the reasons begin with."""
        found = []
        values = blamed or [None] * len(places)
        for place, text, value in zip(places.tolist(), self.texts(places.tolist()), values, strict=True):
            record = int(self.records[place]) if self.records is not None else None
            line = int(self.lines[place]) if self.lines is not None else None
            start = int(self.starts[place]) if self.starts is not None else self.start
            said = f"{value!r} {reason}" if value and len(value) <= _QUOTED else reason
            found.append((start, BadRow(int(source[place]), record, line, column, said, text)))
        return found


def as_text(batch: pa.RecordBatch) -> Callable[[Sequence[int]], list[str]]:
    """The rows of a batch as JSON, for those that are no record of a file any more."""

    def texts(places: Sequence[int]) -> list[str]:
        return rows_as_json(batch.take(pa.array(places, pa.int64())))

    return texts


def no_key(order_by: str | None) -> str:
    return f"the order column {order_by!r} is null"


def shortened(rows: Sequence[tuple[int, BadRow]]) -> list[tuple[int, BadRow]]:
    """Rows as far as anybody is shown them."""
    return [(start, replace(row, text=row.text[:_SHOWN])) for start, row in rows]


class AsideRows:
    """Bad rows of one task on their way to where they are kept."""

    def __init__(self, table_dir: Place | None, origin: Origin, keys: dict[int, str]) -> None:
        """Without a `table_dir` they are not kept."""
        self.written: list[AsideOf] = []
        self._table_dir = table_dir
        self._origin = origin
        self._keys = keys  # of the files, by source
        self._held: list[tuple[int, BadRow]] = []
        self._text = 0

    def add(self, rows: Sequence[tuple[int, BadRow]]) -> None:
        if self._table_dir is None:
            return
        self._held.extend(rows)
        self._text += sum(len(row.text) for _, row in rows)
        if len(self._held) >= _HELD or self._text >= _HELD_TEXT:
            self.flush()

    def flush(self) -> None:
        if self._table_dir is None:
            return
        by_piece: dict[tuple[int, int], list[BadRow]] = {}
        for start, row in self._held:
            by_piece.setdefault((row.source, start), []).append(row)
        for (source, start), rows in by_piece.items():
            rows.sort(key=lambda row: (row.record is None, row.record or 0))
            member = write_aside(self._described(rows), self._table_dir, self._origin)
            if member is not None:
                self.written.append(AsideOf(source, start, member.path, member.rows))
        self._held.clear()
        self._text = 0

    def _described(self, rows: Sequence[BadRow]) -> Iterator[dict[str, Any]]:
        for row in rows:
            yield {
                SOURCE: row.source,
                "file": self._keys.get(row.source),
                "record": row.record,
                "line": row.line,
                "column": row.column,
                "reason": row.reason,
                "text": row.text,
            }


class Judge:
    """Judges the rows of one task."""

    def __init__(
        self, order_by: str | None, checks: RowChecks, spec: CheckSpec, aside: AsideRows | None
    ) -> None:
        """`aside` takes what may not be written; without one nothing is left out but rows without a key."""
        self.unkeyed: Counter[int] = Counter()
        self.first_unkeyed: list[tuple[int, BadRow]] = []  # with the start of its piece
        self.failing: dict[tuple[int, int], FailingRow] = {}  # by check and source
        self._order_by = order_by
        self._checks = checks
        self._spec = spec
        self._aside = aside
        self._tallying = Tallying(spec)
        # Whose first rows somebody will be shown: those of checks that fail the run.
        self._blamed = [] if aside is not None else spec.errors

    @property
    def tally(self) -> CheckTally:
        return self._tallying.tally

    def passed(self, batch: pa.RecordBatch, places: Places, more: np.ndarray | None = None) -> pa.RecordBatch:
        """The rows of a batch that may be written. `more` are the bits of checks that Spark has made."""
        stay = np.ones(batch.num_rows, bool)
        source = batch.column(SOURCE).to_numpy(zero_copy_only=False)
        if self._order_by is not None and batch.column(self._order_by).null_count:
            stay &= self._keyed(batch, source, places)
        if self._spec.names and batch.num_rows:
            stay &= self._checked(batch, source, places, more, stay)
        return batch if stay.all() else batch.filter(pa.array(stay))

    def _keyed(self, batch: pa.RecordBatch, source: np.ndarray, places: Places) -> np.ndarray:
        missing = batch.column(self._order_by).is_null().to_numpy(zero_copy_only=False)
        self.unkeyed.update(source[missing].tolist())
        where = np.flatnonzero(missing)
        reason = no_key(self._order_by)
        if not self.first_unkeyed:
            self.first_unkeyed = shortened(places.rows(source, where[:1], self._order_by, reason))
        if self._aside is not None:
            self._aside.add(places.rows(source, where, self._order_by, reason))
        there: np.ndarray = ~missing
        return there

    def _checked(
        self,
        batch: pa.RecordBatch,
        source: np.ndarray,
        places: Places,
        more: np.ndarray | None,
        stay: np.ndarray,
    ) -> np.ndarray:
        bits = self._checks.failed(batch, more)
        bits[~stay] = 0
        rejecting = self._tallying.count(batch, source, bits, stay)
        if not bits.any():
            return stay
        for number in self._blamed:
            hit = np.flatnonzero(bits & np.uint64(1 << number))
            _, first = np.unique(source[hit], return_index=True)
            new = [at for at in hit[first].tolist() if (number, int(source[at])) not in self.failing]
            for start, row in shortened(places.rows(source, np.array(new, np.int64), None, "")):
                self.failing[number, row.source] = FailingRow(number, start, row)
        if self._aside is not None:
            self._set_aside(batch, source, rejecting, places)
        fine: np.ndarray = rejecting == 0
        return fine

    def _set_aside(
        self, batch: pa.RecordBatch, source: np.ndarray, rejecting: np.ndarray, places: Places
    ) -> None:
        assert self._aside is not None
        for value in np.unique(rejecting[rejecting != 0]).tolist():
            broken = [number for number in range(len(self._spec.names)) if value & (1 << number)]
            said = ", ".join(repr(self._spec.names[number]) for number in broken)
            column = self._spec.columns[broken[0]]
            where = np.flatnonzero(rejecting == value)
            values = places.values(batch, where, column)
            self._aside.add(places.rows(source, where, column, f"fails the check {said}", values))
