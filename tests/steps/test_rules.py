"""Which changes of checks let every row of a table stay."""

from __future__ import annotations

import pytest

from lading.model import Check, Threshold
from lading.steps.rules import relaxes, rules_of


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
    assert relaxes(rules(*old), rules(*new))


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
    assert not relaxes(rules(*old), rules(*new))


def test_warnings_and_checks_of_the_table_are_no_rules():
    assert rules(check("not_null", "a", severity="warn"), check("unique", "a")) is None


def test_text_that_is_no_rules_relaxes_nothing():
    assert not relaxes("{", None)
    assert not relaxes('["x"]', None)
