"""`verify --deep` of a table made of tables: sampled slots against the whole query. Evaluated by DuckDB
(support/chains.py); tests/spark/test_derived.py has real Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.chains import whole_by_duckdb, without_spark

from lading.config.file import load as load_config
from lading.run import run
from lading.upkeep import verify_slots
from lading.upkeep.verify import Verified, verify
from lading.upkeep.verify_deep import verify_deep
from lading.watch import Watch

CONFIG = """\
warehouse: warehouse
spark: {{in_process_below: 1GB}}
tables:
  voyages: {{root: data, path: "*.csv", format: csv}}
  tonnage:
    from: {{voyages: {{by: port}}}}
    sql: "{sql}"
"""
SUM = "select port, cast(sum(tonnes) as bigint) as tonnes from voyages group by port"
UNCUT = "select port, cast(sum(tonnes) over () as bigint) as tonnes from voyages"
ROWS = "select port, tonnes from voyages"
PORTS = [f"p{number}" for number in range(40)]


class Shop:
    """A port a slot, but for a few, and as many rows as somebody says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "data").mkdir(parents=True)
        self.tick = 0

    def configure(self, sql: str, *lines: str) -> None:
        text = CONFIG.format(sql=sql) + "".join(f"    {line}\n" for line in lines)
        (self.folder / "lading.yaml").write_text(text)

    def put(self, key: str, rows: list[tuple[Any, ...]]) -> None:
        self.tick += 1
        path = self.folder / "data" / key
        path.write_text("port,tonnes\n" + "".join(f"{port},{tonnes}\n" for port, tonnes in rows))
        os.utime(path, (1_600_000_000 + self.tick,) * 2)

    def run(self) -> None:
        report = run(load_config(self.folder), allow_vanish=True)
        assert report.error is None, report.error

    def deep(self) -> Verified:
        found, seen = verify(load_config(self.folder), "tonnage", watch=Watch())
        assert seen is not None
        verify_deep(seen, found, lambda: None)
        return found


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    without_spark(monkeypatch)
    monkeypatch.setattr(verify_slots, "whole_rows", whole_by_duckdb)
    return Shop(tmp_path / "project")


def said(found: Verified, level: str) -> list[str]:
    return [one.message for one in found.findings if one.level == level]


def compared(found: Verified) -> int:
    return found.checked.get("slots evaluated again", 0)


def test_a_query_that_is_not_cut_by_its_slots_shows(shop):
    shop.configure(UNCUT)
    shop.put("v1.csv", [(port, 1) for port in PORTS])
    shop.run()
    assert not said(shop.deep(), "error")
    shop.put("v2.csv", [("p0", 1)])
    shop.run()
    assert any("the whole query gives others" in one for one in said(shop.deep(), "error"))


def test_times_that_python_has_not_are_compared(shop):
    shop.configure("select port, timestamp '294000-01-01' as far, tonnes from voyages")
    shop.put("v1.csv", [(port, 1) for port in PORTS])
    shop.run()
    found = shop.deep()
    assert found.whole and compared(found) == 8


def test_a_query_that_was_changed_and_not_run_since_is_no_defect(shop):
    shop.configure(SUM)
    shop.put("v1.csv", [(port, 1) for port in PORTS])
    shop.run()
    shop.configure(SUM.replace("sum", "max"), "slots: 16")
    found = shop.deep()
    assert found.whole and not compared(found)
    assert any(
        "slots, the query changed: no slot is compared before a run" in one for one in said(found, "note")
    )
    shop.run()
    assert compared(shop.deep()) == 8


def test_slots_that_are_too_large_leave_their_place_to_others(shop, monkeypatch):
    shop.configure(ROWS)
    shop.put("v1.csv", [(port, number) for port in PORTS for number in range(9 if port > "p1" else 1)])
    shop.run()
    monkeypatch.setattr(verify_slots, "_ROWS", 8)
    found = shop.deep()
    assert found.whole and compared(found) == 8 and not said(found, "note")


def test_that_no_slot_is_small_enough_is_said(shop, monkeypatch):
    shop.configure(ROWS, "slots: 1")
    shop.put("v1.csv", [(port, 1) for port in PORTS])
    shop.run()
    monkeypatch.setattr(verify_slots, "_ROWS", 8)
    found = shop.deep()
    assert found.whole and not compared(found)
    assert said(found, "note") == ["no slot that has rows is compared: each has more than 8"]


def test_slots_with_rows_set_aside_are_compared(shop):
    shop.configure(ROWS, "on_bad: quarantine", "slots: 4", "checks: [{range: {column: tonnes, max: 2}}]")
    shop.put("v1.csv", [(port, number) for port in PORTS for number in range(4)])
    shop.run()
    found = shop.deep()
    assert found.whole and compared(found) == 4
    shop.configure(
        UNCUT.replace("select port,", "select port, tonnes as own,"),
        "on_bad: quarantine",
        "slots: 4",
        "checks: [{range: {column: own, max: 2}}]",
    )
    shop.run()
    shop.put("v2.csv", [("p0", 1), ("p0", 9)])
    shop.run()
    assert any("the whole query gives others" in one for one in said(shop.deep(), "error"))
