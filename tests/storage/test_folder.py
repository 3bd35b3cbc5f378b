"""Durable writes: the order of what is synced, and what is left when a write can't be completed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.storage import folder as local


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was synced, by the name it had then."""
    names: list[str] = []
    real = os.fsync

    def sync(file: int) -> None:
        names.append(Path(os.readlink(f"/proc/self/fd/{file}")).name)
        real(file)

    monkeypatch.setattr(os, "fsync", sync)
    return names


def test_a_new_file_is_durable_with_every_folder_that_was_made_for_it(
    tmp_path: Path, synced: list[str]
) -> None:
    local.write_new(tmp_path / "a" / "b" / "c", b"1")
    assert synced[0].endswith(".tmp")  # the content before its name
    assert sorted(synced[1:]) == sorted(["b", "a", tmp_path.name])
    synced.clear()
    local.write_new(tmp_path / "a" / "b" / "d", b"1")
    assert synced[1:] == ["b"]


@pytest.mark.parametrize("seconds", [-(10**12), -62_135_596_801, 0, 32_503_680_000, 10**12])
def test_a_time_beyond_all_calendars_is_the_last_that_they_know(seconds: int) -> None:
    status = os.stat_result((0, 0, 0, 0, 0, 0, 0, seconds, seconds, seconds))
    assert 1 <= local.modified_at(status).year <= 9999


def test_pieces_are_written_as_one_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    local.write_atomic(path, iter([b"one, ", b"", b"two"]))
    assert path.read_bytes() == b"one, two"


def test_a_piece_that_can_not_be_made_leaves_everything_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"before")

    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        local.write_atomic(path, pieces())
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]
    assert path.read_bytes() == b"before"


def test_what_cleaning_took_from_a_process_that_slept_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the simulation: a run that slept for more than a day in the midst of writing its record."""
    rename, slept = os.replace, []

    def replace(beside: Path, path: Path) -> None:
        if not slept:
            slept.append(True)
            os.unlink(beside)
            os.rmdir(tmp_path / "deep")
        rename(beside, path)

    monkeypatch.setattr(os, "replace", replace)
    local.write_atomic(tmp_path / "deep" / "file", b"all of it")
    assert (tmp_path / "deep" / "file").read_bytes() == b"all of it"


def test_what_somebody_else_wrote_is_made_durable_with_every_folder_that_leads_to_it(
    tmp_path: Path, synced: list[str]
) -> None:
    """Found by the simulation: a rollback to a manifest whose publisher had not synced its folder yet."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_bytes(b"1")
    local.FolderStorage(tmp_path).sync("a/b/c")
    assert synced == ["b", "a", tmp_path.name]


def test_folders_that_somebody_else_made_for_parts_are_synced_together_and_looked_at_once(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (looked.append(Path(path).name), real(path))[1])
    made, others = local.FolderStorage(tmp_path), local.FolderStorage(tmp_path)
    for number in range(5):
        made.draft(f"bucket={number}/part")
        made.draft(f"bucket={number}/another")
    assert (synced, looked) == ([tmp_path.name] * 5, []), "it knows which it made"
    synced.clear()
    for number in range(5):
        others.draft(f"bucket={number}/part")
    assert (synced, looked) == ([tmp_path.name], [tmp_path.name])
