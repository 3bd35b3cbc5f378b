"""A stored column in another type than it was written in: only where no value changes.

Types follow one another, so a part may be older than the schema before the last: what was a timestamp, then a
date and is text now is read as the day that it always was. What no such change leads to is refused, however
readily Arrow would cast it: 1 is not true, and no number is a time.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lading.formats.plain import plain_values, written
from lading.zones.bounds import bound_kind


def converted(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The values as `target`; pa.ArrowException if one of them is no value of it, or the types don't allow
    it. Nulls are null in every type."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
        if array.type == target:
            return array
    if array.null_count == len(array):
        return pa.nulls(len(array), target)
    if _is_text(array.type) != _is_text(target):
        return _to_text(array, target) if _is_text(target) else _from_text(array, target)
    if _is_clock(array.type) and pa.types.is_date32(target):
        return _days(array)
    if _casts(array.type, target):
        return array.cast(target)
    raise _unlike(array.type, target)


def _to_text(array: pa.Array, target: pa.DataType) -> pa.Array:
    dtype = array.type
    if _is_clock(dtype):
        array = _days(array)  # a time has no text of its own: only what was a date before gets here
    elif not (pa.types.is_integer(dtype) or dtype in (pa.float64(), pa.bool_(), pa.date32())):
        raise _unlike(dtype, target)
    return written(array).cast(target)


def _from_text(array: pa.Array, target: pa.DataType) -> pa.Array:
    texts = pc.if_else(pc.equal(array, pa.scalar("", array.type)), pa.scalar(None, array.type), array)
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), target)
    if pa.types.is_integer(target):
        return plain_values(texts, pa.int64()).cast(target)
    if _is_clock(target):
        return plain_values(texts, pa.date32()).cast(target)
    if target not in (pa.float64(), pa.bool_(), pa.date32()):
        raise _unlike(array.type, target)
    return plain_values(texts, target)


def _days(array: pa.Array) -> pa.Array:
    days = array.cast(pa.date32())
    if not days.cast(array.type).equals(array):
        raise pa.ArrowInvalid("a time of day would be lost")
    return days


def _casts(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether Arrow's own cast changes no value: it refuses what it can't keep, but for times of day."""
    if pa.types.is_nested(source) or pa.types.is_nested(target):
        return _same_shape(source, target)
    if _sort_of(source) == _sort_of(target):
        return True
    if pa.types.is_date32(source):
        return _is_clock(target)
    if pa.types.is_integer(source):
        return bool(pa.types.is_float64(target))
    return bool(pa.types.is_float64(source) and pa.types.is_integer(target))


def _sort_of(dtype: pa.DataType) -> str | None:
    """What sort of value it is, whatever its unit, width or scale."""
    if pa.types.is_decimal(dtype):
        return "decimal"
    if pa.types.is_timestamp(dtype):
        return "moment" if dtype.tz else "timestamp"
    kind = bound_kind(dtype)
    return None if kind is None else kind.partition("[")[0]


def _same_shape(source: pa.DataType, target: pa.DataType) -> bool:
    """Nested alike, with the same sort of values inside."""
    if source.id != target.id or source.num_fields != target.num_fields:
        return False
    inside = [(source.field(number), target.field(number)) for number in range(source.num_fields)]
    if pa.types.is_struct(source) and any(one.name != other.name for one, other in inside):
        return False
    return all(
        _same_shape(one.type, other.type)
        if pa.types.is_nested(one.type)
        else _sort_of(one.type) == _sort_of(other.type)
        for one, other in inside
    )


def _is_text(dtype: pa.DataType) -> bool:
    return bound_kind(dtype) == "str"


def _is_clock(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(dtype) and dtype.tz is None)


def _unlike(source: pa.DataType, target: pa.DataType) -> pa.ArrowException:
    return pa.ArrowTypeError(f"no value that is {source} is one that is {target}")
