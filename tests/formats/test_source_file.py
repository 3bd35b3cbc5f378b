"""A source file that is not what was found, wherever that shows: told as such, never as a damaged one."""

from __future__ import annotations

import io
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.servers import S3Server

from lading.errors import SourceError
from lading.formats.reader import WHOLE, ReadSpec
from lading.formats.registry import reader_of
from lading.formats.source_file import Gone, SourceFile
from lading.model import Column
from lading.storage.place import place, storage_of

CSV = b"a\n1\n2\n"


def parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2]}), out)
    return out.getvalue()


CONTENT = {"csv": CSV, "json": b'{"a":1}\n{"a":2}\n', "parquet": parquet()}


def read(kind: str, file: SourceFile) -> int:
    reader = reader_of(ReadSpec(kind, {}, (Column("a", "bigint"),)))
    return sum(rows.batch.num_rows for rows in reader.rows(file, WHOLE))


@pytest.mark.parametrize("kind", CONTENT)
def test_a_file_that_is_not_there_is_gone(kind: str, tmp_path: Path) -> None:
    file = SourceFile("f", str(tmp_path / f"f.{kind}"), 10)
    with pytest.raises(Gone):
        read(kind, file)
    with pytest.raises(Gone):
        file.digest()


@pytest.mark.parametrize("kind", CONTENT)
def test_an_object_is_the_one_that_was_listed_or_none(kind: str, s3_server: S3Server) -> None:
    there = place(s3_server.bucket(f"b{uuid.uuid4().hex[:12]}"), s3_server.options())
    storage = storage_of(there)
    storage.put("f", CONTENT[kind])
    [found] = storage.list()

    def file() -> SourceFile:
        return SourceFile("f", "f", found.size, there, found.etag.strip('"'))

    assert read(kind, file()) == 2
    storage.put("f", CONTENT[kind][:-1] + b" ")
    with pytest.raises(SourceError, match="f changed while it was being read"):
        read(kind, file())
    storage.delete("f")
    with pytest.raises(Gone, match="f vanished"):
        read(kind, file())
