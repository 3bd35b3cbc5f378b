"""Rows from two origins: the same whatever their order, and floats by one part in 10^9."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest

from lading.upkeep.same_rows import Row, plain_rows, same_rows

NAN, INF = float("nan"), float("inf")
UP = 1 + 4e-10  # two steps of it are the same, three are not


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([], [], True),
        ([("a", 1)], [("a", 1)], True),
        ([("a", 1)], [("a", 2)], False),
        ([("a", 1)], [], False),
        ([("a", 1), ("a", 1), ("b", 2)], [("a", 1), ("b", 2), ("b", 2)], False),
        ([("a", 0.1 + (0.2 + 0.3))], [("a", (0.1 + 0.2) + 0.3)], True),
        ([("a", 1.0)], [("a", 1.0 + 1e-6)], False),
        ([("a", NAN), ("b", INF)], [("b", INF), ("a", NAN)], True),
        ([("a", INF)], [("a", -INF)], False),
        ([("a", NAN)], [("a", 1.0)], False),
        ([("a", None)], [("a", 0.0)], False),
        ([("a", 0.0)], [("a", -0.0)], True),
        ([("a", [1.0, {"x": 2.0}])], [("a", [1.0 * UP, {"x": 2.0}])], True),
        ([("a", [1.0, {"x": 2.0}])], [("a", [1.0, {"x": 2.1}])], False),
        ([("a", [1.0])], [("a", [1.0, 1.0])], False),
        # Seven digits alike, and in another order.
        ([(1.00000001, "a"), (1.00000002, "a")], [(1.00000002, "a"), (1.00000001, "a")], True),
        ([(1.00000001, "a"), (1.00000002, "b")], [(1.00000002, "a"), (1.00000001, "b")], False),
        # The last digits of the first floats say which row comes first, and the second floats differ.
        ([(1.0, 5.0), (1.0 * UP, 7.0)], [(1.0, 7.0), (1.0 * UP, 5.0)], True),
        ([(1.0, 5.0), (1.0 * UP, 7.0)], [(1.0, 7.0), (1.0 * UP, 7.0)], False),
    ],
)
def test_rows_are_the_same_in_whatever_order_and_floats_to_one_part_in_a_billion(one, other, same):
    assert same_rows(one, other) == same_rows(other, one) == same


@pytest.mark.parametrize(
    ("held", "fresh", "aside", "same"),
    [
        ([("a", 1.0)], [("a", 2.0), ("a", 1.0)], 1, True),
        ([("a", 1.0)], [("a", 2.0), ("a", 1.0)], 0, False),
        ([("a", 1.0)], [("a", 2.0), ("b", 1.0)], 1, False),
        ([], [("a", 2.0)], 1, True),
        ([("a", 1.0)], [("a", 1.0)], 1, False),
        ([("a", 1.0)] * 2, [("a", 1.0), ("a", 3.0), ("a", 1.0 * UP)], 1, True),
    ],
)
def test_of_rows_that_were_set_aside_there_are_as_many_more(held, fresh, aside, same):
    assert same_rows(held, fresh, aside=aside) == same


def by_trying(one: list[Row], other: list[Row]) -> bool:
    """Every order of `other`, one value at a time."""

    def near(a: Any, b: Any) -> bool:
        return a == b or (isinstance(a, float) and abs(a - b) <= 1e-9 * max(abs(a), abs(b)))

    return any(
        all(near(a, b) for row, row2 in zip(one, some, strict=True) for a, b in zip(row, row2, strict=True))
        for some in permutations(other, len(one))
    )


@pytest.mark.parametrize("seed", range(300))
def test_rows_find_each_other_wherever_trying_all_orders_finds_a_way(seed):
    chance = random.Random(seed)
    steps, floats, count, aside = (chance.randint(*most) for most in ((2, 8), (1, 2), (1, 5), (0, 1)))

    def row() -> Row:
        return (chance.choice("ab"), *(UP ** chance.randrange(steps) for _ in range(floats)))

    held = [row() for _ in range(count)]
    fresh = [(row[0], *(value * chance.choice([1, 1, UP]) for value in row[1:])) for row in held]
    if chance.random() < 0.3:
        fresh[0] = row()
    fresh += [row() for _ in range(aside)]
    chance.shuffle(fresh)
    assert same_rows(held, fresh, aside=aside) == by_trying(held, fresh)


@pytest.mark.parametrize("close", [1e-3, 1e-10, 0.0])
def test_many_rows_take_no_longer_for_being_alike(close):
    rows = [("a", 1.7e9 * (1 + number * close), float(number % 10)) for number in range(20_000)]
    other = random.Random(1).sample(rows, len(rows))
    assert same_rows(rows, other) and same_rows(rows[1:], other, aside=1)
    assert not same_rows([*rows[1:], ("a", 5.0, 5.0)], other)


def test_rows_hold_times_that_python_has_not():
    far = pa.array([300_000_000_000_000_000, None], pa.timestamp("us"))
    days = pa.array([5_000_000, 1], pa.date32())
    nested = pa.array([[far[0].value], []], pa.list_(pa.timestamp("us", "UTC")))
    rows = plain_rows(pa.record_batch([far, days, nested], names=["a", "b", "c"]))
    assert rows == [
        (300_000_000_000_000_000, 5_000_000, [300_000_000_000_000_000]),
        (None, 1, []),
    ]
    near = pa.table({"a": [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=5)]})
    assert plain_rows(near) == [(5,)]
