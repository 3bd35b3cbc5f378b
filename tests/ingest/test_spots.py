"""A file that only looks like the one that was read: another root, another link, another inode."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.shelf import OLD, Shelf

from lading.ingest.noop import SEAL, seal_of
from lading.ingest.record import record_sources
from lading.ingest.verdict import Known, depends_on_content, verdict_on
from lading.ingest.verdicts import AllUnchanged
from lading.model import Digest, FoundFile, Source
from lading.sources.archives.input import Proof, all_files, one_file
from lading.sources.fingerprint import Spots


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    """Its root is a link."""
    (tmp_path / "one").mkdir()
    (tmp_path / "data").symlink_to("one")
    yield Shelf(tmp_path, known=True)


def other_root(shelf: Shelf, *, edited: str | None = None) -> None:
    """A copy of all files, times included; one of them may have other bytes."""
    shutil.copytree(shelf.folder / "one", shelf.folder / "two")
    if edited is not None:
        path = shelf.folder / "two" / edited
        path.write_text("a\n2\n")
        os.utime(path, (OLD, OLD))


def verdicts(shelf: Shelf) -> dict[str, str]:
    return {one.key: one.verdict for one in shelf.look().plan.files}


SAME = {"a.csv": "touched", "b.csv": "touched", "c.csv": "touched"}


@pytest.mark.parametrize("how", ["root", "link"])
@pytest.mark.parametrize("edited", [None, "b.csv"])
def test_files_of_another_root_are_compared_by_their_content(
    shelf: Shelf, how: str, edited: str | None
) -> None:
    other_root(shelf, edited=edited)
    if how == "root":
        shelf.configure(root="two")
    else:
        (shelf.folder / "data").unlink()
        (shelf.folder / "data").symlink_to("two")
    assert verdicts(shelf) == SAME | ({edited: "changed"} if edited else {})
    plan = shelf.look().plan
    assert {one.reason for one in plan.files if one.verdict == "touched"} == {
        "another file in its place, same content"
    }
    assert len(plan.note) == 3 - bool(edited), "noted, so that they are not compared for ever"
    shelf.commit()  # as a run does
    shelf.record()
    assert isinstance(shelf.look().plan.files, AllUnchanged)


@pytest.mark.parametrize("text", ["a\n1\n", "a\n2\n"])
def test_a_file_moved_into_the_place_of_another_is_compared(shelf: Shelf, text: str) -> None:
    shelf.put("b.csv.new", text)
    (shelf.folder / "data" / "b.csv.new").rename(shelf.folder / "data" / "b.csv")
    assert verdicts(shelf)["b.csv"] == ("touched" if text == "a\n1\n" else "changed")
    assert verdicts(shelf)["a.csv"] == "unchanged"


def test_a_link_below_the_root_that_leads_elsewhere_now_is_compared(shelf: Shelf) -> None:
    other_root(shelf, edited="b.csv")
    shutil.move(shelf.folder / "two", shelf.folder / "one" / "two")
    (shelf.folder / "one" / "b.csv").unlink()
    (shelf.folder / "one" / "b.csv").symlink_to("two/b.csv")
    assert verdicts(shelf)["b.csv"] == "changed"


def test_a_manifest_that_knows_no_spots_is_believed_until_it_is_written_next(shelf: Shelf) -> None:
    before = shelf.look()
    old = replace(before, found=[_without_spot(file) for file in before.found])  # as lading 0.1 found them
    record_sources(old, {})
    assert '"spot"' not in shelf.manifest.read_text()
    other_root(shelf, edited="b.csv")
    shelf.configure(root="two")
    seen = shelf.look()
    assert set(verdicts(shelf).values()) == {"unchanged"} and not seen.plan.note, "nothing is compared"
    shelf.record()
    assert shelf.manifest.read_text().count('"spot"') == 3
    shelf.configure(root="one")
    assert verdicts(shelf)["b.csv"] == "touched", "from now on it is known"


def _without_spot(file: FoundFile) -> FoundFile:
    return FoundFile(file.key, file.path, file.size, file.mtime_ns, file.racy)


def test_an_old_seal_still_makes_a_look_quiet(shelf: Shelf) -> None:
    old = seal_of(shelf.look().found, spots=False)
    assert not old.startswith("spots-")
    shelf.manifest.write_text(
        shelf.manifest.read_text().replace(json.loads(shelf.manifest.read_text())["lading"][SEAL], old)
    )
    assert isinstance(shelf.look().plan.files, AllUnchanged)


def test_a_run_that_failed_records_no_spot_of_what_it_did_not_read(shelf: Shelf) -> None:
    other_root(shelf, edited="b.csv")
    shelf.configure(root="two")
    record_sources(shelf.look(), {"a.csv": "torn"}, settled=False)
    assert verdicts(shelf) == SAME | {"a.csv": "failed", "b.csv": "changed"}


SOURCE = Source(1, "k", "etag:x_size:1", "s" * 64, 1, 5, 1, False, "2024")


def test_an_object_of_another_bucket_is_read_again_whatever_its_etag_says() -> None:
    file = FoundFile("k", "/c", 1, 5, False, fingerprint="etag:x_size:1", spot=7)
    for spot, verdict in ((7, "unchanged"), (0, "unchanged"), (8, "changed")):
        assert verdict_on(file, Known(SOURCE, spot=spot), None, full=False).verdict == verdict


def test_only_files_that_lie_elsewhere_are_opened() -> None:
    file = FoundFile("k", "/c", 1, 5, False, spot=7)
    for spot, opened in ((7, 0), (0, 0), (8, 1)):
        known = Known(SOURCE, spot=spot)
        assert depends_on_content(file, known, full=False) == bool(opened)
        same = verdict_on(file, known, Digest("s" * 64, 1), full=False)
        assert same.verdict == ("touched" if opened else "unchanged")


def test_an_archive_in_the_place_of_another_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(b"1")
    file = FoundFile("a.zip", str(path), 1, 5, False, spot=7)
    for input in (one_file(file), all_files("*.zip", [file])):
        proof = input.proof(full=False)
        assert input.is_still(proof, full=False)
        other = Proof(hash=proof.hash, sha256="other", size=1, mtime_ns=5, spot=proof.spot)
        assert input.is_still(other, full=False), "the same spot: nothing is compared"
        moved = Proof(hash=proof.hash, sha256="other", size=1, mtime_ns=5, spot=proof.spot + 1)
        assert not input.is_still(moved, full=False)
        assert input.renewed(moved).spot == proof.spot
    assert all_files("*", [file, FoundFile("b", "/b", 1, 1, False)]).spot == 0


def test_devices_that_are_numbered_by_mount_and_inodes_that_are_made_up_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spots = Spots()
    overlay, other, disk = os.makedev(0, 50), os.makedev(0, 51), os.makedev(8, 1)
    assert spots.folder("/d", overlay) == spots.folder("/d", other)
    assert spots.folder("/d", overlay) != spots.folder("/e", overlay)
    assert spots.folder("/d", disk) != spots.folder("/d", os.makedev(8, 2))
    told = {"0:50": "overlay", "0:51": "fuse.sshfs", "8:1": "vfat"}
    monkeypatch.setattr("lading.sources.fingerprint._file_systems", lambda: told)
    assert [Spots().folder("/d", one)[1] for one in (overlay, other, disk)] == [True, False, False]
