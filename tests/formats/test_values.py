"""The rules from text to value: what each type takes, and that the value is exactly what the text says."""

from __future__ import annotations

import pickle
import re
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.errors import ConfigError
from lading.formats.arrow_types import arrow_type
from lading.formats.values import Texts
from lading.model import Column

NONE = "no value"
BASE = [
    "0", "1", "-1", "+1", "007", "127", "128", "-128", "-129", "32768", "2147483648",
    "9223372036854775807", "9223372036854775808", "1.", ".5", "-.5", "1.5", "1.50", "1.239",
    "12345.67", "1e3", "1E-3", "1e999", "1d", "1f", "1D", "0x1p3", "0x10", "NaN", "nan", "Inf",
    "-Inf", "Infinity", "+Infinity", "inf", " 1", "1 ", "1\t", "1\x00", "1_0", "1,5", "1,500",
    "--1", "+", "-", ".", "e", "1e", "٣", "true", "FALSE", "t", "Y", "yes", "2024-01-31",
    "2024-1-31", "2024-02-30", "2024-01-31 ", "2024-01-31T", "2024-01", "2024", "12024-01-31",
    "2024-01-31 10:00", "2024-01-31T10:00:00", "2024-01-31 10:00:00.5",
    "2024-01-31 10:00:00.123456", "2024-01-31 10:00:00.1234567", "2024-01-31 10:00:00.1234560",
    "2024-01-31T25:00:00", "2024-01-31T10:00:60", "2024-01-31T10:00:00Z",
    "2024-01-31T10:00:00+02:00", "2024-01-31T10:00:00+0200", "2024-01-31T10:00:00+02",
    "2024-01-31T10:00Z", "T10:00", "10:00", "now", "today", "x", "00:00", "2024-01-31T10:00:00+18:00",
    "2024-01-31T10:00:00+18:30", "2024-01-31T10:00:00-19", "2024-01-31 10:00:00.123456000000",
    "-0", "00501", "1234567890123456", "-1234567890123456", "00.5", "+1.5", "-0E1", "9" * 400 + ".5",
    "1e-12345", "0." + "3" * 50, "9" * 400, "1\x7f", "1/", "2024-01-31 10", "2024-01-31 1000", "1\n",
]  # fmt: skip
TYPES = [
    "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(38,0)",
    "decimal(38,38)", "boolean", "date", "timestamp", "timestamp_ntz",
]  # fmt: skip
_DAY = r"(\d{4})-(\d\d)-(\d\d)"
_TIME = rf"{_DAY}(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{{1,6}})0*)?)?(Z|[+-]\d\d(?::?\d\d)?)?)?"


def expected(text: str, dtype: str) -> Any:
    """The guide's table, in plain Python."""
    if dtype in ("tinyint", "smallint", "int", "bigint"):
        bits = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}[dtype]
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            return NONE
        return int(text) if -(2**bits) <= int(text) < 2**bits else NONE
    if dtype in ("double", "float"):
        if text in ("NaN", "Inf", "+Inf", "-Inf", "Infinity", "+Infinity", "-Infinity"):
            return float(text)
        if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
            return NONE
        try:
            value = struct.unpack("f", struct.pack("f", float(text)))[0] if dtype == "float" else float(text)
        except OverflowError:
            return NONE
        return NONE if abs(value) == float("inf") else value
    if dtype.startswith("decimal"):
        precision, scale = (int(number) for number in re.findall(r"\d+", dtype))
        if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)", text):
            return NONE
        whole, _, fraction = text.lstrip("+-").partition(".")
        fits = len(whole.lstrip("0")) <= precision - scale and len(fraction.rstrip("0")) <= scale
        return Decimal(text) if fits else NONE
    if dtype == "boolean":
        return {"true": True, "false": False}.get(text.lower(), NONE)
    match = re.fullmatch(_DAY if dtype == "date" else _TIME, text, re.ASCII)
    if match is None or (dtype == "timestamp_ntz" and match[8]):
        return NONE
    try:
        if dtype == "date":
            return date(*map(int, match.groups()))
        fraction = int((match[7] or "").ljust(6, "0"))
        clock = [int(match[n] or 0) for n in (4, 5, 6)]
        moment = datetime(*map(int, match.groups()[:3]), *clock, fraction)
    except ValueError:
        return NONE
    if dtype == "timestamp_ntz":
        return moment
    zone = (match[8] or "Z").replace(":", "")
    minutes = 0 if zone == "Z" else int(zone[1:3]) * 60 + int(zone[3:] or 0)
    if minutes > 18 * 60 or int(zone[3:] or 0) > 59:
        return NONE
    return moment.replace(tzinfo=UTC) - timedelta(minutes=minutes) * (-1 if zone[0] == "-" else 1)


