"""A large source manifest is not written for a few files that changed, and is as good as one that is: what it
says with what was recorded since is what the log has, and what people do to it is asked for."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import lading
from lading.config.file import load as load_config
from lading.errors import Conflict
from lading.ingest import changes as changes_module
from lading.ingest import record as record_module
from lading.ingest.look import look
from lading.ingest.table_run import TableRun
from lading.ingest.verdicts import AllUnchanged
from lading.log.table import Table
from lading.run import RunReport, run
from lading.sources import entries as entries_module
from lading.sources import manifest as manifest_module
from lading.sources.manifest import forget_files, forget_table, load
from lading.sources.since import since_of
from lading.upkeep.clean.apply import clean
from lading.upkeep.clean.survey import Rules
from lading.upkeep.manifests import write_manifests
from lading.upkeep.merge import merge_table
from lading.upkeep.status import status
from lading.upkeep.verify import verify
from lading.watch import Watch

OLD = 1_600_000_000
CONFIG = """\
spark: {{in_process_below: 1MB}}
warehouse: {warehouse}
tables:
  t:
    root: data
    path: "**/*.csv"
    format: csv
    on_bad: {on_bad}
"""


class Large:
    """A table of a few files that counts as one of many."""

    def __init__(self, folder: Path, files: int = 8) -> None:
        self.folder = folder
        (folder / "schema").mkdir(parents=True)
        (folder / "schema" / "t.yaml").write_text("columns:\n- {name: a, type: bigint}\n")
        self.configure()
        for number in range(files):
            self.put(f"f{number}.csv", number)

    def configure(self, on_bad: str = "fail") -> None:
        (self.folder / "lading.yaml").write_text(CONFIG.format(warehouse="warehouse", on_bad=on_bad))

    def put(self, key: str, value: object, at: float = OLD) -> None:
        path = self.folder / "data" / key
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"a\n{value}\n")
        os.utime(path, (at, at))

    def run(self) -> RunReport:
        report = run(load_config(self.folder))
        if report.error is not None:
            raise report.error
        return report

    def look(self) -> TableRun:
        return look(load_config(self.folder), "t", watch=Watch())

    @property
    def verdicts(self) -> dict[str, str]:
        """Of all files that a run would do something about."""
        return {one.key: one.verdict for one in self.look().plan.files if one.verdict != "unchanged"}

    @property
    def path(self) -> Path:
        return self.folder / "manifest" / "t.json"

    @property
    def since(self) -> Path:
        return since_of(self.path)

    def rows(self) -> list[int]:
        with lading.open(self.folder / "warehouse" / "t") as reader:
            return sorted(reader.scan().to_table().column("a").to_pylist())

    def edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        tree = json.loads(self.path.read_text())
        change(tree["files"])
        self.path.write_text(json.dumps(tree, indent=2, ensure_ascii=False) + "\n")

    def shown(self) -> dict[str, tuple[str, str, int | None]]:
        manifest = load(self.path)
        assert manifest is not None
        return {key: (one.status, one.hash, one.row_count) for key, one in manifest.entries()}

    def logged(self) -> dict[str, tuple[str, str, int]]:
        with_log = Table.open(self.folder / "warehouse" / "t")
        found = {key: ("success", one.hash, one.rows) for key, (one, _) in with_log.state.sources().items()}
        with_log.close()
        return found


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(changes_module, "LARGE", 3)
    monkeypatch.setattr(manifest_module, "IN_MEMORY", 0)
    monkeypatch.setattr(entries_module, "_CHUNK", 300)
    yield


@pytest.fixture
def large(tmp_path: Path) -> Large:
    made = Large(tmp_path)
    made.run()
    return made


def test_a_changed_file_leaves_the_large_file_as_it_is(large: Large) -> None:
    before = large.path.read_bytes()
    large.put("f3.csv", 33)
    large.put("g.csv", 9)
    (large.folder / "data" / "f5.csv").unlink()
    large.run()
    assert large.path.read_bytes() == before
    (line,) = large.since.read_text().splitlines()
    files = json.loads(line)["record"]["files"]
    assert sorted(files) == ["f3.csv", "f5.csv", "g.csv"] and files["f5.csv"] is None
    assert large.shown() == large.logged() and "g.csv" in large.shown() and "f5.csv" not in large.shown()
    assert large.rows() == [0, 1, 2, 4, 6, 7, 9, 33]


def test_with_nothing_to_do_that_is_seen_at_a_glance(large: Large) -> None:
    large.put("f3.csv", 33)
    large.run()
    assert large.since.exists()
    assert isinstance(large.look().plan.files, AllUnchanged)
    before = large.since.read_bytes()
    assert not large.run().tables[0].published or large.since.read_bytes() == before
    os.utime(large.folder / "data" / "f1.csv", (OLD + 1, OLD + 1))
    assert large.verdicts == {"f1.csv": "touched"}
    large.run()
    assert isinstance(large.look().plan.files, AllUnchanged)
    assert len(large.since.read_text().splitlines()) == 2


def test_a_small_one_is_written_as_always(large: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes_module, "LARGE", 100)
    large.put("f3.csv", 33)
    large.run()
    assert not large.since.exists()
    assert {key: one["hash"] for key, one in json.loads(large.path.read_text())["files"].items()} == {
        key: one[1] for key, one in large.logged().items()
    }


def test_it_is_written_when_much_has_changed(large: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes_module, "_LEAST", 2)
    for number, lines in enumerate((1, 2, 0, 1)):
        large.put("f1.csv" if number % 2 else "f2.csv", 40 + number, OLD + number + 1)
        large.run()
        assert (len(large.since.read_text().splitlines()) if large.since.exists() else 0) == lines
    assert large.shown() == large.logged()


def test_it_is_written_when_the_same_files_have_changed_again_and_again(
    large: Large, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes_module, "_LEAST_BYTES", 4_000)
    longest = 0
    for number in range(25):
        large.put("f1.csv", number, OLD + number + 1)
        large.run()
        longest = max(longest, large.since.stat().st_size if large.since.exists() else 0)
    assert 4_000 < longest < 6_000, "each look decodes all of it"
    assert large.shown() == large.logged() and isinstance(large.look().plan.files, AllUnchanged)


def test_one_that_was_written_with_what_came_since_is_the_one_written_at_once(large: Large) -> None:
    large.put("f3.csv", 33)
    large.run()
    write_manifests(load_config(large.folder), "t", Watch())
    assert not large.since.exists()
    at_once = large.path.read_bytes()
    large.path.unlink()
    manifest = json.loads(at_once)
    assert manifest["lading"]["sequence"] == 2 and sorted(manifest["files"]) == sorted(large.logged())
    large.path.write_bytes(at_once)
    assert isinstance(large.look().plan.files, AllUnchanged)


# ---------------------------------------------------------------------------------------- what people ask for


@pytest.mark.parametrize("how", ["removed", "changed", "failed"])
def test_an_entry_that_somebody_edits_is_read_again(large: Large, how: str) -> None:
    large.put("f3.csv", 33)
    large.run()

    def change(files: dict[str, Any]) -> None:
        if how == "removed":
            del files["f6.csv"]
        elif how == "changed":
            files["f6.csv"]["hash"] = "mtime:1.0_size:1"
        else:
            files["f6.csv"]["status"] = "failed"

    large.edit(change)
    assert large.verdicts == {"f6.csv": "failed" if how == "failed" else "reread"}
    report = large.run()
    assert report.tables[0].rows_added == report.tables[0].rows_removed == 1
    assert large.verdicts == {} and large.shown() == large.logged()
    assert large.rows() == [0, 1, 2, 4, 5, 6, 7, 33]


def test_what_was_read_since_is_rolled_forward_whatever_the_old_entry_says(large: Large) -> None:
    large.put("f3.csv", 33)
    large.run()
    large.edit(lambda files: files.pop("f3.csv"))
    assert large.verdicts == {}, "it stands in the other file, and in the log"
    assert large.shown() == large.logged()


@pytest.mark.parametrize("layout", ["compact", "unsorted", "another indent"])
def test_a_file_of_another_layout_is_understood(large: Large, layout: str) -> None:
    large.put("f3.csv", 33)
    large.run()
    tree = json.loads(large.path.read_text())
    del tree["files"]["f6.csv"]
    if layout == "unsorted":
        tree["files"] = dict(reversed(tree["files"].items()))
    indent = {"compact": None, "unsorted": 2, "another indent": 4}[layout]
    large.path.write_text(json.dumps(tree, indent=indent))
    assert large.verdicts == {"f6.csv": "reread"}


def test_what_others_put_into_entries_stays(large: Large) -> None:
    large.edit(lambda files: files["f2.csv"].update(note="mine"))
    large.run()
    large.put("f3.csv", 33)
    large.run()
    assert large.since.exists()
    write_manifests(load_config(large.folder), "t", Watch())
    assert json.loads(large.path.read_text())["files"]["f2.csv"]["note"] == "mine"
    assert not large.since.exists()


def test_a_missing_file_asks_for_everything_whatever_lies_beside_it(large: Large) -> None:
    large.put("f3.csv", 33)
    large.run()
    large.path.unlink()
    assert set(large.verdicts.values()) == {"reread"} and len(large.verdicts) == 8
    large.run()
    assert not large.since.exists() and large.shown() == large.logged()


def test_reset_asks_for_a_file_that_was_read_since(large: Large) -> None:
    large.put("f3.csv", 33)
    large.run()
    assert forget_files(large.path, ["f3.csv"]) == ["f3.csv"]
    assert large.verdicts == {"f3.csv": "reread"}
    large.run()
    assert large.verdicts == {} and large.shown() == large.logged()
    assert len(forget_table(large.path)) == 8 and not large.path.exists() and not large.since.exists()


def test_a_torn_file_is_named_and_no_plan_is_made_of_it(large: Large) -> None:
    large.path.write_bytes(large.path.read_bytes()[:-300])
    with pytest.raises(lading.LadingError, match=r"t\.json is not a source manifest"):
        large.look()


def test_an_edit_while_the_entries_are_walked_is_a_conflict_and_no_mixture(large: Large) -> None:
    manifest = load(large.path)
    assert manifest is not None
    entries = manifest.entries()
    next(entries)
    large.edit(lambda files: files.pop("f6.csv"))
    with pytest.raises(Conflict, match="was changed while it was being read"):
        list(manifest.entries())


def test_what_somebody_asks_for_while_a_run_is_under_way_is_not_lost(
    large: Large, monkeypatch: pytest.MonkeyPatch
) -> None:
    large.put("f3.csv", 33)
    real = record_module.record_sources

    def edited_before(*args: Any, **options: Any) -> None:
        large.edit(lambda files: files.pop("f6.csv"))
        real(*args, **options)

    monkeypatch.setattr("lading.run.record_sources", edited_before)
    large.run()
    assert large.verdicts == {"f6.csv": "failed"}


# ---------------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize("damage", ["lost", "torn", "edited", "of another file", "empty"])
def test_without_what_was_recorded_since_the_log_says_it(large: Large, damage: str) -> None:
    for value in (33, 34):
        large.put("f3.csv", value, OLD + value)
        large.run()
    lines = large.since.read_bytes()
    if damage == "lost":
        large.since.unlink()
    else:
        large.since.write_bytes(
            {
                "torn": lines[:-5],
                "edited": lines.replace(b'"rows_rejected"', b'"rows_refused"').replace(b"success", b"failed"),
                "of another file": lines.replace(b'"files_xxh3":"', b'"files_xxh3":"0'),
                "empty": b"",
            }[damage]
        )
    assert large.verdicts == {}
    large.put("f4.csv", 44)
    assert large.verdicts == {"f4.csv": "changed"}
    large.run()
    assert large.shown() == large.logged() and large.verdicts == {}
    assert large.rows() == [0, 1, 2, 5, 6, 7, 34, 44]


def test_a_kill_between_the_large_file_and_what_lies_beside_it_is_harmless(large: Large) -> None:
    large.put("f3.csv", 33)
    (large.folder / "data" / "f5.csv").unlink()
    large.run()
    left = large.since.read_bytes()
    large.put("f3.csv", 333)
    large.put("f5.csv", 5)
    large.run()
    write_manifests(load_config(large.folder), "t", Watch())
    large.since.write_bytes(left)  # it was to go, and didn't
    assert large.shown() == large.logged() and large.verdicts == {}
    large.put("f3.csv", 3333)
    large.run()
    assert large.shown() == large.logged() and large.verdicts == {}


def _killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_run_that_is_killed_before_it_records_is_rolled_forward(
    large: Large, monkeypatch: pytest.MonkeyPatch
) -> None:
    large.put("f3.csv", 33)
    large.run()
    large.put("f4.csv", 44)
    (large.folder / "data" / "f5.csv").unlink()
    with monkeypatch.context() as patched:
        patched.setattr(
            "lading.run.record_sources", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            large.run()
    assert large.shown() != large.logged() and large.verdicts == {}
    large.run()
    assert large.shown() == large.logged()
    assert large.rows() == [0, 1, 2, 6, 7, 33, 44]


def test_what_another_process_committed_is_in_the_file_that_is_written_next(large: Large) -> None:
    large.put("f3.csv", 33)
    seen = large.look()
    large.run()
    record_module.record_sources(seen, {"f1.csv": "torn"}, settled=False)  # of a run that knows nothing of it
    assert large.verdicts == {"f1.csv": "failed"}
    large.run()
    assert large.verdicts == {} and large.shown() == large.logged()


def test_a_file_that_cannot_be_read_is_shown_as_failed_and_tried_again(large: Large) -> None:
    large.put("f3.csv", 33)
    large.run()
    before = large.path.read_bytes()
    large.put("f4.csv", "not a number")
    large.put("new.csv", "nor this")
    with pytest.raises(lading.LadingError):
        large.run()
    assert large.path.read_bytes() == before
    bad = [key for key, one in large.shown().items() if one[0] == "failed"]
    assert bad and set(bad) <= {"f4.csv", "new.csv"}
    assert large.verdicts[bad[0]] == "failed"
    large.put("f4.csv", 44)
    (large.folder / "data" / "new.csv").unlink()
    large.run()
    assert large.verdicts == {} and large.shown() == large.logged()


def test_another_file_in_its_place_is_noticed_by_where_it_lay(large: Large) -> None:
    large.put("f3.csv", 3, OLD + 1)
    large.run()
    assert large.since.exists(), "where it lay is recorded there"
    large.put("f3.csv.new", 3, OLD + 1)
    (large.folder / "data" / "f3.csv.new").rename(large.folder / "data" / "f3.csv")
    assert large.verdicts == {"f3.csv": "touched"}


def test_a_merge_changes_no_entry(large: Large) -> None:
    large.put("f3.csv", 33)
    large.run()
    merge_table(load_config(large.folder), "t", watch=Watch())
    assert large.verdicts == {}
    large.run()
    assert large.shown() == large.logged()


@pytest.mark.parametrize("changed", [False, True])
def test_after_a_merge_the_large_file_is_not_written_either(large: Large, changed: bool) -> None:
    before = large.path.read_bytes()
    large.put("g.csv", 9)
    large.run()
    assert merge_table(load_config(large.folder), "t", watch=Watch()).parts_removed
    if changed:
        large.put("f3.csv", 33)
        (large.folder / "data" / "f5.csv").unlink()
    large.run()
    assert large.path.read_bytes() == before and len(large.since.read_text().splitlines()) == 2
    assert large.shown() == large.logged()
    assert isinstance(large.look().plan.files, AllUnchanged)


@pytest.mark.parametrize("how", ["read", "retracted"])
def test_what_others_recorded_behind_the_file_is_written_whole(large: Large, how: str) -> None:
    """Their commit is no merge: what the file lacks isn't what this run read."""
    path, before = large.path, large.path.read_bytes()
    if how == "read":
        large.put("f3.csv", 33)
    else:
        (large.folder / "data" / "f3.csv").unlink()
    large.run()
    path.write_bytes(before)
    large.since.unlink()  # as if that run had been killed before it recorded anything
    large.put("f4.csv", 44)
    large.run()
    assert path.read_bytes() != before and not large.since.exists()
    assert large.shown() == large.logged()


