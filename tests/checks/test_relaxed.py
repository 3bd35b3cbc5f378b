"""Which changes of checks let every row of a table stay."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lading.checks.relaxed import compares_floats, relaxes, rules_of
from lading.model import Check, Column, Threshold

SCHEMA = pa.schema(
    {
        "a": pa.int64(),
        "b": pa.int64(),
        "text": pa.string(),
        "day": pa.date32(),
        "at": pa.timestamp("us"),
        "zoned": pa.timestamp("us", "UTC"),
        "price": pa.decimal128(9, 2),
        "real": pa.float32(),
        "ok": pa.bool_(),
        "list": pa.list_(pa.int64()),
    }
)


def rules(*checks: Check) -> str | None:
    return rules_of(checks)


def check(kind: str, *columns: str, **fields: object) -> Check:
    return Check(kind, "n", "k", 1, columns=columns, **fields)  # type: ignore[arg-type]


NOT_NULL = check("not_null", "a", "b")
RANGE = check("range", "a", least="0", most="10")
VALUES = check("values", "a", values=("x", "y"))
SQL = check("sql", text="a > 1")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([NOT_NULL], []),
        ([NOT_NULL, RANGE], [RANGE]),
        ([NOT_NULL], [check("not_null", "a")]),
        ([RANGE], [check("range", "a", least="-1", most="10.5")]),
        ([RANGE], [check("range", "a", least="0")]),
        ([VALUES], [check("values", "a", values=("y", "z", "x"))]),
        ([SQL], [check("sql", text="a > 1", threshold=Threshold(count=3))]),
        (
            [check("sql", text="a > 1", threshold=Threshold(count=3))],
            [check("sql", text="a > 1", threshold=Threshold(count=4))],
        ),
    ],
)
def test_loosened(old, new):
    assert relaxes(rules(*old), rules(*new), SCHEMA)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([], [NOT_NULL]),
        ([check("not_null", "a")], [NOT_NULL]),
        ([RANGE], [check("range", "a", least="1", most="10")]),
        ([RANGE], [check("range", "a", least="0", most="9")]),
        ([RANGE], [check("range", "b", least="0", most="10")]),
        ([check("range", "a", least="0")], [RANGE]),
        ([check("range", "a", least="2024-01-01")], [check("range", "a", least="2023-01-01")]),
        ([VALUES], [check("values", "a", values=("x",))]),
        ([SQL], [check("sql", text="a > 2")]),
        ([check("sql", text="a > 1", threshold=Threshold(count=3))], [SQL]),
        (
            [check("sql", text="a > 1", threshold=Threshold(count=3))],
            [check("sql", text="a > 1", threshold=Threshold(share=0.5))],
        ),
    ],
)
def test_tightened_or_not_comparable(old, new):
    assert not relaxes(rules(*old), rules(*new), SCHEMA)


def test_warnings_and_checks_of_the_table_are_no_rules():
    assert rules(check("not_null", "a", severity="warn"), check("unique", "a")) is None


def test_text_that_is_no_rules_relaxes_nothing():
    assert not relaxes("{", None, SCHEMA)
    assert not relaxes('["x"]', None, SCHEMA)


@pytest.mark.parametrize(
    ("column", "end", "old", "new", "looser"),
    [
        ("text", "most", "10", "9", True),  # as text 10 comes before 9
        ("text", "most", "9", "10", False),
        ("text", "least", "10", "9", False),
        ("text", "least", "9", "10", True),
        ("text", "least", "b", "B", True),
        ("text", "most", "\uffff", "\U00010000", True),  # by code points, as UTF-8 sorts
        ("a", "most", "9", "10", True),
        ("a", "most", "10", "9", False),
        ("a", "most", "9", "1e1", True),
        ("a", "most", "9", "1e30", True),
        ("a", "least", "2.5", "2", True),
        ("a", "least", "2", "2.5", False),
        ("day", "least", "2024-01-10", "2024-01-09", True),
        ("day", "least", "2024-01-09", "2024-01-10", False),
        ("day", "most", "2024-1-9", "2024-1-10", False),  # Spark reads it; not certain here
        ("at", "most", "2024-01-09 12:00:00", "2024-01-09T12:00:00.5", True),
        ("at", "most", "2024-01-09T12:00:00.5", "2024-01-09 12:00:00", False),
        ("zoned", "most", "2024-01-09T12:00:00+02:00", "2024-01-09 10:00:00", True),
        ("zoned", "most", "2024-01-09 11:00:00", "2024-01-09T12:00:00+02:00", False),
        ("price", "most", "9.99", "10", True),
        ("price", "most", "10", "9.999", False),
        ("real", "most", "0.1", "0.10000000001", True),  # one and the same float
        ("real", "most", "0.10000000001", "0.1", True),
        ("real", "most", "0.2", "0.1", False),
        ("real", "most", "0.1", "nan", False),
        ("ok", "least", "true", "false", True),
        ("ok", "least", "false", "true", False),
        ("list", "most", "9", "10", False),
        ("gone", "most", "9", "10", False),
    ],
)
def test_the_ends_of_a_range_are_compared_as_values_of_their_column(column, end, old, new, looser):
    before, after = check("range", column, **{end: old}), check("range", column, **{end: new})
    assert relaxes(rules(before), rules(after), SCHEMA) is looser
    assert relaxes(rules(before), rules(before), SCHEMA)


def test_only_rules_that_compare_floats_are_marked_as_such():
    columns = [Column("real", "float"), Column("a", "bigint")]
    on_float = rules(check("range", "real", most="0.1"))
    assert compares_floats(on_float, columns, transformed=False)
    for rule in (check("range", "a", most="1"), check("not_null", "real"), check("sql", text="real > 1")):
        assert not compares_floats(rules(rule), columns, transformed=False), rule
    assert compares_floats(rules(check("values", "a", values=("1",))), columns, transformed=True)
    assert not compares_floats(None, columns, transformed=True)
