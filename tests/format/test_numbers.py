"""Integers in as few bytes as they need."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.format.numbers import packed, unpacked

INT64 = st.integers(-(2**63), 2**63 - 1)


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
