"""What a task counts of the checks, and which rows it leaves out."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from lading.checks.rows import RowChecks
from lading.checks.tally import CheckSpec, Tallying, summed
from lading.model import Check, CheckTally, Severity, Threshold

SCHEMA = pa.schema({"id": pa.int64(), "_source": pa.int64()})
NONE = Threshold()


def not_among(value: int, severity: Severity = "error", threshold: Threshold = NONE) -> Check:
    others = tuple(str(one) for one in range(10) if one != value)
    return Check("values", f"not {value}", "k", 1, severity, threshold, ("id",), values=others)


STRICT = not_among(2)
WARNS = not_among(3, severity="warn")
TOLERANT = not_among(4, threshold=Threshold(count=1))
CHECKS = (STRICT, WARNS, TOLERANT)
FILES = {7: [1, 2, 3], 8: [2, 2, 4], 9: [4, 5]}


def batch(source: int) -> pa.RecordBatch:
    ids = FILES[source]
    return pa.RecordBatch.from_arrays([pa.array(ids), pa.array([source] * len(ids))], schema=SCHEMA)


def passed(tallying: Tallying, rows: pa.RecordBatch, failed: np.ndarray) -> list[int]:
    """The rows that may stay."""
    source = rows.column("_source").to_numpy()
    rejecting = tallying.count(rows, source, failed, np.ones(rows.num_rows, bool))
    return [rows.column(0)[place].as_py() for place in np.flatnonzero(rejecting == 0)]


def counted(spec: CheckSpec, *batches: pa.RecordBatch) -> tuple[list[int], CheckTally]:
    checks = RowChecks(CHECKS, SCHEMA, "t")
    tallying = Tallying(spec)
    kept = [passed(tallying, rows, checks.failed(rows)) for rows in batches]
    return [one for rows in kept for one in rows], tallying.tally


def spec(reject: int = 0, more: dict[int, int] | None = None) -> CheckSpec:
    return CheckSpec(tuple(check.name for check in CHECKS), reject=reject, more=more or {})


def test_only_checks_of_which_no_row_may_fail_reject_rows_as_they_come():
    assert CheckSpec.of(CHECKS, quarantine=True).reject == 1
    assert CheckSpec.of(CHECKS, quarantine=False).reject == 0
    several = [WARNS, STRICT, TOLERANT, not_among(1, threshold=Threshold(share=0.1)), STRICT]
    assert CheckSpec.of(several, quarantine=True).reject == 0b10010
    assert CheckSpec.of([not_among(1, threshold=Threshold(count=0))], quarantine=True).reject == 1


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        (spec(), [1, 2, 3, 2, 2, 4, 4, 5]),
        (spec(1), [1, 3, 4, 4, 5]),
        (spec(1, {8: 0b100}), [1, 3, 4, 5]),
        (spec(0, {7: 0b10, 8: 0b1}), [1, 2, 4, 4, 5]),
    ],
)
def test_rows_are_counted_by_source_whether_they_are_left_out_or_not(told, kept):
    both = pa.Table.from_batches([batch(7), batch(8)]).combine_chunks().to_batches()[0]
    found, one = counted(told, both)
    more, two = counted(told, batch(9))
    assert found + more == kept
    tally = summed([one, two])
    assert tally.rows == {7: 3, 8: 3, 9: 2}
    assert tally.failed == {STRICT.name: {7: 1, 8: 2}, WARNS.name: {7: 1}, TOLERANT.name: {8: 1, 9: 1}}


def test_a_rejected_row_says_which_checks_it_is_left_out_for():
    failed = np.array([0b111, 0b111, 0b010, 0], np.uint64)
    source = np.array([1, 2, 2, 1])
    rows = pa.record_batch({"id": [1, 2, 3, 4], "_source": source})
    rejecting = Tallying(spec(0b001, {2: 0b010})).count(rows, source, failed, np.ones(4, bool))
    assert rejecting.tolist() == [0b001, 0b011, 0b010, 0]
    assert failed.tolist() == [0b111, 0b111, 0b010, 0]


def test_the_last_bit_counts():
    names = tuple(f"check {number}" for number in range(62))
    tallying = Tallying(CheckSpec(names, reject=1 << 61))
    assert passed(tallying, batch(7), np.array([1 << 61, 0, 1], np.uint64)) == [2, 3]
    assert tallying.tally.failed == {"check 61": {7: 1}, "check 0": {7: 1}}


def test_a_few_rows_are_shown_the_same_ones_in_whatever_order_tasks_come():
    tallies = [counted(spec(), batch(source))[1] for source in FILES]
    shown = summed(tallies).sample
    assert shown == summed(reversed(tallies)).sample
    assert shown[STRICT.name] == ((7, '{"id": 2}'), (8, '{"id": 2}'))
    many = [batch(8)] * 3
    assert summed([counted(spec(), *many)[1]]).sample[STRICT.name] == ((8, '{"id": 2}'),)


def test_a_row_is_shown_whatever_its_types_are():
    rows = pa.record_batch(
        {
            "far": pa.array([2**31 - 1, 0, 0, 0], pa.int32()).cast(pa.date32()),
            "day": pa.array([0, 1, 2, 3], pa.int32()).cast(pa.date32()),
            "list": [[1, None], None, [], []],
            "_source": pa.array([1, 1, 1, 1], pa.int64()),
        }
    )
    tallying = Tallying(CheckSpec(("c",)))
    source = rows.column("_source").to_numpy()
    assert not tallying.count(rows, source, np.ones(4, np.uint64), np.ones(4, bool)).any()
    (number, first), *others = tallying.tally.sample["c"]
    assert number == 1 and len(others) == 2
    assert json.loads(first) == json.loads(first) | {"day": "1970-01-01", "list": [1, None]}
