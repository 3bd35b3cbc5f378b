from __future__ import annotations

import errno
import os
import re
import socket
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.errors import SourceError
from lading.sources.discover import discover
from lading.sources.fingerprint import time_ns, unmoved
from lading.sources.glob import compile_glob

NOW = 1_700_000_000_000_000_000


def _tree(root: Path, *keys: str) -> None:
    for key in keys:
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(key)


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Path]:
    """A folder whose times may be anything: a disk's file system knows fewer years than memory's."""
    if os.access("/dev/shm", os.W_OK):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            yield Path(folder)
    else:
        yield tmp_path


YEAR = 31_556_952


@pytest.mark.parametrize("year", [1, 1600, 1677, 1678, 1900, 1969, 2261, 2263, 2446, 3000, 20_000])
def test_a_file_may_have_any_time_that_its_file_system_knows(far: Path, year: int) -> None:
    path = far / "a.csv"
    path.write_text("x")
    (far / "link.csv").symlink_to("a.csv")
    os.utime(path, ((year - 1970) * YEAR,) * 2)
    plain, linked = discover(far, "*.csv", now_ns=NOW)
    assert plain.mtime_ns == linked.mtime_ns == time_ns(path.stat())
    assert -(2**63) <= plain.mtime_ns < 2**63 and plain.hash.startswith("mtime:")
    assert unmoved(plain) and unmoved(linked)
    told_apart = plain.mtime_ns == path.stat().st_mtime_ns
    assert told_apart or (plain.racy and linked.racy), "what its time doesn't tell, its content does"


def _keys(root: Path, pattern: str) -> list[str]:
    return [found.key for found in discover(root, pattern, now_ns=NOW)]


@pytest.mark.acceptance("F23")
def test_a_key_is_the_path_below_the_root(tmp_path: Path) -> None:
    _tree(tmp_path, "2023/data.csv", "data.csv", "2023/notes.txt")
    assert _keys(tmp_path, "**/*.csv") == ["2023/data.csv", "data.csv"]


@pytest.mark.acceptance("F8")
def test_the_fast_fingerprint_is_what_stat_says(tmp_path: Path) -> None:
    _tree(tmp_path, "a.csv")
    os.utime(tmp_path / "a.csv", ns=(1, 1_699_999_999_123_456_789))
    (found,) = discover(tmp_path, "a.csv", now_ns=NOW)
    stat = os.stat(tmp_path / "a.csv")
    assert found.hash == f"mtime:{stat.st_mtime}_size:{stat.st_size}"
    assert (found.size, found.mtime_ns) == (stat.st_size, stat.st_mtime_ns)
    assert found.path == str(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("age_ns", "racy"), [(2_000_000_000, False), (1_999_999_999, True), (0, True), (-5_000_000_000, True)]
)
def test_a_file_is_racy_unless_it_is_clearly_older_than_the_discovery(
    tmp_path: Path, age_ns: int, racy: bool
) -> None:
    _tree(tmp_path, "a.csv")
    os.utime(tmp_path / "a.csv", ns=(NOW - age_ns, NOW - age_ns))
    (found,) = discover(tmp_path, "*.csv", now_ns=NOW)
    assert found.racy is racy


def test_names_that_spark_hides_are_found(tmp_path: Path) -> None:
    _tree(tmp_path, ".x.csv", "_x.csv", ".h/_y.csv", "a[1].csv")
    assert _keys(tmp_path, "**/*.csv") == [".h/_y.csv", ".x.csv", "_x.csv", "a[1].csv"]


def test_a_folder_whose_name_matches_is_no_file(tmp_path: Path) -> None:
    _tree(tmp_path, "out.csv/part.csv")
    assert _keys(tmp_path, "*.csv") == []
    assert _keys(tmp_path, "*.csv/*.csv") == ["out.csv/part.csv"]


def test_a_missing_root_fails_the_run(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nowhere does not exist"):
        discover(tmp_path / "nowhere", "*", now_ns=NOW)
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match="not a folder"):
        discover(tmp_path / "file", "*", now_ns=NOW)


