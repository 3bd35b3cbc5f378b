"""Bounds keep their type's order, and zones never claim more than the column holds."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.model import Zone
from lading.zones.bounds import (
    LONGEST,
    bound_kind,
    decimal_bound,
    decimal_number,
    from_bound,
    next_prefix,
    to_bound,
    zone_of,
)


@pytest.mark.parametrize(
    ("value", "type", "bound"),
    [
        (5, pa.int8(), 5),
        (2**64 - 1, pa.uint64(), 2**64 - 1),
        (True, pa.bool_(), 1),
        (1.5, pa.float32(), 1.5),
        (math.nan, pa.float64(), None),
        (None, pa.int64(), None),
        ("é", pa.large_string(), "é"),
        (b"\xff", pa.binary(1), b"\xff"),
        (date(1970, 1, 3), pa.date32(), 2),
        (date(1969, 12, 31), pa.date64(), -1),
        (datetime(1970, 1, 1, 0, 0, 1), pa.timestamp("ms"), 1000),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), pa.timestamp("ns", "Europe/Paris"), 10**9),
        (time(0, 1), pa.time32("s"), 60),
        (time(0, 0, 0, 7), pa.time64("us"), 7),
        (timedelta(seconds=2), pa.duration("ms"), 2000),
        ([1], pa.list_(pa.int64()), None),
        ({"a": 1}, pa.struct([("a", pa.int64())]), None),
    ],
)
def test_a_value_becomes_its_plain_comparable_form(value: object, type: pa.DataType, bound: object) -> None:
    assert to_bound(value, type) == bound


def test_a_bound_turns_back_into_its_value() -> None:
    for value, type in [
        (7, pa.int16()),
        (True, pa.bool_()),
        (Decimal("-12345678901234567890123456789012345.678"), pa.decimal128(38, 3)),
        (Decimal("1.5"), pa.decimal256(60, 20)),
        (date(2024, 2, 29), pa.date64()),
        (datetime(2024, 2, 29, 1, 2, 3), pa.timestamp("us")),
        ("x", pa.string()),
    ]:
        bound = to_bound(value, type)
        assert bound is not None
        assert from_bound(bound, type) == pa.scalar(value, type)


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1), min_size=2, max_size=2))
def test_decimal_bytes_sort_as_their_numbers(numbers: list[int]) -> None:
    one, two = (decimal_bound(number, pa.decimal128(38, 2)) for number in numbers)
    assert (one < two, one == two) == (numbers[0] < numbers[1], numbers[0] == numbers[1])
    assert decimal_number(one) == numbers[0]
    assert len(one) == 17


def test_bounds_in_other_units_are_another_kind() -> None:
    kinds = [
        pa.timestamp("us"),
        pa.timestamp("ms"),
        pa.timestamp("us", "UTC"),
        pa.decimal128(9, 2),
        pa.decimal128(9, 3),
        pa.int64(),
        pa.date32(),
    ]
    assert len({bound_kind(type) for type in kinds}) == len(kinds)
    assert bound_kind(pa.timestamp("us", "UTC")) == bound_kind(pa.timestamp("us", "Asia/Tokyo"))
    assert bound_kind(pa.dictionary(pa.int8(), pa.string())) == bound_kind(pa.large_string())
    assert bound_kind(pa.map_(pa.string(), pa.int64())) is None


def test_nan_is_left_out_and_nothing_but_nan_is_unknown() -> None:
    assert zone_of(pa.array([2.0, math.nan, None, -1.0])) == Zone(-1.0, 2.0, 1)
    assert zone_of(pa.array([math.nan, math.nan])) == Zone(None, None, 0)
    assert zone_of(pa.array([None, None], pa.float64())) == Zone(None, None, 2)


def test_types_that_arrow_cannot_compare_have_zones_all_the_same() -> None:
    assert zone_of(pa.array(["b", "a", None]).dictionary_encode()) == Zone("a", "b", 1)
    assert zone_of(pa.array([3, 1], pa.duration("s"))) == Zone(1, 3, 0)
    assert zone_of(pa.array([1.5, -2.0], pa.float16())) == Zone(-2.0, 1.5, 0)
    assert zone_of(pa.chunked_array([["b"], ["a"]], pa.string_view())) == Zone("a", "b", 0)
    decimals = zone_of(pa.array([Decimal("1.50"), Decimal("-2")], pa.decimal32(5, 2)))
    assert decimals is not None
    assert isinstance(decimals.min, bytes)
    assert decimal_number(decimals.min) == -200


def test_a_dictionary_value_that_no_row_uses_is_not_in_the_zone() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([1, None]), pa.array(["a", "b", "z"]))
    assert zone_of(column) == Zone("b", "b", 1)


def test_types_without_an_order_have_no_zone() -> None:
    assert zone_of(pa.array([[1], [2]])) is None
    assert zone_of(pa.array([{"a": 1}])) is None
    assert zone_of(pa.nulls(3)) is None


@given(
    st.lists(
        st.one_of(st.text(max_size=70), st.text("p\U0010ffff\ud7ff", min_size=60, max_size=70)), min_size=1
    )
)
def test_a_cut_zone_still_holds_every_value(values: list[str]) -> None:
    zone = zone_of(pa.array(values, pa.string()))
    assert zone is not None
    for value in values:
        assert isinstance(zone.min, str)
        assert zone.min.encode() <= value.encode()
        assert zone.max is None or str(zone.max).encode() >= value.encode()
    assert len(zone.min) <= LONGEST
    assert zone.max is None or len(str(zone.max)) <= LONGEST


def test_a_maximum_that_cannot_be_rounded_up_is_unknown() -> None:
    assert zone_of(pa.array([b"\xff" * 65])) == Zone(b"\xff" * 64, None, 0)
    assert zone_of(pa.array([b"\xff" * 64])) == Zone(b"\xff" * 64, b"\xff" * 64, 0)
    assert zone_of(pa.array(["a" + "\U0010ffff" * 70])) == Zone("a" + "\U0010ffff" * 63, "b", 0)


def test_the_next_prefix_steps_over_surrogates() -> None:
    assert next_prefix("a\ud7ff") == "a\ue000"
    assert next_prefix("a") == "b"
    assert next_prefix(b"a\xff") == b"b"
    assert next_prefix("") is None
