"""What the formats share whose files have types of their own: Parquet, ORC and Avro.

A file's types are checked against the schema before a row is read (drift.py), so what is left to a row is
little: a text that is no text, or a number, a time or a date that the schema's type can't hold exactly.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.formats.arrow_types import arrow_schema
from lading.formats.drift import check_columns
from lading.formats.exact import exact, text_of
from lading.formats.file_types import is_list, is_uuid
from lading.formats.reader import Bad, Head, ReadSpec, Rows
from lading.formats.reasons import FINER, is_not, undecodable
from lading.model import Column

NOT_UTF8 = undecodable("UTF-8")
_SHOWN = 64  # characters of a value in a reason


def checked_head(key: str, columns: Mapping[str, str], spec: ReadSpec) -> Head:
    """SchemaDrift for columns or types that the table's policy doesn't allow."""
    ignored = check_columns(key, columns, spec.columns, spec.name_columns, drift=spec.drift)
    return Head(columns, ignored)


def rows_of(spec: ReadSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[Rows]:
    """Batches as the file has them, with any of the schema's columns, as rows of the schema."""
    taken = 0
    for batch in batches:
        if batch.num_rows:
            yield _fit(spec, batch, taken)
            taken += batch.num_rows


def _fit(spec: ReadSpec, batch: pa.RecordBatch, before: int) -> Rows:
    schema = arrow_schema(spec.columns)
    here = [column for column in spec.columns if column.name in batch.schema.names]
    held = batch.select([column.name for column in here])
    faults: dict[int, tuple[str, str]] = {}  # by place in the batch
    made: dict[str, pa.Array] = {}
    for column, values in zip(here, held.columns, strict=True):
        kind = schema.field(column.name).type
        try:
            made[column.name] = _cast(values, kind)
        except pa.ArrowInvalid:
            for place in misfits(values, partial(_cast, target=kind)):
                faults.setdefault(place, (column.name, _reason(values, place, column)))
    places = np.setdiff1d(np.arange(batch.num_rows), np.fromiter(faults, np.int64, len(faults)))
    if len(made) < len(here):
        fine = held.take(pa.array(places))
        made = {c.name: _cast(v, schema.field(c.name).type) for c, v in zip(here, fine.columns, strict=True)}
    arrays = [
        made[field.name] if field.name in made else pa.nulls(len(places), field.type) for field in schema
    ]
    return Rows(
        pa.RecordBatch.from_arrays(arrays, schema=schema),
        places + (before + 1),
        None,
        lambda wanted: [row_text(held, int(places[place])) for place in wanted],
        tuple(
            Bad(before + place + 1, None, name, reason, row_text(held, place))
            for place, (name, reason) in sorted(faults.items())
        ),
        batch.num_rows,
    )


def misfits(values: pa.Array, convert: Callable[[pa.Array], Any]) -> list[int]:
    """The places of values at which `convert` fails, all of them, by halves."""
    bad: list[int] = []
    todo = [(0, len(values))]
    while todo:
        start, end = todo.pop()
        try:
            # `take` copies, where a slice of nested values would carry its neighbours' along.
            convert(values.take(pa.array(range(start, end), pa.int64())))
        except pa.ArrowInvalid:
            if end - start == 1:
                bad.append(start)
            else:
                middle = (start + end) // 2
                todo += [(middle, end), (start, middle)]
    return bad


def _reason(values: pa.Array, place: int, column: Column) -> str:
    one = values.take(pa.array([place]))
    if _is_undecodable(one):
        return NOT_UTF8
    shown = _shown(one[0])
    text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
    return f"{text[:_SHOWN]!r} {FINER if _is_finer(one) else is_not(text, column)}"


def _is_finer(values: pa.Array) -> bool:
    """Whether times are, than the microseconds that a type holds."""
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return kind.unit == "ns" and any(number % 1_000 for number in pc.cast(values, pa.int64()).to_pylist())
    if pa.types.is_struct(kind):
        return any(map(_is_finer, values.flatten()))
    return is_list(kind) and _is_finer(values.flatten())


def _is_undecodable(values: pa.Array) -> bool:
    try:
        _decoded(values).validate(full=True)
    except pa.ArrowInvalid:
        return _holds_text(values.type)
    return False


def _cast(values: pa.Array, target: pa.DataType) -> pa.Array:
    """ArrowInvalid for a value that the type can't hold, and for what is no text."""
    made = exact(values, target)
    if _holds_text(target):
        made.validate(full=True)
    return made


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _holds_text(kind.value_type)
    if kind.num_fields:
        return any(_holds_text(kind.field(place).type) for place in range(kind.num_fields))
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _decoded(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def row_text(batch: pa.RecordBatch, place: int) -> str:
    """A row as JSON, without its nulls; what is no text has marks in it."""
    row = {field.name: _shown(batch.column(at)[place]) for at, field in enumerate(batch.schema)}
    return json.dumps({name: value for name, value in row.items() if value is not None}, ensure_ascii=False)


def _shown(value: pa.Scalar) -> Any:
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_dictionary(kind):
        return _shown(value.dictionary[value.index.as_py()])
    if pa.types.is_struct(kind):
        fields = {kind.field(at).name: _shown(value[at]) for at in range(kind.num_fields)}
        return {name: inner for name, inner in fields.items() if inner is not None}
    if pa.types.is_map(kind):
        pairs: Sequence[Any] = [] if value.values is None else value.values
        return {str(_shown(pair["key"])): _shown(pair["value"]) for pair in pairs}
    if is_list(kind):
        return [_shown(inner) for inner in value.values]
    if _holds_text(kind):
        return pc.cast(value, pa.binary()).as_py().decode("utf-8", "replace")
    if isinstance(kind, pa.BaseExtensionType):
        return str(value.as_py()) if is_uuid(kind) else _shown(value.value)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return value.as_py()
    if pa.types.is_floating(kind):
        number = value.as_py()
        return number if np.isfinite(number) else str(number)
    if _is_bytes(kind):
        return base64.b64encode(value.as_py()).decode()
    try:
        return text_of(pa.array([value]))[0].as_py()
    except pa.ArrowInvalid:  # a time that no calendar, or no day, has
        return value.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64()).as_py()


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )
