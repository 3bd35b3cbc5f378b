"""What Fairway's documents promise of source manifests, on real files and real Spark."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.opened import opened_among

import lading
from lading.config.file import load as load_config
from lading.run import RunReport, plan_tables, run
from lading.upkeep.merge import merge_table
from lading.upkeep.verify import verify
from lading.watch import Watch

CONFIG = """\
tables:
  sales:
    root: data/sales
    path: "**/*.csv"
    format: csv
    fingerprint: {fingerprint}
  customers:
    root: data/customers
    path: "*.csv"
    format: csv
"""


class Shop:
    def __init__(self, folder: Path, fingerprint: str = "fast") -> None:
        self.folder = folder
        (folder / "lading.yaml").write_text(CONFIG.replace("{fingerprint}", fingerprint))
        for number in (1, 2, 3):
            self.write(
                f"sales/202{number}/data.csv", "id,price\n" + "".join(f"{i},{i}.5\n" for i in range(number))
            )
        self.write("customers/c.csv", "id,name\n1,Ada\n2,Grace\n")

    def write(self, name: str, text: str, age: float = 100) -> Path:
        path = self.folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        stamp = path.stat().st_mtime - age
        os.utime(path, (stamp, stamp))
        return path

    def run(self, *names: str) -> RunReport:
        report = run(load_config(self.folder), names)
        assert report.error is None, report.error
        return report

    def read(self, *names: str) -> dict[str, int]:
        """How many files a run reads, by table."""
        return {
            table.table: sum(table.verdicts[verdict] for verdict in ("new", "changed", "reread", "failed"))
            for table in self.run(*names).tables
        }

    def opened(self, *names: str) -> list[str]:
        """Which source files anybody opens during a run."""
        data = self.folder / "data"
        with opened_among(data.rglob("*.csv")) as opened:
            self.run(*names)
        return sorted(str(path.relative_to(data)) for path in opened)

    def manifest(self, table: str) -> dict:
        return json.loads((self.folder / "manifest" / f"{table}.json").read_text())

    def files(self, table: str = "sales") -> dict:
        return self.manifest(table)["files"]

    def times(self) -> dict[str, str]:
        """When each file was last read, as the manifests say."""
        tables = ("sales", "customers")
        return {
            f"{table}/{key}": entry["last_processed"]
            for table in tables
            for key, entry in self.files(table).items()
        }


SALES = ["sales/2021/data.csv", "sales/2022/data.csv", "sales/2023/data.csv"]
CUSTOMERS = ["customers/c.csv"]


@pytest.fixture
def shop(tmp_path, spark) -> Shop:
    shop = Shop(tmp_path)
    shop.run()
    return shop


@pytest.mark.acceptance("F1")
def test_each_table_has_a_manifest_of_its_own(shop):
    assert {path.name for path in (shop.folder / "manifest").iterdir()} >= {"sales.json", "customers.json"}


@pytest.mark.acceptance("F3")
def test_running_one_table_leaves_the_other_manifest_byte_for_byte(shop):
    before = (shop.folder / "manifest" / "customers.json").read_bytes()
    shop.write("sales/2024/data.csv", "id,price\n9,9.5\n")
    shop.run("sales")
    assert (shop.folder / "manifest" / "customers.json").read_bytes() == before


@pytest.mark.acceptance("F5", "F6", "F7", "F23")
def test_the_manifest_has_the_seeds_keys_and_says_how_many_rows_were_read(shop):
    manifest = shop.manifest("sales")
    assert manifest["version"] == "3.0" and manifest["table_name"] == "sales"
    assert {"files", "preprocessing", "schema"} <= manifest.keys()
    assert sorted(manifest["files"]) == ["2021/data.csv", "2022/data.csv", "2023/data.csv"]
    for number, key in enumerate(sorted(manifest["files"]), 1):
        entry = manifest["files"][key]
        assert {"hash", "last_processed", "status", "metadata"} <= entry.keys()
        datetime.fromisoformat(entry["last_processed"])
        assert (entry["status"], entry["metadata"]["row_count"]) == ("success", number)


@pytest.mark.acceptance("F15")
def test_the_manifest_names_the_schema_it_was_read_under(shop):
    schema = shop.manifest("sales")["schema"]
    assert schema["output_path"] == "schema/sales.yaml" and (shop.folder / "schema" / "sales.yaml").exists()
    assert schema["generated_at"] and schema["combined_hash"]


@pytest.mark.acceptance("F8")
def test_the_fast_fingerprint_is_what_stat_says_and_an_unchanged_file_is_never_opened(shop):
    for key, entry in shop.files().items():
        path = shop.folder / "data" / "sales" / key
        stat = os.stat(path)
        assert entry["hash"] == f"mtime:{stat.st_mtime}_size:{stat.st_size}"
    assert shop.opened() == []


@pytest.mark.acceptance("F9")
def test_a_full_fingerprint_is_the_sha256_and_sees_a_same_size_rewrite_with_its_mtime_put_back(
    tmp_path, spark
):
    shop = Shop(tmp_path, fingerprint="full")
    shop.run()
    path = tmp_path / "data" / "sales" / "2021" / "data.csv"
    assert shop.files()["2021/data.csv"]["hash"] == hashlib.sha256(path.read_bytes()).hexdigest()
    stat = path.stat()
    path.write_text(path.read_text().replace("0.5", "7.5"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (stat.st_size, stat.st_mtime_ns)
    assert shop.read("sales") == {"sales": 1}
    assert shop.files()["2021/data.csv"]["hash"] == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.acceptance("F10")
def test_a_second_run_opens_nothing_and_moves_no_time(shop):
    before = shop.times()
    assert sorted(before) == sorted(SALES + CUSTOMERS)
    assert shop.opened() == []
    assert shop.times() == before


@pytest.mark.acceptance("F11")
def test_only_the_edited_file_is_opened(shop):
    before = shop.times()
    shop.write("sales/2022/data.csv", "id,price\n1,2.5\n2,3.5\n3,4.5\n", age=50)
    assert shop.opened() == ["sales/2022/data.csv"]
    assert [key for key, time in shop.times().items() if time != before[key]] == ["sales/2022/data.csv"]
    with lading.open(shop.folder / "warehouse" / "sales") as reader:
        assert sorted(reader.scan(columns=["price"]).to_table()["price"].to_pylist()) == [
            0.5, 0.5, 1.5, 2.5, 2.5, 3.5, 4.5,
        ]  # fmt: skip


@pytest.mark.acceptance("F12")
def test_a_touched_file_is_recorded_with_its_new_mtime(shop):
    path = shop.folder / "data" / "sales" / "2022" / "data.csv"
    os.utime(path, (1_600_000_000, 1_600_000_000))
    assert shop.read("sales") == {"sales": 0}
    assert shop.files()["2022/data.csv"]["hash"] == f"mtime:{path.stat().st_mtime}_size:{path.stat().st_size}"


@pytest.mark.acceptance("F20")
def test_removing_a_table_manifest_opens_that_tables_files_again_and_no_other(shop):
    before = shop.times()
    (shop.folder / "manifest" / "sales.json").unlink()
    assert shop.opened() == SALES
    assert sorted(key for key, time in shop.times().items() if time != before[key]) == SALES
    assert shop.opened() == []


@pytest.mark.acceptance("F21")
def test_removing_all_manifests_opens_every_file_of_every_table_again(shop):
    before = shop.times()
    shutil.rmtree(shop.folder / "manifest")
    assert shop.opened() == sorted(SALES + CUSTOMERS)
    assert all(time != before[key] for key, time in shop.times().items())
    assert shop.opened() == []


@pytest.mark.acceptance("F28")
def test_a_manifest_without_ladings_section_asks_by_what_it_lacks_and_what_failed(shop: Shop) -> None:
    shop.run()
    path = shop.folder / "manifest/sales.json"
    whole = shop.manifest("sales")
    theirs = {name: whole[name] for name in ("version", "table_name", "files", "preprocessing", "schema")}
    keys = ("hash", "last_processed", "status", "metadata")
    theirs["files"] = {key: {name: entry[name] for name in keys} for key, entry in whole["files"].items()}

    def planned(files: dict) -> dict[str, str]:
        path.write_text(json.dumps(theirs | {"files": files}, indent=2))
        [plan] = plan_tables(load_config(shop.folder), ["sales"])
        return {one.key: one.verdict for one in plan.files if one.verdict != "unchanged"}

    assert planned(theirs["files"]) == {}
    less = {key: entry for key, entry in theirs["files"].items() if key != "2021/data.csv"}
    assert planned(less) == {"2021/data.csv": "reread"}
    failed = theirs["files"]["2022/data.csv"] | {"status": "failed"}
    assert planned(less | {"2022/data.csv": failed}) == {
        "2021/data.csv": "reread", "2022/data.csv": "failed",
    }  # fmt: skip
    other_mode = {key: entry | {"hash": "0" * 64} for key, entry in theirs["files"].items()}
    assert planned(other_mode) == {}, "hashes of another kind say nothing"
    shop.write("sales/2023/data.csv", "id,price\n9,9.5\n", age=50)
    lies = theirs["files"]["2023/data.csv"] | {"hash": mtime_hash(shop.folder / "data/sales/2023/data.csv")}
    assert planned(theirs["files"] | {"2023/data.csv": lies}) == {"2023/data.csv": "reread"}
    assert planned(less | {"2022/data.csv": failed})  # asked again, for the run
    assert shop.read("sales") == {"sales": 3}
    assert shop.manifest("sales")["lading"]["sequence"] and shop.read("sales") == {"sales": 0}


def mtime_hash(path: Path) -> str:
    stat = path.stat()
    return f"mtime:{stat.st_mtime}_size:{stat.st_size}"


@pytest.mark.acceptance("F6")
def test_a_file_that_failed_and_was_never_read_has_the_time_of_the_attempt(shop: Shop) -> None:
    shop.write("sales/2024/data.csv", "id,price\n1,2.5\n")
    shop.run("sales")
    shop.write("sales/2025/data.csv", "id,price\nx,y,z,too,many\n")
    before = datetime.now(UTC)
    report = run(load_config(shop.folder), ["sales"])
    assert report.error is not None
    entry = shop.manifest("sales")["files"]["2025/data.csv"]
    assert entry["status"] == "failed"
    assert before <= datetime.fromisoformat(entry["last_processed"]) <= datetime.now(UTC)


def test_a_merge_leaves_the_source_manifest_as_true_as_it_was(shop: Shop) -> None:
    shop.run("sales")
    shop.write("sales/2024/data.csv", "id,price\n1,2.5\n")
    shop.run("sales")
    config = load_config(shop.folder)
    assert merge_table(config, "sales", watch=Watch()).parts_removed

    def said() -> list[str]:
        found, _ = verify(config, "sales", watch=Watch())
        return [one.message for one in found.findings]

    assert said() == []
    whole = shop.manifest("sales")
    del whole["files"]["2024/data.csv"]
    (shop.folder / "manifest/sales.json").write_text(json.dumps(whole))
    assert "manifest/sales.json is behind the log" in said()
