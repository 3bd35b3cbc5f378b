"""Each text has the kinds that the reader's rules give it, however quickly they are found."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lading.formats.infer.classify import TEXT_TYPES, classify
from lading.formats.infer.kinds import LONG, NULL, Kinds, spark_type
from lading.formats.values import Texts
from lading.model import Column

AWKWARD = [
    "0", "-0", "-", ".", "-.", "--1", "5-3", "1.2.3", "10.0.0.1", "00", "-00", "007", "-07", "0.", "-0.",
    "0.5", "00.5", "-00.5", ".5", "-.5", "5.", "1,5", ",5", "5,", "1,2,3", "1.5,5", "+5", "1e5", "1E-5",
    "-1.5e+05", "e5", "5e", "1e5e5", "1ee5", "1e99999", "1e999", "1e+", "0e0", "00e0", "123456789012345",
    "1234567890123456", "-999999999999999999", "9223372036854775807", "-9223372036854775808",
    "9223372036854775808", "0123456789012345678", "12345678901234567890", "9" * 254 + ".5", "9" * 300,
    "9" * 400 + ".5", "1." + "0" * 600, "-" + "9" * 254, "-" + "9" * 255, "." * 256, "1" + "." * 256,
    "-" * 256 + "1", "1" + "e" * 257 + "1", "true", "TRUE", "trUe", "false", "False", "tru", "trues",
    "fal\u017fe", "Ford", "Texas", "t", "2024-02-29", "2023-02-29", "0000-01-01", "9999-12-31", "2024-1-31",
    "2024-01-31 ", "2024-01-31T10:00", "2024-01-31 10:00:00.1234567", "2024-01-31 10:00:00.120000000",
    "2024-01-31 24:00", "2024-01-31T10:00Z", "2024-01-31T10:00+18:00", "2024-01-31T10:00+1900",
    "2024-01-31x10:00", "1234-56-78", "-123-56-78", "31.01.2024", "1.1.2024", "31.01.2024 10:30",
    "20240131", "20241331", "Jan 5 2024", "5 Jan 2024", "x", " 1", "1 ", "ü1", "1ü", "١٢", "", "\0", "1\0",
    "\x15rue", "TRU\x05",
]  # fmt: skip
# Dates and times in formats of the table's own may be anything: digits alone, words, with optional parts.
WAYS = [
    Texts(empty_is_null=False),
    Texts(decimal=",", empty_is_null=False),
    Texts(dates=("dd.MM.yyyy",), empty_is_null=False),
    Texts(dates=("yyyyMMdd", "dd.MM.yyyy"), decimal=",", empty_is_null=False),
    Texts(timestamps=("yyyy-MM-dd['T'HH:mm]",), empty_is_null=False),
    Texts(dates=("MMM d yyyy", "d MMM yyyy"), timestamps=("dd.MM.yyyy[ HH:mm]",), empty_is_null=False),
]
TEXT = st.sampled_from(AWKWARD) | st.text("0019.,-+eE: TZtrufalsx/ü", max_size=24) | st.text(max_size=6)


def _types(texts: Texts, value: str, *, numbers: bool) -> list[str]:
    kinds = TEXT_TYPES if numbers else TEXT_TYPES[3:]
    return [
        kind for kind in kinds if texts.all_fit(pa.array([value]), Column("v", kind, inferred=True)) and value
    ]


@given(st.lists(TEXT, max_size=12), st.sampled_from(WAYS), st.booleans())
@example(AWKWARD, WAYS[0], True)
@example(AWKWARD, WAYS[1], True)
@example(AWKWARD, WAYS[2], True)
@example(AWKWARD, WAYS[3], True)
@example(AWKWARD, WAYS[4], False)
@example(AWKWARD, WAYS[5], True)
@settings(deadline=None)
def test_many_texts_at_once_have_the_types_that_each_has(
    values: list[str], texts: Texts, numbers: bool
) -> None:
    # Behind others, as a slice of an array has them.
    array = pa.array(["behind", *values, "ahead"], pa.string()).slice(1, len(values))
    found = classify(texts, array, numbers=numbers).tolist()
    named = [[kind for place, kind in enumerate(TEXT_TYPES) if bits >> place & 1] for bits in found]
    assert dict(zip(values, named, strict=True)) == {
        value: _types(texts, value, numbers=numbers) for value in values
    }


@given(st.lists(st.sampled_from(AWKWARD[:-4]), min_size=1, max_size=4), st.sampled_from(WAYS))
@settings(deadline=None)
def test_a_column_is_of_the_narrowest_type_that_all_its_values_have(values: list[str], texts: Texts) -> None:
    kinds = Kinds(texts)
    together = kinds.of_text(pa.array(values))
    joined = NULL
    for value in values:
        joined = kinds.join(joined, kinds.of_text(pa.array([value])))
    assert joined == together
    shared = [kind for kind in TEXT_TYPES if all(kind in _types(texts, v, numbers=True) for v in values)]
    assert spark_type(together) == next(iter(shared), "string")
    assert kinds.types(together) == frozenset(shared)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("5", "bigint"),
        ("0.5", "double"),
        ("1234567890123456", LONG),
        ("31.01.2024", "date or timestamp_ntz"),
        ("20240131", "bigint or date"),
        ("1234567890123456789", LONG),
        ("00123", "string"),
    ],
)
def test_a_kind_says_what_a_value_could_be_read_as(value: str, kind: str) -> None:
    texts = Texts(dates=("dd.MM.yyyy", "yyyyMMdd"), timestamps=("dd.MM.yyyy[ HH:mm]",), empty_is_null=False)
    assert Kinds(texts).of_text(pa.array([value])) == kind