def read(
    texts: list[str | None], dtype: str, *, how: Texts | None = None, inferred: bool = False
) -> list[Any]:
    column = Column("v", dtype, inferred=inferred)
    array = pa.array(texts, pa.string())
    values, misfits = (how or Texts()).read(array, column)
    assert values.type == arrow_type(dtype) and len(values) == len(texts)
    assert (misfits is None) == (how or Texts()).all_fit(array, column)
    wrong = [False] * len(texts) if misfits is None else misfits.to_pylist()
    return [NONE if bad else value for bad, value in zip(wrong, values.to_pylist(), strict=True)]


def same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other) or (one == other and type(one) is type(other) and one is not NONE)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_type_that_a_person_wrote_takes_what_the_guide_says(dtype: str) -> None:
    wanted = [expected(text, dtype) for text in BASE]
    together = read(BASE, dtype)
    for text, want, got in zip(BASE, wanted, together, strict=True):
        assert same(got, want), (text, got, want)
        (alone,) = read([text], dtype)
        assert same(alone, want), (text, alone, want)
    assert read([*BASE, None, ""], dtype)[-2:] == [None, None]


_numbers = st.from_regex(r"\A[+-]?[0-9]{0,40}\.?[0-9]{0,40}([eE][+-]?[0-9]{1,3})?\Z")
_times = st.from_regex(
    r"\A[0-9]{4}-[01][0-9]-[0-3][0-9]([T ][0-2][0-9](:[0-6][0-9](:[0-6][0-9](\.[0-9]{1,8})?)?)?"
    r"(Z|[+-][0-2][0-9](:?[0-6][0-9])?)?)?\Z"
)


@given(st.lists(st.one_of(_numbers, _times, st.text(max_size=3), st.sampled_from(BASE)), max_size=5))
@settings(max_examples=150, deadline=None)
def test_values_are_exactly_what_the_text_says(texts: list[str]) -> None:
    texts = [text for text in texts if text and not text.startswith("0000")]  # a year that Python has not
    for dtype in TYPES:
        for text, got in zip(texts, read(texts, dtype), strict=True):
            assert same(got, expected(text, dtype)), (text, dtype)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.integers(1, 25))
@settings(max_examples=100, deadline=None)
def test_doubles_are_rounded_once_and_as_python_does(floats: list[float], digits: int) -> None:
    texts = [repr(one) for one in floats] + [f"{one:.{digits}e}" for one in floats]
    assert read(texts, "double") == [expected(text, "double") for text in texts]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.0000000596046447753906250000001", 1.0000001192092896),  # rounded twice, it would be 1
        ("1e39", NONE),
        ("3.4028235e38", 3.4028234663852886e38),
        ("3.4028236e38", NONE),
        ("-1e39", NONE),
    ],
)
def test_a_float_is_rounded_once_and_never_infinite(text: str, value: Any) -> None:
    assert read([text], "float") == [value]
    assert read([text, "x"], "float") == [value, NONE]


@pytest.mark.parametrize("texts", [["1" * 38], ["0" * 60 + "1." + "0" * 60], ["0." + "1" * 38], ["1" * 39]])
@pytest.mark.parametrize("dtype", ["decimal(38,0)", "decimal(38,38)", "decimal(38,20)", "decimal(1,0)"])
def test_no_digit_of_a_decimal_is_lost(texts: list[str], dtype: str) -> None:
    assert [same(got, expected(texts[0], dtype)) for got in read(texts, dtype)] == [True]


@given(
    st.integers(1, 38).flatmap(lambda precision: st.tuples(st.just(precision), st.integers(0, precision))),
    st.from_regex(r"\A[+-]?(0{0,3}|[0-9]{0,20})(\.(0*|[0-9]{0,20}))?\Z"),
    st.sampled_from([0, 1, 20, 40, 80]),
    st.sampled_from([0, 1, 40]),
)
@settings(max_examples=300, deadline=None)
def test_zeros_that_say_nothing_change_no_decimal(
    size: tuple[int, int], text: str, after: int, before: int
) -> None:
    """Arrow's own cast makes 0.0 of '24322.' and forty zeros."""
    sign = text[:1] if text[:1] in ("+", "-") else ""
    long = sign + "0" * before + text.removeprefix(sign) + ("0" * after if "." in text else "")
    if long:
        (got,) = read([long], f"decimal({size[0]},{size[1]})")
        assert same(got, expected(long, f"decimal({size[0]},{size[1]})")), long


