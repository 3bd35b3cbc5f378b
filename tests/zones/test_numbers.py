"""Integers in as few bytes as they need."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.zones.numbers import both, differ, either, packed, packed_at, same, unpacked

INT64 = st.integers(-(2**63), 2**63 - 1)
NEAR = st.builds(
    lambda base, more: [min(base + one, 2**63 - 1) for one in more],
    INT64,
    st.lists(st.sampled_from([0, 1, 254, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32]), max_size=6),
)
OPS = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "!=": np.not_equal,
}  # fmt: skip


@given(
    st.lists(INT64)
    | st.builds(
        lambda base, more: [base + one for one in more],
        st.integers(-(2**62), 2**62),
        st.lists(st.integers(0, 70_000)),
    )
)
def test_what_is_packed_comes_out_again(values: list[int]) -> None:
    blob = packed(np.array(values, np.int64))
    found, end = unpacked(b"before--" + blob, 8)
    assert found.tolist() == values and found.dtype == np.int64
    assert end == 8 + len(blob) and end % 8 == 0


@pytest.mark.parametrize(
    ("span", "width"),
    [(0, 0), (1, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 4), (2**32, 8), (2**64 - 1, 8)],
)
def test_the_widest_decides_how_many_bytes_each_takes(span: int, width: int) -> None:
    numbers = np.array([-(2**63)] * 7 + [-(2**63) + span], np.int64)
    blob = packed(numbers)
    assert len(blob) == 24 + 8 * width
    assert (unpacked(blob)[0] == numbers).all()


def test_one_that_is_cut_or_of_an_impossible_width_is_an_error() -> None:
    blob = packed(np.arange(8))
    for end in range(len(blob)):
        with pytest.raises(ValueError, match="bytes"):
            unpacked(blob[:end])
    with pytest.raises(ValueError, match="3 bytes"):
        unpacked(b"\x03" + blob[1:] + bytes(100))


@given(NEAR, INT64 | st.integers(-300, 300), st.booleans())
def test_what_is_packed_compares_as_what_it_stands_for(values: list[int], value: int, near: bool) -> None:
    if near and values:
        value = min(max(values[0] + value % 600 - 300, -(2**63)), 2**63 - 1)
    plain = np.array(values, np.int64)
    left, _ = packed_at(packed(plain))
    for op, compared in OPS.items():
        assert left.holds(op, value).tolist() == compared(plain, np.int64(value)).tolist()
    other = plain[::-1].copy()
    right, _ = packed_at(packed(other))
    assert differ(left, right).tolist() == (plain != other).tolist() == differ(plain, other).tolist()
    assert differ(left, value).tolist() == (plain != value).tolist()
    assert [int(one) for one in left] == values and np.array(left).flags.writeable


def test_more_numbers_than_there_can_be_and_numbers_that_are_too_great_are_refused() -> None:
    whole = packed(np.array([5, 5], np.int64))
    with pytest.raises(ValueError, match="numbers of 0 bytes"):
        packed_at(whole[:8] + (2**63).to_bytes(8, "little") + whole[16:])
    great = packed(np.array([2**63 - 3, 2**63 - 1], np.int64))
    assert unpacked(great)[0].tolist() == [2**63 - 3, 2**63 - 1]
    with pytest.raises(ValueError, match="beyond 64 bits"):
        packed_at(great[:16] + (2**63 - 2).to_bytes(8, "little") + great[24:])


@given(st.lists(st.booleans(), max_size=4), st.booleans(), st.booleans())
def test_masks_that_say_the_same_of_all_are_put_together_as_others_are(
    answers: list[bool], answer: bool, first: bool
) -> None:
    mask, constant = np.array(answers, np.bool_), same(len(answers), answer)
    one, other = (constant, mask) if first else (mask, constant)
    assert constant.tolist() == [answer] * len(answers)
    assert both(one, other).tolist() == [answer and one for one in answers]
    assert either(one, other).tolist() == [answer or one for one in answers]
    assert both(mask, mask).tolist() == either(mask, mask).tolist() == answers
