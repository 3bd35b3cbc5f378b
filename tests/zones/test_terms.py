"""Bounds of a column that has another type by now: still bounds of what is read, or unknown."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.model import Member, Zone
from lading.parts.convert import converted
from lading.zones.bounds import to_bound, zone_of
from lading.zones.terms import in_terms_of, other_terms, rezoned
from lading.zones.vector import ZoneVector, pack

MOMENT, DAY = pa.timestamp("us"), pa.date32()
STORED: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-12, 12) | st.integers(-(2**53), 2**53),
    pa.int32(): st.integers(-12, 12),
    pa.float64(): st.integers(-12, 12).map(float) | st.integers(-(10**15), 10**15).map(float),
    DAY: st.integers(-20_000, 90_000),
    MOMENT: st.integers(-20_000, 90_000).map(lambda day: day * 86_400_000_000),
    pa.string(): st.sampled_from(["", "1", "9", "10", "-3"]),
    pa.bool_(): st.booleans(),
    pa.decimal128(9, 2): st.decimals(-99, 99, places=2),
}
PAIRS = [
    (pa.int64(), pa.float64()),
    (pa.float64(), pa.int64()),
    (pa.int32(), pa.int64()),
    (DAY, MOMENT),
    (MOMENT, DAY),
    (pa.int64(), pa.string()),
    (pa.float64(), pa.string()),
    (DAY, pa.string()),
    (pa.string(), pa.int64()),
    (pa.string(), pa.float64()),
    (pa.bool_(), pa.string()),
    (pa.decimal128(9, 2), pa.decimal128(12, 4)),
]
KEPT = {(pa.int64(), pa.float64()), (pa.float64(), pa.int64()), (DAY, MOMENT), (MOMENT, DAY)}


def turned(zones: list[Zone | None], rows: list[int], old: pa.DataType, new: pa.DataType) -> ZoneVector:
    return in_terms_of(new, old, pack(zones), np.array(rows, np.int64))


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=lambda dtype: str(dtype))
def test_every_value_that_is_read_lies_within_the_bounds_and_every_null_is_counted(
    old: pa.DataType, new: pa.DataType
) -> None:
    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.lists(STORED[old] | st.none(), min_size=1, max_size=4), min_size=1, max_size=4))
    def check(members: list[list[Any]]) -> None:
        arrays = [pa.array(values, old) for values in members]
        vector = turned([zone_of(array) for array in arrays], [len(one) for one in members], old, new)
        for number, array in enumerate(arrays):
            zone = vector.zone(number) or Zone(None, None, None)
            read = converted(array, new)
            bounds: list[Any] = [to_bound(value, new) for value in read if value.is_valid]
            assert zone.min is None or all(zone.min <= bound for bound in bounds)
            assert zone.max is None or all(zone.max >= bound for bound in bounds)
            assert zone.nulls in (None, read.null_count)
            if (old, new) in KEPT and bounds:
                assert (zone.min, zone.max) == (min(bounds), max(bounds)), "it still rules out what it did"
            if not bounds and not array.null_count < len(array):
                assert zone.nulls == len(array), "nothing but nulls is known to be that"

    check()


def test_a_bound_that_has_to_be_rounded_is_rounded_outwards() -> None:
    far = 2**53 + 1
    zone = turned([Zone(far, far, 0), Zone(-far, -far, 0)], [1, 1], pa.int64(), pa.float64())
    assert zone.zone(0) == Zone(2.0**53 - 1, 2.0**53 + 2, 0)
    assert zone.zone(1) == Zone(-(2.0**53) - 2, -(2.0**53) + 1, 0)
    assert turned([Zone(1.25, 2.75, 0)], [2], pa.float64(), pa.int64()).zone(0) == Zone(1, 3, 0)
    early = turned([Zone(-1, 86_400_000_001, 0)], [2], MOMENT, DAY)
    assert early.zone(0) == Zone(-1, 1, 0)


def test_what_a_type_has_no_room_for_is_unknown() -> None:
    wide = [Zone(-1e300, 1e300, 0), Zone(float("-inf"), 2.0, 0), Zone(1.0, None, 0)]
    found = turned(wide, [2, 2, 2], pa.float64(), pa.int64())
    assert [found.zone(at) for at in range(3)] == [Zone(None, None, 0), Zone(None, 2, 0), Zone(1, None, 0)]
    far = turned([Zone(-(2**31), 2**31 - 1, 0)], [2], DAY, MOMENT)
    assert far.zone(0) == Zone(None, None, 0)


def test_a_number_that_became_text_or_the_other_way_round_rules_nothing_out() -> None:
    assert turned([Zone(9, 10, 0)], [2], pa.int64(), pa.string()).zone(0) == Zone(None, None, 0)
    assert turned([Zone("10", "9", 0)], [2], pa.string(), pa.int64()).zone(0) is None
    assert turned([Zone(None, None, 2)], [2], pa.string(), pa.int64()).zone(0) == Zone(None, None, 2)


def test_other_terms_are_those_of_columns_that_left_or_mean_something_else() -> None:
    def schema(**types: pa.DataType) -> bytes:
        return pa.schema(list(types.items())).serialize().to_pybytes()

    old = schema(a=pa.int32(), b=pa.int64(), c=pa.date32(), d=pa.string())
    new = schema(e=pa.int64(), d=pa.string(), c=pa.timestamp("us"), a=pa.int64())
    assert other_terms(old, new) == {"b": (pa.int64(), None), "c": (pa.date32(), pa.timestamp("us"))}
    assert other_terms(b"", new) == other_terms(old, b"") == other_terms(old, old) == {}


def test_members_have_their_zones_in_other_terms_and_nothing_else_changes() -> None:
    zones = {"a": Zone(1, 2, 0), "b": Zone(1, 2, 1), "c": Zone("x", "y", 0)}
    member = Member("p", 3, 1, 0, 0, 0, 1, 2, "2024", zones, ((7, 3),))
    bare = Member("q", 2, 1, 0, 0, 0, 1, 2, "2024", {})
    terms = {"a": (pa.int64(), pa.float64()), "b": (pa.int64(), None)}
    one, other = rezoned([member, bare], terms)
    assert one.zones == {"a": Zone(1.0, 2.0, 0), "c": Zone("x", "y", 0)}
    assert isinstance(one.zones["a"].min, float)
    assert (one.path, one.sources, one.key_max) == ("p", ((7, 3),), 2) and other == bare


def test_packed_vectors_are_turned_as_plain_ones_are() -> None:
    chance = random.Random(5)
    zones = [Zone(chance.randrange(9), 9 + chance.randrange(9), 0) for _ in range(50)]
    rows = np.full(50, 3)
    packed = ZoneVector.from_blob(pack(zones).to_blob(), as_packed=True)
    plain = in_terms_of(pa.float64(), pa.int64(), pack(zones), rows)
    found = in_terms_of(pa.float64(), pa.int64(), packed, rows)
    assert found.to_blob() == plain.to_blob()