def test_a_decimal_with_forty_zeros_is_what_it_says() -> None:
    assert read(["24322." + "0" * 40], "decimal(26,1)") == [Decimal("24322.0")]
    assert read(["-." + "0" * 45, "0" * 45 + ".", "." * 40], "decimal(38,0)") == [0, 0, NONE]


INFERRED = {
    "bigint": (["0", "-1", "9223372036854775807"], ["007", "+1", "-0", "1.0", "9223372036854775808"]),
    "double": (
        ["0", "-0", "1", "1.5", "1.", ".5", "-.5", "1e3", "123456789012345", "0.12345678901234567890"],
        ["1234567890123456", "00.5", "+1.5", "NaN", "Inf", "1e999", "1e12345", "007", "-00.5"],
    ),
    "boolean": (["true", "FALSE"], ["t", "1"]),
    "date": (["2024-01-31", "0001-01-01"], ["0000-01-01", "2024-02-30", "2024-01-31 10:00"]),
    "timestamp_ntz": (
        ["2024-01-31", "2024-01-31 10:00", "2024-01-31 10:00:00.1234560"],
        ["0000-01-01", "2024-01-31 10", "2024-01-31 10:00Z", "2024-01-31 10:00:00.1234567"],
    ),
    "timestamp": (
        ["2024-01-31 10:00Z", "2024-01-31T10:00:00.1234560+02", "2024-01-31T10:00-18:00"],
        ["2024-01-31", "2024-01-31 10:00", "2024-01-31T10:00:00+18:30"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", INFERRED)
def test_an_inferred_type_takes_less(dtype: str) -> None:
    good, bad = INFERRED[dtype]
    assert read(good, dtype, inferred=True) == [expected(text, dtype) for text in good]
    assert read([*good, *bad], dtype, inferred=True)[len(good) :] == [NONE] * len(bad)
    for text in bad:
        assert read([text], dtype, inferred=True) == [NONE], text


def test_nothing_and_null_texts_are_null_and_empty_text_is_text() -> None:
    how = Texts.of({"null": ["NA", "-"]})
    assert read(["", "NA", "-", "x", None], "string", how=how) == ["", None, None, "x", None]
    assert read(["", "NA", "-", "5", None], "int", how=how) == [None, None, None, 5, None]
    assert read(["", "5"], "int", how=Texts.of({}, empty_is_null=False)) == [NONE, 5]
    assert read(["", "NA"], "binary", how=Texts.of({"null": "NA"})) == [b"", None]


@pytest.mark.parametrize("dtype", TYPES)
def test_a_null_text_is_null_also_where_it_would_be_a_value(dtype: str) -> None:
    text = next(text for text in BASE if expected(text, dtype) is not NONE)
    assert read([text], dtype, how=Texts.of({"null": text})) == [None]


def test_a_comma_may_be_the_decimal_mark_and_then_a_point_is_none() -> None:
    how = Texts.of({"decimal": ","})
    assert read(["1,5", "-,5", "1", "1e3"], "double", how=how) == [1.5, -0.5, 1.0, 1000.0]
    assert read(["1,5", "1.5", "1.234,5", "1,2,3"], "double", how=how) == [1.5, NONE, NONE, NONE]
    assert read(["1,25", "x", "1.25"], "float", how=how) == [1.25, NONE, NONE]
    assert read(["1,50", "1.5", "1,239"], "decimal(5,2)", how=how) == [Decimal("1.50"), NONE, NONE]
    assert read(["1,5", "+1,5"], "double", how=how, inferred=True) == [1.5, NONE]
    assert read(["1"], "int", how=how) == [1]


PATTERNS = [
    ("dd.MM.yyyy", "31.01.2024", date(2024, 1, 31)),
    ("dd.MM.yyyy", "1.1.2024", NONE),
    ("dd.MM.yyyy", "31.01.0000", NONE),
    ("dd.MM.yyyy", "30.02.2024", NONE),
    ("d.M.uuuu", "1.1.2024", date(2024, 1, 1)),
    ("d.M.y", "29.2.1900", NONE),
    ("M/d/yy", "2/29/24", date(2024, 2, 29)),
    ("M/d/yy", "2/29/99", NONE),
    ("yyyyMMdd", "20240131", date(2024, 1, 31)),
    ("dd MMM yyyy", "31 Jan 2024", date(2024, 1, 31)),
    ("dd MMM yyyy", "31 JAN 2024", date(2024, 1, 31)),
    ("d MMMM yyyy", "3 September 2024", date(2024, 9, 3)),
    ("d MMMM yyyy", "3 Sep 2024", NONE),
    ("EEE, d MMM yyyy", "Wed, 31 Jan 2024", date(2024, 1, 31)),
    ("EEE, d MMM yyyy", "Thu, 31 Jan 2024", NONE),
    ("EEEE yyyy-MM-dd", "wednesday 2024-01-31", date(2024, 1, 31)),
    ("'week of' yyyy-MM-dd", "week of 2024-01-31", date(2024, 1, 31)),
    ("yyyy 'o''clock' MM dd", "2024 o'clock 01 31", date(2024, 1, 31)),
    ("yyyy-MM", "2024-02", date(2024, 2, 1)),
    ("yyyy-MM-dd[ HH:mm]", "2024-01-31", date(2024, 1, 31)),
    ("yyyy-MM-dd[ HH:mm]", "2024-01-31 10:30", date(2024, 1, 31)),
    ("[dd.MM.yyyy][yyyy-MM-dd]", "2024-01-31", date(2024, 1, 31)),
    ("[yyyy-MM-dd]", "x", NONE),
    ("yyyy.MM.dd", "2024x01x31", NONE),
]


@pytest.mark.parametrize(("pattern", "text", "value"), PATTERNS)
def test_days_are_read_in_the_tables_own_pattern(pattern: str, text: str, value: Any) -> None:
    how = Texts.of({"date_format": pattern})
    assert read([text], "date", how=how) == [value]
    assert read(["?", text, ""], "date", how=how) == [NONE, value, None]


MOMENTS = [
    ("dd.MM.yyyy HH:mm", "31.01.2024 10:30", datetime(2024, 1, 31, 10, 30)),
    ("dd.MM.yyyy H:mm", "31.01.2024 9:05", datetime(2024, 1, 31, 9, 5)),
    ("dd.MM.yyyy HH:mm", "31.01.2024 24:00", NONE),
    ("dd.MM.yyyy HH:mm", "31.01.2024 10:60", NONE),
    ("M/d/yyyy h:mm a", "1/31/2024 12:05 AM", datetime(2024, 1, 31, 0, 5)),
    ("M/d/yyyy h:mm a", "1/31/2024 12:05 pm", datetime(2024, 1, 31, 12, 5)),
    ("M/d/yyyy hh:mm:ss a", "1/31/2024 01:05:09 PM", datetime(2024, 1, 31, 13, 5, 9)),
    ("M/d/yyyy h:mm a", "1/31/2024 13:05 PM", NONE),
    ("M/d/yyyy h:mm a", "1/31/2024 0:05 PM", NONE),
    ("yyyyMMddHHmmss", "20240131103059", datetime(2024, 1, 31, 10, 30, 59)),
    ("yyyyMMddHHmmssSSS", "20240131103059123", datetime(2024, 1, 31, 10, 30, 59, 123000)),
    ("yyyy-MM-dd HH:mm:ss.SSSSSS", "2024-01-31 10:30:59.5", datetime(2024, 1, 31, 10, 30, 59, 500000)),
    ("yyyy-MM-dd HH:mm:ss.SSSSSSS", "2024-01-31 10:30:59.1234567", NONE),
    ("yyyy-MM-dd H:mm:ss.SSSSSSSSS", "2024-01-31 9:30:59.000456000", datetime(2024, 1, 31, 9, 30, 59, 456)),
    ("yyyy-MM-dd HH:mm:ss.SSS", "2024-01-31 10:30:59.1234", NONE),
    ("dd.MM.yyyy", "31.01.2024", datetime(2024, 1, 31)),
    ("yyyy-MM-dd'T'HH:mmXXX", "2024-01-31T10:30+02:00", datetime(2024, 1, 31, 8, 30)),
    ("yyyy-MM-dd'T'HH:mmXXX", "2024-01-31T10:30Z", datetime(2024, 1, 31, 10, 30)),
    ("yyyy-MM-dd'T'HH:mmXXX", "2024-01-31T10:30+0200", NONE),
    ("yyyy-MM-dd'T'HH:mmXXX", "2024-01-31T10:30+18:01", NONE),
    ("yyyy-MM-dd HH:mmX", "2024-01-31 10:30-02", datetime(2024, 1, 31, 12, 30)),
    ("yyyy-MM-dd HH:mmX", "2024-01-31 10:30-0230", datetime(2024, 1, 31, 13, 0)),
    ("yyyy-MM-dd HH:mm Z", "2024-01-31 10:30 -0230", datetime(2024, 1, 31, 13, 0)),
    ("yyyy-MM-dd HH:mm[XXX]", "2024-01-31 10:30", datetime(2024, 1, 31, 10, 30)),
    ("EEE MMM dd HH:mm:ss 'UTC' yyyy", "Wed Jan 31 10:30:00 UTC 2024", datetime(2024, 1, 31, 10, 30)),
    ("dd/MMM/yyyy:HH:mm:ss Z", "31/Jan/2024:10:30:00 +0100", datetime(2024, 1, 31, 9, 30)),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "text", "value"), MOMENTS)
def test_times_are_read_in_the_tables_own_pattern(pattern: str, text: str, value: Any) -> None:
    how = Texts.of({"timestamp_format": pattern})
    assert read(["?", text], "timestamp_ntz", how=how) == [NONE, value]
    zoned = value if value is NONE else value.replace(tzinfo=UTC)
    assert read([text, "?"], "timestamp", how=how) == [zoned, NONE]


@given(st.lists(st.dates(), min_size=1))
@settings(max_examples=50, deadline=None)
def test_every_day_is_the_day_that_python_knows(days: list[date]) -> None:
    texts = [f"{day.day}/{day.month}/{day.year:04}" for day in days]
    assert read(texts, "date", how=Texts.of({"date_format": "d/M/yyyy"})) == days


def test_several_patterns_are_tried_in_order() -> None:
    how = Texts.of({"date_format": ["dd/MM/yyyy", "MM/dd/yyyy", "yyyy-MM-dd"]})
    texts = ["01/02/2024", "12/31/2024", "2024-01-31", "31-12-2024", None]
    wanted = [date(2024, 2, 1), date(2024, 12, 31), date(2024, 1, 31), NONE, None]
    assert read(texts, "date", how=how) == wanted
    assert read(texts, "date", how=how, inferred=True) == wanted
    assert read(texts[:3], "date", how=how) == wanted[:3]


def test_an_inferred_type_takes_a_pattern_that_says_the_whole_day() -> None:
    assert read(["2024-02"], "date", how=Texts.of({"date_format": "yyyy-MM"}), inferred=True) == [NONE]
    timed = Texts.of({"date_format": "yyyy-MM-dd HH:mm"})
    assert read(["2024-02-01 10:00"], "date", how=timed, inferred=True) == [NONE]
    optional = Texts.of({"timestamp_format": "yyyy-MM-dd HH:mm[XXX]"})
    texts = ["2024-01-31 10:30", "2024-01-31 10:30Z"]
    moment = datetime(2024, 1, 31, 10, 30)
    assert read(texts, "timestamp_ntz", how=optional, inferred=True) == [moment, NONE]
    assert read(texts, "timestamp", how=optional, inferred=True) == [NONE, moment.replace(tzinfo=UTC)]
    assert read(
        ["2024-01-31"], "timestamp_ntz", how=Texts.of({"date_format": "d.M.yyyy"}), inferred=True
    ) == [NONE]


def test_a_format_that_takes_an_empty_text_makes_no_value_of_it() -> None:
    assert read([""], "date", how=Texts.of({"date_format": "[yyyy-MM-dd]"})) == [None]


def test_a_nested_type_can_not_be_read_from_text() -> None:
    with pytest.raises(ConfigError, match="'v' is array<int>, which can't be read from text"):
        Texts().read(pa.array(["x"]), Column("v", "array<int>"))


def test_slices_are_read_and_the_rules_travel() -> None:
    texts = pa.array(["x", "1", "", "y"]).slice(1, 2)
    values, misfits = pickle.loads(pickle.dumps(Texts())).read(texts, Column("v", "int"))
    assert values.to_pylist() == [1, None] and misfits is None
    misfits = Texts().read(pa.array(["1", "x", None]), Column("v", "int"))[1]
    assert pc.indices_nonzero(misfits).to_pylist() == [1]
