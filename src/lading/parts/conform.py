"""A batch of a data file in a table's terms: its columns, its types, in its order.

Files outlive schemas. What an older file lacks is null, what it has in a narrower type is widened; a
value that would not survive is an error and never a wrong value.
"""

from __future__ import annotations

import pyarrow as pa

from lading.errors import PartError

_HINT = "`lading verify` and `lading collection check` list what is damaged; restore the file or replace it"


def conformed(batch: pa.RecordBatch, schema: pa.Schema, path: str, hint: str = _HINT) -> pa.RecordBatch:
    """The batch with exactly these columns; `path` names the file in an error."""
    arrays = []
    for column in schema:
        at = batch.schema.get_field_index(column.name)
        if at < 0:
            arrays.append(pa.nulls(batch.num_rows, column.type))
            continue
        array = batch.column(at)
        if array.type != column.type:
            array = _cast(array, column, path, hint)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(array: pa.Array, column: pa.Field, path: str, hint: str) -> pa.Array:
    try:
        return array.cast(column.type)
    except pa.ArrowException as error:
        raise PartError(
            f"{path}: column {column.name} is {array.type} there and {column.type} in the table: {error}",
            hint=hint,
            file=path,
        ) from error
