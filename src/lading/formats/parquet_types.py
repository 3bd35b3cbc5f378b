"""Which type Spark gives to a Parquet column that Arrow reads as another.

Apart from `spark_types`, so that a run which reads no Parquet imports no Arrow.
"""

from __future__ import annotations

import pyarrow as pa

from lading.formats.types import struct_type


def from_arrow(kind: pa.DataType) -> str:
    """The type that Spark gives to a Parquet column which Arrow reads as `kind`; ValueError if none."""
    for test, made in _FROM_ARROW:
        if test(kind):
            return made
    if pa.types.is_decimal(kind) and kind.precision <= 38:
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    if pa.types.is_dictionary(kind):
        return from_arrow(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"array<{from_arrow(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{from_arrow(kind.key_type)},{from_arrow(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return struct_type({field.name: from_arrow(field.type) for field in kind})
    raise ValueError(f"Spark has no type for {kind}")


# Unsigned integers have no type of their own in Spark: the next wider one holds them all.
_FROM_ARROW = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "tinyint"),
    (pa.types.is_int16, "smallint"),
    (pa.types.is_uint8, "smallint"),
    (pa.types.is_int32, "int"),
    (pa.types.is_uint16, "int"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_uint32, "bigint"),
    (pa.types.is_duration, "bigint"),
    (pa.types.is_uint64, "decimal(20,0)"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_string_view, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_large_binary, "binary"),
    (pa.types.is_binary_view, "binary"),
    (pa.types.is_fixed_size_binary, "binary"),
    (pa.types.is_date, "date"),
    # Nothing but nulls: stored, and read by Spark, as int.
    (pa.types.is_null, "int"),
)
