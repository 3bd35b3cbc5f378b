"""Words for nothing, decimal commas, dates and times: from columns of text."""

import pyarrow as pa
import pytest

from lading.config.date_patterns import date_pattern
from lading.formats.moments import moments
from lading.formats.sniff.dates import Shapes
from lading.formats.sniff.values import Values, ValuesLook


def look(**columns: list[str | None]) -> Values:
    found = ValuesLook(list(columns))
    for name, values in columns.items():
        middle = len(values) // 2
        for part in (values[:middle], values[middle:]):  # where blocks are cut does not matter
            found.see(name, pa.array(part, pa.string()))
    return found.found()


@pytest.mark.parametrize(
    ("values", "pattern"),
    [
        (["31.12.2024", "01.02.2024"], "dd.MM.yyyy"),
        (["1.2.2024", "11.12.2024"], "d.M.yyyy"),
        (["01.02.2024"], "dd.MM.yyyy"),
        (["12/31/2024", "01/02/2024"], "MM/dd/yyyy"),
        (["31/12/2024", "01/02/2024"], "dd/MM/yyyy"),
        (["1/2/2024", "1/31/2024"], "M/d/yyyy"),
        (["31-12-2024"], "dd-MM-yyyy"),
        (["2024/01/31"], "yyyy/MM/dd"),
        (["2024-1-31"], "yyyy-M-d"),
        (["05-Nov-2024"], "dd-MMM-yyyy"),
        (["5 November 2024", "12 May 2024"], "d MMMM yyyy"),
        (["Nov 5, 2024", "Dec 12, 2024"], "MMM d, yyyy"),
        (["31.12.24"], "dd.MM.yy"),
        (["31.12.2024 10:00"], "dd.MM.yyyy HH:mm"),
        (["12/31/2024 1:05:09 PM"], "MM/dd/yyyy h:mm:ss a"),
        (["2024/01/31 10:00:00.123", "2024/01/31 10:00:00.1"], "yyyy/MM/dd HH:mm:ss.SSSSSSSSS"),
        (["31.12.2024T10:00:00+02:00"], "dd.MM.yyyy'T'HH:mm:ssXXX"),
        (["Tue, 31 Dec 2024 10:00:00 +0200"], "E, dd MMM yyyy HH:mm:ss XX"),
    ],
)
def test_a_pattern_is_found_and_reads_every_value(values, pattern):
    shapes = Shapes()
    shapes.see(pa.array(values))
    assert shapes.dates().patterns == (pattern,)
    assert moments(pa.array(values), date_pattern(pattern)).there.all()


@pytest.mark.parametrize(
    ("values", "remark"),
    [
        (["31/12/2024", "12/31/2024"], "first in some"),
        (["31.12.65"], "century"),
        (["31.12.2024", "31.12.2024 10:00"], "some values have a time"),
    ],
)
def test_dates_that_can_not_be_read_alike_stay_text(values, remark):
    found = look(day=values)
    assert found.date_format == found.timestamp_format == ()
    assert remark in found.remarks[0]


def test_day_and_month_follow_a_column_that_says_which_is_which():
    found = look(a=["01/02/2024", "03/04/2024"], b=["01/02/2024", "25/04/2024"])
    assert found.date_format == ("dd/MM/yyyy",)
    assert found.remarks == ()
    alone = look(a=["01/02/2024", "03/04/2024"])
    assert alone.date_format == ()
    assert "dd/MM/yyyy" in alone.remarks[0] and "MM/dd/yyyy" in alone.remarks[0]


def test_columns_with_day_and_month_swapped_are_never_read_by_the_same_list():
    found = look(a=["13/02/2024", "01/02/2024"], b=["02/13/2024", "01/02/2024"])
    assert len(found.date_format) == 1
    assert "swapped" in found.remarks[0]


def test_iso_needs_no_pattern_unless_there_is_another_one():
    assert look(a=["2024-01-31"], b=["2024-01-31 10:00:00"]) == Values()
    assert set(look(a=["2024-01-31"], b=["31.01.2024"]).date_format) == {"yyyy-MM-dd", "dd.MM.yyyy"}


def test_a_word_is_null_where_everything_else_is_a_number():
    found = look(n=["1", "NA", "2.5", "-"], country=["NA", "DE", "FR", "-"])
    assert set(found.null) == {"NA", "-"}
    assert "also in country" in found.because["null"]


def test_a_word_that_may_be_a_value_is_none_in_texts():
    assert look(country=["NA", "DE"], word=["none", "some"]).null == ()
    assert look(country=["\\N", "DE"], word=["N/A", "some"]).null == ("N/A", "\\N")


def test_a_decimal_comma_is_told_from_thousands():
    assert look(x=["1,5", "22,75", "3"]).decimal == ","
    thousands = look(x=["1,234", "22,750", "1,234,567"])
    assert thousands.decimal is None and "thousands" in thousands.remarks[0]
    both = look(x=["1,5", "2,25"], y=["1.5", "2.25"])
    assert both.decimal is None and "decimal comma" in both.remarks[0]


def test_spaces_around_numbers_ask_for_trim():
    assert look(x=[" 1", "2"]).trim
    assert look(x=[" a", " b", " c"]).trim
    assert not look(x=[" a", "b", "c"]).trim
