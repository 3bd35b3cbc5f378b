"""Run records: how a run's beginning, life and end can be told afterwards."""

from __future__ import annotations

import re
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from lading.errors import ConfigError, GateFailed, ManifestParseError
from lading.ingest.release import Released, finish
from lading.snapshots import runs
from lading.storage import folder

NOW = datetime(2026, 4, 20, 15, 23, 1, 123456, tzinfo=UTC)


def record(handle: runs.RunHandle) -> dict:
    return yaml.safe_load(handle.path.read_text())


def test_a_started_run_says_so_on_disk(tmp_path: Path) -> None:
    handle = runs.start(tmp_path, "r1", NOW, tables=["sales"], lease=timedelta(minutes=2))
    pattern = r"runs/2026-04-20T15:23:01\.123456Z_run_id=r1_[0-9a-f]{32}/run\.yaml"
    assert re.fullmatch(pattern, handle.path.relative_to(tmp_path).as_posix())
    seen = record(handle)
    assert (seen["run_id"], seen["status"], seen["tables"]) == ("r1", "running", ["sales"])
    assert seen["started_at"] == "2026-04-20T15:23:01.123456+00:00"
    assert seen["lease_until"] == "2026-04-20T15:25:01.123456+00:00"
    assert seen["finished_at"] is seen["manifest_ref"] is seen["error"] is None
    assert [path.name for path in handle.path.parent.iterdir()] == ["run.yaml"]


def test_a_run_is_found_among_many_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        runs.start(tmp_path, f"r{number}", NOW + timedelta(seconds=number))
    read: list[str] = []
    load = runs._load
    monkeypatch.setattr(runs, "_load", lambda file: read.append(file.folder) or load(file))
    found = runs.run_named(tmp_path, "r2")
    assert found is not None and found.record.run_id == "r2" and len(read) == 1
    assert runs.run_named(tmp_path, "r") is None and runs.run_named(tmp_path, "nope") is None


def test_a_heartbeat_prolongs_the_lease_and_nothing_else(tmp_path: Path) -> None:
    handle = runs.start(tmp_path, "r1", NOW, lease=timedelta(minutes=2))
    before = record(handle)
    handle.heartbeat(NOW + timedelta(minutes=1))
    until, now = "2026-04-20T15:26:01.123456+00:00", "2026-04-20T15:24:01.123456+00:00"
    assert record(handle) == before | {"lease_until": until, "lease_expires_at": until, "updated_at": now}


def test_an_ended_run_has_no_lease_and_a_late_heartbeat_does_not_revive_it(tmp_path: Path) -> None:
    handle = runs.start(tmp_path, "r1", NOW)
    handle.finish("succeeded", manifest_ref="manifests/x/manifest", now=NOW + timedelta(hours=1))
    handle.heartbeat()
    seen = record(handle)
    assert (seen["status"], seen["manifest_ref"]) == ("succeeded", "manifests/x/manifest")
    assert seen["finished_at"] == "2026-04-20T16:23:01.123456+00:00" and seen["lease_until"] is None


def test_the_lease_is_kept_alive_and_its_thread_ends_with_the_block(tmp_path: Path) -> None:
    with runs.start(tmp_path, "r1", lease=timedelta(milliseconds=60)) as handle:
        first = record(handle)["lease_until"]
        while record(handle)["lease_until"] == first:
            time.sleep(0.01)
        handle.finish("succeeded")
    assert "lading-lease" not in {thread.name for thread in threading.enumerate()}
    assert record(handle)["status"] == "succeeded"


def test_the_thread_does_not_delay_the_end(tmp_path: Path) -> None:
    with runs.start(tmp_path, "r1", lease=timedelta(days=3)):
        pass  # it would take a day


def test_a_run_that_raises_has_failed_with_its_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), runs.start(tmp_path, "r1") as handle:
        raise ZeroDivisionError("by zero")
    seen = record(handle)
    assert (seen["status"], seen["error"]) == ("failed", "ZeroDivisionError: by zero")


def test_a_run_that_leaves_the_block_has_succeeded(tmp_path: Path) -> None:
    with runs.start(tmp_path, "r1") as handle:
        pass
    assert record(handle)["status"] == "succeeded"


def test_the_runs_own_error_is_shown_when_the_record_can_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("disk full")

    with pytest.raises(ZeroDivisionError) as caught, runs.start(tmp_path, "r1"):
        monkeypatch.setattr(folder, "write_atomic", full)
        raise ZeroDivisionError
    assert "disk full" in caught.value.__notes__[0]


