"""Checks on rows, on real Spark: each kind, on values that pass, that fail and that are null."""

from __future__ import annotations

import pytest
from lading.spark.tally import rejecting

from lading.errors import ConfigError
from lading.model import Check, Threshold

COLUMNS = "id bigint; tonnes double; port string; day date; at timestamp_ntz; ok boolean; price decimal(9,2)"
HEADER = "id,tonnes,port,day,at,ok,price"
ROWS = [
    "1,1.5,oslo,2024-01-01,2024-01-01 10:00:00,true,1.50",
    "2,NaN,Oslo,2023-12-31,2024-01-01 09:59:59,false,9.99",
    "3,-1,bergen!,2024-06-30,2024-02-01 00:00:00,true,10.00",
    ",,,,,,",
]


def check(kind: str, *columns: str, **fields: object) -> Check:
    made = Check(kind, f"{kind} {len(fields)} {columns} {fields}", "tables.t.checks[0]", 7, columns=columns)
    return Check(**{name: getattr(made, name) for name in made.__slots__} | fields)  # type: ignore[arg-type]


CASES = [
    (check("not_null", "id", "port"), [4]),
    (check("range", "id", least="2"), [1]),
    (check("range", "id", most="1.5"), [2, 3]),
    (check("range", "tonnes", least="-1"), [2]),  # NaN lies in no range
    (check("range", "day", least="2024-01-01", most="2024-06-29"), [2, 3]),
    (check("range", "at", least="2024-01-01T10:00:00"), [2]),
    (check("range", "price", most="9.99"), [3]),
    (check("range", "port", least="a"), [2]),
    (check("values", "port", values=("oslo", "bergen!")), [2]),
    (check("values", "id", values=("1", "3")), [2]),
    (check("values", "ok", values=("true",)), [2]),
    (check("values", "price", values=("1.5", "10")), [2]),
    (check("pattern", "port", text="[a-z]+|Oslo"), [3]),
    (check("pattern", "id", text="[12]"), [3]),
    (check("sql", text="id % 2 = 1 or `ok`"), [2]),
    (check("sql", text="coalesce(port, '') != ''"), [4]),
]


def test_each_kind_of_check_finds_the_rows_that_fail_it_and_no_other(shop):
    checks = tuple(one for one, _ in CASES)
    ingested = shop.ingest(shop.csv("\n".join([HEADER, *ROWS])), COLUMNS, checks=checks)
    found = shop.table(ingested).to_pylist()
    assert len(found) == 4, "without a quarantine nothing is left out"
    assert ingested.tally.rows == {1: 4}
    for one, failing in CASES:
        assert ingested.tally.failed.get(one.name, {}) == ({1: len(failing)} if failing else {}), one
        said = [text for _, text in ingested.tally.sample[one.name]]
        ids = {'"id": null': 4, '"id": 1,': 1, '"id": 2,': 2, '"id": 3,': 3}
        assert sorted(number for start, number in ids.items() for text in said if start in text) == failing


def test_counts_are_kept_by_file_and_failing_rows_are_left_out_under_quarantine(shop):
    strict = check("sql", text="id != 2")
    warns = check("sql", text="id != 3", severity="warn")
    tolerant = check("sql", text="id != 4", threshold=Threshold(count=1))
    checks = (strict, warns, tolerant)
    assert rejecting(checks) == 1
    groups = [shop.stage({7: "id\n1\n2\n3\n", 8: "id\n2\n2\n4\n", 9: "id\n4\n5\n"})]
    ingested = shop.ingest(groups, "id bigint", checks=checks, quarantine=True)
    assert sorted(r["id"] for r in shop.table(ingested).to_pylist()) == [1, 3, 4, 4, 5]
    assert ingested.tally.failed[strict.name] == {7: 1, 8: 2}
    assert ingested.tally.failed[warns.name] == {7: 1}
    assert ingested.tally.failed[tolerant.name] == {8: 1, 9: 1}
    again = shop.ingest(groups, "id bigint", checks=checks, quarantine=True, reject={8: 0b100})
    assert sorted(r["id"] for r in shop.table(again).to_pylist()) == [1, 3, 4, 5]


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (check("not_null", "prt"), "t has no column 'prt'"),
        (check("unique", "prt"), "t has no column 'prt'"),
        (check("not_null", "_source"), "t has no column '_source'"),
        (check("range", "id", least="many"), "'many' can't be compared with 'id', which is bigint"),
        (check("range", "day", least="soon"), "'soon' can't be compared with 'day', which is date"),
        (check("values", "ok", values=("yes",)), "'yes' can't be compared with 'ok', which is boolean"),
        (check("pattern", "port", text="(?P<x>a)"), "INVALID_PARAMETER_VALUE.PATTERN"),
        (check("sql", text="id >"), "[PARSE_SYNTAX_ERROR]"),
        (check("sql", text="nobody > 1"), "[UNRESOLVED_COLUMN"),
        (check("sql", text="sum(id) > 1"), "[INVALID_WHERE_CONDITION]"),
        (check("sql", text="id + 1"), "FILTER_NOT_BOOLEAN"),
        (check("sql", text="id > rand()"), "uses rand(), which gives different results each time"),
    ],
)
def test_a_check_that_makes_no_sense_is_an_error_with_line_and_key_before_anything_is_read(shop, one, said):
    missing = shop.csv("\n".join([HEADER, *ROWS]))
    for link in shop.folder.rglob("s1.csv"):
        link.unlink()
        link.write_bytes(b"\xff not to be read")
    with pytest.raises(ConfigError) as caught:
        shop.ingest(missing, COLUMNS, checks=(one,))
    assert said in caught.value.message
    assert caught.value.message.startswith("lading.yaml:7: tables.t.checks[0]")
    assert caught.value.hint and not list(shop.folder.glob("warehouse/t/bucket=*/*"))


NARROW = "real float; price decimal(9,2); big decimal(38,2); id bigint"
NARROW_ROWS = [
    "0.1,9.99,123456789012345678901234567890123456.78,9223372036854775807",
    "0.2,10.00,0.00,-9223372036854775808",
    "Infinity,,1.00,0",
]
NARROW_CASES = [
    (check("range", "real", most="0.1"), 2),
    (check("range", "real", least="0.1"), 0),
    (check("range", "real", least="0.2"), 1),
    (check("values", "real", values=("0.1", "0.2", "Infinity")), 0),
    (check("values", "real", values=("0.1",)), 2),
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
]


def test_values_are_compared_in_the_columns_own_type(shop):
    checks = tuple(one for one, _ in NARROW_CASES)
    rows = shop.csv("\n".join(["real,price,big,id", *NARROW_ROWS]))
    ingested = shop.ingest(rows, NARROW, checks=checks)
    for one, failing in NARROW_CASES:
        assert ingested.tally.failed.get(one.name, {}) == ({1: failing} if failing else {}), one


@pytest.mark.parametrize(("column", "text"), [("id", "NaN"), ("price", "inf"), ("id", "1e999999999")])
def test_numbers_that_no_column_can_hold_are_refused(shop, column, text):
    rows = shop.csv("\n".join(["real,price,big,id", *NARROW_ROWS]))
    with pytest.raises(ConfigError, match="can't be compared with"):
        shop.ingest(rows, NARROW, checks=(check("range", column, least=text),))
