"""What Fairway's documents promise of archives and preprocessing, on real files and real Spark."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest
from support.archives import zip_of
from support.opened import opened_among

import lading
from lading.config.file import load as load_config
from lading.run import RunReport, plan_tables, run

CONFIG = """\
tables:
  sales:
    root: data
    path: "drops/*.zip"
    inside: "**/sales*.csv"
    format: csv
  customers:
    root: data
    path: "drops/*.zip"
    inside: "customers.csv"
    format: csv
"""
SALES = "id,price\n1,1.5\n2,2.5\n"
CUSTOMERS = "id,name\n1,Ada\n"


class Shop:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "lading.yaml").write_text(CONFIG)
        self.zip("shared_data.zip", {"2023/sales.csv": SALES, "customers.csv": CUSTOMERS})

    def zip(self, name: str, members: dict[str, str], age: float = 100) -> Path:
        return zip_of(self.folder / "data" / "drops" / name, members, age=age)

    def run(self, *names: str) -> RunReport:
        report = run(load_config(self.folder), names)
        assert report.error is None, report.error
        return report

    def read(self, *names: str) -> dict[str, int]:
        return {
            table.table: sum(table.verdicts[verdict] for verdict in ("new", "changed", "reread", "failed"))
            for table in self.run(*names).tables
        }

    def manifest(self, name: str) -> dict:
        return json.loads((self.folder / "manifest" / f"{name}.json").read_text())

    def extractions(self) -> dict:
        return self.manifest("_global")["extractions"]

    def inodes(self) -> dict[str, tuple[int, int]]:
        """Which folder is which: an extraction made again is another one, though it may have got the number
        of one that is gone."""
        made = (self.folder / ".lading_cache" / "archives").iterdir()
        return {path.name: (path.stat().st_ino, path.stat().st_ctime_ns) for path in made if path.is_dir()}

    def parts(self) -> set[str]:
        """The files that hold the rows of all tables."""
        tables = (self.folder / "warehouse").iterdir()
        return {member.path for table in tables for member in lading.Collection(table).members()}

    def rows(self, table: str) -> list[dict]:
        with lading.open(self.folder / "warehouse" / table) as reader:
            return sorted(reader.scan().to_table().to_pylist(), key=str)


@pytest.fixture
def shop(tmp_path, spark) -> Shop:
    shop = Shop(tmp_path)
    shop.run()
    return shop


def short_hash(relative: str) -> str:
    return hashlib.sha256(relative.encode()).hexdigest()[:8]


@pytest.mark.acceptance("F1")
def test_a_global_manifest_is_there_once_an_archive_was_extracted(shop):
    names = {path.name for path in (shop.folder / "manifest").iterdir()}
    assert names == {"sales.json", "customers.json", "_global.json"}


CHILD = """
import sys
from pathlib import Path
from lading.config.file import load as load_config
from lading.run import run
report = run(load_config(Path(sys.argv[1])), [sys.argv[2]])
if report.error is not None:
    raise report.error
