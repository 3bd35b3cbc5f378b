"""Verify names what is wrong and the command for it; repair does what it safely can."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.servers import S3Server
from support.shardyfusion import Writer
from support.world import BucketWorld, World

import lading
from lading.errors import Conflict, ManifestParseError, StorageError
from lading.ingest.record import write_table_manifest
from lading.layout.table import NOBODY
from lading.model import Commit, SnapshotRef
from lading.snapshots.history import Wanted
from lading.snapshots.stores.files import LocalStore
from lading.upkeep.clean.apply import clean
from lading.upkeep.clean.survey import Rules
from lading.upkeep.repair import Repaired, repair
from lading.upkeep.rollback import roll_back
from lading.upkeep.verify import Finding, verify
from lading.watch import Watch


@pytest.fixture(params=["folder", "bucket"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A table in each kind of place: what is wrong is told and mended alike."""
    if request.param == "folder":
        yield filled(World(tmp_path / "project"))
        return
    server: S3Server = request.getfixturevalue("s3_server")
    made = BucketWorld(tmp_path / "project", f"{server.bucket('repair')}/{uuid.uuid4().hex}", server)
    yield filled(made)
    made.close()


def filled(world: World) -> World:
    world.run(rows=5)
    world.run(rows=2)
    table = world.table()
    write_table_manifest(table)
    table.close()
    return world


def name_of(world: World, ref: str) -> str:
    """A manifest's file, relative to the root."""
    return ref.removeprefix(f"{world.where}/")


def wrong(world: World) -> list[Finding]:
    found, _ = verify(world.config, "t", watch=Watch())
    return [one for one in found.findings if one.level == "error"]


def mended(world: World) -> Repaired:
    return repair(world.config, "t", watch=Watch())


def rows(world: World) -> int:
    with world.open() as reader:
        return reader.scan().to_table().num_rows


def test_a_whole_table_is_told_whole_and_repair_leaves_it_alone(world: World) -> None:
    assert wrong(world) == []
    before = {name: world.read(name) for name in world.names()}
    assert mended(world).done == []
    assert {name: world.read(name) for name in world.names()} == before


@pytest.mark.parametrize("bytes", [b"", b"{", b"\xff\xfe", b'{"manifest_ref": 5}', b"[" * 100_000])
def test_a_malformed_pointer_is_put_back(world: World, bytes: bytes) -> None:
    world.write("_CURRENT", bytes)
    with pytest.raises(ManifestParseError) as caught:
        world.open()
    assert "lading repair" in caught.value.hint
    assert [one.remedy for one in wrong(world)] == ["lading repair t"]
    assert "readers see the snapshot of run" in mended(world).done[0]
    assert wrong(world) == [] and rows(world) == 7


def test_a_lost_pointer_is_put_back_where_it_was_held(world: World) -> None:
    roll_back(world.config, "t", Wanted(offset=1))
    world.write("_CURRENT", b"torn")
    assert "held as it was" in mended(world).done[0]
    current = world.store.load_current()
    assert current is not None and current.held and rows(world) == 5


def test_a_pointer_to_a_damaged_or_absent_manifest_is_moved_to_a_whole_one(world: World) -> None:
    current = world.store.load_current()
    assert current is not None
    world.write(name_of(world, current.ref), b"SQLite format 3\0" + b"x" * 5000)
    assert wrong(world)
    mended(world)
    assert rows(world) == 5, "the newest that is whole; the next run publishes the rest"
    world.remove(name_of(world, current.ref))
    assert wrong(world) == []


def test_a_pointer_to_an_absent_manifest_is_moved_to_a_whole_one(world: World) -> None:
    current = world.store.load_current()
    assert current is not None
    world.remove(name_of(world, current.ref))
    found, _ = verify(world.config, "t", watch=Watch())
    [told] = [one for one in found.findings if one.about == "snapshot"]
    assert told.level == "error" and current.ref in told.message and told.remedy == "lading repair t"
    assert "readers see the snapshot of run" in mended(world).done[0]
    assert rows(world) == 5 and wrong(world) == []


def test_without_any_whole_snapshot_one_is_made_from_the_log(world: World) -> None:
    for listed in world.store.list_manifests():
        world.write(name_of(world, listed.ref), b"nonsense")
    world.write("_CURRENT", b"nonsense")
    mended(world)
    assert rows(world) == 7 and wrong(world) == []


def test_manifest_json_is_written_anew_from_the_log(world: World) -> None:
    whole = world.read("manifest.json")
    world.remove("manifest.json")
    assert [one.message for one in wrong(world)] == ["manifest.json is missing"]
    mended(world)
    assert world.read("manifest.json") == whole
    world.write("manifest.json", b"{")
    assert wrong(world) and mended(world).done and world.read("manifest.json") == whole
    told = json.loads(whole)
    told["partitions"] = {}
    world.write("manifest.json", json.dumps(told).encode())
    assert "doesn't match the log" in wrong(world)[0].message
    mended(world)
    assert world.read("manifest.json") == whole