def test_status_says_what_the_file_shows(large: Large) -> None:
    (one,) = status(load_config(large.folder))
    assert (one.manifest_sequence, one.note) == (1, None)
    large.put("f3.csv", 33)
    large.run()
    (one,) = status(load_config(large.folder))
    assert one.manifest_sequence == 1 and one.sequence == 2
    assert one.note is not None and "manifest/t.json is of sequence 1" in one.note


def test_whatever_happens_a_large_one_says_what_a_small_one_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tables of the same files. People edit only what both show."""
    chance = random.Random(17)
    large = Large(tmp_path / "large")
    small = Large(tmp_path / "small", 0)
    (small.folder / "data").symlink_to(large.folder / "data")
    value = 100
    for _ in range(25):
        for _ in range(chance.randint(0, 3)):
            value += 1
            key = f"f{chance.randint(0, 11)}.csv"
            path = large.folder / "data" / key
            if chance.random() < 0.25 and path.exists() and len(list(path.parent.iterdir())) > 5:
                path.unlink()
            elif chance.random() < 0.2 and path.exists():
                os.utime(path, (OLD + value, OLD + value))
            else:
                large.put(key, value, OLD + value)
        if large.path.exists() and chance.random() < 0.3:
            edited = _edit_both(chance, large, small)
            assert edited is None or large.verdicts.get(edited, "vanished") != "unchanged"
        if chance.random() < 0.15:
            large.since.unlink(missing_ok=True)
        assert large.verdicts == small.verdicts or not large.path.exists()
        for one, limit in ((large, 3), (small, 1_000)):
            monkeypatch.setattr(changes_module, "LARGE", limit)
            monkeypatch.setattr(changes_module, "_LEAST", chance.choice([2, 6, 100]))
            one.run()
        assert large.shown() == large.logged() == small.shown()
        assert large.rows() == small.rows()
        assert large.verdicts == small.verdicts == {}


def _edit_both(chance: random.Random, large: Large, small: Large) -> str | None:
    manifest = load(large.path)
    assert manifest is not None
    written = json.loads(large.path.read_text())["files"]
    keys = sorted(written.keys() - manifest.since.files.keys())
    if not keys:
        return None
    key, how = chance.choice(keys), chance.choice(["removed", "changed"])

    def change(files: dict[str, Any]) -> None:
        if how == "removed":
            del files[key]
        else:
            files[key]["hash"] = "mtime:1.0_size:1"

    large.edit(change)
    small.edit(change)
    return key


# ------------------------------------------------------------------------------------------- manifest.json


@pytest.fixture
def many_parts(large: Large, monkeypatch: pytest.MonkeyPatch) -> Large:
    """A table whose manifest.json was written before it came to have too many parts."""
    monkeypatch.setattr(record_module, "SMALL", 0)
    monkeypatch.setattr("lading.upkeep.verify.SMALL", 0)
    return large


def table_manifest(large: Large) -> Any:
    path = large.folder / "warehouse" / "t" / "manifest.json"
    return json.loads(path.read_text()) if path.exists() else None


def named_parts(large: Large) -> set[str]:
    folder = large.folder / "warehouse" / "t"
    return {
        str(folder / f"bucket={key}" / part["path"])
        for key, bucket in table_manifest(large)["partitions"].items()
        for part in bucket["parts"]
    }


def test_a_run_leaves_the_manifest_of_many_parts_as_it_is_and_all_that_it_names_is_there(
    many_parts: Large,
) -> None:
    before = table_manifest(many_parts)
    many_parts.put("f3.csv", 33)
    many_parts.run()
    assert table_manifest(many_parts) == before and before["lading"]["sequence"] == 1
    assert all(os.path.exists(path) for path in named_parts(many_parts))


def test_cleaning_writes_it_before_what_it_names_goes(many_parts: Large) -> None:
    for value in (33, 34):
        many_parts.put("f3.csv", value, OLD + value)
        many_parts.run()
    gone = {str(path) for path in many_parts.folder.glob("warehouse/t/bucket=*/*.parquet")}
    config = load_config(many_parts.folder)
    report = clean(config, "t", Rules(keep_runs=1, grace=timedelta(0)), apply=True)
    gone -= {str(path) for path in many_parts.folder.glob("warehouse/t/bucket=*/*.parquet")}
    assert report.deleted and gone
    assert table_manifest(many_parts)["lading"]["sequence"] == 3
    assert all(os.path.exists(path) for path in named_parts(many_parts))


def test_cleaning_makes_none_that_nobody_asked_for(many_parts: Large) -> None:
    (many_parts.folder / "warehouse" / "t" / "manifest.json").unlink()
    clean(load_config(many_parts.folder), "t", Rules(grace=timedelta(0)), apply=True)
    assert table_manifest(many_parts) is None


def test_it_is_written_when_somebody_asks_and_until_then_verify_says_how(many_parts: Large) -> None:
    many_parts.put("new.csv", 33)
    many_parts.run()
    config = load_config(many_parts.folder)
    found, _ = verify(config, "t", watch=Watch())
    assert found.whole
    assert [one.remedy for one in found.findings if one.about == "manifest"] == ["lading manifest write t"]
    assert write_manifests(config, "t", Watch()).files == ("manifest/t.json", "manifest.json")
    assert table_manifest(many_parts)["lading"]["sequence"] == 2
    found, _ = verify(config, "t", watch=Watch())
    assert not found.findings


def test_a_source_manifest_that_asks_for_files_is_left_for_the_run_that_reads_them(large: Large) -> None:
    large.edit(lambda files: files.pop("f6.csv"))
    edited = large.path.read_bytes()
    written = write_manifests(load_config(large.folder), "t", Watch())
    assert written.left is not None and written.files == ("manifest.json",)
    assert large.path.read_bytes() == edited and large.verdicts == {"f6.csv": "reread"}
