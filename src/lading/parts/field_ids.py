"""A number for every column, for good: what a column means to readers that go by numbers and not by names.

The numbers stand in the Arrow schema that the log carries, as `PARQUET:field_id` on each field (Arrow writes
them into every part that has such a schema), and the schema says which was given last. So they are part of
what the table is. None is ever given twice: a column that went and came back, or that became of a type which
its old values can't be read as, is another column with another number. A schema from before there were
numbers has those that counting gives, and keeps them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa

from lading.layout.table import SOURCE

SOURCE_ID = 1  # of `_source`, in every table
_ID = b"PARQUET:field_id"
_LAST = b"lading.last_field_id"
_GONE = b"lading.gone_fields"
_SOME_WITHOUT = b"lading.some_without_ids"
_WHOLE = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


def numbered(schema: pa.Schema, known: bytes = b"") -> pa.Schema:
    """`schema` with a number for each field; `known` is the schema that the log carries, whose fields keep
    theirs as long as they stay what they are."""
    before = _complete(pa.ipc.read_schema(pa.py_buffer(known))) if known else None
    given = _Numbers(SOURCE_ID if before is None else last_id(before))
    old = {} if before is None else {field.name: field for field in before}
    fields = [given.to(field, old.get(field.name)) for field in schema]
    gone = {} if before is None else gone_names(before) | {name: field_id(one) for name, one in old.items()}
    gone = {name: number for name, number in gone.items() if name not in schema.names}
    more = {_GONE: json.dumps(gone).encode()} if gone else {}
    if before is not None and has_parts_without_numbers(before):
        more[_SOME_WITHOUT] = b"1"
    return pa.schema(fields, metadata={_LAST: str(given.last).encode(), **more})


def has_parts_without_numbers(schema: pa.Schema) -> bool:
    """Whether a table with this numbered schema may have, or may have had, parts from before there were
    numbers."""
    told = schema.metadata or {}
    return _LAST not in told or _SOME_WITHOUT in told


def gone_names(schema: pa.Schema) -> dict[str, int | None]:
    """Columns that the table had before and hasn't any more, with the number that each had last."""
    told: dict[str, int | None] = json.loads((schema.metadata or {}).get(_GONE, b"{}"))
    return told


def of_log(known: bytes) -> pa.Schema:
    """The schema that the log carries, with the numbers that it has or that counting gives."""
    return _complete(pa.ipc.read_schema(pa.py_buffer(known)))


def field_id(field: pa.Field) -> int | None:
    """None for a field without a number."""
    told = (field.metadata or {}).get(_ID)
    return int(told) if told is not None and told.isdigit() else None


def last_id(schema: pa.Schema) -> int:
    """The greatest number that was ever given in a numbered schema."""
    told = (schema.metadata or {}).get(_LAST, b"0")
    found = [number for field in fields_within(schema) if (number := field_id(field)) is not None]
    return max([int(told) if told.isdigit() else 0, SOURCE_ID, *found])


def same_columns(one: bytes, other: bytes) -> bool:
    """Whether two schemas differ in nothing but numbers."""
    if one == other:
        return True
    if not one or not other:
        return False
    this, that = (pa.ipc.read_schema(pa.py_buffer(schema)) for schema in (one, other))
    return bool(this.equals(that, check_metadata=False))


def without_numbers(schema: pa.Schema) -> pa.Schema:
    """As readers see it: numbers are for files."""
    return pa.schema([_plain(field) for field in schema])


def children(dtype: pa.DataType) -> list[pa.Field]:
    """The fields inside a nested type; of a map its key and its value."""
    if pa.types.is_map(dtype):
        return [dtype.key_field, dtype.item_field]
    return [dtype.field(number) for number in range(dtype.num_fields)] if pa.types.is_nested(dtype) else []


def fields_within(fields: pa.Schema | list[pa.Field]) -> Iterator[pa.Field]:
    """Every field, and what is inside of it behind it."""
    for field in fields:
        yield field
        yield from fields_within(children(field.type))


def stays(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether what was written as `old` can be read as `new` by those who go by numbers: the same, or one of
    the few widenings that all of them know."""
    if pa.types.is_nested(old) or pa.types.is_nested(new):
        return _stays_nested(old, new)
    if old == new or (old in _WHOLE and new in _WHOLE):
        return bool(old == new or new == pa.int64() or old != pa.int64())
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return bool(old.scale == new.scale and old.precision <= new.precision)
    return bool(pa.types.is_float32(old) and pa.types.is_float64(new))


def _stays_nested(old: pa.DataType, new: pa.DataType) -> bool:
    these, those = children(old), children(new)
    if old.id != new.id or len(these) != len(those):
        return False
    named = pa.types.is_struct(old)
    return all(
        stays(one.type, other.type) and (not named or one.name == other.name)
        for one, other in zip(these, those, strict=True)
    )


def _complete(schema: pa.Schema) -> pa.Schema:
    """With numbers, if it has none."""
    if all(field_id(field) is not None for field in fields_within(schema)):
        return schema
    given = _Numbers(SOURCE_ID)
    fields = [given.to(field, None) for field in schema]
    return pa.schema(fields, metadata={_LAST: str(given.last).encode(), _SOME_WITHOUT: b"1"})


def _plain(field: pa.Field) -> pa.Field:
    if pa.types.is_nested(field.type):
        return pa.field(field.name, _nested(field.type, [_plain(one) for one in children(field.type)]))
    return field if field.metadata is None else field.remove_metadata()


def _nested(like: pa.DataType, inner: list[pa.Field]) -> pa.DataType:
    """A type of the shape of `like` with these fields inside."""
    if pa.types.is_struct(like):
        return pa.struct(inner)
    if pa.types.is_map(like):
        return pa.map_(inner[0].with_nullable(False), inner[1])
    if pa.types.is_fixed_size_list(like):
        return pa.list_(inner[0], like.list_size)
    return pa.large_list(inner[0]) if pa.types.is_large_list(like) else pa.list_(inner[0])


class _Numbers:
    """Gives numbers, each once."""

    def __init__(self, last: int) -> None:
        self.last = last

    def to(self, field: pa.Field, old: pa.Field | None) -> pa.Field:
        """`field` with the numbers of `old` if it still is that one, with new ones otherwise."""
        if old is not None and not stays(old.type, field.type):
            old = None
        if field.name == SOURCE:
            number: int | None = SOURCE_ID
        else:
            number = field_id(old) if old is not None else None
        if number is None:
            self.last = number = self.last + 1
        inside = self._inside(field.type, old)
        return pa.field(field.name, inside, nullable=field.nullable, metadata={_ID: str(number).encode()})

    def _inside(self, dtype: pa.DataType, old: pa.Field | None) -> pa.DataType:
        if not pa.types.is_nested(dtype):
            return dtype
        own = children(dtype)
        before = children(old.type) if old is not None else [None] * len(own)
        inner = [self.to(one, was) for one, was in zip(own, before, strict=True)]
        return _nested(dtype, inner)
