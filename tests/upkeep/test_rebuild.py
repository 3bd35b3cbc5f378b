"""Rebuilding a log from whatever is left, and saying what could not be decided."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sqlite3
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from support.memory_bucket import MemoryBucket, connect, no_answer
from support.places import new_place

import lading
from lading import catalog
from lading.cli.main import invoke
from lading.errors import LogCorrupt, ManifestStoreError, NotFound, StorageError
from lading.ingest.ledger import is_of, make_ledger
from lading.log.check import check_collection
from lading.log.table import Table
from lading.model import Commit, Member, Source
from lading.parts.fold import Fold, FoldSpec, fold_parts
from lading.parts.footer import Origin
from lading.parts.rewrite import rewrite_members
from lading.parts.write import PartWriter
from lading.snapshots.manifest import BuildMeta, build_snapshot
from lading.snapshots.stores.files import FileStore, LocalStore
from lading.snapshots.stores.protocol import ManifestStore
from lading.sources.manifest import FileEntry, SourceManifest, load, save
from lading.upkeep.verify import broken_members

SCHEMA = pa.schema([("k", pa.int64()), ("_source", pa.int64())])


class Built:
    """A small table, commit by commit, as runs make it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table = Table.create(folder, "events")
        self.runs = 0

    def origin(self) -> Origin:
        self.runs += 1
        return Origin(self.table.table_id, f"run-{self.runs:03}", f"c{self.runs}", "k")

    def part(self, rows: dict[int, int], bucket: int = 0) -> Member:
        """`rows`: key to source."""
        writer = PartWriter(str(self.folder), bucket, SCHEMA, self.origin())
        writer.write(pa.table({"k": sorted(rows), "_source": [rows[key] for key in sorted(rows)]}, SCHEMA))
        return writer.close()

    def commit(self, **edits) -> None:
        if self.table.state.sequence == 0:
            edits |= {"schema": SCHEMA.serialize().to_pybytes(), "order_by": "k"}
        self.table.commit(Commit(f"c{self.runs}", f"run-{self.runs:03}", "2024-01-01", "recipe", **edits))

    def publish(self, store: ManifestStore | None = None) -> None:
        state = self.table.state
        meta = BuildMeta(run_id=f"run-{self.runs:03}", created_at=datetime.now(UTC))
        payload = build_snapshot(meta, (), lambda con: state.settled().write_root(con, state.meta))
        (store or LocalStore(self.folder)).publish(payload, meta.run_id, sequence=state.sequence)

    def keys(self) -> list[int]:
        return sorted(lading.Collection(self.folder).scan(columns=["k"]).to_table()["k"].to_pylist())


def source(number: int) -> Source:
    return Source(number, f"f{number}.csv", "h", "s", 1, 1, 1, False, "2024-01-01")


@pytest.fixture
def built(tmp_path: Path) -> Built:
    """Three commits: two parts, then one of them replaced; the snapshot is of the second."""
    built = Built(tmp_path / "events")
    old = built.part({1: 7, 2: 8})
    built.commit(add=(old,), sources=(source(7), source(8)))
    built.commit(add=(built.part({100: 9}, bucket=1),), sources=(source(9),))
    built.publish()
    [kept] = rewrite_members(
        str(built.folder),
        [old],
        frozenset({7}),
        table_id=built.table.table_id,
        run_id="run-003",
        commit_id="c3",
        order_by="k",
    )
    built.runs = 3
    built.commit(add=(kept, built.part({5: 7})), remove=(old.path,), sources=(source(7),))
    built.old = old  # type: ignore[attr-defined]
    return built


