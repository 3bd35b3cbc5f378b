"""One schema for files that were not written together.

A collection takes files as they are, so their columns may differ: one is missing here, an int there is
wider elsewhere. The schema widens as far as every value, and every bound that the log holds already,
keeps its meaning; what goes further is refused, with the file and the column named.

A table's schema follows its source files, and its parts stay as they were written as long as that costs no
value its meaning (`lossless`). Either way a batch is read in the schema's terms: what a file lacks is null,
what it has beyond them is left unread, and no value changes (`conformed`).
"""

from __future__ import annotations

import pyarrow as pa

from lading.errors import PartError, SchemaDrift
from lading.formats.types import is_nested, widens
from lading.parts.convert import converted
from lading.zones.bounds import bound_kind

_UNITS = ("s", "ms", "us", "ns")


def unified(table: pa.Schema | None, file: pa.Schema, path: str) -> pa.Schema:
    """The schema of a table that takes up `file`: its columns in their order, then the new ones."""
    columns = {field.name: field.type for field in table} if table is not None else {}
    if len(set(file.names)) != len(file.names):
        raise SchemaDrift(
            f"{path} has two columns with the same name",
            hint="rename one of them and write the file again",
            file=path,
        )
    for field in file:
        found = _plain(field.type)
        known = columns.get(field.name)
        columns[field.name] = found if known is None else _joined(known, found, field.name, path)
    return pa.schema([pa.field(name, dtype) for name, dtype in columns.items()])


def _plain(dtype: pa.DataType) -> pa.DataType:
    """The type that values are given out in: how a writer chose to encode them is the file's business."""
    if pa.types.is_dictionary(dtype):
        return _plain(dtype.value_type)
    if pa.types.is_string_view(dtype):
        return pa.string()
    if pa.types.is_binary_view(dtype):
        return pa.binary()
    if pa.types.is_date64(dtype):
        return pa.date32()
    return pa.float32() if pa.types.is_float16(dtype) else dtype


def _joined(known: pa.DataType, found: pa.DataType, column: str, path: str) -> pa.DataType:
    if known == found or pa.types.is_null(found):
        return known
    if pa.types.is_null(known):
        return found
    wider = _wider(known, found)
    if wider is None:
        raise SchemaDrift(
            f"{path}: column {column} is {found} in this file but {known} in the collection",
            hint="write the file again with that type, or keep it in a collection of its own",
            file=path,
        )
    return wider


def _wider(known: pa.DataType, found: pa.DataType) -> pa.DataType | None:
    if pa.types.is_timestamp(known) and pa.types.is_timestamp(found):
        same_sort = (known.tz is None) == (found.tz is None)
        # A coarser unit is converted when it is read; a finer one would lose digits.
        return known if same_sort and _UNITS.index(found.unit) <= _UNITS.index(known.unit) else None
    kind = bound_kind(known)
    if kind is None or kind != bound_kind(found):
        return None
    if pa.types.is_integer(known) and pa.uint64() in (known, found) and not _both_unsigned(known, found):
        return None  # no integer type holds both
    joined = pa.unify_schemas(
        [pa.schema([("x", known)]), pa.schema([("x", found)])], promote_options="permissive"
    )
    dtype: pa.DataType = joined.field("x").type
    return dtype if bound_kind(dtype) == kind else None


def _both_unsigned(one: pa.DataType, other: pa.DataType) -> bool:
    return bool(pa.types.is_unsigned_integer(one) and pa.types.is_unsigned_integer(other))


_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_INTEGERS, "double")
_PLAIN = (*_NUMBERS, "boolean", "date")  # types whose values and plain texts say the same
_DAYS = {"date", "timestamp_ntz"}


def lossless(old: str, new: str, *, plain: bool) -> bool:
    """Whether values that are stored as `old` can be read as `new`, and are what reading their file again
    would give. Both are types of a schema file. `plain`: the file's texts of the column are (formats/plain.py).

    It is asked of a file whose values are values of `new`: that a bigint fits an int, that a double is a
    whole number of at most 15 digits or a timestamp a whole day, is for the file's evidence to say.
    """
    if old == new:
        return True
    if is_nested(old) or is_nested(new):
        return False
    if "string" in (old, new):
        return plain and (new if old == "string" else old) in _PLAIN
    if old in _NUMBERS and new in _NUMBERS:
        return True
    # A float that was read from text isn't the double that is nearest to that text.
    return {old, new} == _DAYS or (old.startswith("decimal") and widens(old, new))


_HINT = "`lading verify` and `lading collection check` list what is damaged; restore the file or replace it"


def conformed(batch: pa.RecordBatch, schema: pa.Schema, path: str, hint: str = _HINT) -> pa.RecordBatch:
    """The batch with exactly these columns; `path` names the file in an error. Rows that no longer count have
    to be gone by now: their values may be such that the table's type has no room for."""
    arrays = []
    for column in schema:
        at = batch.schema.get_field_index(column.name)
        if at < 0:
            arrays.append(pa.nulls(batch.num_rows, column.type))
            continue
        array = batch.column(at)
        if array.type != column.type:
            array = _converted(array, column, path, hint)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _converted(array: pa.Array, column: pa.Field, path: str, hint: str) -> pa.Array:
    try:
        return converted(array, column.type)
    except pa.ArrowException as error:
        raise PartError(
            f"{path}: column {column.name} is {array.type} in this file but {column.type} in the table: "
            f"{error}",
            hint=hint,
            file=path,
        ) from error
