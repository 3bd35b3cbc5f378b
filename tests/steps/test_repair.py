"""Verify names what is wrong and the command for it; repair does what it safely can."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.world import World

import lading
from lading.errors import ManifestParseError
from lading.snapshots.history import Wanted
from lading.steps.clean import Rules, clean
from lading.steps.pointer import roll_back
from lading.steps.record import write_manifest_of
from lading.steps.repair import Repaired, repair
from lading.steps.verify import Finding, verify
from lading.watch import Watch


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "project")
    world.run(rows=5)
    world.run(rows=2)
    table = world.table()
    write_manifest_of(table)
    table.close()
    return world


def wrong(world: World) -> list[Finding]:
    found, _ = verify(world.config, "t", watch=Watch())
    return [one for one in found.findings if one.level == "error"]


def mended(world: World) -> Repaired:
    return repair(world.config, "t", watch=Watch())


def rows(world: World) -> int:
    with lading.open(world.root) as reader:
        return reader.scan().to_table().num_rows


def test_a_whole_table_is_told_whole_and_repair_leaves_it_alone(world: World) -> None:
    assert wrong(world) == []
    before = {path: path.read_bytes() for path in world.root.rglob("*") if path.is_file()}
    assert mended(world).done == []
    assert {path: path.read_bytes() for path in world.root.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("bytes", [b"", b"{", b"\xff\xfe", b'{"manifest_ref": 5}', b"[" * 100_000])
def test_a_malformed_pointer_is_put_back(world: World, bytes: bytes) -> None:
    pointer = world.root / "_CURRENT"
    pointer.write_bytes(bytes)
    with pytest.raises(ManifestParseError) as caught:
        lading.open(world.root)
    assert "lading repair" in caught.value.hint
    assert [one.remedy for one in wrong(world)] == ["lading repair t"]
    assert "readers see the snapshot of run" in mended(world).done[0]
    assert wrong(world) == [] and rows(world) == 7


def test_a_lost_pointer_is_put_back_where_it_was_held(world: World) -> None:
    roll_back(world.config, "t", Wanted(offset=1))
    (world.root / "_CURRENT").write_bytes(b"torn")
    assert "held as it was" in mended(world).done[0]
    current = world.store.load_current()
    assert current is not None and current.held and rows(world) == 5


def test_a_pointer_to_a_damaged_or_absent_manifest_is_moved_to_a_whole_one(world: World) -> None:
    current = world.store.load_current()
    assert current is not None
    (world.root / current.ref).write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    assert wrong(world)
    mended(world)
    assert rows(world) == 5, "the newest that is whole; the next run publishes the rest"
    (world.root / current.ref).unlink()
    assert wrong(world) == []


def test_without_any_whole_snapshot_one_is_made_from_the_log(world: World) -> None:
    for listed in world.store.list_manifests():
        (world.root / listed.ref).write_bytes(b"nonsense")
    (world.root / "_CURRENT").write_bytes(b"nonsense")
    mended(world)
    assert rows(world) == 7 and wrong(world) == []


def test_manifest_json_is_written_anew_from_the_log(world: World) -> None:
    path = world.root / "manifest.json"
    whole = path.read_bytes()
    path.unlink()
    assert [one.message for one in wrong(world)] == ["manifest.json is missing"]
    mended(world)
    assert path.read_bytes() == whole
    path.write_text("{")
    assert wrong(world) and mended(world).done and path.read_bytes() == whole
    told = json.loads(whole)
    told["partitions"] = {}
    path.write_text(json.dumps(told))
    assert "not what the log holds" in wrong(world)[0].message
    mended(world)
    assert path.read_bytes() == whole


def test_a_damaged_checkpoint_is_written_anew_while_the_log_is_whole(world: World) -> None:
    table = world.table()
    table.checkpoint()
    table.close()
    path = world.root / "manifest.db"
    path.write_bytes(path.read_bytes()[:5000] + b"\0" * 100)
    [finding] = wrong(world)
    assert finding.about == "log" and "lading repair t" in finding.remedy
    assert "written anew from the log" in mended(world).done[0]
    assert wrong(world) == [] and rows(world) == 7
    assert list(world.root.glob("manifest.db.damaged-*")), "the damaged one is kept"


def test_what_is_beyond_repair_is_said_and_left_alone(world: World) -> None:
    table = world.table()
    table.compact()
    table.close()
    (world.root / "manifest.db").write_bytes(b"nonsense")
    before = (world.root / "manifest.log").read_bytes()
    told = mended(world)
    assert told.done == [] and "lading collection rebuild" in told.left[0]
    assert (world.root / "manifest.log").read_bytes() == before
    assert (world.root / "manifest.db").read_bytes() == b"nonsense"


@pytest.mark.parametrize("how", ["missing", "shorter", "other rows", "another table"])
def test_a_broken_part_is_named(world: World, how: str) -> None:
    table = world.table()
    member = table.state.candidates(None)[0]
    path = world.root / member.path
    if how == "missing":
        path.unlink()
    elif how == "shorter":
        path.write_bytes(path.read_bytes()[:-20])
    else:
        run = world.begin(parts=0)
        other = world.write_part(run, 9 if how == "other rows" else member.rows, table_id="another")
        (world.root / other.path).replace(path)
    table.close()
    named = [one for one in wrong(world) if one.file == member.path]
    assert named and all("lading" in one.remedy for one in named)


def test_sources_of_a_lost_part_are_asked_to_be_read_again(world: World) -> None:
    table = world.table()
    lost = table.state.candidates(None)[0]
    (world.root / lost.path).unlink()
    told = mended(world)
    assert "1 parts are broken" in told.done[0] and "lading run t" in told.left[0]
    table.close()


def test_a_dead_run_is_a_note_and_not_an_error(world: World) -> None:
    run = world.begin()
    world.pass_time(days=-2)
    run.handle.heartbeat(world.now)
    found, _ = verify(world.config, "t", watch=Watch())
    assert [one.about for one in found.findings if "died" in one.message] == ["run"]
    assert found.whole


def test_cleaning_waits_for_a_pointer_that_can_be_read(world: World) -> None:
    (world.root / "_CURRENT").write_bytes(b"torn")
    with pytest.raises(ManifestParseError) as caught:
        clean(world.config, "t", Rules(), apply=True)
    assert "lading repair" in caught.value.hint
