"""What Fairway's documents promise of source manifests, on real files and real Spark."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lading.config.file import load as load_config
from lading.merge import merge_table
from lading.run import RunReport, plan_tables, run
from lading.steps.verify import verify
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
            table.table: sum(table.verdicts[verdict] for verdict in ("new", "changed", "failed"))
            for table in self.run(*names).tables
        }

    def manifest(self, table: str) -> dict:
        return json.loads((self.folder / "manifest" / f"{table}.json").read_text())

    def files(self, table: str = "sales") -> dict:
        return self.manifest(table)["files"]


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
    opened = _opened_while(lambda: shop.run())
    assert not [path for path in opened if path.endswith(".csv")]


def _opened_while(work) -> list[str]:
    """Every file that this process opens meanwhile, by an audit hook (which can't be removed, only muted)."""
    import sys

    opened: list[str] = []
    listening = True

    def hook(event: str, args: tuple) -> None:
        if listening and event == "open" and isinstance(args[0], str | bytes | os.PathLike):
            opened.append(os.fsdecode(args[0]))

    sys.addaudithook(hook)
    work()
    listening = False
    assert opened, "the hook heard nothing at all"
    return opened


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
def test_a_second_run_reads_nothing_and_moves_no_time(shop):
    before = shop.files()
    assert shop.read() == {"sales": 0, "customers": 0}
    assert {k: e["last_processed"] for k, e in shop.files().items()} == {
        k: e["last_processed"] for k, e in before.items()
    }


@pytest.mark.acceptance("F11")
def test_only_the_edited_file_is_read(shop):
    before = shop.files()
    shop.write("sales/2022/data.csv", "id,price\n1,2.5\n2,3.5\n3,4.5\n", age=50)
    assert shop.read() == {"sales": 1, "customers": 0}
    moved = [
        key for key, entry in shop.files().items() if entry["last_processed"] != before[key]["last_processed"]
    ]
    assert moved == ["2022/data.csv"]


@pytest.mark.acceptance("F12")
def test_a_touched_file_is_recorded_with_its_new_mtime(shop):
    path = shop.folder / "data" / "sales" / "2022" / "data.csv"
    os.utime(path, (1_600_000_000, 1_600_000_000))
    assert shop.read("sales") == {"sales": 0}
    assert shop.files()["2022/data.csv"]["hash"] == f"mtime:{path.stat().st_mtime}_size:{path.stat().st_size}"


@pytest.mark.acceptance("F20")
def test_removing_a_table_manifest_reads_that_table_again_and_no_other(shop):
    (shop.folder / "manifest" / "sales.json").unlink()
    assert shop.read() == {"sales": 3, "customers": 0}
    assert shop.read() == {"sales": 0, "customers": 0}


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
    assert planned(less) == {"2021/data.csv": "changed"}
    failed = theirs["files"]["2022/data.csv"] | {"status": "failed"}
    assert planned(less | {"2022/data.csv": failed}) == {
        "2021/data.csv": "changed", "2022/data.csv": "failed",
    }  # fmt: skip
    other_mode = {key: entry | {"hash": "0" * 64} for key, entry in theirs["files"].items()}
    assert planned(other_mode) == {}, "hashes of another kind say nothing"
    shop.write("sales/2023/data.csv", "id,price\n9,9.5\n", age=50)
    lies = theirs["files"]["2023/data.csv"] | {"hash": mtime_hash(shop.folder / "data/sales/2023/data.csv")}
    assert planned(theirs["files"] | {"2023/data.csv": lies}) == {"2023/data.csv": "changed"}
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
