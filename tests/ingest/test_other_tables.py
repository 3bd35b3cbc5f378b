"""A store that is apart from the data outlives it: what it shows may be of a table that is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lading
from lading.config.file import load
from lading.config.project import Config
from lading.errors import PublishCurrentError
from lading.run import TableReport, run
from lading.upkeep.repair import repair
from lading.watch import SILENT

CONFIG = """\
warehouse: warehouse
store: pointers
spark: {in_process_below: 1MB}
tables:
  voyages: {path: "data/*.csv", format: csv}
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "lading.yaml").write_text(CONFIG)
    (tmp_path / "data").mkdir()
    for number in range(3):
        put(tmp_path, number)
        assert ran(load(tmp_path)).error is None
    return load(tmp_path)


def put(project: Path, number: int) -> None:
    (project / "data" / f"{number}.csv").write_text(f"tonnes\n{number}\n")


def ran(config: Config) -> TableReport:
    [report] = run(config).tables
    return report


def remove(config: Config) -> None:
    shutil.rmtree(config.project / "warehouse")
    shutil.rmtree(config.project / "manifest")


def tonnes(config: Config) -> list[int]:
    with lading.open(config.project / "warehouse" / "voyages", store=config.store) as reader:
        return sorted(reader.to_arrow().read_all()["tonnes"].to_pylist())


def test_a_table_made_anew_says_that_readers_see_the_former_one_until_it_is_repaired(config):
    remove(config)
    for _ in range(2):  # the run that makes it, and one with nothing to do
        error = ran(config).error
        assert isinstance(error, PublishCurrentError) and "lading repair voyages" in error.hint
    repair(config, "voyages", watch=SILENT)
    put(config.project, 3)
    assert ran(config).error is None and tonnes(config) == [0, 1, 2, 3]


def test_a_table_that_has_got_as_far_as_the_former_one_isnt_taken_for_it(config):
    remove(config)
    for number in range(3, 6):
        put(config.project, number)
        assert isinstance(ran(config).error, PublishCurrentError)
    repair(config, "voyages", watch=SILENT)
    assert tonnes(config) == [0, 1, 2, 3, 4, 5]
