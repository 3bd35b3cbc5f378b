from __future__ import annotations

from pathlib import Path

import pytest

from lading.errors import ConfigError
from lading.formats.fixed_width import layout_columns, load_layout
from lading.model import Column, Field


def _load(tmp_path: Path, text: str):
    (tmp_path / "x.yaml").write_text(text)
    return load_layout(tmp_path, "x.yaml")


def test_a_spec_says_where_columns_are_and_which_lines_are_records(tmp_path: Path) -> None:
    layout = _load(
        tmp_path,
        "columns:\n"
        "  - {name: ship, start: 0, length: 12}\n"
        "  - {name: tonnes, start: 12, length: 8, type: LONG, trim: false}\n"
        "record_type_filter: {position: 20, length: 2, value: '01'}\n",
    )
    assert layout.fields == (Field("ship", 0, 12, "string"), Field("tonnes", 12, 8, "bigint", trim=False))
    assert layout.filter == (20, 2, "01")
    assert layout.width == 22
    assert layout_columns(layout) == (Column("ship", "string"), Column("tonnes", "bigint"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("columns: []\n", r"x\.yaml:1: columns: must list"),
        ("columns:\n  - {name: a, start: 0}\n", r"x\.yaml:2: columns\[0\]\.length: is missing"),
        ("columns:\n  - {name: a, start: -1, length: 2}\n", r"start: must be a whole number, 0 or more"),
        ("columns:\n  - {name: a, start: 0, length: 0}\n", r"length: must be a whole number, 1 or more"),
        ("columns:\n  - {name: a, start: 0, length: 1, typ: int}\n", r"unknown key; did you mean 'type'"),
        ("columns:\n  - {name: a, start: 0, length: 1, type: money}\n", "'money' is not a type"),
        (
            "columns:\n  - {name: a, start: 0, length: 1, type: array<int>}\n",
            "can't be read from text",
        ),
        ("columns:\n  - {name: _source, start: 0, length: 1}\n", "reserved for lading"),
        (
            "columns:\n  - {name: a, start: 0, length: 1}\n  - {name: a, start: 1, length: 1}\n",
            r"x\.yaml:3: columns\[1\]\.name: there are two columns named 'a'",
        ),
        (
            "columns:\n  - {name: a, start: 0, length: 1}\n"
            "record_type_filter: {position: 0, length: 2, value: '1'}\n",
            "has 1 character, but `length` is 2",
        ),
        ("columns:\n  - {name: a, start: 0, length: 1\n", "x.yaml"),
        ("", "the file is empty"),
    ],
)
def test_what_is_wrong_with_a_spec_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        _load(tmp_path, text)


def test_a_spec_that_is_not_there_or_not_inside_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        load_layout(tmp_path, "nowhere.yaml")
    (tmp_path / "project").mkdir()
    (tmp_path / "x.yaml").write_text("")
    with pytest.raises(ConfigError, match="outside the project"):
        load_layout(tmp_path / "project", "../x.yaml")
