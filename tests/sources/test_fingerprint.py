from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.errors import SourceError
from lading.model import Digest, FoundFile
from lading.sources import fingerprint
from lading.sources.fingerprint import digest, digest_all, unmoved


def _found(path: Path) -> FoundFile:
    stat = path.stat()
    return FoundFile(path.name, str(path), stat.st_size, stat.st_mtime_ns, False)


@given(st.binary(max_size=100))
def test_a_digest_is_of_the_bytes_as_they_lie(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.csv.gz"
    path.write_bytes(data)
    assert digest(str(path)) == Digest(hashlib.sha256(data).hexdigest(), len(data))


def test_a_file_that_disappears_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x")
    gone = FoundFile("gone.csv", str(tmp_path / "gone.csv"), 1, 1, "", False)
    with pytest.raises(SourceError, match=r"gone\.csv is gone") as caught:
        digest_all([_found(tmp_path / "a.csv"), gone])
    assert caught.value.hint


def test_every_file_gets_its_own_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "_BATCH", 3)
    for number in range(10):
        (tmp_path / f"{number}.csv").write_text("x" * number)
    files = [_found(tmp_path / f"{number}.csv") for number in range(10)]
    digests = digest_all(files, threads=3)
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
