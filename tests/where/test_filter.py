"""Filters keep the rows for which the predicate is true: not those where it is false or unknown."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from lading.where.bind import bind, parse
from lading.where.filter import apply, to_arrow

BATCH = pa.record_batch(
    {
        "n": pa.array([1, 2, None], pa.int64()),
        "f": pa.array([1.0, math.nan, None]),
        "z": pa.array([0.0, -0.0, None]),
        "s": pa.array(["a\nb", "ab", None]),
        "d": pa.array(["x", "y", None]).dictionary_encode(),
    }
)


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("n = 1", [0]),
        ("n != 1", [1]),
        ("not n = 1", [1]),
        ("n in (1, 5)", [0]),
        ("n not in (1, 5)", [1]),
        ("not n in (7)", [0, 1]),
        ("n = 1 or n is null", [0, 2]),
        ("n = 1 or f = 1", [0]),
        ("not (n = 1 and f = 5)", [0, 1]),
        ("n < 1e30", [0, 1]),
        ("not n < 1e30", []),
        ("f < 5", [0]),
        ("not f < 5", [1]),
        ("f != 1", [1]),
        ("z = 0", [0, 1]),
        ("z in (0.0)", [0, 1]),
        ("z in (-0.0)", [0, 1]),
        ("s like 'a_b'", [0]),
        ("s like 'a%b'", [0, 1]),
        ("s like '%b'", [0, 1]),
        ("s not like 'ab%'", [0]),
        ("d = 'x'", [0]),
        ("d like 'y%'", [1]),
        ("d > 'x'", [1]),
    ],
)
def test_only_true_is_kept(where: str, rows: list[int]) -> None:
    kept = apply(BATCH, to_arrow(bind(parse(where), BATCH.schema), BATCH.schema))
    # As text: NaN is not equal to itself.
    assert str(kept.to_pylist()) == str(BATCH.take(pa.array(rows, pa.int64())).to_pylist())
