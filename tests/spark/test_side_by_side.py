"""Tables side by side on one Spark: each with settings and views of its own, and Ctrl-C ends their jobs."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import lading
from lading.config.file import load as load_config
from lading.run import run
from lading.spark.determinism import plans_of
from lading.watch import Watch

CONFIG = """\
warehouse: warehouse
tables:
  voyages: {root: data, path: "v*.csv", format: csv}
  ports: {root: data, path: "p*.csv", format: csv}
  tonnage:
    from: {voyages: {by: port}}
    sql: "select port, sum(tonnes) as tonnes from voyages group by port"
  longest:
    from: {voyages: {by: port}}
    transform: made.py:longest
  named:
    from: {ports: {by: port}, longest: {by: port}}
    transform: made.py:named
"""
MADE = """\
import time
from pathlib import Path
from pyspark.sql import functions as F

def longest(voyages):
    return voyages.groupBy("port").agg(F.max("tonnes").alias("tonnes"))

def named(ports, longest):
    return ports.join(longest, "port")

def slow(voyages):
    def wait(frames):
        for frame in frames:
            Path(FOLDER, "began").touch()
            time.sleep(300)
            Path(FOLDER, "waited").touch()
            yield frame
    return voyages.mapInPandas(wait, voyages.schema)
"""


@pytest.fixture
def project(tmp_path: Path, spark: Any) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "lading.yaml").write_text(CONFIG)
    (tmp_path / "made.py").write_text(MADE.replace("FOLDER", repr(str(tmp_path))))
    (tmp_path / "data" / "v1.csv").write_text("port,tonnes\nhh,1\nhh,2\nro,7\n")
    (tmp_path / "data" / "p1.csv").write_text("port,country\nhh,de\nro,nl\n")
    return tmp_path


class Together(Watch):
    def __init__(self) -> None:
        self._there = {name: threading.Barrier(2, timeout=60) for name in ("ports", "tonnage")}
        self._with = {"voyages": "ports", "longest": "tonnage"}
        self.told: list[tuple[str, str]] = []

    def phase(self, table: str, name: str) -> None:
        barrier = self._there.get(self._with.get(table, table))
        if name == "ingest" and barrier is not None:
            barrier.wait()

    def progress(self, table: str, text: str, done: int | None = None, total: int | None = None) -> None:
        self.told.append((table, text))


def rows(project: Path, name: str) -> list[tuple[Any, ...]]:
    with lading.open(project / "warehouse" / name) as reader:
        return sorted(tuple(row.values())[:-1] for row in reader.to_arrow().read_all().to_pylist())


def test_tables_side_by_side_are_what_they_are_one_by_one(project, spark):
    settings = ("spark.sql.shuffle.partitions", "spark.sql.debug.maxToStringFields")
    before = [spark.conf.get(name) for name in settings]
    report = run(load_config(project), watch=Together(), jobs=2)
    assert report.error is None, report.error
    assert rows(project, "tonnage") == [("hh", 3), ("ro", 7)]
    assert rows(project, "named") == [("hh", "de", 2), ("ro", "nl", 7)]
    assert [spark.conf.get(name) for name in settings] == before and not spark.catalog.listTables()


def test_plans_that_are_looked_at_at_once_are_not_mixed_up(spark, capsys):
    frames = [spark.range(5).withColumnRenamed("id", f"only_{number}") for number in range(4)]
    found: dict[int, set[str]] = {}

    def look(number: int) -> None:
        found[number] = {plans_of(frames[number])[0] for _ in range(20)}

    threads = [threading.Thread(target=look, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not capsys.readouterr().out
    for number, plans in found.items():
        [plan] = plans
        assert f"only_{number}#" in plan and plan.count("only_") == 1


def test_ctrl_c_ends_the_jobs_of_every_table(project):
    text = CONFIG.replace("made.py:longest", "made.py:slow")
    (project / "lading.yaml").write_text(text.replace("sum(tonnes) as tonnes", "sum(tonnes) as t"))

    def press() -> None:
        until = time.monotonic() + 120
        while not (project / "began").exists() and time.monotonic() < until:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        run(load_config(project), jobs=2)
    presser.join()
    assert (project / "began").exists() and not (project / "waited").exists()
    (project / "lading.yaml").write_text(CONFIG)
    assert run(load_config(project), jobs=2).error is None
    assert rows(project, "named") == [("hh", "de", 2), ("ro", "nl", 7)]
