"""How a table lies: figures are those of its parts, and what is said to be opened is what a scan opens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.page import Shown

import lading


@pytest.fixture
def reader(tmp_path: Path) -> lading.Reader:
    shown = Shown(tmp_path / "shipping")
    for number in range(6):
        shown.put(f"{number}.csv", *((f"s{number}", n * 4 + number, n) for n in range(25)))
        shown.run("voyages")
    shown.put("3.csv", ("late", 1, 999))
    shown.run("voyages")
    return lading.open(shown.folder / "warehouse" / "voyages")


@pytest.mark.parametrize(
    "where",
    [
        None,
        "day > 60",
        "tonnes = 999",
        "day < 20 and tonnes > 500",
        "ship = 's2' or day = 3",
        "ship is null",
        "day < -5",
    ],
)
def test_what_is_opened_is_what_a_scan_opens(reader: lading.Reader, where: str | None) -> None:
    told, parts = reader.layout(where)
    scan = reader.scan(where)
    assert (told.opened, told.parts) == (scan.files_scanned, scan.files_total)
    assert sum(one.opened for one in parts) == told.opened == sum(one.opened for one in told.buckets)
    assert all((one.reason is None) == one.opened for one in parts)
    if where == "day < -5":
        assert told.opened == 0 and all("day is" in (one.reason or "") for one in parts)
    if where == "ship is null":
        assert {one.reason for one in parts} == {"ship is never null"}


def test_a_part_is_ruled_out_by_what_it_holds(reader: lading.Reader) -> None:
    told, parts = reader.layout("day < 1000 and tonnes > 500")
    whole = reader.scan().to_table()
    assert 0 < told.opened < told.parts
    for one in parts:
        if not one.opened:
            found = re.fullmatch(r"tonnes is (\d+)(?: to (\d+)| in all rows)", one.reason or "")
            assert found is not None and int(found[2] or found[1]) <= 500
    assert told.rows == whole.num_rows == sum(one.rows for one in parts)
    assert told.bytes == sum(one.bytes for one in parts) == sum(one.bytes for one in told.buckets)
    assert (told.low, told.high) == (str(min(whole["day"].to_pylist())), str(max(whole["day"].to_pylist())))


def test_overlap_is_counted_value_by_value(reader: lading.Reader) -> None:
    told, parts = reader.layout()
    ranges = [(int(one.low or 0), int(one.high or 0)) for one in parts]
    low, high = int(told.low or 0), int(told.high or 0)
    depths = [sum(a <= value <= b for a, b in ranges) for value in range(low, high + 1)]
    assert told.deepest == max(depths) > 1
    assert max(told.overlap) >= told.deepest and len(told.overlap) == 200
    assert told.overlap == told.overlap_opened


def test_parts_are_listed_by_pages(reader: lading.Reader) -> None:
    _, parts = reader.layout("day > 60")
    pages = [reader.layout("day > 60", first=at, limit=4)[1] for at in range(0, len(parts), 4)]
    assert [one for page in pages for one in page] == parts


def test_parts_that_share_one_value_overlap_there(tmp_path: Path) -> None:
    shown = Shown(tmp_path / "shipping")
    for name, days in (("a", range(6)), ("b", range(5, 9))):
        shown.put(f"{name}.csv", *(("s", day, 1) for day in days))
        shown.run("voyages")
    with lading.open(shown.folder / "warehouse" / "voyages") as reader:
        told, parts = reader.layout()
    assert [(one.low, one.high) for one in parts] == [("0", "5"), ("5", "8")]
    assert told.deepest == 2
