"""Iceberg's files go with the snapshots that they are the twins of, and not before."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable
from support.iceberg import assert_all_see_the_same, by_lading, by_pyiceberg, connected, seen
from support.shown import Shown, lines

from lading.cli.main import invoke
from lading.errors import StorageError
from lading.iceberg.check import needed, shown_lists
from lading.layout.table import LOG_LOCK, parse_iceberg
from lading.model import Place
from lading.snapshots.history import Wanted
from lading.snapshots.stores.by_url import store_of
from lading.storage.folder import FolderStorage, is_locked
from lading.storage.protocol import Named
from lading.upkeep.clean.apply import clean
from lading.upkeep.clean.survey import Rules
from lading.upkeep.rollback import roll_back
from lading.upkeep.verify import verify
from lading.watch import Watch

MANIFESTS = "lading.snapshots.stores.files.LocalStore"
LATER = datetime.now(UTC) + timedelta(days=3)


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    shown = Shown(tmp_path)
    shown.put("a", lines(range(25)))
    shown.put("b", lines(range(25)))
    shown.run()
    for number in range(5):
        shown.put("b", lines(range(number, 20)))
        shown.run()
    return shown


def cleaned(shown: Shown, *, keep: int, now: datetime | None = LATER) -> list[str]:
    report = clean(shown.config, "t", Rules(keep_runs=keep, now=now), apply=True)
    return [one.path for one in report.deleted]


def files(shown: Shown) -> set[str]:
    return {
        f"metadata/{path.name}" for path in shown.metadata.iterdir() if path.suffix not in (".lock", ".text")
    }


@pytest.mark.acceptance("I14")
def test_what_no_kept_snapshot_leads_to_goes_and_all_else_stays(shown: Shown) -> None:
    gone = cleaned(shown, keep=2)
    assert any(path.endswith("data.avro") for path in gone)
    assert any(path.endswith("metadata.json") for path in gone)
    store, place = store_of(shown.config, "t"), Place(str(shown.table))
    refs = {one.ref for one in store.list_manifests()}
    wanted = needed(place, shown_lists(place, refs))
    assert len(refs) == 2 and wanted is not None
    assert {path for path in files(shown) if not path.endswith(".json")} == wanted
    assert f"metadata/v{shown.hint}.metadata.json" in files(shown)
    assert_all_see_the_same(shown.table)
    older = seen(by_lading(shown.table, offset=1))
    table = StaticTable.from_metadata(f"{shown.metadata}/v{shown.hint}.metadata.json")
    assert len(table.snapshots()) == 2
    first = min(table.snapshots(), key=lambda one: one.timestamp_ms)
    assert seen(table.scan(snapshot_id=first.snapshot_id).to_arrow()) == older
    assert all(path.endswith(".json") for path in cleaned(shown, keep=2)), "the version before the cleaning"
    assert cleaned(shown, keep=2) == []
    shown.put("c", lines(range(5)))
    shown.run()
    assert_all_see_the_same(shown.table)


def test_content_that_comes_back_and_cleaning_keep_out_of_each_others_way(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who finds a file that says the same relies on it: it must not be one that cleaning has looked at and
    is about to unlink. So both hold the log."""
    held: dict[str, list[bool]] = {"put": [], "deleted": []}
    put_same, delete_found = FolderStorage.put_same, FolderStorage.delete_found

    def put(self: FolderStorage, objects: Mapping[str, bytes]) -> None:
        if all(parse_iceberg(name) for name in objects):
            held["put"].append(is_locked(self.path(LOG_LOCK)))
        put_same(self, objects)

    def delete(self: FolderStorage, found: Named) -> bool:
        if parse_iceberg(found.name):
            held["deleted"].append(is_locked(self.path(LOG_LOCK)))
        return delete_found(self, found)

    monkeypatch.setattr(FolderStorage, "put_same", put)
    monkeypatch.setattr(FolderStorage, "delete_found", delete)
    shown.put("c", lines(range(5)))
    shown.run()
    cleaned(shown, keep=1)
    assert held["put"] and all(held["put"])
    assert held["deleted"] and all(held["deleted"])


def test_what_was_shown_a_moment_ago_stays(shown: Shown) -> None:
    before = files(shown)
    cleaned(shown, keep=1, now=None)
    assert before <= files(shown)


def aged(shown: Shown, days: int = 3) -> None:
    """All that is there was written days ago."""
    for path in shown.table.rglob("*"):
        if path.is_file():
            at = path.stat().st_mtime - days * 86_400
            os.utime(path, (at, at))


def test_a_version_from_long_ago_stays_for_those_who_were_led_to_it_a_moment_ago(shown: Shown) -> None:
    aged(shown)
    followed = shown.hint
    shown.put("b", lines(range(3)))
    shown.run()
    assert shown.hint != followed
    cleaned(shown, keep=1, now=None)
    assert (shown.metadata / f"v{followed}.metadata.json").exists()


