"""Pages that are damaged or lost: named with what they held, never a wrong answer, and put back where the log
or a snapshot still knows."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.servers import S3Server
from support.world import BucketWorld, World

import lading
from lading.errors import LadingError
from lading.ingest.record import write_table_manifest
from lading.layout.table import LOG_LOCK
from lading.snapshots.opening import open_members
from lading.state import edit, tables
from lading.storage.folder import FolderStorage, is_locked
from lading.storage.protocol import Named
from lading.upkeep.clean.apply import clean
from lading.upkeep.clean.survey import Rules
from lading.upkeep.repair import repair
from lading.upkeep.verify import Finding, verify
from lading.watch import Watch


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit, "PAGE", 2)
    monkeypatch.setattr(tables, "INLINE", 0)


@pytest.fixture(params=["folder", "bucket"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if request.param == "folder":
        yield filled(World(tmp_path / "project"))
        return
    server: S3Server = request.getfixturevalue("s3_server")
    made = BucketWorld(tmp_path / "project", f"{server.bucket('pages')}/{uuid.uuid4().hex}", server)
    yield filled(made)
    made.close()


def filled(world: World) -> World:
    """Five runs: each publish writes a checkpoint, and the pages that the run touched."""
    for number in range(5):
        world.run(parts=2, rows=3, replace=number % 2)
    table = world.table()
    write_table_manifest(table)
    table.close()
    return world


def pages(world: World, kind: str = "members") -> list[str]:
    """Of the checkpoint."""
    table = world.table()
    assert table.state.base is not None
    found = [f"pages/{ref.name}" for ref in table.state.base.pages(kind)]  # type: ignore[arg-type]
    table.close()
    return found


def wrong(world: World) -> list[Finding]:
    found, _ = verify(world.config, "t", watch=Watch())
    return [one for one in found.findings if one.level == "error" and one.about != "source"]


def rows(world: World) -> list[tuple[object, ...]]:
    with world.open() as reader:
        return sorted(tuple(row.values()) for row in reader.scan().to_table().to_pylist())


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


@pytest.mark.parametrize("kind", ["members", "sources"])
@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
def test_a_damaged_page_is_named_and_put_back(world: World, kind: str, how: str) -> None:
    before = rows(world)
    page = pages(world, kind)[1]
    whole = world.read(page)
    if how == "gone":
        world.remove(page)
    else:
        world.write(page, flipped(whole, len(whole) // 2) if how == "flipped" else whole[:-9])
    problems = wrong(world)
    assert any(page in one.message for one in problems), problems
    held = "member" if kind == "members" else "source"
    assert any(f"{held}s from" in one.message or f"1 {held}" in one.message for one in problems)
    told = repair(world.config, "t", watch=Watch())
    assert any(page in one for one in told.done), told
    assert world.read(page) == whole
    assert wrong(world) == [] and rows(world) == before


def test_after_a_compaction_a_page_is_put_back_from_an_earlier_snapshot_and_the_log(tmp_path: Path) -> None:
    world = filled(World(tmp_path / "project"))
    table = world.table()
    table.compact()
    table.close()
    world.run(parts=1, rows=3)
    world.run(parts=1, rows=3)
    before = rows(world)
    earlier = open_members(world.store, world.store.list_manifests()[2].ref, world.where)
    newest = next(page for page in pages(world) if page.removeprefix("pages/") not in earlier.page_names())
    whole = world.read(newest)
    world.remove(newest)
    told = repair(world.config, "t", watch=Watch())
    assert any(newest in one for one in told.done), told
    assert world.read(newest) == whole and rows(world) == before


def test_what_cannot_be_put_back_is_said_and_nothing_is_made_up(tmp_path: Path) -> None:
    world = World(tmp_path / "project")
    world.run(parts=6)
    table = world.table()
    table.compact()
    table.close()
    page = pages(world)[0]
    world.remove(page)
    told = repair(world.config, "t", watch=Watch())
    assert told.left and any("rebuild" in one for one in told.left)
    found = lading.Collection.rebuild(world.root)
    assert found.found_in == "files" and found.undecided
    assert len(lading.Collection(world.root)) == 6


def test_a_rebuild_puts_pages_back_before_it_restores_anything_else(tmp_path: Path) -> None:
    world = filled(World(tmp_path / "project"))
    page = pages(world)[0]
    whole = world.read(page)
    world.write(page, b"")
    found = lading.Collection.rebuild(world.root)
    assert (found.found_in, found.undecided, found.mended) == ("log", (), (page,))
    assert world.read(page) == whole


def test_a_changed_byte_of_any_page_is_an_error_or_harmless(tmp_path: Path) -> None:
    world = filled(World(tmp_path / "project"))

    def asked() -> object:
        with world.open() as reader:
            found = reader.scan().to_table().sort_by("id").to_pylist()
            few = [reader.scan(f"id = {number}").to_table().num_rows for number in (0, 1, 2)]
            return found, few, reader.sources(), [reader.lookup(1).found], reader.info()

    before = asked()
    chance = random.Random(0)
    refused = 0
    for path in sorted((world.root / "pages").iterdir()):
        whole = path.read_bytes()
        for _ in range(25):
            at = chance.randrange(len(whole))
            path.write_bytes(flipped(whole, at))
            try:
                assert asked() == before
            except LadingError as error:
                assert path.name in error.message and error.hint
                refused += 1
        path.write_bytes(whole)
    assert refused > 50


def test_a_collection_check_names_a_damaged_page(tmp_path: Path) -> None:
    world = filled(World(tmp_path / "project"))
    page = pages(world)[0]
    world.write(page, flipped(world.read(page), 200))
    _, problems = lading.Collection(world.root).check()
    assert len(problems) == 1 and page in problems[0].problem and page in problems[0].path


def test_a_table_that_was_moved_finds_its_pages(tmp_path: Path) -> None:
    world = filled(World(tmp_path / "project"))
    before = rows(world)
    world.root.rename(tmp_path / "elsewhere")
    with lading.open(tmp_path / "elsewhere") as reader:
        assert sorted(tuple(row.values()) for row in reader.scan().to_table().to_pylist()) == before
    assert lading.Collection(tmp_path / "elsewhere").check()[1] == []


def test_a_page_in_a_folder_is_deleted_by_who_holds_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever puts one back holds it too: so what was looked at is what goes."""
    world = filled(World(tmp_path / "project"))
    real, held = FolderStorage.delete_found, []

    def delete_found(self: FolderStorage, found: Named) -> bool:
        if found.name.startswith("pages/"):
            held.append(is_locked(self.path(LOG_LOCK)))
        return real(self, found)

    monkeypatch.setattr(FolderStorage, "delete_found", delete_found)
    world.pass_time(days=3)
    clean(world.config, "t", Rules(keep_runs=1, now=world.now), apply=True)
    assert held and all(held)
    assert wrong(world) == []
