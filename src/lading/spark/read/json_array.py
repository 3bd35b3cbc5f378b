"""The elements of files that are one JSON array each, as pieces of their own text.

Spark's own way from an array to its elements writes them anew, and a number of twenty digits comes back
with seventeen. So the text is cut, not parsed and written: an element keeps every character, and its line
can be found again. Runs in Spark's Python workers; a file is held whole by one task.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from lading.formats.json_array import elements_of
from lading.spark.session import quiet_pandas

_TEXT = "value"  # what Spark's text reader calls its column


def elements(files: DataFrame) -> DataFrame:
    """`files` has each file's text as `value`; the result has a row for each element instead."""

    def cut(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _cut(batch)

    plain = files.toDF(*(f"c{number}" for number in range(len(files.columns))))
    with quiet_pandas():
        return plain.mapInArrow(cut, plain.schema).toDF(*files.columns)


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    at = batch.schema.get_field_index("c0")
    for number in range(batch.num_rows):
        whole = batch.column(at)[number].as_py() or ""
        pieces = [whole[start:end] for start, end in elements_of(whole)]
        columns = [
            pa.array(pieces, batch.schema.field(position).type)
            if position == at
            else pa.array([column[number].as_py()] * len(pieces), column.type)
            for position, column in enumerate(batch.columns)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)
