"""What zones rule out, and what they must never rule out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from lading.model import Zone
from lading.where.bind import bind, parse
from lading.where.prune import may_match
from lading.zones.bounds import zone_of
from lading.zones.vector import pack

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("u", pa.uint64()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("l", pa.list_(pa.int64())),
    ]
)


def kept(where: str, zones: Sequence[Zone | None], rows: int = 10) -> list[bool]:
    """Each zone as a member of one table, whose columns all have it."""
    vector = pack(zones)
    mask = may_match(bind(parse(where), SCHEMA), lambda column: vector, np.full(len(zones), rows))
    return [bool(keep) for keep in mask]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("i = 5", [True, False, False]),
        ("i != 5", [True, True, True]),
        ("i < 10", [True, False, False]),
        ("i <= 10", [True, True, False]),
        ("i > 19", [False, False, True]),
        ("i >= 19", [False, True, True]),
        ("i in (7, 25)", [True, False, True]),
        ("i not in (7, 25)", [True, True, True]),
        ("i between 9 and 10", [True, True, False]),
        ("not i between 9 and 10", [True, True, True]),
        ("not i < 20", [False, False, True]),
        ("not (i < 10 or i >= 20)", [False, True, False]),
        ("i < 10 and not i < 10", [False, False, False]),
        ("i < 9.5", [True, False, False]),
        ("i = 9.5", [False, False, False]),
        ("i < 1e30", [True, True, True]),
        ("i > 1e30", [False, False, False]),
        (f"i in ({', '.join(str(n) for n in range(100, 130))}, 12)", [False, True, False]),
    ],
)
def test_disjoint_members_are_ruled_out_by_their_ranges(where: str, expected: list[bool]) -> None:
    assert kept(where, [Zone(0, 9, 0), Zone(10, 19, 0), Zone(20, 29, 0)]) == expected


def test_one_value_only_rules_out_its_negation() -> None:
    zones = [Zone(5, 5, 0), Zone(5, 5, 3), Zone(5, 6, 0)]
    assert kept("i != 5", zones) == [False, False, True]
    assert kept("i not in (5, 7)", zones) == [False, False, True]
    assert kept("i = 5", zones) == [True, True, True]


def test_unknown_bounds_and_missing_zones_are_read() -> None:
    zones = [None, Zone(None, None, 0), Zone(None, 3, 0), Zone(3, None, 0)]
    for where in ("i = 3", "not i = 3", "i is not null", "i < 4", "i in (3, 9)"):
        assert kept(where, zones) == [True, True, True, True], where
    assert kept("i > 3", zones) == [True, True, False, True]
    many = ", ".join(str(n) for n in range(50, 80))
    assert kept(f"i in ({many})", zones) == [True, True, False, True]


def test_a_column_without_zones_rules_nothing_out() -> None:
    where = bind(parse("i = 1 and not i = 1"), SCHEMA)
    assert may_match(where, lambda column: None, np.array([5, 5])).tolist() == [True, True]


def test_null_counts_decide_is_null_and_only_nulls_match_nothing_else() -> None:
    zones = [Zone(1, 9, 0), Zone(1, 9, 4), Zone(None, None, 10), Zone(1, 9, None)]
    assert kept("i is null", zones) == [False, True, True, True]
    assert kept("i is not null", zones) == [True, True, False, True]
    assert kept("i = 5", zones) == [True, True, False, True]
    assert kept("not i = 5", zones) == [True, True, False, True]
    assert kept("i in (5)", zones) == [True, True, False, True]


def test_nan_outside_of_the_bounds_is_never_lost() -> None:
    zone = zone_of(pa.array([1.0, math.nan]))
    for where in ("not f < 5", "not f = 1", "f != 1", "f not in (1, 2)", "not (f >= 0 and f <= 2)"):
        assert kept(where, [zone], rows=2) == [True], where
    assert kept("f > 5", [zone], rows=2) == [False]
    assert kept("f != 1", [Zone(None, None, 2)], rows=2) == [False]


def test_a_literal_of_another_kind_than_the_zones_rules_nothing_out() -> None:
    assert kept("s = 'x'", [Zone(1, 2, 0)]) == [True]
    assert kept("f = 7.5", [Zone(1, 2, 0)]) == [True]


def test_unsigned_values_beyond_the_vector_are_read() -> None:
    zones = [Zone(0, 2**64 - 1, 0), Zone(2**63, 2**64 - 1, 0), Zone(0, 5, 0)]
    assert kept(f"u > {2**63}", zones) == [True, True, True]  # the last one costs a look, no more
    assert kept("u > 9", zones) == [True, True, False]
    assert kept(f"u = {2**64}", zones) == [False, False, False]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("s like 'ab%'", [False, True, True, False]),
        ("s not like 'ab%'", [True, False, True, True]),
        ("s like 'abc'", [False, True, True, False]),
        ("s like '%c'", [True, True, True, True]),
        ("s like 'ab%x'", [False, True, True, False]),
        ("s not like 'ab%x'", [True, True, True, True]),
        ("s like 'a_d'", [True, True, True, False]),
        ("s like '%'", [True, True, True, True]),
        ("s not like '%'", [False, False, False, False]),
    ],
)
def test_patterns_prune_by_the_text_before_their_first_wildcard(where: str, expected: list[bool]) -> None:
    zones = [Zone("a", "aa", 0), Zone("ab", "abzz", 0), Zone("aa", "b", 0), Zone("b", "c", 0)]
    assert kept(where, zones) == expected


def test_a_cut_maximum_does_not_hide_what_was_cut_off() -> None:
    text = "p" * 64 + "zzz"
    zone = zone_of(pa.array([text]))
    assert kept(f"s = '{text}'", [zone], rows=1) == [True]
    assert kept(f"s > '{'p' * 64}y'", [zone], rows=1) == [True]
    assert kept(f"s like '{'p' * 64}zz%'", [zone], rows=1) == [True]
    assert kept(f"s != '{'p' * 64}'", [zone], rows=1) == [True]
