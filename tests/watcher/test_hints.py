"""What the operating system says becomes hints; nothing rests on them."""

import os
import threading
from pathlib import Path

import pytest

from lading.config.file import load as load_config
from lading.watcher.hints import Hint, Silence, Watched, hints_of, listening, seen_at, watched_tables
from lading.watcher.schedule import Seen

ADDED, MODIFIED, DELETED = 1, 2, 3


def watched(root: Path, pattern: str = "*/*.csv") -> tuple[Watched, ...]:
    return (Watched("a", str(root), pattern),)


def test_a_file_that_was_added_and_not_written_to_is_fresh(tmp_path):
    one, two = str(tmp_path / "d" / "one.csv"), str(tmp_path / "d" / "two.csv")
    batch = {(ADDED, one), (ADDED, two), (MODIFIED, two)}
    assert hints_of(watched(tmp_path), batch) == [
        Hint("a", "d/one.csv", fresh=True),
        Hint("a", "d/two.csv", fresh=False),
    ]


@pytest.mark.parametrize(
    ("path", "pattern", "hint"),
    [
        ("d/x.csv", "*/*.csv", Hint("a", "d/x.csv")),
        ("d/x.txt", "*/*.csv", None),
        ("d/.x.csv.tmp", "*/*.csv", None),
        ("d/_temporary", "*/*.csv", None),
        ("gone", "*/*.csv", Hint("a", None)),  # perhaps a folder
        ("gone/below", "*/*.csv", None),  # too deep for this pattern
        ("gone/below", "**/*.csv", Hint("a", None)),
        ("gone", "*.csv", None),
        ("../elsewhere.csv", "**/*.csv", None),
    ],
)
def test_a_table_hears_of_its_own_files_and_of_folders_that_may_hold_some(tmp_path, path, pattern, hint):
    batch = {(DELETED, os.path.normpath(tmp_path / path))}
    assert hints_of(watched(tmp_path, pattern), batch) == ([hint] if hint else [])


def test_a_folder_that_is_there_is_one_whatever_its_name(tmp_path):
    (tmp_path / "day.2024").mkdir()
    assert hints_of(watched(tmp_path), {(ADDED, str(tmp_path / "day.2024"))}) == [Hint("a", None)]


def test_a_file_is_in_place_if_its_name_or_times_are_younger_than_its_content(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a\n1\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert seen_at(tmp_path, "x.csv") == Seen(4, 1_700_000_000 * 10**9, placed=True)
    with open(path, "a") as file:
        file.write("2\n")
        file.flush()
        seen = seen_at(tmp_path, "x.csv")
        assert seen is not None and not seen.placed, "it is being written"
        fresh = seen_at(tmp_path, "x.csv", fresh=True)
        assert fresh is not None and not fresh.placed, "whoever created it has not closed it yet"
    fresh = seen_at(tmp_path, "x.csv", fresh=True)
    assert fresh is not None and fresh.placed, "it has its name only now, and nobody writes to it"
    assert seen_at(tmp_path, "none.csv") is None
    (tmp_path / "empty.csv").touch()
    empty = seen_at(tmp_path, "empty.csv", fresh=True)
    assert empty is not None and not empty.placed, "somebody is about to write"


def test_the_operating_system_is_heard(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "ready").write_text("a\n1\n")
    heard = Silence()
    with listening(watched(Path(os.path.realpath(tmp_path))), heard):
        os.rename(tmp_path / "ready", tmp_path / "d" / "x.csv")
        hints = heard.wait(10)
    assert Hint("a", "d/x.csv", fresh=True) in hints


def test_a_wait_ends_when_it_is_woken_or_over():
    heard = Silence()
    assert heard.wait(0) == []
    threading.Timer(0.05, heard.wake).start()
    assert heard.wait(86_400) == []


def test_only_folders_on_this_machine_are_heard_of(tmp_path, monkeypatch):
    (tmp_path / "lading.yaml").write_text(
        "tables:\n"
        "  here: {root: data, path: '*.csv', format: csv}\n"
        "  gone: {root: nowhere, path: '*.csv', format: csv}\n"
    )
    (tmp_path / "data").mkdir()
    config = load_config(tmp_path)
    assert [one.table for one in watched_tables(config, ("here", "gone"))] == ["here"]
    monkeypatch.setattr("lading.watcher.hints._remote_mounts", lambda: {"/": "ext4", str(tmp_path): "nfs4"})
    assert watched_tables(config, ("here", "gone")) == ()
