from __future__ import annotations

import bz2
import gzip
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.errors import SourceError
from lading.formats.opening import open_plain
from lading.model import FoundFile
from lading.sources import fingerprint
from lading.sources.fingerprint import digest, digest_all, unmoved


def _found(path: Path) -> FoundFile:
    stat = path.stat()
    return FoundFile(path.name, str(path), stat.st_size, stat.st_mtime_ns, False)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "CHUNK", 4)


def _line_by_definition(data: bytes) -> int | None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        # A CR LF that the bad byte's own position cuts in two can't occur: the bad byte is neither.
        return before.count(b"\n") + 1
    return None


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b"a", b"\n", b"\r", "é".encode(), "😀".encode(), b"\xff", b"\xc3"])).map(
        b"".join
    )
)
def test_a_digest_finds_the_line_of_the_first_bad_byte(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.csv"
    path.write_bytes(data)
    got = digest(str(path), utf8=True)
    assert got.sha256 == hashlib.sha256(data).hexdigest()
    assert got.size == len(data)
    assert got.bad_utf8_line == _line_by_definition(data)
    assert digest(str(path), utf8=False).bad_utf8_line is None


@pytest.mark.parametrize(("suffix", "pack"), [(".csv.gz", gzip.compress), (".csv.BZ2", bz2.compress)])
def test_compressed_text_is_hashed_as_it_lies_and_checked_as_it_reads(
    tmp_path: Path, suffix: str, pack: object
) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(pack(b"good\nbad\xff\n"))  # type: ignore[operator]
    got = digest(str(path), utf8=True)
    assert got.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert got.bad_utf8_line == 2


def test_a_cut_off_gzip_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"x" * 1000)[:-10])
    with pytest.raises(SourceError, match=r"a\.gz can't be read"):
        digest(str(path), utf8=True)


def test_a_file_that_disappears_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x")
    gone = FoundFile("gone.csv", str(tmp_path / "gone.csv"), 1, 1, "", False)
    with pytest.raises(SourceError, match=r"gone\.csv can't be read") as caught:
        digest_all([_found(tmp_path / "a.csv"), gone], utf8=True)
    assert caught.value.hint


def test_every_file_gets_its_own_digest_and_a_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "_BATCH", 3)
    for number in range(10):
        (tmp_path / f"{number}.csv").write_text("x" * number)
    files = [_found(tmp_path / f"{number}.csv") for number in range(10)]
    ticks: list[int] = []
    digests = digest_all(files, utf8=True, threads=3, tick=ticks.append)
    assert ticks == list(range(10))
    assert list(digests) == [found.key for found in files]
    assert digests["7.csv"].sha256 == hashlib.sha256(b"x" * 7).hexdigest()


def test_a_file_that_moved_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("abc")
    found = _found(path)
    assert unmoved(found)
    os.utime(path, ns=(found.mtime_ns, found.mtime_ns + 1))
    assert not unmoved(found)
    os.utime(path, ns=(found.mtime_ns, found.mtime_ns))
    assert unmoved(found)
    path.write_text("abcd")
    os.utime(path, ns=(found.mtime_ns, found.mtime_ns))
    assert not unmoved(found)
    path.unlink()
    assert not unmoved(found)


@pytest.mark.parametrize(("suffix", "pack"), [(".csv.gz", gzip.compress), (".csv.bz2", bz2.compress)])
def test_what_stands_behind_compressed_data_is_more_of_it_or_an_error(tmp_path, suffix, pack):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(pack(b"id\n1\n" * 50_000) + pack(b"2\n"))
    assert digest(str(path), utf8=True).bad_utf8_line is None
    with open_plain(str(path)) as plain:
        assert plain.read() == b"id\n1\n" * 50_000 + b"2\n"
    for wrong in (pack(b"id\n") + b"3\n", pack(b"id\n1\n")[:-3], pack(b"id\n") + pack(b"1\n")[:-3]):
        path.write_bytes(wrong)
        with pytest.raises(SourceError, match="can't be read"):
            digest(str(path), utf8=True)
