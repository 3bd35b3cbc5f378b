"""Checks on rows, without Spark: each kind, on values that pass, that fail and that are null."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.checks.rows import RowChecks
from lading.errors import ConfigError
from lading.model import Check

UTC = pa.timestamp("us", "UTC")
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, None], pa.int64()),
        "tonnes": pa.array([1.5, math.nan, -1.0, None]),
        "port": pa.array(["oslo", "Oslo", "bergen!", None]),
        "day": pa.array([date(2024, 1, 1), date(2023, 12, 31), date(2024, 6, 30), None]),
        "at": pa.array(
            [datetime(2024, 1, 1, 10), datetime(2024, 1, 1, 9, 59, 59), datetime(2024, 2, 1), None]
        ),
        "ok": pa.array([True, False, True, None]),
        "price": pa.array([Decimal("1.50"), Decimal("9.99"), Decimal("10.00"), None], pa.decimal128(9, 2)),
        "small": pa.array([-128, 0, 127, None], pa.int8()),
        "zoned": pa.array([0, 1_704_103_200_000_000, -1, None], pa.int64()).cast(UTC),
        "list": pa.array([[1], [], [None], None], pa.list_(pa.int64())),
        "raw": pa.array([b"a", b"\xff", b"", None], pa.binary()),
        "_source": pa.array([1, 1, 1, 1], pa.int64()),
    }
)


def check(kind: str, *columns: str, **fields: object) -> Check:
    made = Check(kind, f"{kind} {columns} {fields}", "tables.t.checks[0]", 7, columns=columns)
    return replace(made, **fields)  # type: ignore[arg-type]


def failing(table: pa.Table, one: Check, extra: np.ndarray | None = None) -> list[int]:
    """The rows that fail, from 1; the same whether they come as a table, a batch or in two chunks."""
    checks = pickle.loads(pickle.dumps(RowChecks((one,), table.schema, "t")))
    bits = checks.failed(table, extra)
    assert bits.dtype == np.uint64 and set(bits.tolist()) <= {0, 1}
    if extra is None:
        batch = table.combine_chunks().to_batches()[0]
        assert checks.failed(batch).tolist() == bits.tolist()
        assert checks.failed(batch.slice(1)).tolist() == bits.tolist()[1:]
        chunked = pa.concat_tables([table.slice(0, 1), table.slice(1)])
        assert checks.failed(chunked).tolist() == bits.tolist()
    return (np.flatnonzero(bits) + 1).tolist()


@pytest.mark.parametrize(
    ("one", "rows"),
    [
        (check("not_null", "id", "port"), [4]),
        (check("not_null", "list"), [4]),
        (check("range", "id", least="2"), [1]),
        (check("range", "id", most="1.5"), [2, 3]),
        (check("range", "tonnes", least="-1"), [2]),  # NaN lies in no range
        (check("range", "tonnes", least="NaN"), [1, 2, 3]),  # and is greater than every number
        (check("range", "tonnes", most="NaN"), [2]),
        (check("range", "tonnes", least="-Infinity", most="inf"), [2]),
        (check("range", "day", least="2024-01-01", most="2024-06-29"), [2, 3]),
        (check("range", "day", least="2024"), [2]),
        (check("range", "day", most="2024-1-1 whatever"), [3]),
        (check("range", "at", least="2024-01-01T10:00:00"), [2]),
        (check("range", "at", least="2024-01-01T10:00:00+05:00"), [2]),  # the column has no zone
        (check("range", "zoned", least="1970-01-01", most="2024-01-01 10:00:00"), [3]),
        (check("range", "zoned", most="2024-01-01T10:00:00+00:01"), [2]),
        (check("range", "price", most="9.99"), [3]),
        (check("range", "port", least="a"), [2]),
        (check("range", "ok", least="TRUE"), [2]),
        (check("range", "small", least="-128", most="126.9"), [3]),
        (check("range", "small", most="1000"), []),
        (check("range", "small", least="1000"), [1, 2, 3]),
        (check("values", "port", values=("oslo", "bergen!")), [2]),
        (check("values", "id", values=("1", "3")), [2]),
        (check("values", "id", values=("1.0", "3e0", "2.5")), [2]),
        (check("values", "small", values=("127", "300")), [1, 2]),
        (check("values", "ok", values=("true",)), [2]),
        (check("values", "price", values=("1.5", "10")), [2]),
        (check("values", "tonnes", values=("1.5",)), [2, 3]),
        (check("values", "tonnes", values=("NaN", "-1")), [1]),
        (check("values", "day", values=("2024-01-01", "2024-06-30")), [2]),
        (check("values", "zoned", values=("epoch", "1969-12-31 23:59:59.999999")), [2]),
        (check("pattern", "port", text="[a-z]+|Oslo"), [3]),
        (check("pattern", "port", text="(?i)OSLO"), [3]),
        (check("pattern", "id", text="[12]"), [3]),
        (check("pattern", "small", text=r"-?\d{3}"), [2]),
        (check("pattern", "ok", text="true"), [2]),
        (check("pattern", "day", text=r"2024-\d\d-(01|30)"), [2]),
        (check("pattern", "price", text=r"\d\.\d\d"), [3]),
    ],
)
def test_each_kind_of_check_finds_the_rows_that_fail_it_and_no_other(one, rows):
    assert failing(ROWS, one) == rows


def test_bits_are_numbered_by_the_checks_on_rows_alone():
    checks = (
        check("min_rows", number=1),
        check("not_null", "id"),
        check("unique", "id"),
        check("range", "id", least="2", most="2"),
        check("columns", "nothing"),
        check("values", "port", values=("oslo",)),
    )
    found = RowChecks(checks, ROWS.schema, "t")
    assert found.names == tuple(checks[number].name for number in (1, 3, 5))
    assert found.failed(ROWS).tolist() == [0b010, 0b100, 0b110, 0b001]
    assert found.failed(ROWS.slice(0, 0)).tolist() == []


def test_the_62nd_check_has_a_bit_too():
    many = tuple(check("range", "id", least=str(2 + number)) for number in range(62))
    bits = RowChecks(many, ROWS.schema, "t").failed(ROWS).tolist()
    assert bits == [2**62 - 1, 2**62 - 2, 2**62 - 4, 0]


@pytest.mark.parametrize(
    ("one", "said", "hint"),
    [
        (check("not_null", "prt"), "t has no column 'prt'", "did you mean 'port'?"),
        (check("unique", "prt"), "t has no column 'prt'", "did you mean 'port'?"),
        (check("not_null", "_source"), "t has no column '_source'", "it has id, tonnes"),
        (check("pattern", "PORT", text="a"), "t has no column 'PORT'", "it has id"),
        (
            check("range", "id", least="many"),
            "'many' can't be compared with 'id', which is bigint",
            "value of",
        ),
        (
            check("range", "day", least="soon"),
            "'soon' can't be compared with 'day', which is date",
            "value of",
        ),
        (check("range", "day", most="today"), "'today' can't be compared with 'day', which is date", ""),
        (check("range", "at", most=" Now UTC"), "compared with 'at', which is timestamp_ntz", ""),
        (check("range", "zoned", most="10:00"), "compared with 'zoned', which is timestamp", ""),
        (check("range", "zoned", most="2024-01-01 10:00:00 Atlantis"), "which is timestamp", ""),
        (check("values", "ok", values=("yes",)), "'yes' can't be compared with 'ok', which is boolean", ""),
        (check("values", "list", values=("1",)), "with 'list', which is array<bigint>", ""),
        (check("range", "raw", least="1"), "with 'raw', which is binary", ""),
        (check("range", "tonnes", least="much"), "with 'tonnes', which is double", ""),
        (check("range", "id", least="NaN"), "'NaN' can't be compared with 'id'", ""),
        (check("range", "price", least="inf"), "with 'price', which is decimal(9,2)", ""),
        (check("range", "id", least="1e999999999"), "'1e999999999' can't be compared with 'id'", ""),
        (check("values", "id", values=("1", "x")), "'x' can't be compared with 'id'", ""),
    ],
)
def test_a_check_that_makes_no_sense_is_an_error_with_line_and_key(one, said, hint):
    with pytest.raises(ConfigError) as caught:
        RowChecks((one,), ROWS.schema, "t")
    assert said in caught.value.message
    assert caught.value.message.startswith("lading.yaml:7: tables.t.checks[0]: ")
    assert hint in (caught.value.hint or "") and caught.value.hint and caught.value.table == "t"


NARROW = pa.table(
    {
        "real": pa.array([0.1, 0.2, math.inf], pa.float32()),
        "price": pa.array([Decimal("9.99"), Decimal("10.00"), None], pa.decimal128(9, 2)),
        "big": pa.array(
            [Decimal("123456789012345678901234567890123456.78"), Decimal("0.00"), Decimal("1.00")],
            pa.decimal128(38, 2),
        ),
        "id": pa.array([2**63 - 1, -(2**63), 0], pa.int64()),
    }
)


@pytest.mark.parametrize(
    ("one", "rows"),
    [
        (check("range", "real", most="0.1"), 2),
        (check("range", "real", least="0.1"), 0),
        (check("range", "real", least="0.2"), 1),
        (check("values", "real", values=("0.1", "0.2", "Infinity")), 0),
        (check("values", "real", values=("0.1",)), 2),
        (check("values", "real", values=("0.1", "1e300")), 2),
        (check("range", "real", most="1e300"), 1),  # beyond every float, and below infinity
        (check("range", "price", most="9.995"), 1),
        (check("range", "price", least="9.985"), 0),
        (check("range", "price", least="9.995"), 1),
        (check("values", "price", values=("9.995",)), 2),
        (check("values", "price", values=("9.990", "1e1")), 0),
        (check("range", "price", most="1e300"), 0),
        (check("range", "price", most="-1e300"), 2),
        # Wide decimals: the end lies between two values, and 38 digits can't hold it.
        (check("range", "big", most="123456789012345678901234567890123456.779"), 1),
        (check("range", "big", least="0.001"), 1),
        (check("range", "big", most="123456789012345678901234567890123456.78"), 0),
        (check("range", "id", most="9223372036854775806.5"), 1),
        (check("range", "id", least="-9223372036854775808", most="9223372036854775807"), 0),
        (check("range", "id", most="-9223372036854775808"), 2),
        (check("range", "id", most="1e30"), 0),
        (check("range", "id", least="1e30"), 3),
        (check("values", "id", values=("0.5", "1e30")), 3),
    ],
)
def test_values_are_compared_in_the_columns_own_type(one, rows):
    assert len(failing(NARROW, one)) == rows


def test_zero_has_two_signs_and_one_value():
    zeros = pa.table({"x": [0.0, -0.0, 1.0], "y": pa.array([0.0, -0.0, 1.0], pa.float32())})
    for column in ("x", "y"):
        assert failing(zeros, check("values", column, values=("0",))) == [3]
        assert failing(zeros, check("values", column, values=("-0.0",))) == [3]
        assert failing(zeros, check("range", column, least="0", most="-0.0")) == [3]


def test_every_nan_is_the_same():
    other = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    assert failing(pa.table({"x": other}), check("values", "x", values=("nan",))) == []


def test_text_is_ordered_by_its_bytes():
    ordered = ["", "Z", "a", "é", "\uffff", "\U00010000"]  # in UTF-16 the last two change places
    for at, end in enumerate(ordered):
        rows = pa.table({"x": ordered})
        assert failing(rows, check("range", "x", least=end)) == list(range(1, at + 1))
        assert failing(rows, check("range", "x", most=end)) == list(range(at + 2, len(ordered) + 1))


def test_dates_beyond_pythons_calendar_are_compared_and_written():
    days = pa.array([2_932_896, 2_932_897, -719_529, 2**31 - 1, None], pa.int32()).cast(pa.date32())
    rows = pa.table({"x": days})
    assert failing(rows, check("range", "x", most="9999-12-31")) == [2, 4]
    assert failing(rows, check("range", "x", least="+10000-01-01", most="5881580-07-10")) == [1, 3, 4]
    assert failing(rows, check("pattern", "x", text=r"9999-12-31|\+10000-01-01|-0001-12-31")) == [4]
    assert failing(rows, check("pattern", "x", text=r"\+?\d+-.*")) == [3]
    far = pa.table({"x": pa.array([2**63 - 1, 0]).cast(UTC)})
    assert failing(far, check("range", "x", most="294247-01-10 04:00:54.775806")) == [1]


def test_small_decimals_are_matched_with_all_their_digits():
    values = [Decimal("0E-18"), Decimal("-1E-10"), Decimal("12.5"), None]
    rows = pa.table({"x": pa.array(values, pa.decimal128(38, 18))})
    assert failing(rows, check("pattern", "x", text=r"-?0\.0*10{8}|12\.50{17}")) == [1]
    whole = pa.table({"x": pa.array([Decimal(-7), Decimal(10)], pa.decimal128(9, 0))})
    assert failing(whole, check("pattern", "x", text=r"-7")) == [2]


@pytest.mark.parametrize(
    "one",
    [
        check("sql", text="id % 2 = 1 or `ok`"),
        check("pattern", "port", text="(?=o).*"),
        check("pattern", "tonnes", text=".*"),
        check("pattern", "at", text=".*"),
        check("pattern", "zoned", text=".*"),
        check("pattern", "list", text=".*"),
        check("pattern", "raw", text=".*"),
    ],
)
def test_what_only_spark_can_evaluate_comes_with_the_rows(one):
    checks = RowChecks((check("not_null", "id"), one), ROWS.schema, "t")
    assert checks.needs_spark == {1: one}
    for extra in (np.array([2, 0, 0, 2]), pa.array([2, 0, 0, 2]), pa.chunked_array([[2, 0], [0, 2]])):
        assert checks.failed(ROWS, extra).tolist() == [2, 0, 0, 3]
    with pytest.raises(ValueError, match="nobody evaluated"):
        checks.failed(ROWS)


def test_nothing_is_left_to_spark_without_need():
    checks = tuple(
        check("pattern", name, text=r"\w+ [^a-c]*$") for name in ("id", "port", "day", "ok", "price")
    )
    assert RowChecks(checks, ROWS.schema, "t").needs_spark == {}


DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**4), max_value=10**4)


@given(st.lists(st.none() | st.decimals(-9999, 9999, places=2), min_size=1), DECIMALS, DECIMALS)
def test_ranges_and_values_of_decimals_and_integers_are_exact(values, one, two):
    listed = (str(one), str(two))
    for kind in (pa.decimal128(6, 2), pa.int16(), pa.int64()):
        held = [v if v is None or kind.id == pa.decimal128(6, 2).id else int(v) for v in values]
        rows = pa.table({"x": pa.array(held, kind)})
        known = [(n, Fraction(v)) for n, v in enumerate(held, start=1) if v is not None]
        outside = [n for n, v in known if v < Fraction(one) or v > Fraction(two)]
        assert failing(rows, check("range", "x", least=listed[0], most=listed[1])) == outside
        unlisted = [n for n, v in known if v not in (Fraction(one), Fraction(two))]
        assert failing(rows, check("values", "x", values=listed)) == unlisted


@given(st.lists(st.none() | st.floats(), min_size=1), st.floats(allow_nan=False), st.floats())
def test_ranges_and_values_of_doubles_are_those_of_python(values, least, other):
    rows = pa.table({"x": pa.array(values, pa.float64())})
    known = [(n, v) for n, v in enumerate(values, start=1) if v is not None]
    below = [n for n, v in known if math.isnan(v) or v < least]
    assert failing(rows, check("range", "x", least=repr(least))) == below
    same = [n for n, v in known if v not in (least, other) and not (math.isnan(v) and math.isnan(other))]
    assert failing(rows, check("values", "x", values=(repr(least), repr(other)))) == same


@given(st.lists(st.none() | st.text(), min_size=1), st.text(), st.text())
def test_ranges_and_values_of_text_are_those_of_its_bytes(values, least, most):
    rows = pa.table({"x": pa.array(values, pa.string())})
    known = [(n, v.encode()) for n, v in enumerate(values, start=1) if v is not None]
    outside = [n for n, v in known if v < least.encode() or v > most.encode()]
    assert failing(rows, check("range", "x", least=least, most=most)) == outside
    unlisted = [n for n, v in known if v not in (least.encode(), most.encode())]
    assert failing(rows, check("values", "x", values=(least, most))) == unlisted
