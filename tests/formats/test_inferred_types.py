"""A type that was inferred takes a value exactly if inference over all files would still give that type."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.formats.infer.columns import infer
from lading.formats.infer.kinds import Kinds, spark_type
from lading.formats.values import Texts
from lading.model import Column, FoundFile

AWKWARD = [
    "0", "1", "-1", "-0", "+1", "007", "00501", "08001", "12345", "123456789012345", "1234567890123456",
    "-123456789012345", "-1234567890123456", "9007199254740993", "9223372036854775807",
    "9223372036854775808", "1.", ".5", "-.5", "0.5", "-0.5", "00.5", "+1.5", "1.5", "1e3", "0e1", "-0E1",
    "1e-12345", "1e999", "NaN", "Inf", "-Infinity", " 1", "1 ", "1d", "0x1p3", "1,5", "-", ".", "-.",
    "1234567890123456.5", "true", "FALSE", "t", "2024-01-31", "0000-01-01", "0001-01-01", "2024-1-31",
    "2024-02-30", "2021-01-15 17:22", "2021-01-15T17:22:01", "2021-01-15 17:22:01.1234560",
    "2021-01-15 17:22:01.000000000000", "2021-01-15 17:22:01.1234567", "2021-01-15 17", "0000-01-01 00:00",
    "2021-01-15 17:22Z", "2021-01-15 17:22:01+0200", "2021-01-15T17:22:01+02", "2021-01-15T17:22:01+18:00",
    "2021-01-15T17:22:01+18:30", "2021-01-15T17:22:01+19:00", "2021-01-15 24:00", "2021-01-15 17:22:60",
    "17:22", "x", "31.01.2024", "1.1.2024", "31.01.2024 10:30",
]  # fmt: skip
FIRST = [
    "1", "9007199254740993", "1.5", "true", "2024-01-31", "2021-01-15 17:22", "2021-01-15 17:22Z", "x",
    "31.01.2024", "31.01.2024 10:30",
]  # fmt: skip
FORMATS = [(None, None), ("dd.MM.yyyy", None), (None, "dd.MM.yyyy HH:mm"), ("d.M.yyyy", "dd.MM.yyyy HH:mm")]


def _inferred(kinds: Kinds, *values: str) -> str:
    return spark_type(kinds.of_text(pa.array(values)))


@pytest.mark.parametrize(("date", "timestamp"), FORMATS)
def test_a_value_fits_an_inferred_type_exactly_if_inference_would_still_give_it(
    date: str | None, timestamp: str | None
) -> None:
    kinds = Kinds(Texts.of({"date_format": date, "timestamp_format": timestamp}))
    for first, second in itertools.product(FIRST, AWKWARD):
        type = _inferred(kinds, first)
        fits = kinds.texts.all_fit(pa.array([second]), Column("v", type, inferred=True))
        assert fits == (_inferred(kinds, first, second) == type), (first, second, type)


@given(st.lists(st.sampled_from(AWKWARD), min_size=1, max_size=3), st.lists(st.sampled_from(AWKWARD)))
@settings(max_examples=50, deadline=None)
def test_values_fit_together_exactly_if_each_does(first: list[str], second: list[str]) -> None:
    kinds = Kinds()
    column = Column("v", _inferred(kinds, *first), inferred=True)
    each = all(kinds.texts.all_fit(pa.array([value]), column) for value in second)
    together = _inferred(kinds, *first, *second) == column.type
    assert each == together
    fits = kinds.texts.fits(pa.array(second, pa.string()), column)
    assert fits.tolist() == [kinds.texts.all_fit(pa.array([value]), column) for value in second]


@pytest.mark.parametrize(
    ("value", "type"),
    [
        ("2021-01-15 17:22", "timestamp_ntz"),
        ("2021-01-15T17:22:01.000000000", "timestamp_ntz"),
        ("2021-01-15 17:22Z", "timestamp"),
        ("2021-01-15T17:22:01+0200", "timestamp"),
        ("2021-01-15T17:22:01+02", "timestamp"),
    ],
)
def test_what_the_reader_takes_for_a_timestamp_inference_does_too(
    tmp_path: Path, value: str, type: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"t\n{value}\n")
    found = FoundFile("a.csv", str(path), 1, 1, False)
    assert infer([found], fmt="csv", read_options={}).columns == (Column("t", type),)
    path.write_text(f'{{"t": "{value}"}}\n')
    assert infer([found], fmt="json", read_options={}).columns == (Column("t", type),)