def test_a_folder_that_vanishes_while_it_is_listed_is_never_a_shorter_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _tree(tmp_path, "a/x.csv", "b/x.csv")
    real = os.open

    def vanishing(path: str, flags: int) -> int:
        if path.endswith("/b"):
            (tmp_path / "b/x.csv").unlink()
            (tmp_path / "b").rmdir()
        return real(path, flags)

    monkeypatch.setattr(os, "open", vanishing)
    with pytest.raises(SourceError, match="b can't be listed"):
        discover(tmp_path, "*/*.csv", now_ns=NOW)


def test_too_many_open_files_are_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _tree(tmp_path, "x.csv")

    def refusing(path: str, flags: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files", path)

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(SourceError, match="Too many open files") as caught:
        discover(tmp_path, "*.csv", now_ns=NOW)
    assert "ulimit -n" in caught.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list anything")
def test_a_folder_that_may_not_be_listed_fails_the_run(tmp_path: Path) -> None:
    _tree(tmp_path, "a/x.csv", "b/x.csv")
    (tmp_path / "b").chmod(0)
    try:
        with pytest.raises(SourceError, match="b can't be listed"):
            discover(tmp_path, "*/*.csv", now_ns=NOW)
        assert _keys(tmp_path, "a/*.csv") == ["a/x.csv"]
    finally:
        (tmp_path / "b").chmod(0o755)


def test_links_inside_the_root_are_followed(tmp_path: Path) -> None:
    _tree(tmp_path, "real/x.csv")
    (tmp_path / "link.csv").symlink_to("real/x.csv")
    (tmp_path / "again").symlink_to("real", target_is_directory=True)
    assert _keys(tmp_path, "**/*.csv") == ["again/x.csv", "link.csv", "real/x.csv"]


def test_a_root_that_is_a_link_is_followed(tmp_path: Path) -> None:
    _tree(tmp_path / "real", "a/x.csv")
    (tmp_path / "real/b.csv").symlink_to("a/x.csv")
    (tmp_path / "root").symlink_to("real", target_is_directory=True)
    assert _keys(tmp_path / "root", "**/*.csv") == ["a/x.csv", "b.csv"]


@pytest.mark.parametrize("target", ["../secret.csv", "../secrets", "../root2"])
def test_a_link_that_leaves_the_root_is_refused(tmp_path: Path, target: str) -> None:
    _tree(tmp_path, "secret.csv", "secrets/x.csv", "root2/x.csv", "root/a.csv")
    (tmp_path / "root/l.csv").symlink_to(target)
    with pytest.raises(SourceError, match="outside the root"):
        discover(tmp_path / "root", "**/*.csv", now_ns=NOW)
    assert _keys(tmp_path / "root", "a.csv") == ["a.csv"]


def test_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "l.csv").symlink_to("gone.csv")
    with pytest.raises(SourceError, match="which does not exist"):
        discover(tmp_path, "*.csv", now_ns=NOW)


def test_a_link_that_goes_in_circles_is_refused(tmp_path: Path) -> None:
    _tree(tmp_path, "a/x.csv")
    (tmp_path / "a/loop").symlink_to("..", target_is_directory=True)
    with pytest.raises(SourceError, match="links back"):
        discover(tmp_path, "**/*.csv", now_ns=NOW)


def test_a_pipe_or_socket_is_refused_before_anyone_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "f.csv")
    with pytest.raises(SourceError, match="neither a file nor a folder"):
        discover(tmp_path, "*.csv", now_ns=NOW)
    (tmp_path / "f.csv").unlink()
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s.sock")
        assert _keys(tmp_path, "*.csv") == []


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/caf\xe9.csv", "w"):
        pass
    with pytest.raises(SourceError, match="not valid UTF-8") as caught:
        discover(tmp_path, "*.csv", now_ns=NOW)
    str(caught.value).encode()
    (caught.value.file or "").encode()
    assert _keys(tmp_path, "*.txt") == []


