"""`lading run --jobs`: independent tables at once, and an interrupt that loses nothing. Evaluated by DuckDB;
tests/spark/test_side_by_side.py has real Spark."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from support.chains import by_duckdb

import lading
from lading.chain import Interruptible
from lading.cli.main import invoke
from lading.config.file import load as load_config
from lading.errors import GateFailed, NotReady
from lading.ingest.derived import evaluate
from lading.run import RunReport, run
from lading.snapshots.runs import list_runs
from lading.watch import Watch

CONFIG = """\
warehouse: warehouse
spark: {in_process_below: 1GB}
tables:
  voyages: {root: data, path: "v*.csv", format: csv}
  ports: {root: data, path: "p*.csv", format: csv, gate: {rows: {max_drop: 0%}}}
  tonnage:
    from: {voyages: {by: port}}
    sql: "select port, cast(sum(tonnes) as bigint) as tonnes from voyages group by port"
  longest:
    from: {voyages: {by: port}}
    sql: "select port, max(tonnes) as tonnes from voyages group by port"
  countries:
    from: {ports: {by: port}}
    sql: "select port, country from ports where country <> ''"
  both:
    from: {tonnage: {by: port}, countries: {by: port}}
    sql: "select t.port, country, tonnes from tonnage t join countries c on t.port = c.port"
"""
TABLES = ["voyages", "ports", "tonnage", "longest", "countries", "both"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(evaluate, "through_spark", by_duckdb)
    (tmp_path / "data").mkdir()
    (tmp_path / "lading.yaml").write_text(CONFIG)
    put(tmp_path, "v1.csv", "port,tonnes\nhh,1\nhh,2\nro,7\n")
    put(tmp_path, "p1.csv", "port,country\nhh,de\nro,nl\n")
    return tmp_path


def put(project: Path, key: str, text: str) -> None:
    (project / "data" / key).write_text(text)
    os.utime(project / "data" / key, (1_600_000_000 + len(text),) * 2)


def rows(project: Path, name: str) -> list[tuple[Any, ...]]:
    with lading.open(project / "warehouse" / name) as reader:
        return sorted(tuple(row.values())[:-1] for row in reader.to_arrow().read_all().to_pylist())


class Together(Watch):
    """Lets nobody past a phase before several tables are in it."""

    def __init__(self, phase: str, *tables: str) -> None:
        self._phase, self._tables = phase, tables
        self._there = threading.Barrier(len(tables), timeout=20)
        self.ends: list[str] = []

    def phase(self, table: str, name: str) -> None:
        if name == self._phase and table in self._tables:
            self._there.wait()

    def ended(self, table: str) -> None:
        self.ends.append(table)


@pytest.mark.parametrize("at_once", [("voyages", "ports"), ("tonnage", "longest", "countries")])
def test_independent_tables_are_at_work_at_once(project, at_once):
    watch = Together("ingest", *at_once)
    report = run(load_config(project), watch=watch, jobs=3)
    assert report.error is None
    assert [one.table for one in report.tables] == TABLES  # in their order, whichever ended first
    assert sorted(watch.ends) == sorted(TABLES) and watch.ends[-1] == "both"
    assert rows(project, "both") == [("hh", "de", 3), ("ro", "nl", 7)]
    assert rows(project, "longest") == [("hh", 2), ("ro", 7)]


def test_a_gated_table_stops_what_is_made_of_it_and_nothing_else(project):
    run(load_config(project), jobs=4)
    put(project, "p1.csv", "port,country\nhh,de\n")
    put(project, "v1.csv", "port,tonnes\nhh,10\nro,7\n")
    report = run(load_config(project), jobs=4)
    errors = {one.table: one.error for one in report.tables if one.error is not None}
    assert set(errors) == {"ports", "countries", "both"}
    assert isinstance(errors["ports"], GateFailed)
    assert isinstance(errors["countries"], NotReady) and "ports, which it is made of, was refused" in str(
        errors["countries"]
    )
    assert "countries, which it is made of, was not run" in str(errors["both"])
    assert rows(project, "tonnage") == [("hh", 10), ("ro", 7)]


class InterruptsAt(Watch):
    """Presses Ctrl-C when both tables are there."""

    def __init__(self, phase: str) -> None:
        self._phase = phase
        self._there = threading.Barrier(2, timeout=20, action=lambda: os.kill(os.getpid(), signal.SIGINT))
        self.arrived = threading.Event()
        self.reached: list[str] = []

    def phase(self, table: str, name: str) -> None:
        self.reached.append(name)
        if name == self._phase:
            self._there.wait()
            self.arrived.wait(20)


@pytest.mark.parametrize("phase", ["plan", "prepare", "ingest", "commit", "record", "publish"])
def test_an_interrupt_ends_every_table_and_loses_nothing(project, phase, request, monkeypatch):
    # Tests that run in the background ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    threads, watch, stop = threading.active_count(), InterruptsAt(phase), Interruptible.stop
    monkeypatch.setattr(Interruptible, "stop", lambda self: (stop(self), watch.arrived.set()))
    with pytest.raises(KeyboardInterrupt):
        run(load_config(project), ["voyages", "ports"], watch=watch, jobs=2)
    assert threading.active_count() == threads, "no table is at work any more"
    assert "done" not in watch.reached, "it went on as if nothing had been said"
    for name in ("voyages", "ports"):
        records, _ = list_runs(project / "warehouse" / name)
        assert all(one.record is None or one.record.status != "running" for one in records)
    report = run(load_config(project), jobs=2)
    assert report.error is None
    assert rows(project, "both") == [("hh", "de", 3), ("ro", "nl", 7)]


def test_the_command_line_says_how_many(project, capsys):
    assert invoke(["-C", str(project), "run", "--jobs", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["table"] for one in told["tables"]] == TABLES and all(
        one["published"] for one in told["tables"]
    )
    assert invoke(["-C", str(project), "run", "--jobs", "0"]) == 3


def test_one_after_the_other_is_the_same(project, tmp_path):
    alone: RunReport = run(load_config(project))
    assert alone.error is None and rows(project, "both") == [("hh", "de", 3), ("ro", "nl", 7)]
