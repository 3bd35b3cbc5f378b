"""The elements of files that are one JSON array each, as pieces of their own text.

Spark's own way from an array to its elements writes them anew, and a number of twenty digits comes back
with seventeen. So the text is cut, not parsed and written: an element keeps every character, and its line
can be found again. Runs in Spark's Python workers; a file is held whole by one task.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from lading.pipeline.session import quiet_pandas

_TEXT = "value"  # what Spark's text reader calls its column
_SPACE = " \t\n\r"


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
        pieces = pieces_of(whole)
        columns = [
            pa.array(pieces, batch.schema.field(position).type)
            if position == at
            else pa.array([column[number].as_py()] * len(pieces), column.type)
            for position, column in enumerate(batch.columns)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def pieces_of(text: str) -> list[str]:
    """The texts of an array's elements; the whole text where it is no array, or not one to its end."""
    stripped = text.strip(_SPACE + "\ufeff")
    if not stripped.startswith("["):
        return [stripped] if stripped else []
    try:
        return list(_elements(stripped))
    except (json.JSONDecodeError, RecursionError):
        return [stripped]


def _elements(text: str) -> Iterator[str]:
    # Numbers stay text: a million digits are no reason to compute with them.
    scan = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode
    at = _next(text, 1)
    if text[at : at + 1] == "]":
        _refuse_more(text, at)
        return
    while True:
        _, end = scan(text, at)
        yield text[at:end]
        at = _next(text, end)
        if text[at : at + 1] == "]":
            _refuse_more(text, at)
            return
        if text[at : at + 1] != ",":
            raise json.JSONDecodeError("no comma", text, at)
        at = _next(text, at + 1)


def _refuse_more(text: str, at: int) -> None:
    if at + 1 != len(text):
        raise json.JSONDecodeError("more text behind the array", text, at + 1)


def _next(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in _SPACE:
        at += 1
    return at
