"""What the formats share whose files have types of their own: Parquet, ORC and Avro.

A file's types are checked against the schema before a row is read (drift.py), so what is left to a row is
little: a text that is no text, or a number, a time or a date that the schema's type can't hold exactly.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.formats.arrow_types import arrow_schema
from lading.formats.drift import check_columns, reading_of
from lading.formats.exact import exact, text_of
from lading.formats.file_types import columns_of, is_list, is_uuid, read_as
from lading.formats.header import table_names
from lading.formats.reader import Bad, Head, ReadSpec, Rows
from lading.formats.reasons import FINER, is_not, undecodable
from lading.formats.rules import Fault, Rules
from lading.model import Column

NOT_UTF8 = undecodable("UTF-8")
_SHOWN = 64  # characters of a value in a reason


@dataclass(frozen=True, slots=True)
class Stored:
    """The columns of a file, by the names that the table has for them."""

    head: Head
    headers: Mapping[str, str]  # as the file calls them

    @classmethod
    def of(cls, key: str, schema: pa.Schema, spec: ReadSpec) -> Stored:
        """SchemaDrift for columns or types that the table's policy doesn't allow."""
        columns = columns_of(key, schema)
        known = {column.name: column for column in spec.columns}
        names = table_names(key, columns, spec.naming.knowing(known))
        types = {
            name: read_as(field.type, known[name]) if name in known else columns[field.name]
            for name, field in zip(names, schema, strict=True)
        }
        return cls(Head(types, check_columns(key, types, spec)), dict(zip(names, columns, strict=True)))

    def wanted(self, spec: ReadSpec) -> list[str]:
        """Those that the table has, as the file calls them."""
        return [self.headers[column.name] for column in spec.columns if column.name in self.headers]


def rows_of(spec: ReadSpec, stored: Stored, batches: Iterator[pa.RecordBatch]) -> Iterator[Rows]:
    """Batches as the file has them, with those of its columns that are wanted, as rows of the schema."""
    fitting = _Fitting(spec, stored)
    taken = 0
    for batch in batches:
        if batch.num_rows:
            yield fitting.rows(batch, taken)
            taken += batch.num_rows


class _Fitting:
    """Makes rows of the schema of what one file holds."""

    def __init__(self, spec: ReadSpec, stored: Stored) -> None:
        self._rules = Rules(spec)
        self._columns = spec.columns
        self._schema = arrow_schema(spec.columns)
        self._headers = stored.headers
        self._wanted = stored.wanted(spec)
        types = stored.head.columns
        self._how = {
            column.name: reading_of(column.name, str(types[column.name]), column.type, spec)
            for column in spec.columns
            if column.name in types
        }

    def rows(self, batch: pa.RecordBatch, before: int) -> Rows:
        held = batch.select(self._wanted)
        faults: dict[int, Fault] = {}  # by place in the batch
        made: dict[str, pa.Array] = {}
        for column in [one for one in self._columns if one.name in self._how]:
            values = held.column(self._headers[column.name])
            read, bad = self._read(values, column)
            made[column.name] = self._rules.filled(read, column.name)
            for place in bad:
                self._rules.blame(faults, place, (column.name, _reason(values, place, column)))
        arrays = [
            made[column.name] if column.name in made else self._rules.lacking(column, batch.num_rows)
            for column in self._columns
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        places = np.setdiff1d(np.arange(batch.num_rows), np.fromiter(faults, np.int64, len(faults)))
        return Rows(
            rows.take(pa.array(places)) if faults else rows,
            places + (before + 1),
            None,
            lambda wanted: [row_text(held, int(places[place])) for place in wanted],
            tuple(
                Bad(before + place + 1, None, *fault, row_text(held, place), self._rules.sets_aside(fault[0]))
                for place, fault in sorted(faults.items())
            ),
            batch.num_rows,
        )

    def _read(self, values: pa.Array, column: Column) -> tuple[pa.Array, list[int]]:
        """The values as the column's, null at the places of those that are none, and these places."""
        kind = self._schema.field(column.name).type
        how = self._how[column.name]
        if how == "misfits":
            return pa.nulls(len(values), kind), pc.indices_nonzero(values.is_valid()).to_pylist()
        if how == "values":
            return _cast_where_possible(values, kind)
        texts, bad = _cast_where_possible(values, pa.string())
        read, misfit = self._rules.texts(column.name).read(texts, column)
        return read, bad if misfit is None else sorted({*bad, *pc.indices_nonzero(misfit).to_pylist()})


def _cast_where_possible(values: pa.Array, target: pa.DataType) -> tuple[pa.Array, list[int]]:
    """The values, and the places of those that the type can't hold, where they are null."""
    try:
        return _cast(values, target), []
    except pa.ArrowInvalid:
        bad = misfits(values, partial(_cast, target=target))
        places = np.arange(len(values))
        return _cast(values.take(pa.array(places, mask=np.isin(places, bad))), target), bad


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