def test_a_snapshot_stays_while_the_hint_leads_to_it_whatever_the_pointer_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever published last was killed before the hint moved, and it moves only days later."""
    long_ago = datetime.now(UTC) - timedelta(days=3)
    shown = Shown(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("lading.clock.now", lambda: long_ago)
        shown.put("a", lines(range(25)))
        shown.run()
        followed, rows = shown.hint, seen(by_pyiceberg(shown.table))
        patch.setattr("lading.ingest.release.follow_pointer", lambda *_: None)
        for number in range(3):
            patch.setattr("lading.clock.now", lambda number=number: long_ago + timedelta(hours=number + 1))
            shown.put("a", lines(range(number, 9)))
            shown.run()
    aged(shown)
    shown.run()
    assert shown.hint != followed
    for _ in range(2):
        cleaned(shown, keep=1, now=None)
    table = StaticTable.from_metadata(f"{shown.metadata}/v{followed}.metadata.json")
    assert seen(table.scan().to_arrow()) == rows


def test_a_snapshot_that_cannot_be_shown_is_in_no_cleanings_way(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What lading's readers see has lost a part, and Iceberg's were not led to it yet: they keep what they
    have, and all else goes."""
    rows, before = seen(by_pyiceberg(shown.table)), set(shown.table.glob("bucket=*/part-*.parquet"))
    with monkeypatch.context() as patch:
        patch.setattr("lading.ingest.release.show_state", lambda *_: (None, None))
        patch.setattr("lading.ingest.release.follow_pointer", lambda *_: None)
        shown.put("b", lines(range(100, 120)))
        shown.run()
    for path in set(shown.table.glob("bucket=*/part-*.parquet")) - before:
        path.unlink()
    report = clean(shown.config, "t", Rules(keep_runs=1, now=LATER), apply=True)
    assert report.note is not None and "can't be read" in report.note
    assert any(one.kind == "old run" for one in report.deleted)
    assert seen(by_pyiceberg(shown.table)) == rows
    assert invoke(["-C", str(shown.folder), "clean", "--apply"]) == 0
    assert report.note in capsys.readouterr().err
    assert invoke(["-C", str(shown.folder), "clean", "--apply", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tables"][0]["note"] == report.note


def tags(shown: Shown) -> set[str]:
    table = StaticTable.from_metadata(f"{shown.metadata}/v{shown.hint}.metadata.json")
    return {name for name in table.metadata.refs if name != "main"}


@pytest.mark.parametrize("silent", ["the metadata", "the manifests"])
def test_no_tag_leads_to_a_snapshot_that_a_cleaning_which_ended_took_away(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    """Found by the simulation (tabling 440370585550): no answer while the metadata was written."""
    store = store_of(shown.config, "t")

    def no_answer(*_: Any, **__: Any) -> None:
        raise StorageError("no answer")

    with monkeypatch.context() as patch:
        where = "lading.iceberg.show.follow" if silent == "the metadata" else f"{MANIFESTS}.delete_manifest"
        patch.setattr(where, no_answer)
        with pytest.raises(StorageError):
            cleaned(shown, keep=2)
    assert len(store.list_manifests()) == 6 and len(tags(shown)) == (6 if silent == "the metadata" else 2)
    assert not [one for one in verify(shown.config, "t", watch=Watch())[0].findings if one.level == "error"]
    cleaned(shown, keep=2)
    assert len(store.list_manifests()) == 2 and len(tags(shown)) == 2


def test_what_somebody_rolled_back_to_stays(shown: Shown) -> None:
    roll_back(shown.config, "t", Wanted(offset=4))
    wanted = seen(by_lading(shown.table))
    cleaned(shown, keep=1)
    assert_all_see_the_same(shown.table)
    with connected() as connection:
        found = connection.execute(f"SELECT * FROM iceberg_scan('{shown.table}')").to_arrow_table()
    assert seen(found) == wanted


def test_a_list_that_cannot_be_read_keeps_everything(shown: Shown) -> None:
    for path in shown.metadata.glob("snap-*.avro"):
        path.write_bytes(b"nonsense")
    before = {path for path in files(shown) if not path.endswith(".json")}
    cleaned(shown, keep=1)
    assert before - files(shown) == set()


def test_somebody_elses_files_are_not_touched(shown: Shown) -> None:
    foreign = ("00001-aaaa.metadata.json", "notes.txt", "snap-1.avro")
    for name in foreign:
        (shown.metadata / name).write_text("{}")
    cleaned(shown, keep=1)
    assert all((shown.metadata / name).exists() for name in foreign)


def test_a_table_that_is_no_longer_shown_is_cleaned_of_it(shown: Shown) -> None:
    shown.configure("iceberg: false\n    replace: minus")
    shown.run()
    shown.put("c", lines(range(5)))
    shown.run()
    cleaned(shown, keep=1)
    assert files(shown) == set()
