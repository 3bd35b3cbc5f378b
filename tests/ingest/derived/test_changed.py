"""Rows that came and went: what is the same on both sides changes nothing, wherever it stands now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest

from lading.ingest.derived.changed import added, count_moves, net_rows
from lading.ingest.derived.slots import Cut
from lading.layout.table import SOURCE

Rows = list[tuple[str | None, int | None, int]]  # port, tonnes, source


@dataclass
class Given:
    """Rows of one side, in place of a snapshot's."""

    given: Rows
    sign: int

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        table = {
            "port": pa.array([row[0] for row in self.given], pa.string()),
            "tonnes": pa.array([row[1] for row in self.given], pa.int64()),
            SOURCE: pa.array([row[2] for row in self.given], pa.int64()),
        }
        if self.given:
            yield pa.RecordBatch.from_pydict(table).select([*columns, SOURCE])


@pytest.mark.parametrize(
    ("old", "new", "moved"),
    [
        ([("hh", 1, 1)], [("hh", 1, 1)], []),
        ([("hh", 1, 1)], [("hh", 2, 1)], [("hh", 1, 1, -1), ("hh", 2, 1, 1)]),
        ([("hh", 1, 1), ("hh", 1, 1)], [("hh", 1, 1)], [("hh", 1, 1, -1)]),
        ([("hh", 1, 1)], [("hh", 1, 2)], []),  # in another file now
        ([("hh", 1, 1), ("ro", 5, 1)], [("hh", 1, 2)], [("ro", 5, 1, -1)]),
        ([(None, None, 1)], [(None, None, 1)], []),
        ([(None, 1, 1)], [(None, None, 1)], [(None, 1, 1, -1), (None, None, 1, 1)]),
        ([], [("hh", 1, 1)], [("hh", 1, 1, 1)]),
    ],
)
def test_only_rows_that_differ_count(old: Rows, new: Rows, moved):
    found = net_rows([Given(old, -1), Given(new, 1)], ["port", "tonnes"])  # type: ignore[list-item]
    rows = [tuple(row.values()) for row in found.to_pylist()]
    assert sorted(map(repr, rows)) == sorted(map(repr, moved))


def test_nothing_on_either_side_is_nothing():
    assert net_rows([Given([], -1), Given([], 1)], ["port"]).num_rows == 0  # type: ignore[list-item]


def test_too_many_to_compare_each_row_counts_by_slot_and_source():
    old, new = Given([("hh", 1, 1), ("hh", 2, 1)], -1), Given([("hh", 1, 1)], 1)
    cut = Cut(("port",), 16)
    [slot] = set(cut.of(next(new.batches(["port"]))).tolist())
    assert count_moves([old, new], cut) == {(slot, 1): (2, 1)}  # type: ignore[list-item]


def test_moves_add_up():
    assert added({(1, 5): (1, 2)}, {(1, 5): (3, 0), (2, 5): (0, 1)}) == {(1, 5): (4, 2), (2, 5): (0, 1)}
