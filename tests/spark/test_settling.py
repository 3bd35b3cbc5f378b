"""The second wave of a run: parts of several tasks become disjoint ones, and nothing is left of the first."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lading
import lading.run
from lading.config.file import load
from lading.ingest.tasks import settle, splits
from lading.model import Place
from lading.spark.tasks import delete_on_spark


@pytest.mark.parametrize("here", [0, 1 << 20], ids=["tasks", "driver"])
def test_parts_of_several_tasks_are_folded_and_nothing_stays_of_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: int
) -> None:
    monkeypatch.setattr(settle, "_HERE", here)
    monkeypatch.setattr(splits, "SHARE", (20, 20))
    for number in range(4):
        (tmp_path / f"{number}.csv").write_text("k\n" + "".join(f"{k}\n" for k in range(number, 40, 4)))
    (tmp_path / "lading.yaml").write_text(
        "tables: {t: {path: '*.csv', format: csv, order_by: k, bucket_size: 20}}\n"
    )
    left = []
    real = lading.run.tidy
    monkeypatch.setattr(lading.run, "tidy", lambda *given: left.append(real(*given)))
    [report] = lading.run.run(load(tmp_path)).tables
    assert report.error is None and report.rows == 40
    assert left == [0 if here == 0 else 8]  # two buckets of four tasks: tasks have deleted them, or not
    parts = sorted(path.parent.name for path in (tmp_path / "warehouse").rglob("part-*.parquet"))
    assert len(parts) == len(set(parts)) == 2
    found = lading.open(tmp_path / "warehouse" / "t").scan().to_table()
    assert sorted(found["k"].to_pylist()) == list(range(40))


def test_a_part_that_can_not_be_deleted_stays_and_fails_nothing(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "b").mkdir()
    delete_on_spark(spark, Place(str(tmp_path)), ["gone", "b", "a"])
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
