"""Counts what the checks found, where the rows are: in the tasks that write them.

Each row brings a number that says which checks it fails. Here it is taken off again, counted by source,
and rows that are to be set aside are kept from being written. One small record a task goes back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa

from lading.layout.table import SOURCE
from lading.model import Check, CheckTally
from lading.parts.task import TaskSpec, with_sources, write_parts

FAILED = "__lading_failed"  # the column that carries the number, the last one
CHECKED = "member binary, tally binary"  # what such a task returns, as Spark DDL

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


def write_checked(
    batches: Iterator[pa.RecordBatch], spec: TaskSpec, checks: CheckSpec
) -> Iterator[pa.RecordBatch]:
    """`write_parts`, with the checks counted on the way."""
    schema = pa.ipc.read_schema(pa.py_buffer(spec.schema))
    counting = _Counting(schema.names, checks)
    for written in write_parts(counting.passed(with_sources(batches, schema)), spec):
        nothing = pa.nulls(written.num_rows, pa.binary())
        yield pa.RecordBatch.from_arrays([written.column(0), nothing], names=["member", "tally"])
    encoded = pa.array([msgspec.msgpack.encode(counting.tally)], pa.binary())
    yield pa.RecordBatch.from_arrays([pa.nulls(1, pa.binary()), encoded], names=["member", "tally"])


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


def rejected_bits(source: np.ndarray, checks: CheckSpec) -> np.ndarray:
    """The checks that reject rows, for each row's source."""
    bits = np.full(len(source), checks.reject, np.int64)
    for one, more in checks.more.items():
        bits[source == one] |= more
    return bits


class _Counting:
    def __init__(self, names: list[str], checks: CheckSpec) -> None:
        self.tally = CheckTally()
        self._names = names
        self._checks = checks

    def passed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            failed = batch.column(batch.num_columns - 1).to_numpy(zero_copy_only=False)
            rows = batch.select(list(range(batch.num_columns - 1)))
            source = rows.column(self._names.index(SOURCE)).to_numpy(zero_copy_only=False)
            self._count(rows, source, failed)
            rejected = (failed & rejected_bits(source, self._checks)) != 0
            yield rows.filter(pa.array(~rejected)) if rejected.any() else rows

    def _count(self, rows: pa.RecordBatch, source: np.ndarray, failed: np.ndarray) -> None:
        _add(self.tally.rows, _counts(source))
        if not failed.any():
            return
        for number, name in enumerate(self._checks.names):
            hit = (failed & (1 << number)) != 0
            if not hit.any():
                continue
            _add(self.tally.failed.setdefault(name, {}), _counts(source[hit]))
            shown = self.tally.sample.get(name, ())
            if len(shown) < _SAMPLE:
                few = rows.take(pa.array(np.flatnonzero(hit)[: _SAMPLE - len(shown)]))
                self.tally.sample[name] = (*shown, *self._texts(few))

    def _texts(self, rows: pa.RecordBatch) -> Iterator[tuple[int, str]]:
        for values in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            named = dict(zip(self._names, values, strict=False))
            source = int(named.pop(SOURCE))
            yield source, json.dumps(named, default=str, ensure_ascii=False)


def _counts(source: np.ndarray) -> dict[int, int]:
    values, counts = np.unique(source, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _add(total: dict[int, int], more: Mapping[int, int]) -> None:
    for source, rows in more.items():
        total[source] = total.get(source, 0) + rows
