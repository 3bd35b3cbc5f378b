"""Plain texts and the values they say: either can be had from the other, and no other text can."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.formats.plain import all_plain, plain_values, written

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-12, 12),
    pa.float64(): st.one_of(
        st.floats(allow_nan=False, allow_infinity=False),
        st.integers(-(10**15), 10**15).map(float),
        st.decimals(-(10**12), 10**12, places=3).map(float),
        st.decimals(-1, 1, places=14).map(float),
    ),
    pa.bool_(): st.booleans(),
    pa.date32(): st.integers(-719_162, 2_932_896).map(lambda day: date(1970, 1, 1) + timedelta(days=day)),
}


@pytest.mark.parametrize("dtype", VALUES, ids=str)
def test_a_value_comes_back_from_its_text_and_the_text_from_its_value(dtype: pa.DataType) -> None:
    @settings(max_examples=300, deadline=None)
    @given(st.lists(VALUES[dtype] | st.none(), max_size=6))
    def check(values: list[Any]) -> None:
        array = pa.array(values, dtype)
        texts = written(array)
        assert texts.null_count == array.null_count
        again = plain_values(texts, dtype)
        assert str(again.to_pylist()) == str(values), "-0.0 is not 0.0"
        assert written(again).equals(texts)

    check()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5.0, "5"),
        (0.1, "0.1"),
        (12.25, "12.25"),
        (-0.0, "-0"),
        (12345678901.0, "12345678901"),
        (999999999999999.0, "999999999999999"),
        (-12345678901.25, "-12345678901.25"),
        (0.0000001, "0.0000001"),
        (1e15, "1e+15"),
        (1.5e300, "1.5e+300"),
    ],
)
def test_numbers_are_written_as_people_do(value: float, text: str) -> None:
    assert written(pa.array([None, value, 1.5])).to_pylist() == [None, text, "1.5"]


@settings(max_examples=500, deadline=None)
@given(st.from_regex(re.compile(r"-?(0|[1-9][0-9]{0,8})(\.[0-9]{0,5}[1-9])?", re.ASCII), fullmatch=True))
def test_a_number_of_few_digits_is_plain_if_it_is_as_short_as_it_can_be(text: str) -> None:
    assert all_plain(pa.array([text]), pa.float64())


@pytest.mark.parametrize(
    ("dtype", "texts"),
    [
        (pa.int64(), ["05", "+5", "5.0", "1e3", "0x10", "-0", "", " 5", "9223372036854775808", "five"]),
        (pa.float64(), ["05", "+5", "5.0", "1e3", ".5", "5.", "0.10", "1E-7", "NaN", "inf", "", "1,5"]),
        (pa.bool_(), ["True", "TRUE", "1", "0", "yes", ""]),
        (pa.date32(), ["2024-1-2", "20240102", "2024-01-02 00:00:00", "02/01/2024", ""]),
    ],
    ids=str,
)
def test_what_the_value_would_not_give_back_is_not_plain(dtype: pa.DataType, texts: list[str]) -> None:
    good = written(pa.array([1], pa.int32()).cast(dtype if dtype != pa.float64() else pa.int64()))[0].as_py()
    assert all_plain(pa.array([good, None]), dtype)
    for text in texts:
        assert not all_plain(pa.array([good, text, None]), dtype), text
        with pytest.raises(pa.ArrowInvalid):
            plain_values(pa.array([text]), dtype)
