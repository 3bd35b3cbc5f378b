"""Compressed text is text, within bounds: what a few bytes stand for never fills the memory."""

import bz2
import gzip
import hashlib
import lzma
import os
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lading.cli.main import invoke
from lading.config.archives import ArchiveLimits
from lading.errors import SourceError
from lading.formats.infer.columns import infer
from lading.formats.opening import BeyondBounds, bound_below, limits_of, open_plain
from lading.formats.reader import ReadSpec
from lading.formats.registry import reader_of
from lading.formats.source_file import SourceFile
from lading.model import Column, FoundFile

CSV = reader_of(ReadSpec("csv", {}, (Column("a", "string"), Column("b", "string"))))

PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


@pytest.fixture(params=PACK)
def packed(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[bytes], str]:
    def write(data: bytes) -> str:
        path = tmp_path / f"ships.csv{request.param}"
        if request.param == ".zst":
            with pa.output_stream(str(path), compression="zstd") as out:
                out.write(data)
        else:
            path.write_bytes(PACK[request.param](data))
        return str(path)

    return write


def test_what_is_within_bounds_is_read_as_it_is(packed: Callable[[bytes], str]) -> None:
    data = b"".join(b"%d,%d\r\n" % (number, number * 7919) for number in range(200_000))
    path = packed(data)
    with open_plain(path) as plain:
        assert plain.read() == data
    with open_plain(path) as plain:
        assert list(plain) == data.splitlines(keepends=True)


def test_a_bomb_is_refused_by_its_ratio(packed: Callable[[bytes], str], tmp_path: Path) -> None:
    path = packed(b"a,b\n" * 5_000_000)
    bound_below(str(tmp_path), ArchiveLimits(max_ratio=20))
    with open_plain(path) as plain, pytest.raises(BeyondBounds, match="20 times its size"):
        while plain.read(1 << 20):
            pass
    limited = SourceFile("ships", path, os.path.getsize(path), limits=ArchiveLimits(max_ratio=20))
    with pytest.raises(SourceError, match="max_ratio") as caught:
        list(CSV.rows(limited))
    assert "raise max_ratio under `archives:`" in caught.value.hint
    assert limited.digest() == hashlib.sha256(Path(path).read_bytes()).hexdigest()
    trusted = SourceFile("ships", path, os.path.getsize(path), limits=ArchiveLimits(max_ratio=1_000_000))
    assert sum(rows.taken_records for rows in CSV.rows(trusted)) == 4_999_999


@pytest.mark.parametrize("look", ["lines", "header", "infer csv", "infer json", "rows"])
def test_a_line_without_end_takes_no_more_memory_than_allowed(tmp_path: Path, look: str) -> None:
    path = str(tmp_path / "ships.csv.gz")
    Path(path).write_bytes(gzip.compress(b"a,b\n1,2\n" * (look == "infer csv") + b"x" * 60_000_000, 1))
    bound_below(str(tmp_path), ArchiveLimits(max_ratio=10**9, max_line=1_000_000))
    tracemalloc.start()
    try:
        with pytest.raises((SourceError, BeyondBounds), match="a line of more than 1,000,000 bytes"):
            if look == "lines":
                list(open_plain(path))
            elif look == "header":
                CSV.head(SourceFile("ships", path, os.path.getsize(path), limits=limits_of(path)))
            elif look == "rows":
                limits = ArchiveLimits(max_ratio=10**9, max_line=1_000_000)
                list(CSV.rows(SourceFile("ships", path, os.path.getsize(path), limits=limits)))
            else:
                files = [FoundFile("ships", path, 1, 1, False)]
                infer(files, fmt=look.split()[1], read_options={})
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_bomb_fails_its_table_or_is_set_aside(
    tmp_path: Path, encoding: str, capfd: pytest.CaptureFixture[str]
) -> None:
    config = (
        "archives: {{max_line: 100kB}}\nspark: {{in_process_below: 1MB}}\n"
        "tables: {{ships: {{path: '*.gz', format: csv, on_bad: {}, read_options: {{encoding: {}}}}}}}\n"
    )
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"a,b\n1," + b"2" * 200_000))
    (tmp_path / "lading.yaml").write_text(config.format("fail", encoding))
    assert invoke(["-C", str(tmp_path), "discover-schema"]) == 1
    assert "raise max_line under `archives:` in lading.yaml" in capfd.readouterr().err
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "ships.yaml").write_text(
        "columns: [{name: a, type: bigint}, {name: b, type: string}]\n"
    )
    assert invoke(["-C", str(tmp_path), "run"]) == 1
    assert "bomb.csv.gz can't be read: it has a line of more than 100,000" in capfd.readouterr().err
    (tmp_path / "lading.yaml").write_text(config.format("quarantine", encoding))
    assert invoke(["-C", str(tmp_path), "run"]) == 0
    assert invoke(["-C", str(tmp_path), "quarantine", "list"]) == 0
    assert "max_line" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("packed", "plain"),
    [
        (lzma.compress(b"a\n1\n") + lzma.compress(b"2\n"), b"a\n1\n2\n"),
        (lzma.compress(b"a\n") + bytes(8) + lzma.compress(b"1\n") + bytes(4), b"a\n1\n"),
        (lzma.compress(b"a\n") + bytes(200_000) + lzma.compress(b"1\n"), b"a\n1\n"),
        (lzma.compress(b""), b""),
    ],
)
def test_xz_may_be_several_streams_with_padding_between(tmp_path: Path, packed: bytes, plain: bytes) -> None:
    path = tmp_path / "ships.csv.XZ"
    path.write_bytes(packed)
    with open_plain(str(path)) as opened:
        assert opened.read() == plain


def _with_dictionary(packed: bytes, size: int) -> bytes:
    """The same, but its reader is told to have room for more: 37 stands for 1 GiB."""
    header = bytearray(packed[12 : 12 + packed[12] * 4 + 4])
    at = header.index(b"\x21\x01") + 2
    header[at] = size
    header[-4:] = zlib.crc32(header[:-4]).to_bytes(4, "little")
    return packed[:12] + bytes(header) + packed[12 + len(header) :]


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"a\n1\n",
        lzma.compress(b"a\n")[:-5],
        lzma.compress(b"a\n") + b"b\n",
        lzma.compress(b"a\n") + bytes(3),
        lzma.compress(b"a\n") + lzma.compress(b"1\n")[:-1],
        lzma.compress(b"a\n", lzma.FORMAT_ALONE),
        _with_dictionary(lzma.compress(b"a\n"), 37),
    ],
)
def test_what_is_no_xz_to_its_end_is_refused(tmp_path: Path, packed: bytes) -> None:
    path = tmp_path / "ships.csv.xz"
    path.write_bytes(packed)
    with pytest.raises(SourceError, match=r"ships\.csv\.xz can't be read"):
        list(CSV.rows(SourceFile("ships.csv.xz", str(path), len(packed))))
