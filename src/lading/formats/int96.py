"""Parquet's times of 96 bits, as Spark, Hive and Impala write them: days, and nanoseconds of the day.

Arrow has 64 bits for a time. As nanoseconds they reach from 1678 to 2262, and beyond that Arrow gives some
other time; as microseconds they reach further, and it cuts off what is finer. So both are read: each tells
where the other is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lading.errors import SourceError
from lading.formats.file_types import is_list

IN_MICROSECONDS = {"coerce_int96_timestamp_unit": "us"}  # how a file is opened to get them so


def has_int96(metadata: Any, leaves: Sequence[int]) -> bool:
    return any(metadata.schema.column(place).physical_type == "INT96" for place in leaves)


def declared_schema(opened: pq.ParquetFile) -> pa.Schema:
    """The schema of a file, in which these times are instants: they have no way to say so themselves."""
    stored = opened.metadata.schema
    leaves = iter([stored.column(place).physical_type for place in range(len(stored))])
    return pa.schema([(field.name, _declared(field.type, leaves)) for field in opened.schema_arrow])


def _declared(kind: pa.DataType, leaves: Iterator[str]) -> pa.DataType:
    """Leaves are stored in the order of the fields."""
    if is_list(kind):
        inner = _declared(kind.value_type, leaves)
        return kind if inner == kind.value_type else pa.list_(inner)
    if pa.types.is_map(kind):
        return pa.map_(_declared(kind.key_type, leaves), _declared(kind.item_type, leaves))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _declared(field.type, leaves)) for field in kind])
    if isinstance(kind, pa.BaseExtensionType):
        _declared(kind.storage_type, leaves)
        return kind
    return pa.timestamp("ns", "UTC") if next(leaves) == "INT96" else kind


def settled(
    file: str, fine: Iterator[pa.RecordBatch], coarse: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The batches as nanoseconds; columns of `coarse` in its microseconds where they reach too far."""
    for batch, other in zip(fine, coarse, strict=True):
        for name in other.schema.names:
            place = batch.schema.get_field_index(name)
            values = _settled(file, name, batch.column(place), other.column(name))
            batch = batch.set_column(place, name, values)
        yield batch


def _settled(file: str, name: str, fine: pa.Array, coarse: pa.Array) -> pa.Array:
    far = finer = False
    for ns, us in zip(_leaves(fine), _leaves(coarse), strict=True):
        if pa.types.is_timestamp(us.type) and us.type.unit == "us" and us.type != ns.type:
            small, large = (np.asarray(pc.cast(one.drop_null(), pa.int64())) for one in (ns, us))
            far |= bool((small // 1_000 != large).any())
            # If there is nothing finer, both are the same number of nanoseconds, modulo 2**64.
            finer |= bool((small != large * 1_000).any())
    if far and finer:
        raise SourceError(
            f"{file}: column {name!r} has times beyond the years 1678 to 2262, "
            "and others finer than a microsecond",
            hint="write the file with timestamps in microseconds",
            file=file,
        )
    return coarse if far else fine


def _leaves(values: pa.Array) -> Iterator[pa.Array]:
    kind = values.type
    if pa.types.is_map(kind):
        # The validity of a map says nothing of its entries: what is below a null one is in both.
        yield from _leaves(values.keys)
        yield from _leaves(values.items)
    elif is_list(kind):
        yield from _leaves(values.flatten())
    elif pa.types.is_struct(kind):
        for inner in values.flatten():
            yield from _leaves(inner)
    else:
        yield values
