"""`checks`, `on_bad` and `max_bad` of lading.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.config.checks import CHECK_KEYS, CHECK_KINDS, RANGE_KEYS
from lading.config.file import load as load_config
from lading.config.project import TableConfig
from lading.errors import ConfigError
from lading.model import Check, Threshold

TOP = "tables:\n  ships:\n    path: '*.csv'\n    format: csv\n"


def load(folder: Path, text: str) -> TableConfig:
    (folder / "lading.yaml").write_text(text)
    return load_config(folder).tables["ships"]


def checks(folder: Path, items: str, *, more: str = "") -> tuple[Check, ...]:
    lines = "".join(f"      {line}\n" for line in items.splitlines())
    return load(folder, f"{TOP}{more}    checks:\n{lines}").checks


def complaint(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, text)
    assert caught.value.exit_code == 3
    return caught.value.message


def wrong(folder: Path, items: str, *, more: str = "") -> str:
    lines = "".join(f"      {line}\n" for line in items.splitlines())
    return complaint(folder, f"{TOP}{more}    checks:\n{lines}")


def test_every_kind_is_read_with_what_it_asks_for(tmp_path):
    found = checks(
        tmp_path,
        "- min_rows: 5\n"
        "- max_rows: 10\n"
        "- not_null: [id, port]\n"
        "- columns: {names: [id, port], strict: true}\n"
        "- range: {column: tonnes, min: 0, max: 1.5}\n"
        "- values: {column: port, in: [oslo, 7, 2024-01-01]}\n"
        "- pattern: {column: port, regex: '[a-z]+'}\n"
        "- unique: id\n"
        "- sql: tonnes > 0\n",
    )
    kinds = {check.kind: check for check in found}
    assert len(found) == len(kinds) == 9
    assert kinds["min_rows"].number == 5 and kinds["max_rows"].number == 10
    assert kinds["not_null"].columns == ("id", "port")
    assert kinds["columns"].columns == ("id", "port") and kinds["columns"].strict
    assert (kinds["range"].least, kinds["range"].most) == ("0", "1.5")
    assert kinds["values"].values == ("oslo", "7", "2024-01-01")
    assert kinds["pattern"].text == "[a-z]+" and kinds["sql"].text == "tonnes > 0"
    assert kinds["unique"].columns == ("id",)
    assert {check.severity for check in found} == {"error"}
    assert [check.name for check in found][:3] == ["min_rows", "max_rows", "not_null id, port"]


def test_severity_threshold_and_name_stand_beside_the_check(tmp_path):
    [share, count] = checks(
        tmp_path,
        "- not_null: id\n  severity: warn\n  threshold: 1.5%\n  name: ids\n- sql: id > 0\n  threshold: 3\n",
    )
    assert (share.severity, share.threshold, share.name) == ("warn", Threshold(share=0.015), "ids")
    assert count.threshold == Threshold(count=3)
    assert not count.threshold.exceeded(3, 10) and count.threshold.exceeded(4, 10)
    assert not share.threshold.exceeded(15, 1000) and share.threshold.exceeded(16, 1000)


def test_a_table_has_the_projects_checks_and_may_replace_them_by_name(tmp_path):
    text = (
        "checks:\n  - min_rows: 1\n  - not_null: id\n"
        + TOP
        + "    checks:\n      - min_rows: 100\n      - unique: id\n"
    )
    found = load(tmp_path, text).checks
    assert [(check.name, check.number) for check in found] == [
        ("min_rows", 100),
        ("not_null id", 0),
        ("unique id", 0),
    ]


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ("- not_nul: id\n", "did you mean 'not_null'?"),
        ("- not_null: id\n  treshold: 1\n", "did you mean 'threshold'?"),
        ("- range: {column: a, mn: 1, max: 2}\n", "did you mean 'min'?"),
        ("- not_null: id\n  severity: fatal\n", "'fatal' is unknown"),
        ("- not_null: id\n  threshold: 101%\n", "a share of them (1%)"),
        ("- not_null: id\n  threshold: -1\n", "a share of them (1%)"),
        ("- min_rows: 5\n  threshold: 1%\n", "min_rows either passes or fails"),
        ("- min_rows: many\n", "must be a number of rows"),
        ("- range: {column: a}\n", "give at least one"),
        ("- range: {min: 1}\n", "column: is missing"),
        ("- values: {column: a, in: []}\n", "must be a list of values"),
        ("- values: {column: a, in: [null]}\n", "null and nested values can't be listed"),
        ("- pattern: {column: a, regex: '['}\n", "not a regular expression"),
        ("- sql: ''\n", "is empty"),
        ("- not_null: []\n", "must be a column or a list of columns"),
        ("- unique: [id, id]\n", "names a column twice"),
        ("- not_null: id\n  unique: id\n", "only one check per item"),
        ("- severity: warn\n", "no check; add one of"),
        ("- not_null\n", "must be a mapping"),
        ("- not_null: id\n- not_null: id\n", "two checks are called 'not_null id'"),
    ],
)
def test_what_is_wrong_with_a_check_is_said_with_its_line_and_key(tmp_path, items, said):
    message = wrong(tmp_path, items)
    assert said in message
    assert message.startswith("lading.yaml:") and "tables.ships.checks" in message


def test_checks_must_be_a_list(tmp_path):
    assert "must be a list" in complaint(tmp_path, TOP + "    checks: {not_null: id}\n")


def test_on_bad_and_max_bad(tmp_path):
    table = load(tmp_path, TOP + "    on_bad: quarantine\n    max_bad: 2%\n")
    assert (table.on_bad, table.max_bad) == ("quarantine", Threshold(share=0.02))
    assert load(tmp_path, TOP).on_bad == "fail"
    assert "needs on_bad: quarantine" in complaint(tmp_path, TOP + "    max_bad: 5\n")
    assert "did you mean 'quarantine'?" in complaint(tmp_path, TOP + "    on_bad: quarantin\n")


def test_rows_of_a_transform_over_the_whole_table_cannot_be_set_aside(tmp_path):
    more = "    on_bad: quarantine\n    transform: t.py:f\n    per: table\n"
    assert "they belong to no file" in wrong(tmp_path, "- not_null: id\n", more=more)
    assert checks(tmp_path, "- not_null: id\n  severity: warn\n", more=more)


@pytest.mark.parametrize("regex", ["(" * 5_000 + "a" + ")" * 5_000, "a{99999999999999999999}", "("])
def test_a_pattern_that_is_none_is_a_complaint(tmp_path, regex):
    with pytest.raises(ConfigError, match=r"pattern.regex: not a regular expression"):
        checks(tmp_path, f"[{{pattern: {{column: a, regex: '{regex}'}}}}]")


def test_every_check_and_key_is_explained_in_the_guide():
    guide = (Path(__file__).parents[2] / "docs" / "guide.md").read_text(encoding="utf-8")
    for key in {*CHECK_KINDS, *CHECK_KEYS, *RANGE_KEYS, "in", "regex"}:
        assert f"`{key}`" in guide, f"docs/guide.md does not explain {key}"
