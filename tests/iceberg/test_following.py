"""Iceberg's `main` follows the pointer: after kills, in races, by hand, and never where a gate refuses."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import ValidationError
from support.iceberg import (
    assert_all_see_the_same,
    assert_tags_read_as_they_did,
    by_duckdb,
    by_lading,
    by_polars,
    metadata_of,
    seen,
)
from support.machines import Killed
from support.shown import Shown, lines

from lading.cli.main import invoke
from lading.errors import Conflict, GateFailed, PublishManifestError
from lading.iceberg import follow as following
from lading.iceberg import metadata, settled, snapshot
from lading.iceberg.follow import follow, is_followed
from lading.log.file import LogFile
from lading.model import Place
from lading.snapshots.history import Wanted
from lading.snapshots.stores.by_url import store_of
from lading.storage.folder import FolderStorage
from lading.upkeep.repair import repair
from lading.upkeep.rollback import publish_run, release_hold, roll_back
from lading.upkeep.verify import verify
from lading.watch import Watch

WRITES = ((os, "replace"), (os, "link"), (LogFile, "append"))


@pytest.fixture
def pages_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page is a file, so there are checkpoints too."""
    monkeypatch.setattr("lading.state.tables.INLINE", 0)


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    shown = Shown(tmp_path / "project")
    shown.put("a", lines(range(25)))
    shown.put("b", lines(range(25)))
    shown.run()
    return shown


def test_the_same_metadata_is_taken_apart_once(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle run asks twice where Iceberg readers are led to."""
    shown.run()
    metadata.twins_in.cache_clear()
    read: list[int] = []
    real = metadata._seal
    monkeypatch.setattr(metadata, "_seal", lambda told: (read.append(1), real(told))[1])
    for _ in range(3):
        shown.run()
    assert len(read) == 1


class KillBefore:
    """Every file that appears or is replaced, and every commit, counted; the one that has the number dies,
    before it or behind it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, *, behind: bool) -> None:
        self.count = 0
        self.at, self.behind = at, behind
        for owner, name in WRITES:
            monkeypatch.setattr(owner, name, self._around(getattr(owner, name)))

    def _around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def write(*args: Any, **more: Any) -> Any:
            self.count += 1
            if self.count == self.at and not self.behind:
                raise Killed
            done = real(*args, **more)
            if self.count == self.at:
                raise Killed
            return done

        return write


@pytest.mark.acceptance("I8")
@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
@pytest.mark.usefixtures("pages_outside")
def test_killed_between_any_two_writes_readers_see_one_whole_snapshot(shown: Shown, behind: bool) -> None:
    before = seen(by_lading(shown.table))
    shown.put("b", lines(range(5, 20), a=lambda n: f"{n}.5"))  # minus, another type, parts to settle
    whole = shown.folder
    for number in range(1, 100):
        copy = whole.parent / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        there = Shown.at(copy)
        there.rewritten()  # the copy lies elsewhere
        with pytest.MonkeyPatch.context() as patch:
            killing = KillBefore(patch, number, behind=behind)
            with suppress(Killed):
                there.run()
        survived = killing.count < number
        found = seen(by_duckdb(there.table))
        after = seen(by_lading(there.table))
        assert found in (before, after), number
        there.run()
        assert_all_see_the_same(there.table)
        assert seen(by_lading(there.table)) != before
        if survived:
            break
    assert number > 20, "a run has that many writes at least"


@pytest.mark.acceptance("I9")
def test_rollback_release_and_publish_move_main(shown: Shown) -> None:
    first = seen(by_lading(shown.table))
    shown.put("b", lines(range(5)))
    shown.run()
    second = seen(by_lading(shown.table))
    roll_back(shown.config, "t", Wanted(offset=1))
    assert_all_see_the_same(shown.table)
    assert seen(by_duckdb(shown.table)) == first != second
    shown.put("c", lines(range(5)))
    shown.run()
    assert seen(by_duckdb(shown.table)) == first, "held"
    release_hold(shown.config, "t")
    assert_all_see_the_same(shown.table)
    assert seen(by_duckdb(shown.table)) not in (first, second)


