"""Counts what the checks found, where the rows are: in the tasks that write them.

Beside its rows a task has a number for each that says which checks it fails (rows.py). They are counted by
source, and rows that are to be set aside are kept from being written. One small record a task goes back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.layout.table import SOURCE
from lading.model import Check, CheckTally

_SAMPLE = 3  # rows shown of a check


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """What a task has to know of the checks; travels to the workers."""

    names: tuple[str, ...]
    reject: int = 0  # the checks whose failing rows are left out
    more: dict[int, int] = field(default_factory=dict)  # and those of single sources


def rejecting(checks: Iterable[Check]) -> int:
    """The checks of which no row may fail: whatever does can be left out as it comes by."""
    return sum(
        1 << number
        for number, check in enumerate(checks)
        if check.severity == "error" and not (check.threshold.count or check.threshold.share)
    )


def rejected(failed: np.ndarray, source: np.ndarray, checks: CheckSpec) -> np.ndarray:
    """For each row, the checks that it fails and is left out for; 0: it stays."""
    bits = failed & np.uint64(checks.reject)
    for one, more in checks.more.items():
        of_it = source == one
        bits[of_it] |= failed[of_it] & np.uint64(more)
    return bits


class Counting:
    """Counts the rows of one task as they come by."""

    def __init__(self, checks: CheckSpec) -> None:
        self.tally = CheckTally()
        self._checks = checks

    def passed(self, rows: pa.RecordBatch, failed: np.ndarray) -> pa.RecordBatch:
        """The rows that are not left out; `failed` has the checks that each of `rows` fails."""
        source = rows.column(rows.schema.get_field_index(SOURCE)).to_numpy(zero_copy_only=False)
        _add(self.tally.rows, _counts(source))
        if not failed.any():
            return rows
        self._count(rows, source, failed)
        gone = rejected(failed, source, self._checks) != 0
        return rows.filter(pa.array(~gone)) if gone.any() else rows

    def encoded(self) -> bytes:
        """The tally as it goes back to the driver."""
        return msgspec.msgpack.encode(self.tally)

    def _count(self, rows: pa.RecordBatch, source: np.ndarray, failed: np.ndarray) -> None:
        for number, name in enumerate(self._checks.names):
            hit = (failed & np.uint64(1 << number)) != 0
            if not hit.any():
                continue
            _add(self.tally.failed.setdefault(name, {}), _counts(source[hit]))
            shown = self.tally.sample.get(name, ())
            if len(shown) < _SAMPLE:
                few = rows.take(pa.array(np.flatnonzero(hit)[: _SAMPLE - len(shown)]))
                self.tally.sample[name] = (*shown, *_texts(few))


def summed(tallies: Iterable[bytes]) -> CheckTally:
    """What all tasks counted."""
    total = CheckTally()
    for encoded in tallies:
        one = msgspec.msgpack.decode(encoded, type=CheckTally)
        _add(total.rows, one.rows)
        for name, counts in one.failed.items():
            _add(total.failed.setdefault(name, {}), counts)
        for name, rows in one.sample.items():
            both = sorted({*total.sample.get(name, ()), *rows})
            total.sample[name] = tuple(both[:_SAMPLE])
    return total


def _texts(rows: pa.RecordBatch) -> Iterator[tuple[int, str]]:
    """Rows as JSON, each with its source."""
    for values in zip(*map(_shown, rows.columns), strict=True):
        named = dict(zip(rows.schema.names, values, strict=True))
        source = int(named.pop(SOURCE))
        yield source, json.dumps(named, default=str, ensure_ascii=False)


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
