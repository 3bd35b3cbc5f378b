"""The same table as a file of any format that has headers."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastavro
import openpyxl
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

FORMATS = ("csv", "tsv", "json", "parquet", "orc", "avro", "excel")


def written(
    folder: Path,
    fmt: str,
    headers: Sequence[str],
    *rows: Sequence[Any],
    name: str = "a",
    kind: str = "string",
) -> Path:
    """A file of texts, or of values of another type of Avro's. None is a null; JSON lacks the key."""
    path = folder / f"{name}.{'xlsx' if fmt == 'excel' else fmt}"
    if fmt in ("csv", "tsv"):
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter="," if fmt == "csv" else "\t").writerows([headers, *rows])
    elif fmt == "json":
        objects = [dict(zip(headers, row, strict=True)) for row in rows]
        said = [{key: value for key, value in one.items() if value is not None} for one in objects]
        path.write_text("".join(json.dumps(one) + "\n" for one in said))
    elif fmt == "excel":
        book = openpyxl.Workbook()
        for row in (headers, *rows):
            book.active.append(list(row))
        book.save(path)
    elif fmt == "avro":
        fields = [{"name": header, "type": ["null", kind]} for header in headers]
        objects = [dict(zip(headers, row, strict=True)) for row in rows]
        with path.open("wb") as stream:
            fastavro.writer(stream, {"type": "record", "name": "r", "fields": fields}, objects)
    else:
        arrow = {"string": pa.string(), "long": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}[
            kind
        ]
        columns = [pa.array([row[at] for row in rows], arrow) for at in range(len(headers))]
        table = pa.Table.from_arrays(columns, names=list(headers))
        (pq.write_table if fmt == "parquet" else orc.write_table)(table, path)
    return path
