"""What crv.io promises of a table manifest, of the one that a run writes (C2, C3, C5-C9, C11, C20, C24, C26).

Every figure is held against the Parquet files as pyarrow reads them, or against the sources.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.crv import SeedPartMeta
from support.statistics import statistics_of

import lading
from lading import catalog
from lading.config.file import load as load_config
from lading.errors import ConfigError, LadingError
from lading.run import RunReport, run

CONFIG = """\
warehouse: warehouse
tables:
  port_calls: {root: data, path: "*.csv", format: csv, order_by: at, bucket_size: 10}
"""
# Keys of every length, both signs; no file is in order, and the second run adds to buckets of the first.
FIRST = {"a.csv": [1234, -11, 7, 1239], "b.csv": [12345678, 3, -16]}
LATER = {"c.csv": [1231, 5, -20, 9]}
KEYS = {
    "-000002": [-20, -16, -11],
    "000000": [3, 5, 7, 9],
    "000123": [1231, 1234, 1239],
    "1234567": [12345678],
}


class Port:
    """A project with one table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table = folder / "warehouse" / "port_calls"
        self.said: list[dict] = []  # what the manifest said after each run
        self.times: list[datetime] = []  # before, between and after the runs

    def put(self, files: dict[str, list[int]]) -> None:
        for name, keys in files.items():
            path = self.folder / "data" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("at,ship\n" + "".join(f"{key},ship {key}\n" for key in keys))
            os.utime(path, (path.stat().st_mtime - 100,) * 2)

    def run(self) -> RunReport:
        return run(load_config(self.folder))

    def manifest(self) -> dict:
        return json.loads((self.table / "manifest.json").read_text("utf-8"))

    def parts(self) -> Iterator[tuple[Path, dict]]:
        """Every part that the manifest lists, with the file that it names."""
        for key, bucket in self.manifest()["partitions"].items():
            for part in bucket["parts"]:
                yield self.table / f"bucket={key}" / part["path"], part

    def files(self) -> list[Path]:
        return sorted(self.table.glob("bucket=*/*"))


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, spark: object) -> Port:
    """After two runs, of which the second one had a file more to add."""
    port = Port(tmp_path_factory.mktemp("port"))
    (port.folder / "lading.yaml").write_text(CONFIG)
    port.times.append(datetime.now(UTC))
    for files in (FIRST, LATER):
        port.put(files)
        report = port.run()
        assert report.error is None, report.error
        port.said.append(port.manifest())
        port.times.append(datetime.now(UTC))
    return port


def at_of(file: Path) -> list[int]:
    return pq.read_table(file, partitioning=None).column("at").to_pylist()


@pytest.mark.acceptance("C2")
def test_table_version_and_times_are_those_of_the_runs(port: Port) -> None:
    said, (start, between, end) = port.said, port.times
    for one in said:
        assert one["table"] == "port_calls"
        assert one["version"] == 1 and type(one["version"]) is int
    created, updated = (
        [datetime.fromisoformat(one[key]) for one in said] for key in ("created_at", "updated_at")
    )
    assert start <= created[0] <= updated[0] <= between <= updated[1] <= end
    assert created[1] == created[0]


