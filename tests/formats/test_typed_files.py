"""Files of the formats that are no text, as objects of a storage: read by ranges, with the same result."""

from __future__ import annotations

from pathlib import Path

import fastavro
import openpyxl
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from support.reading import source, spec_of

from lading.formats.registry import reader_of
from lading.formats.source_file import SourceFile
from lading.model import Format, Place

ROWS = [{"a": number, "s": f"ship {number}"} for number in range(1_000)]


def write(path: Path, fmt: Format) -> None:
    if fmt == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=100)
    elif fmt == "orc":
        orc.write_table(pa.Table.from_pylist(ROWS), str(path))
    elif fmt == "avro":
        fields = [{"name": "a", "type": "long"}, {"name": "s", "type": "string"}]
        with open(path, "wb") as file:
            fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, ROWS)
    else:
        book = openpyxl.Workbook()
        book.active.append(["a", "s"])
        for row in ROWS:
            book.active.append(list(row.values()))
        book.save(path)


@pytest.mark.parametrize("fmt", ["parquet", "orc", "avro", "excel"])
def test_an_object_is_read_as_a_file_is(tmp_path: Path, fmt: Format) -> None:
    path = tmp_path / "ships"
    write(path, fmt)
    reader = reader_of(spec_of(fmt, "a bigint; s string"))
    place = Place(str(tmp_path))
    for file in (source(path), SourceFile("ships", "ships", path.stat().st_size, place)):
        head = reader.head(file)
        assert head is not None and list(head.columns) == ["a", "s"]
        assert [row for rows in reader.rows(file) for row in rows.batch.to_pylist()] == ROWS
