"""The Arrow type of each type that a schema file may name, and of a table's columns: what readers give."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa

from lading.config.types import inner_types
from lading.formats.types import is_nested
from lading.model import Column

PLAIN = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_type(ddl: str) -> pa.DataType:
    """Of a type in its canonical spelling. Every field in it is nullable."""
    if is_nested(ddl):
        inner = {name: arrow_type(kind) for name, kind in inner_types(ddl).items()}
        if ddl.startswith("array<"):
            return pa.list_(pa.field("element", inner["0"]))
        if ddl.startswith("map<"):
            return pa.map_(inner["0"], inner["1"])
        return pa.struct([pa.field(name, kind) for name, kind in inner.items()])
    decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", ddl)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else PLAIN[ddl]


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])
