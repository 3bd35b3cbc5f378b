"""A project whose warehouse is a bucket: the same promises, with nothing of the table on disk."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.bucket_project import BucketProject
from support.faults import FaultyHttp, Weather
from support.machines import KillAt, Killed
from support.servers import S3Server

import lading
from lading.config.file import load as load_config
from lading.errors import CommitUnknown, ConfigError, LadingError, StorageError
from lading.log.table import Table
from lading.snapshots.runs import last_run, list_runs
from lading.storage.bucket import ObjectStorage
from lading.upkeep.merge import merge_table
from lading.upkeep.status import status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PHASES = ["discover", "plan", "prepare", "ingest", "commit", "record", "publish", "clean", "done"]


@pytest.fixture
def project(tmp_path: Path, url: str, s3_server: S3Server, spark: SparkSession) -> BucketProject:
    return BucketProject(tmp_path / "project", url, s3_server.options())


def in_environment(patch: pytest.MonkeyPatch, options: dict[str, str]) -> None:
    for name, value in options.items():
        variable = {"endpoint": "AWS_ENDPOINT_URL"}.get(name, f"AWS_{name.upper()}")
        patch.setenv(variable, value)


def test_a_run_puts_everything_into_the_bucket(project: BucketProject) -> None:
    project.put("a.csv", [(i, 1, "x") for i in range(25)])
    project.put("b.csv", [(i, 2, "y") for i in range(20, 40)])
    report = project.run()
    assert report.tables[0].published and project.seen() == project.truth()
    names = project.names()
    parts = [name for name in names if name.startswith("bucket=")]
    assert len(parts) == Table.open(project.place).state.count() == 4
    assert {name.split("/")[0].split("=")[0] for name in names} == {
        "bucket", "log", "manifest.json", "manifests", "metadata", "runs", "_CURRENT",
    }  # fmt: skip
    here = {path.name for path in project.folder.iterdir()}
    assert here == {"data", "schema", "manifest", "transform.py", "lading.yaml", ".lading_cache"}
    last = last_run(project.place)
    assert last is not None and (last["status"], last["manifest_ref"]) == (
        "succeeded", report.tables[0].manifest_ref,
    )  # fmt: skip


def test_changes_equal_a_rebuild(project: BucketProject, tmp_path: Path) -> None:
    project.put("a.csv", [(i, 1, "x") for i in range(25)])
    project.put("b.csv", [(i, 2, "y") for i in range(20, 40)])
    project.put("c.csv", [(i, 3, "z") for i in range(5, 30)], turned=True)
    project.run()
    project.put("a.csv", [(i, 4, "edited") for i in range(7, 12)], age=5)  # shares parts with the others
    (project.data / "b.csv").unlink()
    project.put("d.csv", [(99, 5, "new")])
    changed = project.run().tables[0]
    assert (changed.verdicts["changed"], changed.verdicts["vanished"], changed.verdicts["new"]) == (1, 1, 1)
    assert project.seen() == project.truth()
    quiet = project.run()
    assert not quiet.spark_started and not quiet.tables[0].published
    project.mark = "!"
    project.write_recipe()
    project.run()
    assert project.seen() == project.truth()


def test_rows_that_leave_a_large_part_are_subtracted_and_merged_away(project: BucketProject) -> None:
    project.replace = "minus"
    project.write_recipe()
    for number in range(3):
        project.put(f"{number}.csv", [(i, 1 + number, "x") for i in range(9)])
        project.run()
    project.put("0.csv", [(3, 9, "edited")], age=5)
    project.run()
    assert project.seen() == project.truth()
    merged = merge_table(load_config(project.folder), "events")
    assert merged.published and merged.parts_removed > merged.parts_added == 1
    assert project.seen() == project.truth()


def test_a_reader_reads_any_snapshot_by_its_url(
    project: BucketProject, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.put("a.csv", [(i, 1, "x") for i in range(25)])
    project.run()
    first = project.seen()
    project.put("b.csv", [(i, 2, "y") for i in range(20, 40)])
    project.run()
    with project.open() as reader:
        hit = reader.lookup(33)
        assert hit.row is not None and (hit.row["note"], hit.opened) == ("y", 1)
        assert {source.key for source in reader.sources()} == {"a.csv", "b.csv"}
        found = reader.scan("id < 10", ["id"])
        assert found.to_table().num_rows == 10
        assert (found.files_scanned, found.files_total) == (1, 5)
    with lading.open(f"{project.url}/events", offset=1, s3=project.options) as reader:
        assert reader.rows == sum(first.values())
    in_environment(monkeypatch, s3_server.options())
    with lading.open(f"{project.url}/events") as reader:
        assert reader.rows == 45


def test_status_sees_the_bucket_and_tables_that_left_the_config(project: BucketProject) -> None:
    project.put("a.csv", [(1, 1, "x")])
    assert status(load_config(project.folder))[0].note == "never run"
    project.run()
    found = status(load_config(project.folder))[0]
    assert (found.rows, found.parts, found.note, found.pending) == (1, 1, None, {})
    text = (project.folder / "lading.yaml").read_text()
    (project.folder / "lading.yaml").write_text(text.replace("  events:", "  other:"))
    assert {one.table: one.note for one in status(load_config(project.folder))} == {
        "other": "never run", "events": "not in lading.yaml: left alone",
    }  # fmt: skip


def test_a_failed_run_leaves_no_parts(project: BucketProject) -> None:
    project.put("a.csv", [(1, 1, "x")])
    project.run()
    before = project.names("bucket=000000")
    (project.data / "b.csv").write_text("id,day,note\n1,2024-01-01,fine\nbad,2024-01-01,x\n")
    with pytest.raises(LadingError, match=r"b\.csv"):
        project.run()
    assert project.names("bucket=000000") == before
    (project.data / "b.csv").unlink()
    project.run()
    assert project.seen() == project.truth()


def test_a_run_killed_at_any_phase_is_completed_by_the_next_one(project: BucketProject) -> None:
    project.put("a.csv", [(i, 1, "x") for i in range(9)])
    project.put("b.csv", [(i, 2, "y") for i in range(5, 15)])
    project.run()
    for number, phase in enumerate(PHASES):
        before = project.seen()
        project.put("a.csv", [(i, 1 + number, phase) for i in range(number, 9)], age=1000 - number)
        with suppress(Killed):
            project.run(watch=KillAt(phase))
        assert project.seen() == (project.truth() if phase in ("clean", "done") else before), phase
        project.run()
        assert project.seen() == project.truth(), phase


def test_a_run_killed_at_any_write_is_completed_by_the_next_one(
    project: BucketProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.put("a.csv", [(i, 1, "x") for i in range(9)])
    project.put("b.csv", [(i, 2, "y") for i in range(5, 9)])
    project.run()
    number = 0
    while True:
        number += 1
        before = project.seen()
        project.put("a.csv", [(i, 1, f"n{number}") for i in range(6)], age=1000 - number)
        with monkeypatch.context() as dying:
            writes = _kill_at(dying, number)
            with suppress(Killed):
                project.run()
        assert project.seen() in (before, project.truth())
        project.run()
        assert project.seen() == project.truth(), number
        if len(writes) < number:
            break
    assert number > 7 and set(writes) == {"put_new", "put", "swap"}


def _kill_at(patch: pytest.MonkeyPatch, number: int) -> list[str]:
    """Make the driver die in its `number`-th write: half of them before it, half after it."""
    writes: list[str] = []

    def dying(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def write(*args: Any, **options: Any) -> Any:
            writes.append(name)
            if len(writes) < number:
                return real(*args, **options)
            if len(writes) == number and number % 2:
                real(*args, **options)
            raise Killed(name)

        return write

    for name in ("put_new", "put", "swap", "upload"):
        patch.setattr(ObjectStorage, name, dying(name, getattr(ObjectStorage, name)))
    return writes


def test_a_bad_network_costs_time_and_nothing_else(project: BucketProject, faulty: FaultyHttp) -> None:
    direct = project.options
    project.options = direct | {"endpoint": faulty.endpoint}
    project.write_recipe()
    faulty.plan = Weather(7, 0.2)
    for number in range(3):
        project.put("a.csv", [(i, 1 + number, "x") for i in range(0, 30, 3)], age=100 - number)
        for _ in range(10):
            with suppress(LadingError):
                project.run()
                break
        project.options = direct
        assert project.seen() == project.truth()
        project.options = direct | {"endpoint": faulty.endpoint}
    assert sum(faulty.faults.values()) > 10


def test_a_commit_of_unknown_fate_keeps_its_parts(
    project: BucketProject, faulty: FaultyHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lading.storage import bucket as objects

    project.put("a.csv", [(1, 1, "x")])
    project.run()
    monkeypatch.setitem(objects.RETRY, "max_retries", 0)
    direct = project.options
    project.options = direct | {"endpoint": faulty.endpoint}
    project.write_recipe()
    gone: list[str] = []

    def plan(method: str, path: str) -> str | None:
        if method == "PUT" and "/log/" in path:
            gone.append(path)
            return "lost"
        return "cut" if gone else None

    faulty.plan = plan
    project.put("b.csv", [(2, 2, "y")])
    with pytest.raises((CommitUnknown, StorageError)):
        project.run()
    project.options = direct
    project.write_recipe()
    report = project.run()
    assert not report.spark_started and report.tables[0].published
    assert project.seen() == project.truth()


def test_sources_in_the_warehouse_are_refused(project: BucketProject) -> None:
    project.put("a.csv", [(1, 1, "x")])
    project.run()
    file = project.folder / "lading.yaml"
    above = project.url.rpartition("/")[0]
    text = file.read_text().replace("root: data", f"root: {above}").replace("**/*.csv", "**/manifest.json")
    file.write_text(text)
    with pytest.raises(ConfigError, match="which lading wrote itself"):
        project.run()


def test_credentials_are_in_nothing_that_is_written(
    project: BucketProject, capfd: pytest.CaptureFixture[str]
) -> None:
    project.put("a.csv", [(i, 1, "x") for i in range(25)])
    project.run()
    secrets = (S3Server.secret_key.encode(), S3Server.access_key.encode())
    said = capfd.readouterr()
    written = {name: project.storage.get(name) for name in project.names()}
    written |= {
        str(path): path.read_bytes()
        for path in project.folder.rglob("*")
        if path.is_file() and path.name != "lading.yaml"
    }
    written["stdout"], written["stderr"] = said.out.encode(), said.err.encode()
    assert [name for name, data in written.items() if any(secret in data for secret in secrets)] == []
    assert len(list_runs(project.place)[0]) == 1


def test_sparks_data_source_reads_parts_by_their_url(
    project: BucketProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lading.read.spark_source import TableDoor

    project.put("a.csv", [(i, 1, "x") for i in range(25)])
    project.run()
    with project.open() as reader, pytest.raises(ConfigError, match="not passed on to Spark's tasks"):
        reader.to_spark(spark)
    in_environment(monkeypatch, project.options)
    door = TableDoor.open({"path": f"{project.url}/events", "where": "id >= 10"})
    batches = [batch for task in door.tasks([]) for batch in door.read(task, ["id"], [])]
    assert [one for batch in batches for one in batch.column(0).to_pylist()] == list(range(10, 25))


def test_manifests_may_lie_elsewhere_than_the_data(project: BucketProject, tmp_path: Path) -> None:
    project.put("a.csv", [(i, 1, "x") for i in range(25)])
    file = project.folder / "lading.yaml"
    file.write_text(f"store: {tmp_path / 'manifests'}\n" + file.read_text())
    project.run()
    assert not project.names("manifests") and "_CURRENT" not in project.names()
    with lading.open(f"{project.url}/events", str(tmp_path / "manifests"), s3=project.options) as reader:
        assert reader.lookup(7).found and reader.scan().to_table().num_rows == 25