def damage(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x20
    path.write_bytes(data)


def rows_of(manifest: catalog.TableManifest) -> dict[str, int]:
    return {key: partition.row_count for key, partition in manifest.partitions.items()}


def test_a_whole_log_is_left_alone_and_the_manifest_is_written(built):
    before = (built.folder / "manifest.log").read_bytes()
    found = lading.Collection.rebuild(built.folder)
    assert (found.found_in, found.written, found.members, found.undecided) == ("log", False, 3, ())
    assert (built.folder / "manifest.log").read_bytes() == before
    assert rows_of(catalog.load(built.folder)) == {"000000": 2, "000001": 1}
    assert rows_of(catalog.rebuild(built.folder)) == {"000000": 2, "000001": 1}


def test_a_log_damaged_in_the_middle_is_restored_up_to_there_and_says_what_is_lost(built):
    built.folder.joinpath("_CURRENT").unlink()
    log = built.folder / "manifest.log"
    damage(log, log.read_bytes().index(b"LDGF", log.read_bytes().index(b"LDGF") + 4) + 40)  # the second
    with pytest.raises(LogCorrupt):
        Table.open(built.folder)
    found = lading.Collection.rebuild(built.folder)
    assert (found.found_in, found.written) == ("log", True)
    assert any("1 commit after the damage" in text for text in found.undecided)
    assert any("part files are not in the restored state" in text for text in found.undecided)
    assert built.keys() == [1, 2]
    assert [name for name in found.kept if (built.folder / name).is_file()] == list(found.kept) != []


def test_without_log_and_checkpoint_the_snapshot_that_readers_see_is_restored(built):
    (built.folder / "manifest.log").unlink()
    found = lading.Collection.rebuild(built.folder)
    assert (found.found_in, found.members, found.rows) == ("snapshot", 2, 3)
    assert built.keys() == [1, 2, 100]
    assert sorted(Table.open(built.folder).state.sources()) == ["f7.csv", "f8.csv", "f9.csv"]


def test_a_restored_log_goes_on_above_the_pointer_under_its_old_id(built):
    old_id = built.table.table_id
    (built.folder / "manifest.log").unlink()
    lading.Collection.rebuild(built.folder)
    built.table = Table.open(built.folder)
    current = LocalStore(built.folder).load_current()
    assert built.table.state.sequence > current.sequence
    assert built.table.state.meta.data_sequence <= current.sequence, "readers see just that already"
    assert built.table.table_id == old_id, "every part and snapshot names it"
    built.commit(add=(built.part({200: 10}),))
    built.publish()
    with lading.open(built.folder) as reader:
        assert reader.rows == 4


def test_a_checkpoint_with_the_frames_behind_it_beats_an_older_snapshot(built):
    built.table.checkpoint()
    built.commit(add=(built.part({300: 11}),))
    damage(built.folder / "manifest.log", 20)  # the header: the frames can't be trusted to be this table's
    found = lading.Collection.rebuild(built.folder)
    assert found.found_in == "checkpoint"
    assert built.keys() == [2, 5, 100]
    assert any("commits after the restored state are lost" in text for text in found.undecided)


def test_a_damaged_checkpoint_of_a_compacted_log_falls_back_to_the_snapshot_and_the_log_behind_it(built):
    built.publish()
    built.table.compact()
    built.commit(add=(built.part({300: 11}),))
    database = built.folder / "manifest.db"
    with sqlite3.connect(database) as con:
        con.execute("UPDATE pages SET rows = rows + 1 WHERE kind = 'members'")
    found = lading.Collection.rebuild(built.folder)
    assert found.found_in == "snapshot"
    assert built.keys() == [2, 5, 100, 300]


def test_from_files_alone_a_replaced_part_is_not_brought_back(built):
    for name in ("manifest.log", "_CURRENT"):
        (built.folder / name).unlink()
    shutil.rmtree(built.folder / "manifests")
    found = lading.Collection.rebuild(built.folder)
    assert found.found_in == "files"
    assert built.keys() == [2, 5, 100]
    assert any(built.old.path in text and "left out" in text for text in found.undecided)
    state = Table.open(built.folder).state
    assert state.meta.recipe == "", "so that the next run reads everything again"
    assert state.order_by == "k"


def test_from_files_alone_a_part_that_shares_a_source_with_a_later_commit_is_left_out_aloud(tmp_path):
    built = Built(tmp_path / "events")
    first = built.part({1: 7, 2: 8})
    built.commit(add=(first,))
    second = built.part({5: 7})
    built.commit(add=(second,), minus=((first.path, (7,)),))
    (built.folder / "manifest.log").unlink()
    found = lading.Collection.rebuild(built.folder)
    assert built.keys() == [5]
    [said] = [text for text in found.undecided if first.path in text]
    assert "whether it was replaced is not recorded anywhere" in said


def test_from_files_alone_merged_parts_count_once(tmp_path):
    built = Built(tmp_path / "events")
    old = [built.part({1: 7}), built.part({2: 8})]
    built.commit(add=tuple(old))
    spec = FoldSpec(str(built.folder), built.origin(), SCHEMA.serialize().to_pybytes())
    built.commit(add=tuple(fold_parts(Fold(0, tuple(old)), spec)), remove=tuple(m.path for m in old))
    (built.folder / "manifest.log").unlink()
    lading.Collection.rebuild(built.folder)
    assert built.keys() == [1, 2]


def test_from_files_alone_parts_of_other_types_are_read_as_the_newest_has_them(tmp_path):
    built = Built(tmp_path / "events")
    for types, values in (((pa.int64(), pa.int64()), (5, 6)), ((pa.string(), pa.int64()), ("x", 7))):
        schema = pa.schema([("k", pa.int64()), *zip(("v", "w"), types, strict=True), ("_source", pa.int64())])
        writer = PartWriter(str(built.folder), 0, schema, built.origin())
        keys = {name: [value] for name, value in zip(("v", "w"), values, strict=True)}
        writer.write(pa.table({"k": [built.runs], **keys, "_source": [built.runs]}, schema=schema))
        last = writer.close()
        if built.runs == 1:
            first = last
    (built.folder / "manifest.log").unlink()
    restored = lading.Collection.rebuild(built.folder)
    assert [one for one in restored.undecided if "other types" in one] == [
        f"{first.path} has other types than the newest part, which may not be able to hold its values"
    ]
    found = lading.Collection(built.folder)
    assert sorted(found.scan(columns=["k", "v", "w"]).to_table().to_pylist(), key=lambda row: row["k"]) == [
        {"k": 1, "v": "5", "w": 6},
        {"k": 2, "v": "x", "w": 7},
    ]
    assert found.scan(where="v = '5'").to_table()["k"].to_pylist() == [1]


def test_rebuild_of_the_manifest_alone_writes_nothing(built):
    before = {path: path.read_bytes() for path in built.folder.rglob("*") if path.is_file()}
    (built.folder / "manifest.log").rename(built.folder / "aside")
    assert rows_of(catalog.rebuild(built.folder)) == {"000000": 2, "000001": 1}, "from the snapshot"
    (built.folder / "_CURRENT").rename(built.folder / "aside2")
    assert rows_of(catalog.rebuild(built.folder, "events")) == {"000000": 4, "000001": 1}, "from the files"
    (built.folder / "aside").rename(built.folder / "manifest.log")
    (built.folder / "aside2").rename(built.folder / "_CURRENT")
    assert {path: path.read_bytes() for path in built.folder.rglob("*") if path.is_file()} == before


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(NotFound, match="no folder"):
        lading.Collection.rebuild(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("kind", ["local", "postgres", "s3"])
def test_the_snapshot_may_lie_in_a_store_elsewhere(built, tmp_path, kind, request):
    place = new_place(kind, request, tmp_path)
    place = dataclasses.replace(place, table="events")
    built.publish(place.open())
    (built.folder / "_CURRENT").unlink()
    (built.folder / "manifest.log").unlink()
    found = lading.Collection.rebuild(built.folder, store=place.open())
    assert (found.found_in, found.members) == ("snapshot", 3)
    assert built.keys() == [2, 5, 100]
    assert Table.open(built.folder).state.sequence > place.open().load_current().sequence


def test_the_command_looks_into_the_store_of_the_project(tmp_path, monkeypatch, capsys):
    project = tmp_path / "project"
    built = Built(project / "warehouse" / "events")
    built.commit(add=(built.part({1: 7}),), sources=(source(7),))
    built.publish(LocalStore(tmp_path / "manifests" / "events"))
    (built.folder / "manifest.log").unlink()
    tables = "tables:\n  events:\n    path: '*.csv'\n    format: csv\n"
    (project / "lading.yaml").write_text(f"store: {tmp_path / 'manifests'}\n{tables}")
    monkeypatch.chdir(project)
    assert invoke(["collection", "rebuild", "warehouse/events", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["found_in"] == "snapshot"
    assert built.keys() == [1]


def test_a_damaged_pointer_is_no_help_and_no_obstacle(built):
    (built.folder / "manifest.log").unlink()
    (built.folder / "_CURRENT").write_text("{")
    assert lading.Collection.rebuild(built.folder).found_in == "files"


def test_a_store_that_does_not_answer_is_an_error_and_nothing_is_written(built):
    """It may have the snapshot: the files alone would be a worse answer."""
    (built.folder / "manifest.log").unlink()
    before = sorted(path.name for path in built.folder.iterdir())
    with pytest.raises(ManifestStoreError):
        lading.Collection.rebuild(built.folder, store="postgresql://nobody@127.0.0.1:1/none")
    assert sorted(path.name for path in built.folder.iterdir()) == before


def _lose_everything(built: Built) -> None:
    (built.folder / "manifest.log").unlink()
    (built.folder / "_CURRENT").unlink()


def _damage_the_log(built: Built) -> None:
    (built.folder / "_CURRENT").unlink()
    log = built.folder / "manifest.log"
    damage(log, log.read_bytes().index(b"LDGF", log.read_bytes().index(b"LDGF") + 4) + 40)  # the second


def _lose_the_log(built: Built) -> None:
    built.table.checkpoint()
    (built.folder / "manifest.log").unlink()


@pytest.mark.parametrize(
    "lose, found_in",
    [
        (_lose_the_log, "checkpoint"),
        (lambda built: (built.folder / "manifest.log").unlink(), "snapshot"),
        (_damage_the_log, "log"),
        (_lose_everything, "files"),
    ],
    ids=["checkpoint", "snapshot", "log", "files"],
)
def test_a_rebuilt_log_keeps_the_tables_id_whatever_it_was_rebuilt_from(built, lose, found_in):
    old_id = built.table.table_id
    lose(built)
    found = lading.Collection.rebuild(built.folder)
    assert (found.found_in, found.written) == (found_in, True)
    table = Table.open(built.folder)
    assert table.table_id == old_id
    assert broken_members(table, table.state.candidates(None)) == []


def test_an_id_that_parts_disagree_about_is_not_guessed(tmp_path):
    built = Built(tmp_path / "events")
    built.commit(add=(built.part({1: 7}),))
    other = Built(tmp_path / "other")
    other.part({2: 8})
    shutil.copytree(other.folder / "bucket=000000", built.folder / "bucket=000000", dirs_exist_ok=True)
    old_id = built.table.table_id
    (built.folder / "manifest.log").unlink()
    lading.Collection.rebuild(built.folder)
    assert Table.open(built.folder).table_id not in (old_id, other.table.table_id)


def test_a_rebuilt_log_goes_on_above_snapshots_that_readers_never_saw(built):
    """One that a gate refused, of commits that are lost: it must not be taken for what the log holds."""
    state = built.table.state
    meta = BuildMeta(
        run_id="hidden",
        created_at=datetime.now(UTC),
        custom={"table_id": built.table.table_id, "sequence": state.sequence + 20},
    )
    payload = build_snapshot(meta, (), lambda con: state.settled().write_root(con, state.meta))
    LocalStore(built.folder).put_manifest(payload, "hidden", None)
    _lose_the_log(built)
    assert lading.Collection.rebuild(built.folder).sequence > state.sequence + 20


def test_a_source_manifest_of_the_lost_log_is_not_taken_for_up_to_date(built):
    """The rebuilt log has the same id and may come to the same sequence: the time of the commit tells."""
    state = built.table.state
    _lose_the_log(built)
    lading.Collection.rebuild(built.folder)
    rebuilt = Table.open(built.folder).state
    entry = FileEntry(hash="h", last_processed="2024-01-01", status="success", metadata={})
    lost = dict.fromkeys(("f7.csv", "f8.csv", "f9.csv", "lost.csv"), entry)
    same = {"table_id": state.meta.table_id, "sequence": rebuilt.sequence, "at": state.meta.at}
    manifest = SourceManifest("events", lost, lading=same)
    save(built.folder / "events.json", manifest)
    loaded = load(built.folder / "events.json")
    assert loaded is not None and not is_of(loaded, rebuilt)
    ledger = make_ledger(loaded, rebuilt, "manifest/events.json")
    assert ledger.behind and "lost.csv" not in ledger.known


def test_a_store_that_does_not_answer_is_not_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole log was written anew, without its last commits; found by the simulation."""
    bucket = MemoryBucket()
    connect(bucket, monkeypatch)
    table = Table.create(bucket.url, "t")
    table.commit(Commit("c", "r", "2030-01-01T00:00:00+00:00", "recipe"))
    table.checkpoint()
    before = dict(bucket._objects)
    for asked in range(1, 12):
        left = [asked]

        def silent(kind: str, name: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                no_answer()

        bucket.before = silent
        with suppress(StorageError, ManifestStoreError):
            assert not lading.Collection.rebuild(bucket.url, store=FileStore(bucket)).written
        assert bucket._objects == before


def test_checking_says_that_there_was_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = MemoryBucket()
    connect(bucket, monkeypatch)
    Table.create(bucket.url, "t").close()
    bucket.before = lambda kind, name: no_answer()
    with pytest.raises(StorageError):
        check_collection(bucket.url)
