"""`columns:` as a mapping, and `names`, as lading.yaml says them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.config.columns import COLUMN_KEYS
from lading.config.file import load
from lading.config.project import TableConfig
from lading.errors import ConfigError
from lading.model import ColumnRule, Policy


def _table(folder: Path, *lines: str, fmt: str = "csv") -> TableConfig:
    body = "".join(f"    {line}\n" for line in ('path: "*"', f"format: {fmt}", *lines))
    (folder / "lading.yaml").write_text(f"tables:\n  t:\n{body}")
    return load(folder).tables["t"]


def test_every_key_of_a_column_is_optional(tmp_path: Path) -> None:
    table = _table(
        tmp_path,
        "columns:",
        '  amount: {type: "DECIMAL(12, 2)", from: [Amount, AMT, amount], decimal: ",", null: ["-", n/a]}',
        "  day: {date_format: [dd.MM.yyyy, yyyy-MM-dd], timestamp_format: yyyy, default: 01.01.1900}",
        "  n: {default: 0, null: [], types: quarantine}",
        "  flag: long",
    )
    assert table.rules == (
        ColumnRule("amount", "decimal(12,2)", ("Amount", "AMT"), nulls=("-", "n/a"), decimal=","),
        ColumnRule("day", dates=("dd.MM.yyyy", "yyyy-MM-dd"), timestamps=("yyyy",), default="01.01.1900"),
        ColumnRule("n", nulls=(), default="0", types="quarantine"),
        ColumnRule("flag", "bigint"),
    )
    assert [rule.line for rule in table.rules] == [6, 7, 8, 9]
    assert table.policy == Policy(by_column=(("n", "quarantine"),))
    assert table.naming.column_of("AMT") == "amount"


def test_a_policy_of_a_column_that_is_the_tables_is_none_of_its_own(tmp_path: Path) -> None:
    lines = ("types: quarantine", "columns: {b: {types: strict}, a: {types: quarantine}}")
    assert _table(tmp_path, *lines).policy == Policy("strict", "quarantine", (("b", "strict"),))


def test_names_are_exact_unless_asked_for(tmp_path: Path) -> None:
    assert _table(tmp_path).naming.column_of(" A") == " A"
    assert _table(tmp_path, "names: fold").naming.column_of(" A") == "a"


def test_max_bad_bounds_what_types_quarantine_sets_aside(tmp_path: Path) -> None:
    assert str(_table(tmp_path, "types: quarantine", "max_bad: 5").max_bad) == "5"
    with pytest.raises(ConfigError, match="max_bad: needs on_bad: quarantine"):
        _table(tmp_path, "types: widen", "max_bad: 5")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (
            ["columns: [a]"],
            "5: tables.t.columns: must be one of strict, add, ignore, or a mapping of columns",
        ),
        (["columns: {}"], "5: tables.t.columns: names no column"),
        (["columns:", "  a: {}"], "6: tables.t.columns.a: says nothing"),
        (["columns:", "  a: 5"], "6: tables.t.columns.a: must be text"),
        (["columns:", "  a: strng"], "6: tables.t.columns.a: 'strng' is not a type"),
        (
            ["columns:", "  a:", "    type: decimal(99)"],
            "7: tables.t.columns.a.type: decimal(99,0) is outside",
        ),
        (["columns: {a: {form: A}}"], "tables.t.columns.a.form: unknown key; did you mean 'from'?"),
        (["columns: {a: {from: []}}"], "tables.t.columns.a.from: is an empty list"),
        (["columns: {a: {from: [b, ' ']}}"], "tables.t.columns.a.from.2: is empty"),
        (["columns: {a: {date_format: [yyyy, hh]}}"], "tables.t.columns.a.date_format.2: 'hh' has no year"),
        (["columns: {a: {decimal: x}}"], "tables.t.columns.a.decimal: 'x' is unknown; valid: ., ,"),
        (["columns: {a: {types: ignore}}"], "tables.t.columns.a.types: 'ignore' is unknown; valid: strict"),
        (["columns: {a: {default: [1]}}"], "tables.t.columns.a.default: must be a value such as 0"),
        (["columns: {a: {default: null}}"], "tables.t.columns.a.default: must be a value such as 0"),
        (["columns: {a: {type: array<int>, default: 1}}"], "default: a column of type array<int> can't have"),
        (["columns: {_source: int}"], "tables.t.columns._source: _source is reserved for lading"),
        (["columns: {' ': int}"], "a column needs a name"),
        (["names: snakes"], "5: tables.t.names: 'snakes' is unknown; did you mean 'snake'?"),
        (
            ["columns:", "  a: {from: x}", "  b: {from: x}"],
            "7: tables.t.columns.b: the header 'x' already means 'a'",
        ),
        (
            ["columns: {a: {from: b}, b: int}"],
            "tables.t.columns.b: the header 'b' already means 'a'; remove one",
        ),
        (["columns: {a: int, A: int}"], "tables.t.columns.A: differs from 'a' only in case; rename one"),
        (
            ["names: fold", "columns: {a: {from: X}, b: {from: x}}"],
            "tables.t.columns.b: the header 'x' already means 'a', as `names: fold` reads 'X'; remove one",
        ),
        (
            ["read_options: {header: false}", "names: fold"],
            "tables.t.names: files without a header have no names to compare",
        ),
        (
            ["read_options: {header: false}", "columns: {a: {from: b}}"],
            "tables.t.columns.a.from: files without a header have no names to compare",
        ),
        (
            ["columns_from_name: '(?P<port>.*)'", "columns: {port: {default: x}}"],
            "tables.t.columns.port.default: the column comes from the files' names",
        ),
    ],
)
def test_what_is_wrong_with_a_column_is_said_with_line_and_key(
    tmp_path: Path, lines: list[str], says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        _table(tmp_path, *lines)
    assert says in caught.value.message
    assert len(caught.value.message.splitlines()) == 1, "one mistake is one complaint"


def test_a_column_from_file_names_may_have_a_type(tmp_path: Path) -> None:
    table = _table(tmp_path, "columns_from_name: '(?P<year>.*)'", "columns: {year: int}")
    assert table.rules == (ColumnRule("year", "int"),)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["columns: {a: int}"], "tables.t.columns.a: the types of fixed-width files are in the spec"),
        (
            ["columns: {a: {type: int}}"],
            "tables.t.columns.a.type: the types of fixed-width files are in the spec",
        ),
        (["columns: {a: {from: b}}"], "tables.t.columns.a.from: fixed-width files take their columns"),
        (["columns: {a: {types: widen}}"], "tables.t.columns.a.types: the types of fixed-width files are in"),
        (["names: fold"], "tables.t.names: fixed-width files take their columns from the spec"),
    ],
)
def test_what_a_spec_says_is_not_said_again(tmp_path: Path, lines: list[str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _table(tmp_path, "spec: x.yaml", *lines, fmt="fixed_width")
    assert says in caught.value.message


def test_formats_nulls_and_defaults_of_fixed_width_columns_are_taken(tmp_path: Path) -> None:
    line = 'columns: {a: {decimal: ",", null: "-", default: "0", types: quarantine}}'
    table = _table(tmp_path, "spec: x.yaml", line, fmt="fixed_width")
    assert table.rules == (ColumnRule("a", nulls=("-",), decimal=",", default="0", types="quarantine"),)


def test_every_key_of_a_column_is_explained_in_the_guide() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide.md").read_text(encoding="utf-8")
    section = guide.partition("\n## Columns\n")[2].partition("\n## ")[0]
    for key in (*COLUMN_KEYS, "names", "exact", "fold", "snake"):
        assert f"`{key}`" in section, f"docs/guide.md does not explain {key}"
