"""What becomes of files whose columns are not the schema's, as lading.yaml says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.config.file import load
from lading.errors import ConfigError
from lading.model import Policy


def _policy(folder: Path, *lines: str, fmt: str = "csv") -> Policy:
    body = "".join(f"    {line}\n" for line in ('path: "*"', f"format: {fmt}", *lines))
    (folder / "lading.yaml").write_text(f"tables:\n  t:\n{body}")
    return load(folder).tables["t"].policy


@pytest.mark.parametrize(
    ("lines", "policy"),
    [
        ([], Policy()),
        (["drift: strict"], Policy("strict", "strict")),
        (["drift: ignore_new"], Policy("ignore", "strict")),
        (["drift: evolve"], Policy("add", "widen")),
        (["drift: {columns: add, types: quarantine}"], Policy("add", "quarantine")),
        (["drift: {types: widen}"], Policy("strict", "widen")),
        (["drift: {}"], Policy()),
        (["columns: ignore"], Policy("ignore", "strict")),
        (["columns: add", "types: quarantine"], Policy("add", "quarantine")),
        (["drift: {columns: add}", "types: quarantine"], Policy("add", "quarantine")),
        (["drift: evolve", "types: widen", "columns: add"], Policy("add", "widen")),
    ],
)
def test_names_and_values_have_a_policy_each(tmp_path: Path, lines: list[str], policy: Policy) -> None:
    assert _policy(tmp_path, *lines) == policy


def test_values_of_fixed_width_fields_may_be_set_aside(tmp_path: Path) -> None:
    policy = _policy(tmp_path, "spec: x.yaml", "types: quarantine", fmt="fixed_width")
    assert policy == Policy("strict", "quarantine")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (
            ["drift: loose"],
            "lading.yaml:5: tables.t.drift: 'loose' is unknown; valid: strict, ignore_new, evolve",
        ),
        (["drift: evolving"], "did you mean 'evolve'"),
        (
            ["drift: {column: add}"],
            "lading.yaml:5: tables.t.drift.column: unknown key; did you mean 'columns'?",
        ),
        (["drift: {columns: append}"], "tables.t.drift.columns: 'append' is unknown; valid: strict, add"),
        (["types: widened"], "lading.yaml:5: tables.t.types: 'widened' is unknown; did you mean 'widen'?"),
        (["columns: ignores"], "tables.t.columns: 'ignores' is unknown; did you mean 'ignore'?"),
        (
            ["drift: evolve", "types: quarantine"],
            "lading.yaml:6: tables.t.types: contradicts drift on line 5 "
            "(drift: evolve, which means types: widen); write drift: {columns: …, types: …} with both words",
        ),
        (
            ["columns: add", "drift: {columns: ignore}"],
            "lading.yaml:5: tables.t.columns: contradicts drift on line 6 (columns: ignore); keep one",
        ),
    ],
)
def test_a_wrong_word_is_refused_with_the_line_and_a_remedy(
    tmp_path: Path, lines: list[str], says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        _policy(tmp_path, *lines)
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("drift: evolve", "drift"),
        ("columns: add", "columns"),
        ("types: widen", "types"),
        ("drift: {columns: ignore}", "drift"),
    ],
)
def test_fixed_width_columns_are_the_specs(tmp_path: Path, line: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _policy(tmp_path, "spec: x.yaml", line, fmt="fixed_width")
    assert f"tables.t.{key}: fixed-width files take their columns from the spec" in caught.value.message


def test_a_schema_follows_the_files_where_names_or_types_do() -> None:
    assert not Policy().follows
    assert not Policy("ignore", "strict").follows
    assert Policy("add", "strict").follows
    assert Policy("strict", "quarantine").follows
    assert Policy("strict", "strict", (("a", "widen"),)).follows
    assert not Policy("strict", "strict", (("a", "strict"),)).follows


def test_a_column_may_have_a_policy_of_its_own() -> None:
    policy = Policy("add", "widen", (("a", "quarantine"), ("b", "strict")))
    assert [policy.types_of(name) for name in ("a", "b", "c")] == ["quarantine", "strict", "widen"]
