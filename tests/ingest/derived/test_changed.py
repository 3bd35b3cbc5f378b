"""Rows that came and went: what is the same on both sides changes nothing, wherever it stands now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest

from lading.ingest.derived.changed import Moves, moves_of, net
from lading.ingest.derived.signed import Side, signed_rows
from lading.ingest.derived.slots import Cut, row_hashes
from lading.layout.table import SOURCE

Rows = list[tuple[str | None, int | None, int]]  # port, tonnes, source


@dataclass
class Given:
    """Rows of one side, in place of a snapshot's."""

    given: Rows
    sign: int

    def by_member(self) -> list[Given]:
        return [self]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        table = {
            "port": pa.array([row[0] for row in self.given], pa.string()),
            "tonnes": pa.array([row[1] for row in self.given], pa.int64()),
            SOURCE: pa.array([row[2] for row in self.given], pa.int64()),
        }
        if self.given:
            yield pa.RecordBatch.from_pydict(table).select([*columns, SOURCE])


CUT = Cut(("port",), 16)


def moved(old: Rows, new: Rows) -> Moves:
    sides: list[Side] = [Given(old, -1), Given(new, 1)]  # type: ignore[list-item]
    return moves_of(net(signed_rows(sides, ["port", "tonnes"], CUT, True)))


def slot(port: str | None) -> int:
    return int(CUT.of(pa.RecordBatch.from_arrays([pa.array([port], pa.string())], ["port"]))[0])


HH, RO, NONE = slot("hh"), slot("ro"), slot(None)


@pytest.mark.parametrize(
    ("old", "new", "moves"),
    [
        ([("hh", 1, 1)], [("hh", 1, 1)], {}),
        ([("hh", 1, 1)], [("hh", 2, 1)], {(HH, 1): (1, 1)}),
        ([("hh", 1, 1), ("hh", 1, 1)], [("hh", 1, 1)], {(HH, 1): (1, 0)}),
        ([("hh", 1, 1)], [("hh", 1, 2)], {}),  # in another file now
        ([("hh", 1, 1), ("ro", 5, 1)], [("hh", 1, 2)], {(RO, 1): (1, 0)}),
        ([("hh", 1, 1)], [("hh", 1, 2), ("hh", 1, 3)], {(HH, 1): (1, 0), (HH, 2): (0, 1), (HH, 3): (0, 1)}),
        ([(None, None, 1)], [(None, None, 1)], {}),
        ([(None, 1, 1)], [(None, None, 1)], {(NONE, 1): (1, 1)}),
        ([], [("hh", 1, 1)], {(HH, 1): (0, 1)}),
        ([], [], {}),
    ],
)
def test_only_rows_that_differ_count(old: Rows, new: Rows, moves: Moves):
    assert moved(old, new) == moves


def test_too_many_to_compare_each_row_counts_by_slot_and_source():
    sides: list[Side] = [Given([("hh", 1, 1), ("hh", 2, 1)], -1), Given([("hh", 1, 1)], 1)]  # type: ignore[list-item]
    assert moves_of(signed_rows(sides, ["port"], CUT, False)) == {(HH, 1): (2, 1)}


def test_rows_that_differ_in_anything_have_different_hashes():
    columns = {
        "f": pa.array([0.0, -0.0, None, 1.0, 1.0, 1.0, 1.0]),
        "s": pa.array(["a", "a", "a", "", None, "ab", "a"]),
        "t": pa.array(["b", "b", "b", "b", "b", "", "b"]),
        "n": pa.array([1, 1, 1, 1, 1, 1, None], pa.int32()),
    }
    high, low = row_hashes(pa.RecordBatch.from_pydict(columns))
    assert len(set(high.tolist())) == len(set(low.tolist())) == 7
    again = row_hashes(pa.RecordBatch.from_pydict(columns).slice(3, 2))
    assert again[0].tolist() == high[3:5].tolist() and again[1].tolist() == low[3:5].tolist()