"""


@pytest.mark.acceptance("F4")
def test_two_tables_at_the_same_time_share_one_extraction(tmp_path):
    shop = Shop(tmp_path)
    shop.zip("more.zip", {f"sales{i}.csv": SALES for i in range(50)} | {"customers.csv": CUSTOMERS})
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path), table], stderr=subprocess.PIPE, text=True
        )
        for table in ("sales", "customers")
    ]
    for child in children:
        _, errors = child.communicate(timeout=300)
        assert child.returncode == 0, errors[-2000:]
    assert len(shop.manifest("sales")["files"]) == 51 and len(shop.manifest("customers")["files"]) == 2
    for entry in shop.extractions().values():
        assert entry["used_by_tables"] == ["customers", "sales"]
    assert len(shop.inodes()) == 2
    assert not [p for p in (tmp_path / ".lading_cache" / "archives").iterdir() if p.name.startswith(".")]


@pytest.mark.acceptance("F13")
def test_the_table_manifest_says_what_was_unzipped_and_where_to(shop):
    archive = shop.folder / "data" / "drops" / "shared_data.zip"
    stat = archive.stat()
    assert shop.manifest("sales")["preprocessing"] == {
        "drops/shared_data.zip": {
            "file_hash": f"mtime:{stat.st_mtime}_size:{stat.st_size}",
            "preprocessed_path": shop.extractions()[f"archive:{archive}"]["extracted_dir"],
            "action": "unzip",
        }
    }


@pytest.mark.acceptance("F14")
def test_an_archive_is_extracted_once_and_again_when_it_changed(shop):
    before, hash_before = shop.inodes(), shop.manifest("sales")["preprocessing"]
    report = shop.run()
    assert not report.spark_started and shop.inodes() == before
    assert {row["price"] for row in shop.rows("sales")} == {1.5, 2.5}
    shop.zip("shared_data.zip", {"2023/sales.csv": SALES + "3,9.5\n", "customers.csv": CUSTOMERS}, age=50)
    assert shop.read() == {"sales": 1, "customers": 0}
    assert {row["price"] for row in shop.rows("sales")} == {1.5, 2.5, 9.5}
    assert shop.inodes().keys() == before.keys() and shop.inodes() != before
    after = shop.manifest("sales")["preprocessing"]
    assert after["drops/shared_data.zip"]["file_hash"] != hash_before["drops/shared_data.zip"]["file_hash"]
    assert shop.manifest("customers")["preprocessing"] == after


@pytest.mark.acceptance("F16", "F17", "F18", "F19")
def test_the_global_manifest_has_the_seeds_keys_and_one_extraction_for_both_tables(shop):
    manifest = shop.manifest("_global")
    archive = shop.folder / "data" / "drops" / "shared_data.zip"
    assert manifest["version"] == "3.0" and list(manifest["extractions"]) == [f"archive:{archive}"]
    entry = manifest["extractions"][f"archive:{archive}"]
    stat = archive.stat()
    assert entry["archive_hash"] == f"mtime:{stat.st_mtime}_size:{stat.st_size}"
    datetime.fromisoformat(entry["extracted_at"])
    assert entry["used_by_tables"] == ["customers", "sales"]
    name = f"shared_data_zip_{short_hash('data/drops/shared_data.zip')}"
    assert entry["extracted_dir"] == f".lading_cache/archives/{name}"
    assert re.fullmatch(r"shared_data_zip_[0-9a-f]{8}", name)
    assert (shop.folder / entry["extracted_dir"] / "2023" / "sales.csv").read_text() == SALES
    assert list(shop.inodes()) == [name]


@pytest.mark.acceptance("F21")
def test_removing_all_manifests_extracts_every_archive_and_reads_every_file_again(shop):
    shop.zip("more.zip", {"sales_more.csv": "id,price\n7,7.5\n"})
    shop.run()
    archives = sorted((shop.folder / "data" / "drops").iterdir())
    folders, parts, rows = shop.inodes(), shop.parts(), shop.rows("sales")
    shutil.rmtree(shop.folder / "manifest")
    with opened_among(archives) as opened:
        shop.run()
    assert sorted(opened) == archives and len(archives) == 2
    assert shop.inodes().keys() == folders.keys()
    assert all(shop.inodes()[name] != folder for name, folder in folders.items())
    assert len(shop.extractions()) == 2
    # The members lie in folders that weren't there before the run; that they were read shows in the tables.
    assert not parts & shop.parts() and shop.rows("sales") == rows


@pytest.mark.acceptance("F22")
def test_removing_the_global_manifest_extracts_again_and_reads_nothing_again(shop):
    before, tables = shop.inodes(), [shop.manifest(name) for name in ("sales", "customers")]
    (shop.folder / "manifest" / "_global.json").unlink()
    report = shop.run()
    assert not report.spark_started
    assert [table.verdicts["unchanged"] for table in report.tables] == [1, 1]
    assert shop.inodes() != before
    assert [shop.manifest(name) for name in ("sales", "customers")] == tables
    (entry,) = shop.extractions().values()
    assert entry["used_by_tables"] == ["customers", "sales"]


@pytest.mark.acceptance("F24")
def test_the_same_name_in_two_archives_gives_two_keys(tmp_path, spark):
    (tmp_path / "lading.yaml").write_text(
        "tables:\n  yale: {root: data, path: '*.zip', inside: '**/*.dat', format: csv}\n"
    )
    for name in ("yale_1950a", "yale_1950b"):
        zip_of(tmp_path / "data" / f"{name}.zip", {"data.dat": f"id,src\n1,{name}\n"})
    report = run(load_config(tmp_path))
    assert report.error is None, report.error
    files = json.loads((tmp_path / "manifest" / "yale.json").read_text())["files"]
    keys = [f"{n}_zip_{short_hash(f'data/{n}.zip')}/data.dat" for n in ("yale_1950a", "yale_1950b")]
    assert sorted(files) == keys
    for key, name in zip(keys, ("yale_1950a", "yale_1950b"), strict=True):
        content = (tmp_path / ".lading_cache" / "archives" / key).read_bytes()
        assert files[key]["hash"] == hashlib.sha256(content).hexdigest()
        assert files[key]["archive"] == f"{name}.zip"
    with lading.open(tmp_path / "warehouse" / "yale") as reader:
        assert {source.key: source.archive for source in reader.sources()} == {
            keys[0]: "yale_1950a.zip",
            keys[1]: "yale_1950b.zip",
        }


def test_a_touched_archive_is_neither_extracted_nor_read_again(shop):
    before = shop.inodes()
    archive = shop.folder / "data" / "drops" / "shared_data.zip"
    os.utime(archive, (1_600_000_000, 1_600_000_000))
    assert shop.read() == {"sales": 0, "customers": 0}
    assert shop.inodes() == before
    entry = shop.manifest("sales")["preprocessing"]["drops/shared_data.zip"]
    assert entry["file_hash"].startswith("mtime:1600000")
    assert next(iter(shop.extractions().values()))["archive_hash"].startswith("mtime:1600000")
    assert [plan.idle for plan in plan_tables(load_config(shop.folder))] == [True, True]


def test_a_run_with_nothing_to_do_opens_neither_archive_nor_member(shop):
    archive = shop.folder / "data" / "drops" / "shared_data.zip"
    archive.chmod(0)
    (member,) = (shop.folder / ".lading_cache").rglob("sales.csv")
    member.chmod(0)
    opened = []

    def hook(event, args):
        if event == "open" and str(args[0]).endswith((".zip", ".csv")):
            opened.append(args[0])

    sys.addaudithook(hook)
    report = shop.run()
    assert not report.spark_started and not opened
    archive.chmod(0o644)


def test_members_vanish_with_their_archive(shop):
    shop.zip("more.zip", {"sales_more.csv": "id,price\n7,7.5\n"})
    shop.zip("third.zip", {"sales_third.csv": "id,price\n8,8.5\n"})
    shop.run("sales")
    assert len(shop.rows("sales")) == 4
    (shop.folder / "data" / "drops" / "more.zip").unlink()
    shop.run("sales")
    assert {row["id"] for row in shop.rows("sales")} == {1, 2, 8}
    assert "drops/more.zip" not in shop.manifest("sales")["preprocessing"]
    gone = next(entry for key, entry in shop.extractions().items() if key.endswith("more.zip"))
    assert gone["used_by_tables"] == []


def test_a_plan_opens_no_archive_and_says_which_a_run_would_open(tmp_path):
    shop = Shop(tmp_path)
    before = time.time()
    plans = {plan.table: plan for plan in plan_tables(load_config(tmp_path))}
    (verdict,) = plans["sales"].files
    assert (verdict.key, verdict.verdict) == ("drops/shared_data.zip", "new") and not plans["sales"].idle
    assert not (tmp_path / ".lading_cache").exists() and not (tmp_path / "manifest").exists()
    assert shop.folder.stat().st_mtime <= before


def test_a_plan_leaves_what_a_changed_archive_holds_out_of_the_question(shop):
    shop.zip("shared_data.zip", {"2023/sales.csv": SALES + "3,9.5\n", "customers.csv": CUSTOMERS}, age=50)
    before = shop.inodes()
    (plan,) = plan_tables(load_config(shop.folder), ["sales"])
    assert [(one.key, one.verdict) for one in plan.files] == [("drops/shared_data.zip", "changed")]
    assert not plan.vanished and shop.inodes() == before


def test_an_extraction_that_somebody_damaged_is_made_again(shop):
    (member,) = (shop.folder / ".lading_cache").rglob("sales.csv")
    member.write_text("id,price\n6,6.5\n")
    assert shop.read() == {"sales": 0, "customers": 0}
    assert {row["id"] for row in shop.rows("sales")} == {1, 2}
    (member,) = (shop.folder / ".lading_cache").rglob("sales.csv")
    assert member.read_text() == SALES


def test_an_archive_written_just_now_is_compared_next_time(tmp_path, spark):
    shop = Shop(tmp_path)
    path = shop.zip("shared_data.zip", {"2023/sales.csv": SALES, "customers.csv": CUSTOMERS}, age=0)
    shop.run("sales")
    assert next(iter(shop.extractions().values()))["racy"] is True
    stat = path.stat()
    edited = {"2023/sales.csv": SALES.replace("1.5", "8.5"), "customers.csv": CUSTOMERS}
    other = zip_of(tmp_path / "o.zip", edited)
    assert other.stat().st_size == stat.st_size
    os.replace(other, path)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert shop.read("sales") == {"sales": 1}
    assert {row["price"] for row in shop.rows("sales")} == {8.5, 2.5}


def test_a_project_that_fairway_wrote_opens(tmp_path, spark):
    """Its manifests are understood; they are no proof of what lading's own table holds."""
    shop = Shop(tmp_path)
    archive = tmp_path / "data" / "drops" / "shared_data.zip"
    (tmp_path / "manifest").mkdir()
    (tmp_path / "manifest" / "sales.json").write_text(
        json.dumps(
            {
                "version": "3.0",
                "table_name": "sales",
                "files": {
                    "shared_data_xxx/2023/sales.csv": {
                        "hash": "mtime:1234567890_size:1024",
                        "last_processed": "2024-01-15T10:30:00",
                        "status": "success",
                        "metadata": {"row_count": 50000},
                    }
                },
                "preprocessing": {
                    "drops/shared_data.zip": {
                        "file_hash": "mtime:1.0_size:2",
                        "preprocessed_path": "/tmp/extracted/",
                        "action": "unzip",
                    }
                },
                "schema": {"generated_at": "x", "output_path": "schema/sales.yaml", "combined_hash": "abc"},
            }
        )
    )
    (tmp_path / "manifest" / "_global.json").write_text(
        json.dumps(
            {
                "version": "3.0",
                "extractions": {
                    f"archive:{archive}": {
                        "extracted_dir": ".fairway_cache/archives/shared_data_zip_a1b2c3d4",
                        "archive_hash": "mtime:1.0_size:2",
                        "extracted_at": "2024-01-15T09:00:00",
                        "used_by_tables": ["sales", "customers"],
                    }
                },
            }
        )
    )
    shop.run()
    assert len(shop.rows("sales")) == 2
    (entry,) = shop.extractions().values()
    assert entry["extracted_dir"].startswith(".lading_cache/")
    assert entry["used_by_tables"] == ["customers", "sales"]
    assert all(entry["status"] == "success" for entry in shop.manifest("sales")["files"].values())