def test_a_lease_that_can_not_be_prolonged_does_not_fail_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("disk full")

    with runs.start(tmp_path, "r1", lease=timedelta(milliseconds=30)) as handle:
        with monkeypatch.context() as broken:
            broken.setattr(folder, "write_atomic", full)
            while "disk full" not in caplog.text:
                time.sleep(0.01)
        handle.finish("succeeded")
    assert record(handle)["status"] == "succeeded"


def test_the_last_run_is_the_newest_that_has_a_record(tmp_path: Path) -> None:
    assert runs.last_run(tmp_path) is None
    runs.start(tmp_path, "r2", NOW)
    runs.start(tmp_path, "r1", NOW + timedelta(microseconds=1)).finish("failed", error="x")
    (tmp_path / "runs" / "2099-01-01T00:00:00.000000Z_run_id=r3_0").mkdir()
    (tmp_path / "runs" / "zzz").write_text("a note")
    last = runs.last_run(tmp_path)
    assert last is not None and (last["run_id"], last["status"], last["error"]) == ("r1", "failed", "x")


@pytest.mark.parametrize("text", ["[1]", "a: [", "\x00", "!!python/object/apply:os.system ['true']"])
def test_a_malformed_record_is_named_and_runs_nothing(tmp_path: Path, text: str) -> None:
    runs.start(tmp_path, "r1").path.write_text(text)
    with pytest.raises(ManifestParseError, match=r"run\.yaml") as caught:
        runs.last_run(tmp_path)
    assert caught.value.hint


def test_a_run_id_never_leaves_the_folder(tmp_path: Path) -> None:
    for run_id in ("../x", "a/b", ""):
        with pytest.raises(ConfigError):
            runs.start(tmp_path, run_id)
    assert list(tmp_path.iterdir()) == []


SEED_FIELDS = (
    "format_version", "run_id", "writer_type", "status", "started_at", "updated_at", "lease_expires_at",
    "s3_prefix", "shard_prefix", "db_path_template", "manifest_ref", "error_type", "error_message",
)  # fmt: skip


@pytest.mark.acceptance("S27")
def test_a_record_has_every_field_that_shardyfusions_has(tmp_path: Path) -> None:
    """Its model: texts that must be there, times that parse, and a status of three."""
    output = runs.RunOutput("s3://bucket/sales", "served", "part-{db_id}")
    handle = runs.start(tmp_path, "r1", NOW, tables=["sales"], output=output)
    seen = record(handle)
    assert list(seen)[: len(SEED_FIELDS)] == list(SEED_FIELDS)
    assert (seen["format_version"], seen["writer_type"], seen["status"]) == (1, "lading", "running")
    assert [seen[name] for name in ("s3_prefix", "shard_prefix", "db_path_template")] == [
        "s3://bucket/sales", "served", "part-{db_id}",
    ]  # fmt: skip
    assert seen["lease_expires_at"] == seen["lease_until"] and seen["error_type"] is None
    at = NOW + timedelta(hours=1)
    handle.finish("failed", error="GateFailed: too few rows: 3", now=at)
    seen = record(handle)
    assert (seen["error_type"], seen["error_message"]) == ("GateFailed", "too few rows: 3")
    assert seen["lease_expires_at"] == seen["updated_at"] == at.isoformat(timespec="microseconds")
    for name in ("started_at", "updated_at", "lease_expires_at"):
        assert datetime.fromisoformat(seen[name]).tzinfo is not None
    [one], unknown = runs.list_runs(tmp_path)
    assert one.record == handle.record and unknown == []


def test_a_record_of_lading_0_1_is_still_understood(tmp_path: Path) -> None:
    handle = runs.start(tmp_path, "r1", NOW)
    old = {name: value for name, value in record(handle).items() if name not in SEED_FIELDS}
    old |= {"run_id": "r1", "status": "running", "started_at": NOW.isoformat(), "manifest_ref": None}
    handle.path.write_text(yaml.safe_dump(old))
    [one], unknown = runs.list_runs(tmp_path)
    assert (one.record.run_id, one.record.state(NOW), unknown) == ("r1", "running", [])


def test_a_run_whose_snapshot_was_refused_says_by_what(tmp_path: Path) -> None:
    handle = runs.start(tmp_path, "r1", NOW)
    finish(handle, Released(refused=GateFailed("the gate refused it: too few rows")))
    seen = record(handle)
    assert (seen["error_type"], seen["error_message"]) == ("GateFailed", "the gate refused it: too few rows")
