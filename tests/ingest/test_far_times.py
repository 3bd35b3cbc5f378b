"""Files of other roots and other centuries, in whole runs."""

from __future__ import annotations

import os
import shutil

import pytest
from support.checked import Checked

from lading.log.table import Table


@pytest.mark.parametrize("year", [-300, 330])
def test_a_file_from_another_century_is_read_recorded_and_left_alone(spark, tmp_path, year):
    """2300 is more nanoseconds than 64 bits hold; 1670 may be, if the file system knows it."""
    ships = Checked(tmp_path / "p")
    path = ships.put("a.csv", "1,1,oslo")
    ships.put("b.csv", "2,1,oslo")
    os.utime(path, (year * 31_556_952,) * 2)
    report = ships.good()
    assert report.tables[0].published and sum(ships.rows().values()) == 2
    Table.open(ships.table).checkpoint()
    again = ships.good()
    assert again.tables[0].verdicts["unchanged"] == 2 and not again.spark_started
    path.write_text(path.read_text().replace("oslo", "kiel"))
    os.utime(path, (year * 31_556_952,) * 2)
    if year > 0:  # such a time tells nothing, so its content is compared
        assert ships.good().tables[0].verdicts["changed"] == 1
        assert {port for _, _, port, _ in ships.rows()} == {"oslo", "kiel"}


def test_another_root_costs_a_comparison_and_replaces_only_what_differs(spark, tmp_path):
    ships = Checked(tmp_path / "p")
    ships.put("a.csv", "1,1,oslo")
    other = ships.put("b.csv", "2,1,oslo")
    ships.good()
    os.rename(ships.data, tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    ships.data.symlink_to(tmp_path / "two")
    report = ships.good()
    assert report.tables[0].verdicts["touched"] == 2 and not report.spark_started
    assert not report.tables[0].published, "no row changed: sources only"
    assert ships.good().tables[0].verdicts["unchanged"] == 2
    before = other.stat()
    replaced = tmp_path / "one" / "b.csv"
    replaced.write_text(replaced.read_text().replace("oslo", "kiel"))
    os.utime(replaced, ns=(before.st_mtime_ns,) * 2)
    ships.data.unlink()
    ships.data.symlink_to(tmp_path / "one")
    verdicts = ships.good().tables[0].verdicts
    assert (verdicts["changed"], verdicts["touched"]) == (1, 1)
    assert sorted(port for _, _, port, _ in ships.rows()) == ["kiel", "oslo"]
