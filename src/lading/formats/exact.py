"""Values of a file as those of another type, where nothing is lost; else ArrowInvalid.

Numbers and times become text as they would be written, with as many digits of a second as it takes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.formats.file_types import is_list, is_uuid

_DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
_DASHES = (8, 13, 18, 23)  # in the text of a UUID


def exact(values: pa.Array, target: pa.DataType) -> pa.Array:
    kind = values.type
    if kind == target:
        return values
    if pa.types.is_dictionary(kind):
        return exact(values.dictionary_decode(), target)
    if pa.types.is_null(kind):
        return pa.nulls(len(values), target)
    if isinstance(kind, pa.BaseExtensionType):
        own = is_uuid(kind) and pa.types.is_string(target)
        return _uuids(values.storage) if own else exact(values.storage, target)
    if pa.types.is_struct(target) and pa.types.is_struct(kind):
        return _struct(values, target)
    if pa.types.is_list(target) and is_list(kind):
        return _list(values, target)
    if pa.types.is_map(target) and pa.types.is_map(kind):
        return _map(values, target)
    if pa.types.is_string(target):
        return text_of(values)
    if pa.types.is_int64(target) and pa.types.is_timestamp(kind):
        return pc.cast(pc.cast(values, pa.timestamp("ns", kind.tz)), target)
    if pa.types.is_int64(target) and pa.types.is_time(kind):
        return pc.cast(pc.cast(_within_a_day(values), pa.time64("us")), target)
    return pc.cast(values, target)


def text_of(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_timestamp(kind):
        utc = values if kind.tz is None else pc.cast(values, pa.timestamp(kind.unit, "UTC"))
        return pc.replace_substring_regex(
            pc.cast(utc, pa.string()), r"(?:\.0+|(\.[0-9]*[1-9])0*)?Z?\z", r"\1"
        )
    if pa.types.is_time(kind):
        text = pc.cast(_within_a_day(values), pa.string())
        return pc.replace_substring_regex(text, r"(?:\.0+|(\.[0-9]*[1-9])0*)?\z", r"\1")
    text = pc.cast(values, pa.string())
    if pa.types.is_floating(kind):
        text = pc.replace_substring_regex(text, r"\A(-?[0-9]+)\z", r"\1.0")
        text = pc.replace_substring_regex(pc.replace_substring(text, "nan", "NaN"), "inf", "Infinity")
    return text


def _within_a_day(values: pa.Array) -> pa.Array:
    """Arrow writes a text, or the time of another day, for what is no time of day."""
    kind = values.type
    numbers = pc.cast(values, pa.int32() if pa.types.is_time32(kind) else pa.int64())
    ends = pc.min_max(numbers)
    least, most = ends["min"].as_py(), ends["max"].as_py()
    if least is not None and (least < 0 or most >= _DAY[kind.unit]):
        raise pa.ArrowInvalid("a time of day before 00:00, or not before 24:00")
    return values


def _struct(values: pa.Array, target: pa.DataType) -> pa.Array:
    found = {field.name: values.field(place) for place, field in enumerate(values.type)}
    inner = [
        exact(found[field.name], field.type) if field.name in found else pa.nulls(len(values), field.type)
        for field in target
    ]
    return pa.StructArray.from_arrays(inner, fields=list(target), mask=values.is_null())


def _list(values: pa.Array, target: pa.DataType) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    offsets = np.concatenate([[0], np.cumsum(np.asarray(lengths))]).astype(np.int32)
    inner = exact(values.flatten(), target.value_type)
    made = pa.ListArray.from_arrays(pa.array(offsets), inner, mask=values.is_null())
    return pc.cast(made, target)  # the name of its field


def _map(values: pa.Array, target: pa.DataType) -> pa.Array:
    offsets = np.asarray(values.offsets)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys = exact(values.keys.slice(first, count), target.key_type)
    items = exact(values.items.slice(first, count), target.item_type)
    null = np.append(np.asarray(values.is_null()), False)
    made = pa.MapArray.from_arrays(pa.array(offsets - first, pa.int32(), mask=null), keys, items)
    return pc.cast(made, target)  # the names of its fields


def _uuids(values: pa.Array) -> pa.Array:
    """The texts of values of 16 bytes."""
    count = len(values)
    filled = values.fill_null(bytes(16))
    raw, start = filled.buffers()[1], 16 * filled.offset
    digits = bytes(memoryview(raw)[start : start + 16 * count]).hex() if raw is not None else ""
    texts = np.full((count, 36), ord("-"), np.uint8)
    texts[:, np.delete(np.arange(36), _DASHES)] = np.frombuffer(digits.encode(), np.uint8).reshape(count, 32)
    offsets = np.arange(0, 36 * (count + 1), 36, dtype=np.int32)
    made = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(texts.tobytes()))
    return pc.if_else(values.is_valid(), made, pa.scalar(None, pa.string()))
