"""What is called plain is written by lading as it was read."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.formats.plain import are_plain_fractions, written

FRACTIONS = st.builds(
    lambda sign, whole, zeros, more: f"{sign}{whole}.{'0' * zeros}{more}",
    st.sampled_from(["", "-"]),
    st.just(0) | st.integers(0, 10**12),
    st.integers(0, 8),
    st.integers(0, 10**16),
)


@given(st.lists(FRACTIONS, min_size=1, max_size=50))
@settings(deadline=None)
def test_a_plain_fraction_comes_back_as_it_was_written(texts: list[str]) -> None:
    for text in texts:
        if are_plain_fractions(pa.array([text])):
            assert written(pc.cast(pa.array([text]), pa.float64())).to_pylist() == [text]
    assert are_plain_fractions(pa.array(texts)) == all(are_plain_fractions(pa.array([one])) for one in texts)


@given(st.integers(-(10**15) + 1, 10**15 - 1))
def test_an_integer_comes_back_from_a_double(number: int) -> None:
    assert written(pa.array([float(number), None])).to_pylist() == [str(number), None]
    assert written(pa.array([number])).to_pylist() == [str(number)]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("0.5", True),
        ("-12.25", True),
        ("0.000001", True),
        ("0.0000001", False),
        ("9999999999.5", True),
        ("10000000000.5", False),
        ("1234567890.12345", True),
        ("1234567890.123456", False),
        ("0.123456789012345", True),
        ("0.1234567890123456", False),
        ("0.50", False),
        ("5.0", False),
        ("5.", False),
        (".5", False),
        ("5", False),
        ("1e3", False),
        ("-0.0", False),
    ],
)
def test_a_fraction_is_plain_if_nothing_is_said_twice(text: str, plain: bool) -> None:
    assert are_plain_fractions(pa.array([text])) == plain
    assert not are_plain_fractions(pa.array(["0.5"] * 100 + ["0.50"]))


def test_what_is_no_number_is_written_like_arrow_does() -> None:
    assert written(pa.array([True, None, False])).to_pylist() == ["true", None, "false"]
    assert written(pa.array(["1"])).to_pylist() == ["1"]
    assert written(pa.array([float("nan"), float("inf"), 1e300, -0.0])).to_pylist() == [
        "nan",
        "inf",
        "1e+300",
        "0",
    ]