def checkpoint_of(world: World) -> str:
    """Write one; its file."""
    table = world.table()
    table.checkpoint()
    table.close()
    return max(name for name in world.names() if name == "manifest.db" or name.startswith("checkpoint/"))


@pytest.mark.parametrize("damage", ["cut", "flipped", "nonsense"])
def test_a_damaged_checkpoint_is_written_anew_while_the_log_is_whole(world: World, damage: str) -> None:
    name = checkpoint_of(world)
    data = world.read(name)
    flipped = bytearray(data)
    flipped[-200] ^= 1
    world.write(name, {"cut": data[:5000], "flipped": bytes(flipped), "nonsense": b"nonsense"}[damage])
    if not wrong(world):
        assert damage == "flipped"  # in a page that holds nothing
        return
    [finding] = wrong(world)
    assert finding.about == "log" and "lading repair t" in finding.remedy
    assert "written again from the log" in mended(world).done[0]
    assert wrong(world) == [] and rows(world) == 7
    assert [one for one in world.names() if one.startswith(f"{name}.damaged-")], "the damaged one is kept"


def test_what_is_beyond_repair_is_said_and_left_alone(world: World) -> None:
    name = checkpoint_of(world)
    if not isinstance(world, BucketWorld):
        table = world.table()
        table.compact()
        table.close()
    else:
        for one in [one for one in world.names() if one.startswith("log/") and not one.endswith(("0", "2"))]:
            world.remove(one)
    world.write(name, b"nonsense")
    before = {one: world.read(one) for one in world.names()}
    told = mended(world)
    assert told.done == [] and f"lading collection rebuild {world.where}" in told.left[0]
    assert {one: world.read(one) for one in world.names()} == before


def test_a_log_that_is_gone_is_said(world: World) -> None:
    for name in [name for name in world.names() if name.startswith(("log/", "manifest.log"))]:
        world.remove(name)
    [finding] = wrong(world)
    assert finding.about == "log" and finding.message == "its log is gone"
    told = mended(world)
    assert told.done == [] and f"its log is gone: {finding.remedy}" in told.left[0]


@pytest.mark.parametrize("how", ["missing", "shorter", "other rows", "other bytes", "another table"])
def test_a_broken_part_is_named(world: World, how: str) -> None:
    table = world.table()
    member = table.state.candidates(None)[0]
    if how == "missing":
        world.remove(member.path)
    elif how == "shorter":
        world.write(member.path, world.read(member.path)[:-20])
    elif how == "other bytes":
        run = world.begin(parts=0)
        other = world.write_part(run, member.rows, nulls=member.rows)
        world.write(member.path, world.read(other.path))
    else:
        run = world.begin(parts=0)
        other = world.write_part(run, 9 if how == "other rows" else member.rows, table_id="another")
        world.write(member.path, world.read(other.path))
    table.close()
    named = [one for one in wrong(world) if one.file == member.path]
    assert named and all("lading" in one.remedy for one in named)


def committed(world: World, **what: Any) -> None:
    table = world.table()
    table.commit(Commit(uuid.uuid4().hex, "by-hand", world.now.isoformat(), "recipe", **what))
    table.close()


def test_rows_that_the_log_counts_otherwise_are_told(world: World) -> None:
    table = world.table()
    first, second = sorted((one for one, _ in table.state.sources().values()), key=lambda one: one.id)
    table.close()
    committed(world, sources=(msgspec.structs.replace(first, rows=3),))
    [told] = wrong(world)
    assert told.message == f"{first.key} has 5 rows in the parts, not 3"
    assert told.file == first.key and told.remedy == "lading run t --full"
    committed(world, sources=(first,), gone=(second.id,))
    [told] = wrong(world)
    assert told.message == "2 rows in the parts are of no source that the log knows"


def test_rows_that_no_single_file_gave_are_counted_by_no_source(world: World) -> None:
    run = world.begin(parts=0)
    run.number = NOBODY
    committed(world, add=(world.write_part(run, 4),))
    run.table.close()
    assert [one.about for one in wrong(world)] == ["manifest"], "manifest.json is behind, and that is all"


def test_sources_of_a_lost_part_are_asked_to_be_read_again(world: World) -> None:
    table = world.table()
    lost = table.state.candidates(None)[0]
    world.remove(lost.path)
    told = mended(world)
    assert "1 part is broken" in told.done[0] and "lading run t" in told.left[0]
    table.close()


def test_a_dead_run_is_a_note_and_not_an_error(world: World) -> None:
    run = world.begin()
    world.pass_time(days=-2)
    run.handle.heartbeat(world.now)
    found, _ = verify(world.config, "t", watch=Watch())
    assert [one.about for one in found.findings if "died" in one.message] == ["run"]
    assert found.whole


def test_cleaning_waits_for_a_pointer_that_can_be_read(world: World) -> None:
    world.write("_CURRENT", b"torn")
    with pytest.raises(ManifestParseError) as caught:
        clean(world.config, "t", Rules(), apply=True)
    assert "lading repair" in caught.value.hint


