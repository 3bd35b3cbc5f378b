"""Formats, specs and read options, as lading.yaml says them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lading.config.file import load
from lading.config.project import TableConfig
from lading.errors import ConfigError


def _table(tmp_path: Path, *lines: str) -> TableConfig:
    body = "".join(f"    {line}\n" for line in ('path: "*"', *lines))
    (tmp_path / "lading.yaml").write_text(f"tables:\n  t:\n{body}")
    return load(tmp_path).tables["t"]


def test_tab_is_another_name_for_tsv(tmp_path: Path) -> None:
    assert _table(tmp_path, "format: tab").format == "tsv"


def test_a_fixed_width_table_names_its_spec(tmp_path: Path) -> None:
    table = _table(
        tmp_path, "format: fixed_width", "spec: specs/x.yaml", "read_options: {skip: 2, encoding: cp437}"
    )
    assert (table.spec, table.read_options) == ("specs/x.yaml", {"skip": 2, "encoding": "cp437"})


def test_skipping_nothing_is_no_other_recipe(tmp_path: Path) -> None:
    assert _table(tmp_path, "format: csv", "read_options: {skip: 0}").read_options == {}


def test_null_texts_and_patterns_may_be_several(tmp_path: Path) -> None:
    options = {"null": ["NA", ""], "date_format": ["dd.MM.yyyy", "yyyy-MM-dd"], "timestamp_format": "yyyy"}
    table = _table(tmp_path, "format: csv", f"read_options: {json.dumps(options)}")
    assert table.read_options == options
    assert _table(tmp_path, "format: csv", "read_options: {null: [NA]}").read_options == {"null": "NA"}


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("records: data.rows", "data.rows"),
        ("records: [data, rows]", "data.rows"),
        ("records: rows, multiline: true", "rows"),
        ('records: [data, "a.b"]', ["data", "a.b"]),
        ('records: [data, ""]', ["data", ""]),
    ],
)
def test_records_are_a_path_in_one_form(tmp_path: Path, written: str, means: Any) -> None:
    table = _table(tmp_path, "format: json", f"read_options: {{{written}}}")
    assert table.read_options == {"records": means}


@pytest.mark.parametrize(
    ("fmt", "written", "says"),
    [
        ("json", 'records: ""', "must be the keys that lead to the array, such as data.rows"),
        ("json", "records: data..rows", "a list for keys with dots in them"),
        ("json", "records: []", "is an empty list; for a file that is one array, set multiline: true"),
        ("json", "records: [data, 5]", 'must be text; put it in quotes: "5"'),
        ("json", "records: 5", 'must be text; put it in quotes: "5"'),
        ("json", "records: {a: b}", "must be text"),
        ("json", "records: rows, multiline: false", "must be true with `records`"),
        ("csv", "records: rows", "records: unknown key"),
    ],
)
def test_records_that_are_no_path_are_refused(tmp_path: Path, fmt: str, written: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _table(tmp_path, f"format: {fmt}", f"read_options: {{{written}}}")
    assert says in str(caught.value)


def test_choices_are_options_and_their_defaults_no_other_recipe(tmp_path: Path) -> None:
    chosen = {"decimal": ",", "unnamed": "name", "duplicates": "rename", "ragged": "pad"}
    table = _table(tmp_path, "format: tsv", f"read_options: {json.dumps(chosen)}")
    assert table.read_options == chosen
    default = '{decimal: ".", unnamed: fail, duplicates: fail, ragged: fail}'
    assert _table(tmp_path, "format: csv", f"read_options: {default}").read_options == {}


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("dd.MM.YYYY", "'YYYY' is none of the letters that lading reads"),
        ("yyyy-MM-dd HH:mm z", "'z' is the name of a time zone"),
        ("dd.MM", "has no year"),
        ("yyyy-MM-dd hh:mm", "h and a (AM or PM) only make sense together"),
        ("yyyyMdd", "it isn't clear where 'M' ends; write 'MM'"),
        ("yyyy-MM-dd[ HH:mm", "a '[' or ']' has no partner"),
        ("yyyy#MM", "'#' has no meaning in a pattern"),
        ("yyyyy", "'yyyyy' is none of the letters"),
    ],
)
def test_a_pattern_that_can_not_be_read_is_refused_with_the_letter(
    tmp_path: Path, pattern: str, says: str
) -> None:
    for value in (json.dumps(pattern), json.dumps(["yyyy", pattern])):
        with pytest.raises(ConfigError) as caught:
            _table(tmp_path, "format: csv", f"read_options: {{date_format: {value}}}")
        assert f"date_format: {pattern!r}" in caught.value.message.replace("date_format.2", "date_format")
        assert says in caught.value.message


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["format: fixed"], "did you mean 'fixed_width'"),
        (["format: fixed_width"], "spec: is missing"),
        (["format: fixed_width", "spec: ../x.yaml"], "spec: must be inside the project"),
        (["format: fixed_width", "spec: x.txt"], "spec: must be a YAML file in the project"),
        (["format: csv", "spec: x.yaml"], "spec: is only for format: fixed_width"),
        (["format: csv", "read_options: {skip: -1}"], "skip: must be a number of lines"),
        (["format: csv", "read_options: {skip: true}"], "skip: must be a number of lines"),
        (["format: json", "read_options: {skip: 1}"], "skip: unknown key"),
        (["format: fixed_width", "spec: x.yaml", "read_options: {quote: x}"], "quote: unknown key"),
        (["format: csv", "read_options: {decimal: x}"], "decimal: 'x' is unknown; valid: ., ,"),
        (["format: csv", "read_options: {null: []}"], "null: is an empty list"),
        (["format: csv", "read_options: {null: [NA, 5]}"], "null.2: must be text"),
        (["format: csv", 'read_options: {delimiter: "\\n"}'], "delimiter: can't be a line break"),
        (["format: json", "read_options: {ragged: pad}"], "ragged: unknown key"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, lines: list[str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _table(tmp_path, *lines)
    assert says in caught.value.message


@pytest.mark.parametrize("format", ["format: json", "format: fixed_width\n    spec: x.yaml"])
def test_a_group_called_as_spark_calls_a_line_is_refused_before_anything_runs(
    tmp_path: Path, format: str
) -> None:
    with pytest.raises(
        ConfigError, match=r"lading\.yaml:\d+: .*columns_from_name: `value` is Spark's own name"
    ):
        _table(tmp_path, format, r"columns_from_name: (?P<Value>\w+)\.json")
    assert _table(tmp_path, "format: csv", r"columns_from_name: (?P<value>\w+)\.csv").columns_from_name


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("{}", {}),
        ("{sheet: 2}", {"sheet": 2}),
        ("{sheet: Ships}", {"sheet": "Ships"}),
        ("{header: 3, range: 'B:F'}", {"header": 3, "range": "B:F"}),
        ("{header: false, skip: 2}", {"header": False, "skip": 2}),
        ("{header: true, unnamed: fail, duplicates: fail}", {}),
        ("{unnamed: name, duplicates: rename, trim: true, 'null': '-'}", None),
        ("{range: B3:F200}", {"range": "B3:F200"}),
    ],
)
def test_a_workbook_has_options_of_its_own(
    tmp_path: Path, options: str, found: dict[str, Any] | None
) -> None:
    text = f"tables:\n  t:\n    path: '*.xlsx'\n    format: excel\n    read_options: {options}\n"
    (tmp_path / "lading.yaml").write_text(text)
    everything = {"unnamed": "name", "duplicates": "rename", "trim": True, "null": "-"}
    assert load(tmp_path).tables["t"].read_options == (everything if found is None else found)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("{sheet: 0}", "must be a name, or a number from 1"),
        ("{sheet: true}", "must be text"),
        ("{header: 0}", "must be the number of the row"),
        ("{header: first}", "must be the number of the row"),
        ("{range: B3}", "such as B3:F200"),
        ("{range: 'F1:B2'}", "ends before it begins"),
        ("{range: 'B9:F2'}", "ends before it begins"),
        ("{unnamed: maybe}", "'maybe' is unknown"),
        ("{delimiter: ;}", "unknown key"),
    ],
)
def test_options_that_a_workbook_can_not_have_are_refused(tmp_path: Path, options: str, says: str) -> None:
    text = f"tables:\n  t:\n    path: '*.xlsx'\n    format: excel\n    read_options: {options}\n"
    (tmp_path / "lading.yaml").write_text(text)
    with pytest.raises(ConfigError, match=says):
        load(tmp_path)
