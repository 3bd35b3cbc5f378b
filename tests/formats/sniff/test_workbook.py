"""Where `lading add` finds the table of a workbook, and that it is read as found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openpyxl
import pytest

from lading.ingest.add.add import add


def book(project: Path, sheets: dict[str, list[list[Any]]], name: str = "book.xlsx") -> Path:
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    for title, rows in sheets.items():
        sheet = workbook.create_sheet(title)
        for row in rows:
            sheet.append(row)
    workbook.save(project / name)
    return project / name


TABLE = [["ship", "tonnes"], ["Anna", 1.5], ["Berta", 2.5]]


@pytest.mark.parametrize(
    ("sheets", "options", "rows"),
    [
        ({"Ships": TABLE}, {}, [("Anna", 1.5), ("Berta", 2.5)]),
        ({"Ships": [["Report of March"], [], *TABLE]}, {"header": 3}, [("Anna", 1.5), ("Berta", 2.5)]),
        # A title that begins left of the table.
        (
            {"Ships": [["Port", "Hamburg"], [None, "a", "b", "c"], [None, 1, 2, 3], [None, 4, 5, 6]]},
            {"header": 2},
            [(1, 2, 3), (4, 5, 6)],
        ),
        # pandas writes its index without a name.
        (
            {"Ships": [[None, *TABLE[0]], [0, *TABLE[1]], [1, *TABLE[2]]]},
            {"unnamed": "name"},
            [(0, "Anna", 1.5), (1, "Berta", 2.5)],
        ),
        ({"Ships": [["a", "a"], [1, 2]]}, {"duplicates": "rename"}, [(1, 2)]),
        ({"Cover": [], "Ships": TABLE, "Notes": [["old"]]}, {"sheet": 2}, [("Anna", 1.5), ("Berta", 2.5)]),
        (
            {"Notes": [["for the harbour master"]], "Ships": [["2024"], [], *TABLE]},
            {"sheet": 2, "header": 3},
            [("Anna", 1.5), ("Berta", 2.5)],
        ),
        # Names without a row below them.
        ({"Form": [["a", "b"]], "Ships": TABLE}, {"sheet": 2}, [("Anna", 1.5), ("Berta", 2.5)]),
        ({"Ports": [["port"], ["Hamburg"]], "Notes": [["old"]]}, {"sheet": 1}, [("Hamburg",)]),
    ],
    ids=["plain", "title", "beside", "index", "twice", "sheets", "notes first", "no rows", "one column"],
)  # fmt: skip
def test_the_table_of_a_workbook_is_found(
    tmp_path: Path, sheets: dict[str, list[list[Any]]], options: dict[str, Any], rows: list[tuple[Any, ...]]
) -> None:
    (table,) = add(tmp_path, [book(tmp_path, sheets)], write=False).tables
    assert table.look.options == options
    assert [tuple(row.values()) for row in table.look.rows.to_pylist()] == rows


def test_every_option_has_its_evidence(tmp_path: Path) -> None:
    rows = [["Report"], [None, "a", "a"], [1, 2, 3]]
    (table,) = add(tmp_path, [book(tmp_path, {"Ships": rows, "Notes": [["old"]]})], write=False).tables
    assert "sheet: 1                        # 'Ships'; the workbook also has 'Notes'" in table.text
    assert "header: 2                       # names 3 columns; row 1 is 'Report'" in table.text
    assert "unnamed: name                   # column 1 of the header has no name" in table.text


def test_workbooks_whose_headers_stand_in_other_rows_are_other_tables(tmp_path: Path) -> None:
    files = [
        book(tmp_path, {"Ships": TABLE}, "ships_a.xlsx"),
        book(tmp_path, {"Ships": [["Report of March"], *TABLE]}, "titled.xlsx"),
        book(tmp_path, {"Other": TABLE}, "ships_b.xlsx"),
    ]
    tables = add(tmp_path, files, write=False).tables
    assert sorted(sorted(file.key for file in table.look.files) for table in tables) == [
        ["ships_a.xlsx", "ships_b.xlsx"], ["titled.xlsx"],
    ]  # fmt: skip


def test_a_workbook_without_a_cell_is_empty(tmp_path: Path) -> None:
    added = add(
        tmp_path, [book(tmp_path, {"Ships": []}), book(tmp_path, {"A": TABLE}, "a.xlsx")], write=False
    )
    assert added.empty == ("book.xlsx",)
