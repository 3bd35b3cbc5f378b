"""Extraction believes nothing: good archives come out whole, bad ones not at all."""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest
from support.archives import HOSTILE, ROW, commented_zip, streamed_zip, tar_of, zip_of, zip_with_password

from lading.config.archives import ArchiveLimits
from lading.errors import ArchiveRefused, SourceError
from lading.layout.project import flat_name
from lading.sources.archives.extract import archive_kind, extract
from lading.sources.archives.index import fill_fresh, is_whole, put_in_place, read_index, sweep

SMALL = ArchiveLimits(max_members=20, max_bytes=200_000)


def unpacked(archive: Path, out: Path, **options) -> dict[str, bytes]:
    out.mkdir(exist_ok=True)
    kind = archive_kind(archive.name)
    outputs = extract(archive, kind, out, shown=archive.name, **{"limits": ArchiveLimits(), **options})
    for one in outputs:
        data = (out / one.path).read_bytes()
        assert (one.size, one.sha256) == (len(data), hashlib.sha256(data).hexdigest())
        assert one.mtime_ns == (out / one.path).stat().st_mtime_ns
    return {one.path: (out / one.path).read_bytes() for one in outputs}


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.TGZ"])
def test_a_good_archive_comes_out_whole(tmp_path, name):
    members = {"a.csv": ROW, "deep/er/b.csv": ROW * 10_000, "deep/_c": b"", "12:30.csv": b"x"}
    make = zip_of if name.endswith("zip") else tar_of
    assert unpacked(make(tmp_path / name.replace("TGZ", "tgz"), members), tmp_path / "out") == members


def _aligned_zip() -> bytes:
    """Zeros in front of the second member, as some writers align them."""
    one, two = streamed_zip(("a.csv", ROW)), streamed_zip(("b.csv", ROW))
    first, second = one[: one.index(b"PK\x01\x02")] + bytes(7), two[: two.index(b"PK\x01\x02")]
    listed = [data[data.index(b"PK\x01\x02") : data.index(b"PK\x05\x06")] for data in (one, two)]
    directory = listed[0] + listed[1][:42] + struct.pack("<L", len(first)) + listed[1][46:]
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 2, 2, len(directory), len(first + second), 0)
    return first + second + directory + end


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (commented_zip(b"made by hand"), ["a.csv"]),
        (commented_zip(bytes(65_535)), ["a.csv"]),
        (streamed_zip(("a.csv", ROW), ("b.csv", b""), ("c.csv", ROW * 999)), ["a.csv", "b.csv", "c.csv"]),
        (streamed_zip(("a.csv", ROW), ("b.csv", ROW), wide=True), ["a.csv", "b.csv"]),
        (_aligned_zip(), ["a.csv", "b.csv"]),
        (streamed_zip(), []),
    ],
    ids=["comment", "longest comment", "streamed", "streamed, 64 bits", "aligned", "empty"],
)
def test_a_zip_that_is_whole_is_read_however_it_was_written(tmp_path, data, names):
    (tmp_path / "a.zip").write_bytes(data)
    assert sorted(unpacked(tmp_path / "a.zip", tmp_path / "out")) == names


def test_a_program_in_front_of_a_zip_is_allowed_if_the_project_says_so(tmp_path):
    allowed = ArchiveLimits(self_extracting=True)
    (tmp_path / "a.zip").write_bytes(b"#!/bin/sh\nunzip $0\n" + commented_zip(b"x"))
    with pytest.raises(ArchiveRefused) as refused:
        unpacked(tmp_path / "a.zip", tmp_path / "out")
    assert "self_extracting: true" in refused.value.hint
    assert unpacked(tmp_path / "a.zip", tmp_path / "out2", limits=allowed) == {"a.csv": ROW}
    program = b"#!/bin/sh\n"
    (tmp_path / "b.zip").write_bytes(program + commented_zip(b"one") + commented_zip(b"two"))
    with pytest.raises(ArchiveRefused, match="is two zips in one file"):
        unpacked(tmp_path / "b.zip", tmp_path / "out3", limits=allowed)
    for number, front in enumerate(
        [commented_zip(b"one"), commented_zip(b"one")[:60], commented_zip(b"") + b"?"]
    ):
        (tmp_path / f"c{number}.zip").write_bytes(front + commented_zip(b"two"))
        with pytest.raises(ArchiveRefused, match="bytes of zip that its directory doesn't list"):
            unpacked(tmp_path / f"c{number}.zip", tmp_path / f"out4{number}", limits=allowed)


