"""Dates and timestamps of lading.yaml, as Spark reads them (tests/spark/test_same_checks.py asks Spark)."""

from __future__ import annotations

import pytest

from lading.checks.moments import date_text, days_of, micros_of

SECOND = 1_000_000
NEW_YEAR = 1_704_067_200  # 2024-01-01
TEN = NEW_YEAR + 36_000


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("2024-01-01", 19_723),
        ("2024", 19_723),
        ("2024-1", 19_723),
        ("\t2024-1-5\n", 19_727),
        ("2024-01-01T", 19_723),
        ("2024-01-01 whatever", 19_723),
        ("epoch", 0),
        ("Epoch UTC", 0),
        ("epoch Atlantis", None),
        ("+12345-01-01", 3_789_391),
        ("-0001-02-03", -719_860),
        ("5881580-07-11", 2**31 - 1),
        ("5881580-07-12", None),
        ("-5877641-06-23", -(2**31)),
        ("-5877641-06-22", None),
        ("2024-02-30", None),
        ("2023-02-29", None),
        ("2024-00-01", None),
        ("2024-01x", None),
        ("2024-01T", None),
        ("202-01-01", None),
        ("٢٠٢٤-01-01", None),
        ("soon", None),
        ("today", None),
        ("NOW", None),
        ("", None),
    ],
)
def test_dates(text, days):
    assert days_of(text) == days


@pytest.mark.parametrize(
    ("text", "zoned", "plain"),
    [
        ("2024", NEW_YEAR, NEW_YEAR),
        ("2024-01-01 10", TEN, TEN),
        ("2024-01-01T10:00", TEN, TEN),
        ("2024-1-1 10:0:0.", TEN, TEN),
        ("2024-01-01 10:00:00Z", TEN, TEN),
        ("2024-01-01 10:00:00 Europe/Oslo", TEN - 3600, TEN),
        ("2024-03-31 02:30:00 Europe/Oslo", 1_711_848_600, 1_711_852_200),  # an hour that is left out
        ("2024-10-27 02:30:00 Europe/Oslo", 1_729_989_000, 1_729_996_200),  # and one that comes twice
        ("2024-01-01 10:00:00+2", TEN - 7200, TEN),
        ("2024-01-01 10:00:00-0230", TEN + 9000, TEN),
        ("2024-01-01 10:00:00 UTC+02:30:15", TEN - 9015, TEN),
        ("2024-01-01 10:00:00+18:01", None, None),
        ("2024-01-01 10:00:00 Atlantis", None, None),
        ("2024-01-01 10:00:00 ../x", None, None),
        ("99999-01-01 10:00:00 Europe/Oslo", None, None),
        ("2024-01-01 10:00Z", None, None),
        ("2024-01-01 24:00:00", None, None),
        ("2024-01-01T", None, None),
        ("2024-02-30", None, None),
        ("10:00", None, None),  # of which day?
        ("T10:00:00", None, None),
        ("294248", None, None),
        ("epoch", 0, 0),
    ],
)
def test_timestamps(text, zoned, plain):
    for is_zoned, seconds in ((True, zoned), (False, plain)):
        assert micros_of(text, zoned=is_zoned) == (None if seconds is None else seconds * SECOND)


def test_fractions_are_cut_off_behind_microseconds():
    assert micros_of("1970-01-01 00:00:00.1234569", zoned=False) == 123_456
    assert micros_of("294247-01-10 04:00:54.775807", zoned=True) == 2**63 - 1
    assert micros_of("294247-01-10 04:00:54.775808", zoned=True) is None


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (0, "1970-01-01"),
        (-1, "1969-12-31"),
        (10_956, "1999-12-31"),
        (10_957, "2000-01-01"),
        (2_932_897, "+10000-01-01"),
        (-719_528, "0000-01-01"),
        (-719_529, "-0001-12-31"),
        (2**31 - 1, "+5881580-07-11"),
        (-(2**31), "-5877641-06-23"),
    ],
)
def test_dates_are_written_as_spark_writes_them(days, text):
    assert date_text(days) == text
