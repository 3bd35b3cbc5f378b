from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lading.errors import ConfigError, TransformError
from lading.model import DRIFTS, Column, ColumnRule, Policy
from lading.sources.recipe import facts_of, hashed, transform_source


def _recipe(**changes: Any) -> str:
    facts: dict[str, Any] = {
        "columns": (Column("a", "bigint"), Column("b", "string")),
        "fmt": "csv",
        "read_options": {"header": True, "quote": "'"},
        "columns_from_name": None,
        "order_by": "a",
        "bucket_size": 100,
        "transform_name": "clean",
        "transform_code": b"def clean(df, context): return df",
        "per": "file",
    }
    return hashed(facts_of(**{**facts, **changes}))


@pytest.mark.parametrize(
    "change",
    [
        {"columns": (Column("a", "bigint"), Column("b", "int"))},
        {"columns": (Column("b", "string"), Column("a", "bigint"))},
        {"columns": (Column("a", "bigint", inferred=True), Column("b", "string"))},
        {"fmt": "tsv"},
        {"read_options": {"header": False, "quote": "'"}},
        {"columns_from_name": "(?P<p>.*)"},
        {"order_by": None},
        {"bucket_size": "30d"},
        {"transform_code": b"def clean(df, context): return df.distinct()"},
        {"transform_code": None, "transform_name": None},
        {"transform_name": "other"},
        {"per": "table"},
        {"policy": Policy("ignore")},
        {"policy": Policy(types="quarantine")},
        {"policy": Policy(by_column=(("a", "widen"),))},
        {"names": "fold"},
        {"column_rules": (ColumnRule("a", headers=("A",)),)},
        {"column_rules": (ColumnRule("a", dates=("yyyy",)),)},
        {"column_rules": (ColumnRule("a", nulls=()),)},
        {"column_rules": (ColumnRule("a", decimal=","),)},
        {"column_rules": (ColumnRule("a", default=""),)},
    ],
)
def test_whatever_decides_the_rows_changes_the_recipe(change: dict[str, Any]) -> None:
    assert _recipe(**change) != _recipe()


def test_the_order_of_read_options_is_no_change() -> None:
    assert _recipe(read_options={"quote": "'", "header": True}) == _recipe()
    assert len(_recipe()) == 64


@pytest.mark.parametrize(
    ("drift", "known"), [("strict", "898dd767"), ("ignore_new", "2f0d307c"), ("evolve", "14529361")]
)
def test_tables_that_are_there_keep_their_recipe(drift: str, known: str) -> None:
    assert _recipe(policy=DRIFTS[drift]).startswith(known), "every table would be read again"


def test_a_rule_that_only_says_what_is_known_is_no_change() -> None:
    assert _recipe(column_rules=(ColumnRule("a", "bigint", types="strict", line=7),)) == _recipe()


def test_the_order_of_column_rules_is_no_change() -> None:
    a, b = ColumnRule("a", headers=("x", "y")), ColumnRule("b", default="0")
    again = ColumnRule("a", headers=("y", "x"))
    assert _recipe(column_rules=(a, b)) == _recipe(column_rules=(b, again))


def test_a_transform_is_found_inside_the_project(tmp_path: Path) -> None:
    (tmp_path / "transforms").mkdir()
    (tmp_path / "transforms/x.py").write_bytes(b"code")
    assert transform_source(tmp_path, "transforms/x.py:clean") == (
        (tmp_path / "transforms/x.py").resolve(),
        "clean",
        b"code",
    )


def test_code_from_outside_the_project_is_never_run(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "evil.py").write_text("")
    (project / "link.py").symlink_to(tmp_path / "evil.py")
    for spec in ("../evil.py:f", f"{tmp_path}/evil.py:f", "link.py:f"):
        with pytest.raises(ConfigError, match="outside the project"):
            transform_source(project, spec)


def test_a_transform_that_is_not_there_says_where_to_look(tmp_path: Path) -> None:
    with pytest.raises(TransformError, match="can't be read"):
        transform_source(tmp_path, "x.py:clean")
    for spec in ("x.py", "x.py:", "x.py:not a name", ":f"):
        with pytest.raises(ConfigError, match="names no function"):
            transform_source(tmp_path, spec)
