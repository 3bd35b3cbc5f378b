"""The text of predicates, and what binding makes of their literals."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.errors import LadingError, PredicateError
from lading.where.bind import (
    And,
    Compare,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    Quoted,
    bind,
    columns_of,
    like_prefix,
    parse,
)
from lading.zones.bounds import decimal_bound

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("b", pa.int8()),
        ("f", pa.float32()),
        ("d", pa.decimal128(9, 2)),
        ("s", pa.string()),
        ("raw", pa.binary()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("ms")),
        ("zoned", pa.timestamp("us", "Europe/Paris")),
        ("t", pa.time32("s")),
        ("span", pa.duration("us")),
        ("items", pa.list_(pa.int64())),
    ]
)


def plain(where: Predicate) -> Predicate:
    """Without positions."""
    match where:
        case And(parts):
            return And(tuple(plain(part) for part in parts))
        case Or(parts):
            return Or(tuple(plain(part) for part in parts))
        case Not(part):
            return Not(plain(part))
        case Compare(column, op, value):
            return Compare(column, op, value)
        case In(column, values):
            return In(column, values)
        case Like(column, pattern):
            return Like(column, pattern)
        case IsNull(column):
            return IsNull(column)


A, B, C = Compare("a", "=", 1), Compare("b", "=", 2), Compare("c", "=", 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", A),
        ("a == 1", A),
        ("1 = a", A),
        ("5 < a", Compare("a", ">", 5)),
        ("5 >= a", Compare("a", "<=", 5)),
        ("a <> -1", Compare("a", "!=", -1)),
        ("a=.5", Compare("a", "=", Decimal("0.5"))),
        ("a<1e3", Compare("a", "<", Decimal("1e3"))),
        ("a = 'it''s'", Compare("a", "=", "it's")),
        ("a = ''", Compare("a", "=", "")),
        ('"odd ""name""" = 1', Compare('odd "name"', "=", 1)),
        ("`and` = 1", Compare("and", "=", 1)),
        ("größe = 1", Compare("größe", "=", 1)),
        ("_source = 1", Compare("_source", "=", 1)),
        ("a = TRUE", Compare("a", "=", True)),
        ("a", Compare("a", "=", True)),
        ("not a", Not(Compare("a", "=", True))),
        ("a = x'00fF'", Compare("a", "=", Quoted("bytes", "00fF"))),
        ("a > date '2024-01-31'", Compare("a", ">", Quoted("date", "2024-01-31"))),
        ("a > TIMESTAMP '2024-01-31 10:00'", Compare("a", ">", Quoted("timestamp", "2024-01-31 10:00"))),
        ("date > '2024-01-31'", Compare("date", ">", "2024-01-31")),
        ("a in (1, 'x', true)", In("a", (1, "x", True))),
        ("a NOT IN (1)", Not(In("a", (1,)))),
        ("a between 1 and 2 and b = 2", And((And((Compare("a", ">=", 1), Compare("a", "<=", 2))), B))),
        ("a is null", IsNull("a")),
        ("a Is Not Null", Not(IsNull("a"))),
        ("a like 'x%'", Like("a", "x%")),
        ("a not like 'x%'", Not(Like("a", "x%"))),
        ("a=1 or b=2 and c=3", Or((A, And((B, C))))),
        ("(a=1 or b=2) and c=3", And((Or((A, B)), C))),
        ("not a=1 and b=2", And((Not(A), B))),
        ("not (a=1 and b=2)", Not(And((A, B)))),
        ("not not a=1", Not(Not(A))),
        ("\n a = 1\t", A),
    ],
)
def test_the_text_means_what_sql_means(text: str, expected: Predicate) -> None:
    assert plain(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "at", "what"),
    [
        ("", 1, "expected a value"),
        ("a = ", 5, "expected a value"),
        ("a = 1 b", 7, "expected `and`"),
        ("a = = 1", 5, "expected a value"),
        ("(a = 1", 7, "expected `)`"),
        ("a in 1", 6, "expected `(`"),
        ("a in ()", 7, "expected a value"),
        ("a between 1 or 2", 13, "expected `and`"),
        ("a is 1", 6, "expected `null`"),
        ("a = null", 5, "is null"),
        ("a = b", 5, "expected a value"),
        ('a = "b"', 5, "single quotes"),
        ("1 = 1", 5, "expected a column"),
        ("a like 1", 8, "pattern"),
        ("a not = 1", 7, "after `not`"),
        ("a = 'open", 5, "can't be read"),
        ("a = 12ab", 5, "can't be read"),
        ("a ; drop", 3, "can't be read"),
        ("a = " + "9" * 500, 5, "this long"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, at: int, what: str) -> None:
    with pytest.raises(PredicateError) as caught:
        parse(text)
    assert what in caught.value.message
    assert f"(character {at} " in caught.value.message
    assert caught.value.hint


def test_nesting_without_end_is_refused_not_a_crash() -> None:
    for text in ("(" * 5000 + "a = 1" + ")" * 5000, "not " * 5000 + "a = 1"):
        with pytest.raises(PredicateError, match="deep"):
            parse(text)


@given(st.text(st.sampled_from("ab1 '\"`()=<>!,.%x-e\nnotinadlkeullisbw"), max_size=40))
def test_any_text_is_read_or_refused_with_a_hint(text: str) -> None:
    try:
        bind(parse(text), SCHEMA)
    except LadingError as error:
        assert isinstance(error, PredicateError)
        assert error.hint


NEVER, ALWAYS = (lambda column: In(column, ())), (lambda column: Not(In(column, ())))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i < 2.5", Compare("i", "<=", 2)),
        ("i <= 2.5", Compare("i", "<=", 2)),
        ("i > 2.5", Compare("i", ">", 2)),
        ("i >= 2.5", Compare("i", ">", 2)),
        ("i >= -2.5", Compare("i", ">", -3)),
        ("i = 2.5", NEVER("i")),
        ("i != 2.5", ALWAYS("i")),
        ("i = 2.0", Compare("i", "=", 2)),
        ("b < 128", ALWAYS("b")),
        ("b <= 127.5", Compare("b", "<=", 127)),
        ("b > 128", NEVER("b")),
        ("b < -129", NEVER("b")),
        ("b >= -128.5", ALWAYS("b")),
        ("b = 300", NEVER("b")),
        ("b in (1, 300, 1.5, 1)", In("b", (1,))),
        ("f = 0.1", Compare("f", "=", 0.10000000149011612)),
        ("f < 'inf'", Compare("f", "<", float("inf"))),
        ("f < 3", Compare("f", "<", 3.0)),
        ("d = 1.5", Compare("d", "=", decimal_bound(150, pa.decimal128(9, 2)))),
        ("d < 1.505", Compare("d", "<=", decimal_bound(150, pa.decimal128(9, 2)))),
        ("d < 1e20", ALWAYS("d")),
        ("s = 'x'", Compare("s", "=", "x")),
        ("raw = x'ff'", Compare("raw", "=", b"\xff")),
        ("flag = true", Compare("flag", "=", 1)),
        ("not flag", Not(Compare("flag", "=", 1))),
        ("day = '1970-01-03'", Compare("day", "=", 2)),
        ("day < '1970-01-03 12:00'", Compare("day", "<=", 2)),
        ("day = timestamp '1970-01-03 12:00'", NEVER("day")),
        ("at = '1970-01-01T00:00:00.5'", Compare("at", "=", 500)),
        ("at >= '1970-01-01 00:00:00.0005'", Compare("at", ">", 0)),
        ("at > date '1970-01-02'", Compare("at", ">", 86_400_000)),
        ("zoned = '1970-01-01 01:00+01:00'", Compare("zoned", "=", 0)),
        ("zoned = '1970-01-01T00:00:00Z'", Compare("zoned", "=", 0)),
        ("zoned = '1970-01-01'", Compare("zoned", "=", 0)),
        ("t < '00:01'", Compare("t", "<", 60)),
        ("t < '00:00:01.5'", Compare("t", "<=", 1)),
        ("items is null", IsNull("items")),
        ("s like 'a%'", Like("s", "a%")),
    ],
)
def test_a_literal_finds_its_place_among_the_column_s_values(text: str, expected: Predicate) -> None:
    assert plain(bind(parse(text), SCHEMA)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "i = 'x'",
        "i = true",
        "i = date '2024-01-01'",
        "f = 1e39",
        "f = 'nan'",
        "i = 1e999999999",
        "s = 1",
        "s = x'00'",
        "raw = 'x'",
        "flag = 1",
        "i",
        "day = 5",
        "day = '2024-02-30'",
        "day = 'yesterday'",
        "at = '2024-01-01T00:00:00Z'",
        "t = 5",
        "span = 5",
        "items = 5",
        "items like 'x%'",
        "i like '1%'",
    ],
)
def test_what_cannot_be_compared_is_an_error_that_lists_the_columns(text: str) -> None:
    with pytest.raises(PredicateError) as caught:
        bind(parse(text), SCHEMA)
    assert f"column {text.split()[0]} " in caught.value.message
    assert "columns: i (int32), b (int8)" in caught.value.hint
    assert caught.value.exit_code == 3


def test_an_unknown_column_is_an_error_that_lists_the_columns_and_the_nearest() -> None:
    with pytest.raises(PredicateError) as caught:
        bind(parse("i = 1 and zone is null"), SCHEMA)
    assert "column zone (character 11)" in caught.value.message
    assert "did you mean zoned?" in caught.value.hint
    assert "items (list<item: int64>)" in caught.value.hint


def test_the_columns_of_a_predicate_are_those_it_looks_at() -> None:
    assert columns_of(parse("a = 1 or not (b is null and c like 'x%') or d in (1)")) == {"a", "b", "c", "d"}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("abc", ("abc", "")),
        ("abc%", ("abc", "%")),
        ("abc%%", ("abc", "%")),
        ("a_c%", ("a", "_c%")),
        ("a\\_c%", ("a_c", "%")),
        ("a\\", ("a\\", "")),
        ("%", ("", "%")),
        ("", ("", "")),
    ],
)
def test_a_pattern_s_literal_start_is_what_pruning_may_use(pattern: str, expected: Any) -> None:
    assert like_prefix(pattern) == expected
