"""Files that are no text say so themselves: nobody is told to try another encoding."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lading.errors import SourceError
from lading.formats.infer.columns import infer
from lading.formats.magic import refuse_what_is_no_text
from lading.model import FoundFile

TEXT = b"id,name\n1,Ada\n"


def _zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("xl/workbook.xml", TEXT)
    return file.getvalue()


def _tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("a.csv")
        member.size = len(TEXT)
        archive.addfile(member, io.BytesIO(TEXT))
    return file.getvalue()


def _parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2]}), file)
    return file.getvalue()


def _sqlite(folder: Path) -> bytes:
    with sqlite3.connect(folder / "db") as base:
        base.execute("CREATE TABLE t (a)")
    return (folder / "db").read_bytes()


def _feather() -> bytes:
    file = io.BytesIO()
    with pa.ipc.new_file(file, pa.schema([("a", pa.int64())])):
        pass
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "says", "hint"),
    [
        (_zip(), "Excel workbook (xlsx)", "set the table's format: excel"),
        (lzma.compress(TEXT), "compressed with xz", "end in .xz"),
        (gzip.compress(TEXT, mtime=0), "compressed with gzip", "end in .gz"),
        (bz2.compress(TEXT), "compressed with bzip2", "end in .bz2"),
        (pa.compress(TEXT, codec="zstd", asbytes=True), "compressed with zstd", "end in .zst"),
        (_tar(), "a tar archive", ".tar"),
        (_parquet(), "a Parquet file", "format: parquet"),
        (_feather(), "an Arrow file", "export it"),
        (b"Obj\x01\x04\x14avro.codec", "an Avro file", "format: avro"),
        (b"ORC\x11\x00\x00\x0a", "an ORC file", "format: orc"),
        (b"%PDF-1.7\n%\xe2\xe3", "a PDF document", "export it"),
        (TEXT.decode().encode("utf-16"), "is UTF-16 text", "{encoding: utf-16}"),
        (TEXT.decode().encode("utf-32"), "is UTF-32 text", "{encoding: utf-32}"),
        (TEXT.decode().encode("utf-16-le"), "is UTF-16-LE text, not", "{encoding: utf-16-le}"),
        (TEXT.decode().encode("utf-16-be"), "is UTF-16-BE text, not", "{encoding: utf-16-be}"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "an image (PNG)", "exclude it from the table's `path`"),
        (pa.compress(TEXT, codec="lz4", asbytes=True), "compressed with lz4", "unpack it"),
    ],
)
def test_a_file_that_is_no_text_says_what_it_is_and_what_to_do(
    tmp_path: Path, data: bytes, says: str, hint: str
) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    found = FoundFile("a.csv", str(tmp_path / "a.csv"), len(data), 1, False)
    for encoding in ({}, {"encoding": "latin1"}):
        with pytest.raises(SourceError) as caught:
            infer([found], fmt="csv", read_options=encoding)
        assert says in caught.value.message and caught.value.file == "a.csv"
        assert hint in caught.value.hint and "latin" not in caught.value.hint


def test_databases_too_and_json_is_always_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(_sqlite(tmp_path))
    with pytest.raises(SourceError, match="an SQLite database"):
        refuse_what_is_no_text("a.json", str(tmp_path / "a.json"), "json")
    (tmp_path / "a.json").write_text('{"a": 1}', encoding="utf-16")
    with pytest.raises(SourceError) as caught:
        refuse_what_is_no_text("a.json", str(tmp_path / "a.json"), "json")
    assert caught.value.hint == "convert it to UTF-8"


@pytest.mark.parametrize(
    "text", ["", "PK,x\n", "PAR1,PAR2\n1,2\n", "ORC,elf\n", "BZh,1\n", "Rar!\n", "\ufeffid\n", "a\0,b\0\n"]
)
def test_text_that_begins_with_the_same_letters_is_text(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    refuse_what_is_no_text("a.csv", str(tmp_path / "a.csv"), "csv")
    (tmp_path / "b.csv").write_text("id\n1\n", encoding="utf-16")
    refuse_what_is_no_text("b.csv", str(tmp_path / "b.csv"), "csv", "utf-16")


def test_files_that_are_no_text_are_passed_over_where_they_will_be_set_aside(tmp_path: Path) -> None:
    files = []
    for name, data in (("a.csv", _zip()), ("b.csv", TEXT)):
        (tmp_path / name).write_bytes(data)
        files.append(FoundFile(name, str(tmp_path / name), len(data), 1, False))
    inferred = infer(files, fmt="csv", read_options={}, tolerant=True)
    assert [column.name for column in inferred.columns] == ["id", "name"]
    with pytest.raises(SourceError, match="Excel"):
        infer(files[:1], fmt="csv", read_options={}, tolerant=True)
