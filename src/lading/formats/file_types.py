"""The types of files that have their own: what each of them is here, and as what else it may be read.

What Spark can't store as it is becomes a type that holds every value exactly. Spark has a type for times of
day only from 4.1 on, and none that is finer than a microsecond: times of day are text, and a nanosecond that
doesn't fit is a bad row, unless a person chooses a type that holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from lading.config.names import case_clash
from lading.config.types import VOID, inner_types, struct_type
from lading.errors import SourceError
from lading.model import Column

_Test = Callable[[pa.DataType], bool]


@dataclass(frozen=True, slots=True)
class FileTypes:
    """What the head of a file says."""

    columns: dict[str, str]  # names and types, in the file's order
    rows: int | None = None  # None: it doesn't say
    short: frozenset[str] = frozenset()  # columns of integers that surely have at most 15 digits


def columns_of(key: str, schema: pa.Schema) -> dict[str, str]:
    """Names and types as the schema files write them, `void` for nothing but nulls; SourceError for what has
    none."""
    columns: dict[str, str] = {}
    for field in schema:
        if field.name in columns:
            raise SourceError(
                f"{key} has two columns named {field.name!r}", hint="rename one of them", file=key
            )
        try:
            columns[field.name] = from_arrow(field.type)
        except ValueError as error:
            raise SourceError(
                f"{key}: column {field.name!r} can't be read: {error}",
                hint="write it with another type, or with other names, or leave it out of the file",
                file=key,
            ) from error
    return columns


def read_as(kind: pa.DataType, column: Column) -> str:
    """The type of the table's column, at any depth at which values are read as that one too; else the one
    that `from_arrow` gives."""
    return _read_as(kind, column.type, column.inferred)


def from_arrow(kind: pa.DataType) -> str:
    """The type as schema files write it, `void` for nothing but nulls; ValueError if there is none."""
    for test, made in _FROM_ARROW:
        if test(kind):
            return made
    if pa.types.is_decimal(kind):
        fits = kind.precision <= 38 and 0 <= kind.scale <= kind.precision
        return f"decimal({kind.precision},{kind.scale})" if fits else "string"
    if pa.types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    if pa.types.is_dictionary(kind):
        return from_arrow(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return from_arrow(kind.storage_type)
    if is_list(kind):
        return f"array<{from_arrow(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{from_arrow(kind.key_type)},{from_arrow(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return _struct(kind)
    raise ValueError(f"there is no type for {kind}")


def is_list(kind: pa.DataType) -> bool:
    return any(test(kind) for test in _LISTS)


def is_uuid(kind: pa.DataType) -> bool:
    return getattr(kind, "extension_name", None) == "arrow.uuid"


def _struct(kind: pa.DataType) -> str:
    names = [field.name for field in kind]
    clash = case_clash(names)
    if clash is not None:
        one, other = clash
        how = "has two fields" if one == other else "Spark can't tell apart its fields"
        raise ValueError(f"{how} {one!r} and {other!r}")
    return struct_type({field.name: from_arrow(field.type) for field in kind})


def _read_as(kind: pa.DataType, wanted: str, inferred: bool) -> str:
    if pa.types.is_dictionary(kind):
        return _read_as(kind.value_type, wanted, inferred)
    if is_list(kind) and wanted.startswith("array<"):
        return f"array<{_read_as(kind.value_type, inner_types(wanted)['0'], inferred)}>"
    if pa.types.is_map(kind) and wanted.startswith("map<"):
        inner = inner_types(wanted)
        key, item = (
            _read_as(kind.key_type, inner["0"], inferred),
            _read_as(kind.item_type, inner["1"], inferred),
        )
        return f"map<{key},{item}>"
    if pa.types.is_struct(kind) and wanted.startswith("struct<"):
        inner = inner_types(wanted)
        return struct_type(
            {
                field.name: _read_as(field.type, inner[field.name], inferred)
                if field.name in inner
                else from_arrow(field.type)
                for field in kind
            }
        )
    chosen = any(
        test(kind) and wanted.startswith(types) for test, types in (_ALWAYS if inferred else _CHOICES)
    )
    return wanted if chosen else from_arrow(kind)


def _is_wide_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind)) and from_arrow(kind) == "string"


_LISTS: tuple[_Test, ...] = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)

# Unsigned integers have no type of their own: the next wider one holds them all.
_FROM_ARROW: tuple[tuple[_Test, str], ...] = (
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
    (pa.types.is_float16, "float"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_string_view, "string"),
    (is_uuid, "string"),
    (pa.types.is_time, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_large_binary, "binary"),
    (pa.types.is_binary_view, "binary"),
    (pa.types.is_fixed_size_binary, "binary"),
    (pa.types.is_date, "date"),
    (pa.types.is_null, VOID),
)

# As what else values are read: wherever the type of the schema comes from, and where a person wrote it. What
# it can't hold is a bad row.
_ALWAYS: tuple[tuple[_Test, tuple[str, ...]], ...] = (
    (pa.types.is_null, ("",)),  # any type
    (is_uuid, ("binary",)),
)
_CHOICES: tuple[tuple[_Test, tuple[str, ...]], ...] = (
    *_ALWAYS,
    (pa.types.is_timestamp, ("string", "bigint", "timestamp")),
    (pa.types.is_time, ("bigint",)),
    (pa.types.is_uint64, ("bigint",)),
    (_is_wide_decimal, ("decimal",)),
)
