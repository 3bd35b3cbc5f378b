"""A table's columns in Iceberg's words: the schema, the names for files without numbers, and the order.

`_source` is in every part and in no schema: a reader that goes by numbers leaves out what it has no number
for. The name mapping has it all the same, since some readers refuse a file with a name that they can't place.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import xxhash

from lading.errors import NotShown
from lading.layout.table import SOURCE
from lading.parts.field_ids import children, field_id

_PLAIN = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
}


def type_of(dtype: pa.DataType, column: str) -> str | dict[str, Any]:
    """Iceberg's name for a type; NotShown where it has none."""
    if dtype in _PLAIN:
        return _PLAIN[dtype]
    if pa.types.is_timestamp(dtype) and dtype.tz and dtype.unit == "us":
        return "timestamptz"
    if pa.types.is_decimal128(dtype):
        return f"decimal({dtype.precision}, {dtype.scale})"
    if pa.types.is_struct(dtype):
        return {"type": "struct", "fields": [field_of(one) for one in children(dtype)]}
    if pa.types.is_map(dtype):
        key, value = children(dtype)
        return {
            "type": "map",
            "key-id": field_id(key),
            "key": type_of(key.type, column),
            "value-id": field_id(value),
            "value": type_of(value.type, column),
            "value-required": False,
        }
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        [element] = children(dtype)
        return {
            "type": "list",
            "element-id": field_id(element),
            "element": type_of(element.type, column),
            "element-required": False,
        }
    raise NotShown(
        f"column {column!r} is {dtype}, which Iceberg has no type for",
        hint="give the column another type, or set `iceberg: false` for the table",
    )


def field_of(field: pa.Field) -> dict[str, Any]:
    return {
        "id": field_id(field),
        "name": field.name,
        "required": False,
        "type": type_of(field.type, field.name),
    }


def schema_of(schema: pa.Schema) -> dict[str, Any]:
    """Of a numbered schema. It is named by what it says, so that equal ones have one number."""
    fields = [field_of(field) for field in schema if field.name != SOURCE]
    told = json.dumps(fields, sort_keys=True).encode()
    return {"type": "struct", "schema-id": xxhash.xxh3_64_intdigest(told) & 0x7FFFFFFF, "fields": fields}


def name_mapping(schema: pa.Schema) -> list[dict[str, Any]]:
    """Which number a name stands for, in files that have no numbers."""
    return [_named(field) for field in schema]


def sort_order(schema: pa.Schema, order_by: str | None) -> dict[str, Any] | None:
    """How parts are sorted, if in a way that Iceberg's words describe. Its number is that of the column."""
    if order_by is None or order_by not in schema.names:
        return None
    field = schema.field(order_by)
    if pa.types.is_floating(field.type) or pa.types.is_nested(field.type):
        return None  # zero has a sign there, and NaN a place
    number = field_id(field)
    ordered = {"transform": "identity", "source-id": number, "direction": "asc", "null-order": "nulls-first"}
    return {"order-id": number, "fields": [ordered]}


def _named(field: pa.Field) -> dict[str, Any]:
    inside = [_named(one) for one in children(field.type)]
    named: dict[str, Any] = {"field-id": field_id(field), "names": [field.name]}
    return named | {"fields": inside} if inside else named
