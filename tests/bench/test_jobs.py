"""Every job runs, at a size that says nothing about speed: lading and the floor, without the peers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.case import Case, Kit
from bench.harness import Measured
from bench.registry import JOBS

WITHOUT_SPARK = ("plan", "key_to_file", "commit", "lookup", "noop", "record", "publish", "worker")
WITH_SPARK = (
    "get", "multi_get", "shard_build", "ingest", "formats", "driver", "spread", "change", "evolve", "chain",
    "watch",
)  # fmt: skip
WITHOUT_FLOOR = ("ingest", "formats", "spread", "change", "evolve", "chain")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fixtures are shared by the jobs, as in a real run."""
    return tmp_path_factory.mktemp("bench-data")


def cases_of(name: str, data: Path, work: Path) -> list[Case]:
    work.mkdir()
    kit = Kit(data, work, "tiny", with_peers=False, repeats=1)
    return list(JOBS[name].measure(kit))


def check(name: str, cases: list[Case]) -> None:
    assert cases
    for case in cases:
        for who, one in case.measured.items():
            assert one.failed is None, f"{name}, {case.size}: {who} failed: {one.failed}"
            assert one.turns
        written = case.as_json()
        assert isinstance(written["lading"], float)
        assert written["lading"] > 0 or name == "evolve", "a column that goes is no work for Spark"
        assert (written["floor"] is None) == (name in WITHOUT_FLOOR)
        assert (written["ratio_to_floor"] is None) == (name in WITHOUT_FLOOR)
        assert written["bar"] and isinstance(written["met"], bool)


@pytest.mark.parametrize("name", WITHOUT_SPARK)
def test_a_job_without_spark_runs(name: str, data: Path, tmp_path: Path) -> None:
    check(name, cases_of(name, data, tmp_path / "work"))


@pytest.mark.parametrize("name", WITH_SPARK)
def test_a_job_on_spark_runs(name: str, data: Path, tmp_path: Path, spark: SparkSession) -> None:
    check(name, cases_of(name, data, tmp_path / "work"))


def test_the_memory_of_a_run_is_that_of_a_process_of_its_own(data: Path, tmp_path: Path) -> None:
    cases = cases_of("memory", data, tmp_path / "work")
    check("memory", cases)
    runs, looks = cases
    assert runs.floor is not None and runs.lading is not None and runs.lading > runs.floor
    assert looks.lading is not None and looks.lading < runs.lading, "it starts no Spark"


def test_together_no_job_is_left_out() -> None:
    assert sorted((*WITHOUT_SPARK, *WITH_SPARK, "memory")) == sorted(JOBS)


def test_sizes_that_are_measured_together_come_apart_again(tmp_path: Path) -> None:
    from bench.harness import Contender, always

    kit = Kit(tmp_path, tmp_path, repeats=2)
    figures = {1: 1.0, 10: 2.0}
    together = kit.contest_together(
        {
            size: [Contender("lading", "lading", lambda value=value: always(lambda: value))]
            for size, value in figures.items()
        },
        what="x",
    )
    assert together == {size: {"lading": Measured("lading", (v, v))} for size, v in figures.items()}