def test_a_folder_whose_name_is_not_utf8_is_refused(tmp_path: Path) -> None:
    os.mkdir(os.fsencode(tmp_path) + b"/caf\xe9")
    with pytest.raises(SourceError, match="not valid UTF-8"):
        discover(tmp_path, "**/*.csv", now_ns=NOW)


def test_only_folders_that_can_match_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _tree(tmp_path, "a/x.csv", "b/x.csv", "a/deep/x.csv")
    listed = []
    real = os.open

    def recording(path: str, flags: int) -> int:
        listed.append(os.path.relpath(path, tmp_path))
        return real(path, flags)

    monkeypatch.setattr(os, "open", recording)
    assert _keys(tmp_path, "a/*.csv") == ["a/x.csv"]
    assert listed == [".", "a"]


def test_keys_are_sorted_as_texts_whatever_folders_they_are_in(tmp_path: Path) -> None:
    keys = ["a/x.csv", "a-b/x.csv", "a.csv", "a/b/x.csv", "a/b.csv", "a/b-c/x.csv", "B/x.csv", "ä/x.csv"]
    _tree(tmp_path, *keys)
    assert _keys(tmp_path, "**/*.csv") == sorted(keys)


def test_every_path_is_whole_also_below_links_and_odd_roots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _tree(tmp_path, "a/x.csv", "y.csv")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "z.csv").symlink_to("y.csv")
    monkeypatch.chdir(tmp_path)
    for root in (tmp_path, Path(), Path("a/..")):
        found = discover(root, "**/*.csv", now_ns=NOW)
        assert [one.key for one in found] == ["a/x.csv", "b/x.csv", "y.csv", "z.csv"]
        assert [one.path for one in found] == [str(tmp_path / one.key) for one in found]


def test_no_folder_stays_open(tmp_path: Path) -> None:
    _tree(tmp_path, "a/x.csv", "b/x.csv")
    before = set(os.listdir("/dev/fd"))
    discover(tmp_path, "**/*.csv", now_ns=NOW)
    (tmp_path / "b" / "gone.csv").symlink_to("nothing")
    with pytest.raises(SourceError, match="does not exist"):
        discover(tmp_path, "**/*.csv", now_ns=NOW)
    assert set(os.listdir("/dev/fd")) == before


def test_a_file_that_vanishes_while_it_is_listed_is_named_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _tree(tmp_path, "a/x.csv", "a/y.csv")
    real = os.scandir

    def vanishing(folder: int) -> object:
        with real(folder) as entries:
            listed = list(entries)
        if "x.csv" in [entry.name for entry in listed]:
            (tmp_path / "a/x.csv").unlink()
        return nullcontext(listed)

    monkeypatch.setattr(os, "scandir", vanishing)
    with pytest.raises(SourceError, match=re.escape(f"{tmp_path}/a/x.csv can't be listed")):
        discover(tmp_path, "a/*.csv", now_ns=NOW)


_segment = st.sampled_from(["**", "*", "a", "b*", "?", "[!a]", "a.csv", "*.csv"])


@settings(max_examples=60, deadline=None)
@given(pattern=st.lists(_segment, min_size=1, max_size=4).map("/".join))
def test_the_walk_finds_exactly_what_the_glob_matches(
    tmp_path_factory: pytest.TempPathFactory, pattern: str
) -> None:
    root = tmp_path_factory.getbasetemp() / "walk"
    if not root.exists():
        for folder in ("", "a/", "b/", "a/b/", "ba/a/", "a/a.csv/"):
            _tree(root, f"{folder}a", f"{folder}x") if folder == "ba/a/" else _tree(root, f"{folder}x.csv")
            _tree(root, f"{folder}bb", f"{folder}c")
    everything = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    regex = compile_glob(pattern)
    assert _keys(root, pattern) == sorted(key for key in everything if regex.match(key))