def test_noise_in_names_is_dropped_and_folders_make_no_files(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as out:
        (tmp_path / "src" / "d").mkdir(parents=True)
        (tmp_path / "src" / "d" / "x.csv").write_bytes(ROW)
        out.add(tmp_path / "src", ".")
    assert unpacked(tmp_path / "a.tar", tmp_path / "out") == {"d/x.csv": ROW}


def test_a_single_gz_comes_out_under_its_name_without_gz(tmp_path):
    (tmp_path / "data.dat.gz").write_bytes(gzip.compress(ROW) + gzip.compress(ROW))
    assert unpacked(tmp_path / "data.dat.gz", tmp_path / "out") == {"data.dat": ROW * 2}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_every_way_of_packing_that_python_reads_is_read(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as out:
        out.writestr("a.csv", ROW * 50_000)
    assert unpacked(tmp_path / "a.zip", tmp_path / "out") == {"a.csv": ROW * 50_000}


def test_files_are_plain_whatever_the_archive_says(tmp_path):
    info = tarfile.TarInfo("x.csv")
    info.mode, info.uid, info.mtime = 0o6777, 0, 0
    with tarfile.open(tmp_path / "a.tar", "w") as out:
        out.addfile(info)
    unpacked(tmp_path / "a.tar", tmp_path / "out")
    found = (tmp_path / "out" / "x.csv").stat()
    assert not stat.S_IMODE(found.st_mode) & 0o7111 and found.st_uid == os.getuid()


@pytest.mark.parametrize("case", HOSTILE)
def test_a_bad_archive_is_refused_with_its_member_named(tmp_path, case):
    name, make, member, word = HOSTILE[case]
    (tmp_path / name).write_bytes(make())
    limits = SMALL if case in ("count in zip", "count in tar", "bytes") else ArchiveLimits()
    with pytest.raises(ArchiveRefused) as refused:
        unpacked(tmp_path / name, tmp_path / "out", limits=limits)
    assert name in refused.value.message and word in refused.value.message, refused.value.message
    assert member == name or repr(member) in refused.value.message, refused.value.message
    assert refused.value.hint and refused.value.file == name
    outside = [path for path in tmp_path.rglob("*") if "evil" in path.name]
    assert not outside and not os.path.exists("/tmp/evil.csv")


def test_a_bomb_is_stopped_on_the_way_and_not_at_its_end(tmp_path):
    name, make, *_ = HOSTILE["ratio in zip"]
    (tmp_path / name).write_bytes(make())
    with pytest.raises(ArchiveRefused):
        unpacked(tmp_path / name, tmp_path / "out")
    assert (tmp_path / "out" / "bomb.csv").stat().st_size <= 10_100_000


def test_a_small_file_may_be_packed_tightly(tmp_path):
    archive = zip_of(tmp_path / "a.zip", {"a": bytes(9_000_000)})
    assert len(unpacked(archive, tmp_path / "out")["a"]) == 9_000_000


def test_nested_archives_come_out_as_folders_when_that_is_allowed(tmp_path):
    inner = zip_of(tmp_path / "inner.zip", {"a.csv": ROW}).read_bytes()
    archive = zip_of(tmp_path / "a.zip", {"d/inner.zip": inner, "b.csv": ROW})
    found = unpacked(archive, tmp_path / "out", limits=ArchiveLimits(max_nesting=2))
    assert found == {"d/inner_zip/a.csv": ROW, "b.csv": ROW}
    assert not (tmp_path / "out" / "d" / "inner.zip").exists()


def test_limits_count_nested_archives_in(tmp_path):
    inner = zip_of(tmp_path / "inner.zip", {f"{i}.csv": ROW for i in range(8)}).read_bytes()
    archive = zip_of(tmp_path / "a.zip", {f"{i}.zip": inner for i in range(3)})
    limits = ArchiveLimits(max_members=20, max_nesting=2)
    with pytest.raises(ArchiveRefused, match="20 members"):
        unpacked(archive, tmp_path / "out", limits=limits)


def test_a_password_opens_a_zip_and_a_wrong_one_does_not(tmp_path):
    archive = zip_with_password(tmp_path / "a.zip", "a.csv", ROW, b"secret")
    assert unpacked(archive, tmp_path / "out", password=b"secret") == {"a.csv": ROW}
    with pytest.raises(ArchiveRefused) as refused:
        unpacked(archive, tmp_path / "other", password=b"guess")
    assert "password is wrong" in refused.value.message or "damaged" in refused.value.message
    assert "secret" not in str(refused.value) and "guess" not in str(refused.value)


def test_folders_are_called_after_the_archive_with_dots_as_underscores():
    assert flat_name("drops/yale.1950a.zip") == "yale_1950a_zip"
    assert len(flat_name("ä" * 300 + ".zip").encode()) <= 200


def test_a_folder_is_there_when_it_is_complete_and_not_before(tmp_path):
    folder = tmp_path / "made" / "x_zip_12345678"
    archive = zip_of(tmp_path / "x.zip", {"a.csv": ROW})

    def fill(out: Path):
        assert not folder.exists()
        return extract(archive, "zip", out, shown="x.zip", limits=ArchiveLimits())

    fresh = fill_fresh(folder, fill, made_from="x.zip", made_by="unzip", sha256="0")
    assert read_index(folder) is None
    index = put_in_place(fresh, folder)
    assert is_whole(folder, index) and [one.path for one in index.outputs] == ["a.csv"]
    (folder / "a.csv").write_bytes(ROW * 2)
    assert not is_whole(folder, index)


def test_a_failure_leaves_nothing_behind_and_keeps_what_was_there(tmp_path):
    folder = tmp_path / "made" / "x"
    put_in_place(fill_fresh(folder, lambda _: [], made_from="x", made_by="m", sha256="1"), folder)

    def fail(out: Path):
        (out / "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill_fresh(folder, fail, made_from="x", made_by="m", sha256="2")
    assert [path.name for path in folder.parent.iterdir()] == ["x"]
    assert read_index(folder).sha256 == "1"


def test_what_a_kill_left_behind_is_swept_and_nothing_else(tmp_path):
    for name in (".x.123.tmp", ".x.456.old", ".y.789.tmp", "x", "x.lock"):
        (tmp_path / name).mkdir()
    sweep(tmp_path / "x")
    assert {path.name for path in tmp_path.iterdir()} == {".y.789.tmp", "x", "x.lock"}


def test_a_full_disk_is_no_fault_of_the_archive(tmp_path, monkeypatch):
    archive = zip_of(tmp_path / "a.zip", {"a.csv": ROW})

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("lading.sources.archives.extract.Extraction._write", full)
    with pytest.raises(SourceError, match=r"a\.zip can't be extracted: No space left") as error:
        unpacked(archive, tmp_path / "out")
    assert not isinstance(error.value, ArchiveRefused), "it must not be set aside"


def test_an_archive_that_went_before_it_was_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(SourceError, match=r"z\.zip can't be extracted: No such file") as caught:
        extract(tmp_path / "z.zip", "zip", tmp_path / "out", shown="z.zip", limits=ArchiveLimits())
    assert caught.value.hint
