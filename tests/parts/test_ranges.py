"""Passing parts: by which ranges they are folded, and that nothing is lost by it."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.model import Member, Place
from lading.parts import cut as cutting
from lading.parts.cut import Limits
from lading.parts.fold import FoldSpec, fold_parts
from lading.parts.footer import Origin
from lading.parts.ranges import even_cuts, plan_ranges
from lading.parts.task import TaskSpec, written

ORIGIN = Origin("t", "run", "c", "k")


def member(low: int, high: int, bucket: int = 0, size: int = 1) -> Member:
    return Member(f"{low}-{high}", 1, size, bucket, low, high, low, high, "", {})


def test_a_small_bucket_is_one_fold_and_buckets_stay_apart() -> None:
    members = [member(0, 5), member(3, 7, bucket=1), member(4, 6, bucket=1)]
    folds = plan_ranges(members, Place("/nowhere"), "k")
    assert [(fold.bucket, fold.paths) for fold in folds] == [(0, ("0-5",)), (1, ("3-7", "4-6"))]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), max_size=40), st.integers(1, 8))
def test_cuts_ascend_and_are_no_more_than_asked_for(marks: list[tuple[int, int]], ranges: int) -> None:
    cuts = even_cuts(marks, ranges)
    assert cuts == sorted(set(cuts)) and len(cuts) < ranges
    assert set(cuts) <= {key for key, _ in marks}


@pytest.mark.parametrize("kind", ["int", "string", "float"])
def test_ranges_hold_every_row_once_and_are_disjoint(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutting, "ROW_GROUP", 50)
    pick = random.Random(kind)
    make = {
        "int": lambda: pick.randrange(1_000),
        "string": lambda: f"{pick.randrange(1_000):04d}" * 30,
        "float": lambda: pick.choice([pick.random(), float("nan")]),
    }[kind]
    members, keys = [], []
    for source in range(4):
        table = pa.table({"k": [make() for _ in range(400)], "_source": pa.array([source] * 400, pa.int64())})
        keys += table.column("k").to_pylist()
        schema = table.schema.serialize().to_pybytes()
        spec = TaskSpec(Place(str(tmp_path)), ORIGIN, schema, None, 1 << 20, Limits(), passing=True)
        members += written(iter(table.to_batches()), spec)
    folds = plan_ranges(members, Place(str(tmp_path)), "k", most=sum(one.bytes for one in members) // 5)
    assert len(folds) > 2
    found = [
        part for fold in folds for part in fold_parts(fold, FoldSpec(Place(str(tmp_path)), ORIGIN, schema))
    ]
    rows = [
        value
        for part in found
        for value in pq.ParquetFile(tmp_path / part.path).read().column("k").to_pylist()
    ]
    assert sorted(map(repr, rows)) == sorted(map(repr, keys))
    ends = sorted((part.key_min, part.key_max) for part in found if part.key_min is not None)
    assert all(one[1] < two[0] for one, two in pairwise(ends))