@pytest.mark.acceptance("C2")
@pytest.mark.parametrize("name", ["PortCalls", "port-calls", "7ports", "_ports", "größe"])
def test_a_table_that_is_not_lower_snake_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "lading.yaml").write_text(CONFIG.replace("port_calls", name))
    with pytest.raises(ConfigError, match="lower-case"):
        run(load_config(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["lading.yaml"]


@pytest.mark.acceptance("C3")
def test_partition_keys_are_the_text_of_the_bucket_directories(port: Port) -> None:
    seen = port.manifest()["partitions"]
    assert list(seen) == list(KEYS)
    assert {f"bucket={key}" for key in seen} == {path.name for path in port.table.glob("bucket=*")}
    for key, bucket in seen.items():
        assert bucket["bucket_id"] == int(key) and type(bucket["bucket_id"]) is int
        rows = [at for file in port.table.glob(f"bucket={key}/*.parquet") for at in at_of(file)]
        assert sorted(rows) == KEYS[key]


@pytest.mark.acceptance("C5")
def test_a_bucket_is_ready_after_every_run_that_appended_to_it(port: Port) -> None:
    said = port.said
    for one in said:
        assert {bucket["state"] for bucket in one["partitions"].values()} == {"ready"}
    grown = [
        len(said[1]["partitions"][key]["parts"]) - len(said[0]["partitions"][key]["parts"]) for key in KEYS
    ]
    assert grown == [1, 1, 1, 0]


@pytest.mark.acceptance("C6", "C7")
def test_a_foreign_reader_builds_its_record_from_every_part(port: Port) -> None:
    records = {path: SeedPartMeta(**part) for path, part in port.parts()}
    assert sorted(records) == port.files() and len(records) == 7
    uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    for record in records.values():
        assert re.fullmatch(rf"part-{uuid}\.parquet", record.path)
        assert port.times[0] <= datetime.fromisoformat(record.created_at) <= port.times[2]


@pytest.mark.acceptance("C8")
def test_a_parts_figures_are_those_of_its_parquet_file(port: Port) -> None:
    for path, part in port.parts():
        rows = at_of(path)
        assert (part["rows"], part["bytes"]) == (len(rows), path.stat().st_size)
        assert (part["tick_min"], part["tick_max"]) == (min(rows), max(rows))


@pytest.mark.acceptance("C9")
def test_a_buckets_figures_are_those_of_its_parquet_files(port: Port) -> None:
    for key, bucket in port.manifest()["partitions"].items():
        files = list(port.table.glob(f"bucket={key}/*.parquet"))
        assert bucket["row_count"] == sum(pq.read_metadata(file).num_rows for file in files) == len(KEYS[key])
        assert bucket["byte_size"] == sum(file.stat().st_size for file in files)
        assert (bucket["tick_min"], bucket["tick_max"]) == (KEYS[key][0], KEYS[key][-1])


@pytest.mark.acceptance("T4")
def test_the_log_carries_the_key_range_and_the_statistics_of_every_part(port: Port) -> None:
    members = lading.Collection(port.table).members()
    assert sorted(port.table / member.path for member in members) == port.files()
    for member in members:
        file = port.table / member.path
        assert (member.key_min, member.key_max) == (min(at_of(file)), max(at_of(file)))
        statistics = statistics_of(file)
        assert {"at", "ship"} <= member.zones.keys()
        assert member.zones == {name: statistics[name] for name in member.zones}


@pytest.mark.acceptance("C11")
def test_a_moved_table_opens_and_every_part_is_found(port: Port, tmp_path: Path) -> None:
    before = port.manifest()
    moved = Path(shutil.move(port.table, tmp_path / "v2"))  # nothing is left where it was
    try:
        manifest = catalog.load(moved)
        assert manifest is not None and manifest.to_json_obj()["partitions"] == before["partitions"]
        for key, bucket in manifest.partitions.items():
            found = [at for part in bucket.parts for at in at_of(moved / f"bucket={key}" / part.path)]
            assert sorted(found) == KEYS[key]
        with lading.open(moved) as reader:
            seen = reader.scan(columns=["at"]).to_table()["at"].to_pylist()
        assert sorted(seen) == [at for keys in KEYS.values() for at in keys]
        assert len(lading.Collection(moved).scan().to_table()) == len(seen)
    finally:
        shutil.move(moved, port.table)


def figures(manifest: dict) -> dict:
    """All that a manifest says but the times, parts by name."""
    return {
        key: bucket | {"parts": sorted([{**part, "created_at": ""} for part in bucket["parts"]], key=str)}
        for key, bucket in manifest["partitions"].items()
    }


@pytest.mark.acceptance("C24", "C26")
@pytest.mark.parametrize("left", ["the log", "the snapshot", "the part files"])
def test_rebuild_of_what_a_run_wrote_says_what_the_manifest_said_and_writes_nothing(
    port: Port, tmp_path: Path, left: str
) -> None:
    table = Path(shutil.copytree(port.table, tmp_path / "port_calls"))
    (table / "manifest.json").unlink()
    if left != "the log":
        for path in table.glob("manifest.*"):
            path.unlink()
    if left == "the part files":
        (table / "_CURRENT").unlink()
    before = everything(table)
    rebuilt = catalog.rebuild(table)
    assert rebuilt.table == "port_calls"
    assert figures(rebuilt.to_json_obj()) == figures(port.manifest())
    assert everything(table) == before
    catalog.write(table, rebuilt)
    assert figures(json.loads((table / "manifest.json").read_bytes())) == figures(port.manifest())


def everything(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.mark.acceptance("C20")
def test_a_run_that_cannot_write_the_manifest_says_so(port: Port, tmp_path: Path) -> None:
    copy = Port(Path(shutil.copytree(port.folder, tmp_path / "copy", symlinks=True)))
    (copy.table / "manifest.json").unlink()
    (copy.table / "manifest.json").mkdir()
    copy.put({"d.csv": [4]})
    report = copy.run()
    assert isinstance(report.error, LadingError) and "manifest.json" in str(report.error), report.error
    (copy.table / "manifest.json").rmdir()
    assert copy.run().error is None
    assert copy.manifest()["partitions"]["000000"]["row_count"] == len(KEYS["000000"]) + 1


@pytest.mark.acceptance("C20")
def test_a_full_disk_reaches_the_caller_and_the_old_manifest_stays(tmp_path: Path) -> None:
    catalog.write(tmp_path, catalog.new("t"))
    before = (tmp_path / "manifest.json").read_bytes()
    (tmp_path / "manifest.json.tmp").symlink_to("/dev/full")  # opens, and has no room for a byte
    with pytest.raises(OSError, match="No space left"):
        catalog.write(tmp_path, catalog.new("other"))
    assert (tmp_path / "manifest.json").read_bytes() == before


@pytest.mark.acceptance("C20")
def test_a_read_only_folder_reaches_the_caller_and_the_old_manifest_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "t"
    catalog.write(table, catalog.new("t"))
    before = (table / "manifest.json").read_bytes()
    monkeypatch.chdir(table)  # the folders above may be closed to others
    table.chmod(0o555)
    try:
        with as_nobody():
            for place in (Path("."), Path("below")):
                with pytest.raises(PermissionError):
                    catalog.write(place, catalog.new("other"))
    finally:
        table.chmod(0o755)
    assert everything(table) == {"manifest.json": before}


@contextmanager
def as_nobody() -> Iterator[None]:
    """Permissions count: they never stop root."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
