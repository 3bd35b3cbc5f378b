"""Rows as text: nothing invalid, nothing lost, nothing that depends on this machine's time zone.

Times are ISO-8601, in UTC when they have a zone; decimals are strings, bytes are base64; NaN and the
infinities, which JSON has no words for, are the strings "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import math
from typing import IO, TYPE_CHECKING, Any

import msgspec

from lading.late import pa, pc

if TYPE_CHECKING:
    from lading.read.scan import Scan

_ENCODER = msgspec.json.Encoder(enc_hook=str)


def row_json(value: Any) -> bytes:
    """One JSON value, for rows that are Python objects already."""
    return _ENCODER.encode(_speakable(value))


def plain_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as JSON has them: what `write_jsonl` writes, as values."""
    return [msgspec.json.decode(row_json(record)) for record in with_text_times(batch).to_pylist()]


def write_jsonl(scan: Scan, out: IO[bytes]) -> int:
    """One object a row; gives back how many."""
    rows = 0
    for batch in scan:
        records = with_text_times(batch).to_pylist()
        out.write(b"".join(row_json(record) + b"\n" for record in records))
        rows += batch.num_rows
    return rows


def write_csv(scan: Scan, out: IO[bytes]) -> int:
    """Null is nothing at all, an empty text is "" in quotes; lists and structs are JSON."""
    rows = 0
    from pyarrow.csv import CSVWriter  # late, as all of Arrow

    with CSVWriter(out, flat(_no_rows(scan.schema)).schema) as writer:
        for batch in scan:
            writer.write_batch(flat(batch))
            rows += batch.num_rows
    return rows


def write_arrow(scan: Scan, out: IO[bytes]) -> int:
    rows = 0
    with pa.ipc.new_stream(out, scan.schema) as writer:
        for batch in scan:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _speakable(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _speakable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_speakable(item) for item in value]
    return value


def with_text_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Arrow spells out dates and times of any unit and year; Python's own stop at year 9999."""
    columns = [
        _text_times(column) if pa.types.is_temporal(column.type) else column for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _text_times(column: pa.Array) -> pa.Array:
    if not (
        pa.types.is_timestamp(column.type) or pa.types.is_date(column.type) or pa.types.is_time(column.type)
    ):
        return column
    if pa.types.is_date(column.type):
        return column.cast(pa.date32()).cast(pa.string())
    if pa.types.is_time(column.type):
        return column.cast(pa.string())
    zoned = column.type.tz is not None
    text = column.cast(pa.timestamp(column.type.unit)).cast(pa.string())  # without its zone it is UTC
    text = pc.replace_substring(pc.replace_substring_regex(text, r"\.0+$", ""), " ", "T")
    return pc.binary_join_element_wise(text, "Z", "") if zoned else text


def flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Columns that fit into one cell each."""
    timed = with_text_times(batch)
    return pa.RecordBatch.from_arrays([_flat_column(one) for one in timed.columns], names=timed.schema.names)


def _flat_column(column: pa.Array) -> pa.Array:
    kind = column.type
    if (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
    ):
        return column
    return pa.array([None if value is None else _cell(value) for value in column.to_pylist()], pa.string())


def _cell(value: Any) -> str:
    text = row_json(value).decode()
    return str(msgspec.json.decode(text)) if text.startswith('"') else text


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], names=schema.names)