@pytest.mark.acceptance("I9")
def test_a_repair_that_moves_the_pointer_moves_main(shown: Shown) -> None:
    first = seen(by_lading(shown.table))
    shown.put("b", lines(range(5)))
    shown.run()
    current = store_of(shown.config, "t").load_current()
    assert current is not None
    (shown.table / current.ref).write_bytes(b"nonsense")
    repaired = repair(shown.config, "t", watch=Watch())
    assert "readers see the snapshot of run" in repaired.done[0] and not repaired.left
    assert_all_see_the_same(shown.table)
    assert seen(by_duckdb(shown.table)) == first


@pytest.mark.acceptance("I10")
def test_what_a_gate_refuses_is_shown_to_nobody_until_somebody_publishes_it(shown: Shown) -> None:
    shown.configure("gate: {rows: {max_drop: 50%}}")
    before, hint = seen(by_duckdb(shown.table)), shown.hint
    shown.put("a", lines(range(2)))
    shown.put("b", lines(range(2)))
    with pytest.raises(GateFailed):
        shown.run()
    assert shown.hint == hint and seen(by_duckdb(shown.table)) == before
    newest = store_of(shown.config, "t").list_manifests()[0]
    publish_run(shown.config, "t", newest.run_id, force=True)
    assert_all_see_the_same(shown.table)
    assert seen(by_duckdb(shown.table)) != before


@pytest.mark.acceptance("I7")
@pytest.mark.parametrize("lost", [False, True])
def test_what_a_gate_refuses_takes_no_tag_away(shown: Shown, lost: bool) -> None:
    (shown.folder / "lading.yaml").write_text(
        (shown.folder / "lading.yaml").read_text() + "clean: {keep_runs: 3}\n"
    )
    for number in range(3):
        shown.put("c", lines(range(number + 1)))
        shown.run()
    before = tagged(shown)
    text = (shown.folder / "lading.yaml").read_text()
    for number in range(4):
        refusing = text.replace("replace: minus", "replace: minus\n    gate: {rows: {max_grow: 1%}}")
        (shown.folder / "lading.yaml").write_text(refusing)
        shown.put("c", lines(range(number + 10)))
        with pytest.raises(GateFailed):
            shown.run()
    (shown.folder / "lading.yaml").write_text(text)
    if lost:  # then the snapshots are told by their manifests
        for path in [*shown.metadata.glob("*.metadata.json"), shown.metadata / "version-hint.text"]:
            path.unlink()
    shown.put("c", lines(range(20)))
    shown.run()
    assert len(before) == 3 and tagged(shown)[:-1] == before[1:]
    assert assert_tags_read_as_they_did(shown.table) == 3


@pytest.mark.acceptance("I11")
def test_publishers_at_once_leave_the_hint_at_what_the_pointer_says(shown: Shown) -> None:
    for number in range(4):
        shown.put("b", lines(range(number + 3)))
        shown.run()
    config, place = shown.config, Place(str(shown.table))
    refs = [one.ref for one in store_of(config, "t").list_manifests()]
    failures: list[BaseException] = []

    def move(start: int) -> None:
        try:
            for step in range(12):
                store = store_of(config, "t")
                store.set_current(refs[(start + step) % len(refs)], hold=False)
                follow(store, place, keep=10)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=move, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert_all_see_the_same(shown.table)
    versions = {int(path.name[1:].partition(".")[0]) for path in shown.metadata.glob("v*.metadata.json")}
    assert versions == set(range(1, max(versions) + 1)), "none twice, none left out"


