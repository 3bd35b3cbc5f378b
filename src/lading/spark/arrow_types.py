"""Spark's types as the Arrow types of a part. Settled from the plan, so an empty table has a schema too."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as st

from lading.errors import PipelineError

_PLAIN: dict[type[st.DataType], pa.DataType] = {
    st.BooleanType: pa.bool_(),
    st.ByteType: pa.int8(),
    st.ShortType: pa.int16(),
    st.IntegerType: pa.int32(),
    st.LongType: pa.int64(),
    st.FloatType: pa.float32(),
    st.DoubleType: pa.float64(),
    st.StringType: pa.string(),
    st.CharType: pa.string(),
    st.VarcharType: pa.string(),
    st.BinaryType: pa.binary(),
    st.DateType: pa.date32(),
    st.TimestampType: pa.timestamp("us", "UTC"),
    st.TimestampNTZType: pa.timestamp("us"),
}


def arrow_schema(spark_schema: st.StructType) -> pa.Schema:
    """The schema of the parts: every field nullable, so that no writer's habits show in it."""
    return pa.schema(
        [pa.field(field.name, _arrow_type(field.dataType, field.name)) for field in spark_schema]
    )


def is_nested(dtype: st.DataType) -> bool:
    """Whether Arrow can't sort by a column of this type."""
    return isinstance(dtype, (st.ArrayType, st.MapType, st.StructType))


def _arrow_type(dtype: st.DataType, column: str) -> pa.DataType:
    if isinstance(dtype, st.DecimalType):
        return pa.decimal128(dtype.precision, dtype.scale)
    if isinstance(dtype, st.ArrayType):
        return pa.list_(pa.field("element", _arrow_type(dtype.elementType, column)))
    if isinstance(dtype, st.MapType):
        return pa.map_(_arrow_type(dtype.keyType, column), _arrow_type(dtype.valueType, column))
    if isinstance(dtype, st.StructType):
        return pa.struct([pa.field(field.name, _arrow_type(field.dataType, column)) for field in dtype])
    plain = _PLAIN.get(dtype.__class__)
    if plain is None:
        raise PipelineError(
            f"column {column!r} has the Spark type {dtype.simpleString()}, which a part can't hold",
            hint="cast it to another type in the table's transform",
        )
    return plain