@pytest.mark.parametrize("how", ["missing", "shorter", "flipped", "elsewhere"])
def test_a_broken_shard_is_named(world: World, how: str) -> None:
    run = world.begin()
    world.commit(run)
    shard = world.write_shard(run, 0, 0)
    name = f"{name_of(world, str(shard.db_url))}/shard.db"
    if how == "elsewhere":
        away = "s3://elsewhere/t/shards" if "://" in str(shard.db_url) else "../x"
        shard = msgspec.structs.replace(shard, db_url=away)
    world.finish(run, world.publish(run, shards=[shard]))
    table = world.table()
    write_table_manifest(table)
    table.close()
    assert how == "elsewhere" or wrong(world) == []
    data = bytearray(world.read(name))
    if how == "missing":
        world.remove(name)
    elif how == "shorter":
        world.write(name, bytes(data[:-100]))
    elif how == "flipped":
        data[-1] ^= 1
        world.write(name, bytes(data))
    [finding] = wrong(world)
    assert finding.about in ("shard", "snapshot") and "lading" in finding.remedy


def test_a_bucket_that_does_not_answer_is_an_error_and_no_finding(
    tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise everything would be told missing, and `repair` would ask for everything to be read again."""
    from lading.storage import bucket as objects

    server = s3_server
    made = BucketWorld(tmp_path / "project", f"{server.bucket('repair')}/{uuid.uuid4().hex}", server)
    filled(made)
    made.close()
    monkeypatch.setitem(objects.RETRY, "max_retries", 0)
    monkeypatch.setattr(
        objects.ObjectStorage, "head", lambda self, name: (_ for _ in ()).throw(StorageError(name, hint="x"))
    )
    with pytest.raises(StorageError):
        repair(made.config, "t", watch=Watch())


def shardyfusion_publishes(world: World) -> None:
    """In a folder as if copied out of its bucket, which its manifest goes on naming."""
    url = str(world.where) if "://" in str(world.where) else "s3://b/t"
    Writer(url, lambda name, data, content_type: world.write(name, data)).publish({1: b"one"})


def test_a_snapshot_of_shardyfusion_is_no_damage_and_stays(world: World) -> None:
    """Somebody else moved the pointer to it: that is theirs to undo."""
    shardyfusion_publishes(world)
    before = world.store.load_current()
    assert before is not None and not before.swap_id
    found, _ = verify(world.config, "t", watch=Watch())
    assert [one for one in found.findings if one.level == "error"] == []
    [note] = [one for one in found.findings if one.about == "snapshot"]
    assert f"run {before.run_id}, which lading did not write" in note.message
    assert found.checked["shards"] == 1
    assert mended(world).done == [] and world.store.load_current() == before


def test_a_lost_shard_of_shardyfusion_is_named(world: World) -> None:
    shardyfusion_publishes(world)
    [shard] = [name for name in world.names() if name.endswith("shard.db")]
    world.remove(shard)
    assert ["is missing" in one.message for one in wrong(world)] == [True]


def test_a_pointer_that_was_mended_meanwhile_is_not_moved_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = filled(World(tmp_path / "project"))
    current = world.store.load_current()
    assert current is not None
    world.write(current.ref, b"no manifest")
    real, newer = LocalStore.set_current, []

    def set_current(self: LocalStore, ref: str, **more: Any) -> SnapshotRef:
        newer.append(world.run().ref)
        return real(self, ref, **more)

    monkeypatch.setattr(LocalStore, "set_current", set_current)
    with pytest.raises(Conflict, match="the pointer moved meanwhile"):
        mended(world)
    seen = world.store.load_current()
    assert seen is not None and [seen.ref] == newer


@pytest.mark.parametrize("found_in", ["checkpoint", "files"])
def test_a_table_whose_log_was_rebuilt_is_whole_and_can_be_cleaned(world: World, found_in: str) -> None:
    """Every part names the table's id: under another one they would be strangers, never cleaned."""
    table = world.table()
    before = table.table_id
    if found_in == "checkpoint":
        table.checkpoint()
    table.close()
    lost = ["manifest.log", "_CURRENT", "log/"]
    for name in [name for name in world.names() if name.startswith(tuple(lost))]:
        world.remove(name)
    if found_in == "files":
        for name in [name for name in world.names() if name.startswith(("manifests/", "manifest.db"))]:
            world.remove(name)
    options = world.config.s3 if "://" in str(world.where) else None
    restored = lading.Collection.rebuild(str(world.where), s3=options)
    assert (restored.found_in, restored.members) == (found_in, 2)
    assert world.table().table_id == before
    for _ in range(2):
        world.pass_time(days=1)
        world.run(replace=1)
    write_table_manifest(world.table())
    assert wrong(world) == []
    world.pass_time(days=30)
    clean(world.config, "t", Rules(1, timedelta(hours=1), now=world.now), apply=True)
    assert world.parts_on_disk() == {member.path for member in world.table().state.candidates(None)}
    assert len(world.parts_on_disk()) == 2 and wrong(world) == []
    with world.open() as reader:
        assert reader.scan().to_table().num_rows == reader.rows