@pytest.mark.acceptance("I11")
@pytest.mark.parametrize("step", ["hint", "newest", "load_current", "composed", "put_new"])
def test_one_who_is_slow_and_dies_never_leaves_an_older_snapshot_as_the_newest_version(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Some engines take up the newest version, whatever the hint says."""
    with monkeypatch.context() as patch:
        patch.setattr("lading.ingest.release.follow_pointer", lambda *asked: None)
        shown.put("b", lines(range(5)))
        shown.run()  # the metadata has yet to follow
    store, place = store_of(shown.config, "t"), shown.config.place("t")
    owner = {"load_current": type(store), "put_new": FolderStorage}.get(step, following._Following)
    real, put_new = getattr(owner, step), FolderStorage.put_new
    other: list[str] = []

    def late(*asked: Any, **more: Any) -> Any:
        if not other:
            other.append("is publishing")
            shown.put("b", lines(range(9)))
            shown.run()
            other.append("is done")
        return real(*asked, **more)

    def put_and_die(self: FolderStorage, name: str, data: bytes, **more: Any) -> None:
        (late if step == "put_new" else put_new)(self, name, data, **more)
        if name.startswith("metadata/v") and other[-1:] != ["is publishing"]:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, late)
        patch.setattr(FolderStorage, "put_new", put_and_die)
        with suppress(Killed):
            follow(store, place, keep=10)
    assert other
    newest = max(shown.metadata.glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
    told = metadata.twins_in(newest.read_bytes(), None)
    current = store.load_current()
    assert told is not None and current is not None
    assert [one.ref for one in told[0] if one.number == told[1]] == [current.ref]


def test_a_hint_that_lags_is_mended_by_a_run_with_nothing_to_do(shown: Shown) -> None:
    old = shown.hint
    shown.put("b", lines(range(5)))
    shown.run()
    new = shown.hint
    for text in (old, "nonsense", None):
        if text is None:
            (shown.metadata / "version-hint.text").unlink()
        else:
            (shown.metadata / "version-hint.text").write_text(text)
        shown.run()
        assert shown.hint == new
        assert_all_see_the_same(shown.table)


@pytest.mark.acceptance("I12")
def test_damage_is_found_by_verify_and_mended(shown: Shown) -> None:
    shown.put("b", lines(range(5, 20)))
    shown.run()
    assert verify(shown.config, "t", watch=Watch())[0].whole
    wanted = seen(by_lading(shown.table))
    named = live_files(shown)
    assert {path.name.rpartition("-")[2] for path in named} >= {
        "data.avro",
        "deletes.avro",
        "positions.parquet",
    }
    for number in range(len(named) + 1):
        path = Path(metadata_of(shown.table)) if number == len(named) else named[number]
        for gone in (False, True):
            path = Path(metadata_of(shown.table)) if number == len(named) else path
            damage(path, gone=gone)
            told = verify(shown.config, "t", watch=Watch())[0]
            assert not told.whole and all(one.about == "iceberg" for one in told.findings), path
            assert seen(by_lading(shown.table)) == wanted, "lading goes by its own"
            shown.rewritten()
            assert verify(shown.config, "t", watch=Watch())[0].whole, path
            assert seen(by_duckdb(shown.table)) == wanted
    assert_all_see_the_same(shown.table)


@pytest.mark.acceptance("I12")
@pytest.mark.parametrize("can_be_made", [True, False], ids=["made again", "left out"])
def test_damage_to_the_files_of_a_tag_is_found_by_verify_and_mended(shown: Shown, can_be_made: bool) -> None:
    shown.put("b", lines(range(5, 20)))
    shown.run()  # with a minus
    own = live_files(shown)
    shown.run(full=True)
    of_tags = [path for path in own if path not in live_files(shown)]
    assert {path.name.rpartition("-")[2] for path in of_tags} >= {"data.avro", "positions.parquet"}
    tags = assert_tags_read_as_they_did(shown.table)
    for path in of_tags:
        if not path.exists():
            continue  # of a tag that was left out
        damage(path, gone=False)
        told = verify(shown.config, "t", watch=Watch())[0]
        assert [one.file for one in told.findings] == [f"metadata/{path.name}"], told.findings
        if not can_be_made:
            for ref in tagged(shown)[:-1]:
                shutil.rmtree((shown.table / ref).parent)
        shown.rewritten()
        assert verify(shown.config, "t", watch=Watch())[0].whole, path
        if can_be_made:
            assert assert_tags_read_as_they_did(shown.table) == tags
        else:
            assert tagged(shown) == tagged(shown)[-1:]
            break
    assert_all_see_the_same(shown.table)


def test_a_publish_reads_no_file_of_older_tags(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        shown.put("b", lines(range(number + 3)))
        shown.run(full=True)
    read: list[str] = []
    real = snapshot.whole
    monkeypatch.setattr(
        "lading.iceberg.snapshot.whole", lambda place, name: (read.append(name), real(place, name))[1]
    )
    before = [f"metadata/{path.name}" for path in live_files(shown)]
    read.clear()
    shown.put("b", lines(range(9)))
    shown.run()
    assert read and set(read) <= set(before)


def tagged(shown: Shown) -> list[str]:
    told = metadata.twins_in(Path(metadata_of(shown.table)).read_bytes(), None)
    assert told is not None
    return [one.ref for one in told[0]]


def damage(path: Path, *, gone: bool) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink() if gone else path.write_bytes(data)


def live_files(shown: Shown) -> list[Path]:
    from lading.iceberg.check import needed, shown_lists

    place = Place(str(shown.table))
    current = store_of(shown.config, "t").load_current()
    assert current is not None
    names = needed(place, shown_lists(place, {current.ref})[-1:])
    assert names is not None
    return [shown.table / name for name in sorted(names)]


def test_a_damaged_list_is_not_built_upon(shown: Shown) -> None:
    for path in [*shown.metadata.glob("snap-*.avro"), *shown.metadata.glob("*-data.avro")]:
        data = bytearray(path.read_bytes())
        data[-40] ^= 1
        path.write_bytes(data)
    shown.put("c", lines(range(5)))
    shown.run()
    assert_all_see_the_same(shown.table)


def test_what_goes_wrong_is_told_and_keeps_nobody_from_publishing(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = seen(by_duckdb(shown.table))
    real = FolderStorage.put_same

    def full(self: FolderStorage, objects: Mapping[str, bytes]) -> None:
        if any(name.startswith("metadata/") for name in objects):
            raise OSError(28, "No space left on device")
        real(self, objects)

    shown.put("b", lines(range(5)))
    with monkeypatch.context() as patch:
        patch.setattr(FolderStorage, "put_same", full)
        [note] = shown.run().notes
    assert "Iceberg readers of t don't see this snapshot" in note and "No space left" in note
    assert seen(by_lading(shown.table)) != before == seen(by_duckdb(shown.table))
    assert shown.run().notes == ()
    assert_all_see_the_same(shown.table)


def test_a_table_that_is_no_longer_shown_is_not_found_and_shown_again(shown: Shown) -> None:
    shown.configure("iceberg: false\n    replace: minus")
    shown.run()
    assert not (shown.metadata / "version-hint.text").exists()
    assert invoke(["-C", str(shown.folder), "iceberg", "t"]) == 1
    shown.put("b", lines(range(5), a=lambda n: f"{n}.5"))  # parts of two types
    shown.run()
    before = seen(by_lading(shown.table))
    shown.configure("replace: minus")
    report = shown.run()
    assert report.notes == () and report.published, "parts are settled by a publish of the same rows"
    assert seen(by_lading(shown.table)) == before
    assert_all_see_the_same(shown.table)
    again = shown.run()
    assert again.notes == () and not again.published


@pytest.mark.acceptance("I13")
def test_a_table_that_was_moved_is_found_there_after_a_rewrite(shown: Shown) -> None:
    shown.put("b", lines(range(5, 20)))
    shown.run()
    there = Shown.at(Path(shutil.move(shown.folder, shown.folder.parent / "moved")))
    there.rewritten()
    assert_all_see_the_same(there.table)
    assert str(shown.folder) not in Path(metadata_of(there.table)).read_text()
    there.put("c", lines(range(5)))
    there.run()
    assert_all_see_the_same(there.table)


def test_a_run_with_nothing_to_do_mends_a_moved_table(shown: Shown) -> None:
    there = Shown.at(Path(shutil.move(shown.folder, shown.folder.parent / "moved")))
    there.run()
    assert_all_see_the_same(there.table)


@pytest.mark.parametrize("name", ["plain", "it's", 'a "b', "100%20 \\n"])
def test_the_command_prints_lines_that_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    import polars
    import pyiceberg.table
    from support.iceberg import connected

    shown = Shown(tmp_path / name)
    shown.put("a", lines(range(25)))
    shown.run()
    assert invoke(["-C", str(shown.folder), "iceberg", "t"]) == 0
    assert "iceberg_scan" in capsys.readouterr().out
    assert invoke(["-C", str(shown.folder), "iceberg", "t", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    wanted = seen(by_lading(shown.table))
    assert told["metadata"] == metadata_of(shown.table)
    if '"' not in name:  # which DuckDB can't read
        with connected() as connection:
            found = connection.execute(told["engines"]["DuckDB"]).to_arrow_table()
        assert seen(found) == wanted
    names = {"polars": polars, "pyiceberg": pyiceberg}
    assert seen(eval(told["engines"]["polars"], names).collect().to_arrow()) == wanted
    assert seen(eval(told["engines"]["pyiceberg"], names)) == wanted


@pytest.mark.parametrize("name", ["a#b", "a?b"])
def test_a_path_that_some_engines_cannot_read_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    shown = Shown(tmp_path / name)
    shown.put("a", lines(range(25)))
    shown.run()
    with pytest.raises(FileNotFoundError):
        by_polars(shown.table)
    assert seen(by_duckdb(shown.table)) == seen(by_lading(shown.table))
    assert invoke(["-C", str(shown.folder), "iceberg", "t"]) == 0
    assert "take the rest of a path behind # or ? for something else" in capsys.readouterr().err


@pytest.mark.parametrize("other", ["x.y", "x.z.element"])
def test_names_that_some_engines_cannot_tell_apart_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], other: str
) -> None:
    rows = pa.table({"id": [1], other: [2], "x": [{"y": 3, "z": [4]}]})
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    shown = Shown(tmp_path / "project", format="parquet")
    shown.put("a", bytes(sink.getvalue()))
    shown.run()
    with pytest.raises(ValidationError, match="multiple fields for name"):
        by_polars(shown.table)
    assert seen(by_duckdb(shown.table)) == seen(by_lading(shown.table))
    assert invoke(["-C", str(shown.folder), "iceberg", "t"]) == 0
    assert f"are both '{other}' to pyiceberg" in capsys.readouterr().err


def test_metadata_does_not_grow_with_history(shown: Shown) -> None:
    (shown.folder / "lading.yaml").write_text(
        (shown.folder / "lading.yaml").read_text() + "clean: {keep_runs: 3}\n"
    )
    sizes = []
    for number in range(8):
        shown.put("b", lines(range(number + 3)))
        shown.run()
        sizes.append(Path(metadata_of(shown.table)).stat().st_size)
    assert max(sizes[3:]) - min(sizes[3:]) < 50
    assert_all_see_the_same(shown.table)


def test_unchanged_pages_keep_their_manifests(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lading.state.edit.PAGE", 1)
    shown.put("b", lines(range(25, 30)))
    shown.run()
    before = {path.name: path.stat().st_mtime_ns for path in shown.metadata.glob("*-data.avro")}
    shown.put("c", lines(range(25, 30)))
    shown.run()
    after = {path.name: path.stat().st_mtime_ns for path in shown.metadata.glob("*-data.avro")}
    assert before.items() <= after.items()
    assert len(before) > 2 and 1 <= len(after) - len(before) <= 2, (
        "a page that grew, or two that it was split into"
    )
    assert_all_see_the_same(shown.table)


@pytest.mark.parametrize("end", ["published", "refused", "failed"])
def test_manifest_json_names_the_parts_that_were_settled(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    def fail(*asked: Any) -> None:
        raise PublishManifestError("no space")

    shown.configure("replace: minus\n    " + ("gate: {rows: {max_drop: 10%}}" if end == "refused" else ""))
    shown.put("b", lines(range(5, 20), a=lambda n: f"{n}.5"))  # another type
    if end == "failed":
        monkeypatch.setattr("lading.ingest.release.publish_snapshot", fail)
    with nullcontext() if end == "published" else pytest.raises((GateFailed, PublishManifestError)):
        shown.run()
    found = verify(shown.config, "t", watch=Watch())[0]
    assert not [one for one in found.findings if one.about == "manifest"]
    named = json.loads((shown.table / "manifest.json").read_text())["partitions"].values()
    assert sum(one["row_count"] for one in named) == 40


def test_a_manifest_json_that_cannot_be_written_keeps_no_settled_snapshot_from_readers(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*asked: Any, **more: Any) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lading.ingest.release.write_table_manifest", full)
    shown.put("b", lines(range(5, 20), a=lambda n: f"{n}.5"))
    report = shown.run()
    assert report.published and "No space left on device" in report.notes[-1]
    assert_all_see_the_same(shown.table)


def test_parts_that_cannot_be_settled_keep_nobody_from_publishing(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg readers who go by the hint see nothing then, rather than another snapshot than everybody
    else."""

    def taken(*args: object, **more: object) -> None:
        raise Conflict("someone else was quicker")

    shown.put("b", lines(range(5), a=lambda n: f"{n}.5"))
    with monkeypatch.context() as patch:
        patch.setattr("lading.ingest.settle.commit_keeping", taken)
        note = shown.run().notes[-1]
    assert "older types" in note and not (shown.metadata / "version-hint.text").exists()
    assert by_lading(shown.table).num_rows == 30
    shown.run()  # with nothing else to do
    assert_all_see_the_same(shown.table)
    quiet = shown.hint
    shown.run()
    assert shown.hint == quiet


def test_no_part_is_opened_of_a_table_with_a_type_that_iceberg_has_no_word_for(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lading.iceberg.types._PLAIN", {})
    shown.put("b", lines(range(5)))
    shown.run()
    monkeypatch.setattr("lading.iceberg.settled.open_parquet", lambda *asked: pytest.fail("a part is opened"))
    [note] = shown.run().notes
    assert "which Iceberg has no type for" in note and "iceberg: false" in note


def test_a_held_snapshot_that_cannot_be_shown_is_looked_at_once_and_says_what_ends_the_hold(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown.configure("iceberg: false\n    replace: minus")
    for name in "bc":
        shown.put(name, lines(range(5), a=lambda n: f"{n}.5"))  # parts of two types
        shown.run()
    shown.configure("replace: minus")
    opened: list[str] = []
    real = settled.open_parquet
    monkeypatch.setattr(
        "lading.iceberg.settled.open_parquet",
        lambda root, path, size: (opened.append(path), real(root, path, size))[1],
    )
    note = roll_back(shown.config, "t", Wanted(offset=1)).note
    assert opened and note is not None and "older types" in note and "lading publish t --release" in note
    opened.clear()
    for _ in range(2):
        assert shown.run().notes == (note,) and not opened
    (shown.metadata / "unsettled.json").write_text("{")
    assert shown.run().notes == (note,) and opened, "what can't be read counts for nothing"
    release_hold(shown.config, "t")
    shown.run()
    assert_all_see_the_same(shown.table)
    opened.clear()
    shown.run()
    assert not opened


def test_a_column_that_was_committed_in_another_type_and_never_shown_is_read_all_the_same(
    shown: Shown,
) -> None:
    """The commit that brought `c` as text was killed before its publish; by the next one it is a number."""

    class KilledBeforeThePublish(Watch):
        def phase(self, table: str, name: str) -> None:
            if name == "publish":
                raise Killed

    shown.put("c", "id,c\n1,0.5\n")
    shown.put("d", "id,c\n2,text\n")
    with suppress(Killed):
        shown.run(watch=KilledBeforeThePublish())
    shown.drop("d")
    shown.run()
    assert by_lading(shown.table)["c"].to_pylist().count(0.5) == 1
    assert_all_see_the_same(shown.table)


def test_readers_are_led_to_what_the_pointer_names_or_not(shown: Shown) -> None:
    store, place = store_of(shown.config, "t"), shown.config.place("t")
    first = store.load_current()
    assert first is not None and is_followed(store, place, first)
    shown.put("b", lines(range(5)))
    shown.run()
    second = store.load_current()
    assert second is not None and is_followed(store, place, second)
    back = store.set_current(first.ref, hold=False)
    assert not is_followed(store, place, back), "the pointer moved, and the metadata has yet to follow"
    follow(store, place, keep=10)
    assert is_followed(store, place, back)
    (shown.metadata / "version-hint.text").unlink()
    assert not is_followed(store, place, back)


def test_a_hint_that_outlived_a_table_that_was_not_shown_keeps_nothing_from_being_settled(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Published with `iceberg: false` by a run that was killed before it took the hint away. Found by the
    simulation."""
    shown.configure("replace: minus\n    iceberg: false")
    shown.put("b", lines(range(5), a=lambda n: f"{n}.5"))  # another type: parts to settle
    with monkeypatch.context() as patch:
        patch.setattr("lading.iceberg.show.stop_following", lambda place: None)
        shown.run()
    shown.configure("replace: minus")
    shown.run()
    assert_all_see_the_same(shown.table)
