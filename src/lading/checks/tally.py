"""Counts what the checks find in the rows of a task, by source, and says which rows may not stay."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.layout.table import SOURCE
from lading.model import Check, CheckTally

_SAMPLE = 3  # rows shown of a check


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """What a task has to know of the checks; travels to the workers."""

    names: tuple[str, ...] = ()
    columns: tuple[str | None, ...] = ()  # of each, for people
    reject: int = 0  # the checks whose failing rows are left out, as bits
    more: dict[int, int] = field(default_factory=dict)  # and those of single sources
    errors: tuple[int, ...] = ()  # the checks that are no mere warnings, by number

    @classmethod
    def of(
        cls, checks: Iterable[Check], *, quarantine: bool, more: Mapping[int, int] | None = None
    ) -> CheckSpec:
        several = tuple(checks)
        return cls(
            tuple(check.name for check in several),
            tuple(", ".join(check.columns) or None for check in several),
            _rejecting(several) if quarantine else 0,
            dict(more or {}),
            tuple(number for number, check in enumerate(several) if check.severity == "error"),
        )


def _rejecting(checks: Iterable[Check]) -> int:
    """The checks of which no row may fail: whatever does can be left out as it comes by."""
    return sum(
        1 << number
        for number, check in enumerate(checks)
        if check.severity == "error" and not (check.threshold.count or check.threshold.share)
    )


class Tallying:
    """The tally of one task."""

    def __init__(self, spec: CheckSpec) -> None:
        self.tally = CheckTally()
        self._spec = spec

    def count(
        self, batch: pa.RecordBatch, source: np.ndarray, bits: np.ndarray, came: np.ndarray
    ) -> np.ndarray:
        """Count the rows that `came` to the checks; the bits for which each row may not stay."""
        _add(self.tally.rows, _counts(source[came]))
        if not bits.any():
            return bits
        for number, name in enumerate(self._spec.names):
            hit = (bits & np.uint64(1 << number)) != 0
            if not hit.any():
                continue
            _add(self.tally.failed.setdefault(name, {}), _counts(source[hit]))
            shown = self.tally.sample.get(name, ())
            if len(shown) < _SAMPLE:
                few = batch.take(pa.array(np.flatnonzero(hit)[: _SAMPLE - len(shown)]))
                self.tally.sample[name] = (*shown, *_texts(few))
        rejecting: np.ndarray = bits & self._rejecting(source)
        return rejecting

    def _rejecting(self, source: np.ndarray) -> np.ndarray:
        """The checks that reject rows, for each row's source."""
        bits = np.full(len(source), self._spec.reject, np.uint64)
        for one, more in self._spec.more.items():
            bits[source == one] |= np.uint64(more)
        return bits


def summed(tallies: Iterable[CheckTally]) -> CheckTally:
    """What all tasks counted."""
    total = CheckTally()
    for one in tallies:
        _add(total.rows, one.rows)
        for name, counts in one.failed.items():
            _add(total.failed.setdefault(name, {}), counts)
        for name, rows in one.sample.items():
            both = sorted({*total.sample.get(name, ()), *rows})
            total.sample[name] = tuple(both[:_SAMPLE])
    return total


def _texts(rows: pa.RecordBatch) -> Iterator[tuple[int, str]]:
    return zip(rows.column(SOURCE).to_pylist(), rows_as_json(rows), strict=True)


def rows_as_json(rows: pa.RecordBatch) -> list[str]:
    """For people; `_source` is none of their columns."""
    names = [name for name in rows.schema.names if name != SOURCE]
    columns = [_shown(rows.column(name)) for name in names]
    return [
        json.dumps(dict(zip(names, values, strict=True)), default=str, ensure_ascii=False)
        for values in zip(*columns, strict=True)
    ]


def _shown(column: pa.Array) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):  # Python's dates end with the year 9999
        return [str(value) for value in column.cast(pa.string()).to_pylist()]


def _counts(source: np.ndarray) -> dict[int, int]:
    found = pc.value_counts(pa.array(source))
    return dict(zip(*(column.to_pylist() for column in found.flatten()), strict=True))


def _add(total: dict[int, int], more: Mapping[int, int]) -> None:
    for source, rows in more.items():
        total[source] = total.get(source, 0) + rows
