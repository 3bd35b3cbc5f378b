"""Rows as values: JSON, msgpack, or one column as it is; a column at a time where that can be.

JSON text is put together column by column with Arrow, MessagePack in msgpack.py. Which columns go
that way depends on their type alone, never on the rows, so that equal rows are equal bytes in every build.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.errors import GateFailed
from lading.serve.msgpack import as_msgpack
from lading.words import count_words

_json = msgspec.json.Encoder().encode
_TEXT = pa.large_string()


def encoded_values(rows: pa.RecordBatch, encoding: str) -> pa.Array:
    """One value a row, as large_binary; `rows` has the value's columns and no others."""
    if encoding == "raw":
        return _raw(rows)
    if encoding == "msgpack":
        return as_msgpack(rows)
    pieces: list[Any] = []
    for number, field in enumerate(rows.schema):
        name = _json(field.name).decode()
        pieces.append(pa.scalar(f"{',' if number else '{'}{name}:", _TEXT))
        pieces.append(_as_json(rows.column(number)))
    joined = pc.binary_join_element_wise(*pieces, pa.scalar("}", _TEXT), pa.scalar("", _TEXT))
    return joined.cast(pa.large_binary())


def rank_bytes(values: pa.Array) -> pa.Array:
    """Each value as bytes that compare as the values do: which of two rows is later."""
    dtype = values.type
    if pa.types.is_string(dtype) or pa.types.is_binary(dtype):
        return values.cast(pa.large_binary())
    if pa.types.is_decimal(dtype):
        digits = values.cast(pa.decimal128(38, dtype.scale))
        words = np.frombuffer(digits.buffers()[1], np.uint8).reshape(-1, 16)
        words = words[digits.offset : digits.offset + len(digits), ::-1].copy()
        words[:, 0] ^= 0x80
        return _fixed(words)
    if pa.types.is_floating(dtype):
        floats = values.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0  # -0.0 is 0.0
        bits = np.where(np.isnan(floats), np.nan, floats).view(np.uint64)
        sign = bits >> np.uint64(63)
        return _fixed(_big_endian(np.where(sign == 1, ~bits, bits | np.uint64(1 << 63))))
    if pa.types.is_boolean(dtype) or pa.types.is_date32(dtype):
        values = values.cast(pa.int32())
    numbers = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return _fixed(_big_endian(numbers.view(np.uint64) ^ np.uint64(1 << 63)))


def _big_endian(words: np.ndarray) -> np.ndarray:
    return words.astype(">u8").view(np.uint8).reshape(-1, 8)


def _fixed(rows: np.ndarray) -> pa.Array:
    count, width = rows.shape
    dtype = pa.binary(width)
    return pa.Array.from_buffers(dtype, count, [None, pa.py_buffer(rows.tobytes())]).cast(pa.large_binary())


def _raw(rows: pa.RecordBatch) -> pa.Array:
    column = rows.column(0)
    if column.null_count:
        raise GateFailed(
            f"{count_words(column.null_count, 'row has', 'rows have')} no {rows.schema.names[0]}, "
            "and encoding raw can't store a null",
            hint="fill it in the transform, or use json, which has null",
        )
    return column.cast(pa.large_binary())


def _as_json(column: pa.Array) -> pa.Array:
    dtype = column.type
    if pa.types.is_integer(dtype):
        text = column.cast(_TEXT)
    elif pa.types.is_boolean(dtype):
        text = pc.if_else(column, pa.scalar("true", _TEXT), pa.scalar("false", _TEXT))
    elif pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        text = _quoted(column.cast(_TEXT))
    elif pa.types.is_date32(dtype) or pa.types.is_decimal(dtype):
        text = _in_quotes(column.cast(_TEXT))
    elif pa.types.is_timestamp(dtype):
        # As ISO 8601 has it; pyarrow itself puts a blank between day and time, and Z for a zone.
        plain = column.cast(pa.timestamp("us", dtype.tz)).cast(_TEXT)
        text = _in_quotes(pc.replace_substring(plain, " ", "T", max_replacements=1))
    elif pa.types.is_float32(dtype) or pa.types.is_float64(dtype):
        return _floats(column)
    elif pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        text = _one_by_one(column, lambda value: f'"{base64.b64encode(value).decode()}"')
    else:
        text = _one_by_one(column, lambda value: _json(value).decode())
    return pc.fill_null(text, pa.scalar("null", _TEXT))


def _floats(column: pa.Array) -> pa.Array:
    """Written as one JSON list, which is then cut at its commas."""
    if not len(column):
        return pa.array([], _TEXT)
    text = np.frombuffer(_json(column.to_pylist()), np.uint8)[1:-1]
    comma = text == ord(",")
    ends = np.append(np.flatnonzero(comma), len(text)) - np.arange(len(column))
    offsets = np.concatenate([[0], ends]).astype(np.int64)
    return pa.Array.from_buffers(
        _TEXT, len(column), [None, pa.py_buffer(offsets), pa.py_buffer(text[~comma])]
    )


def _quoted(column: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(column, r'["\\\x00-\x1f]')).as_py():
        return _in_quotes(column)
    if pc.any(pc.match_substring_regex(column, r"[\x00-\x1f]")).as_py():
        return _one_by_one(column, lambda value: _json(value).decode())
    column = pc.replace_substring(column, "\\", "\\\\")
    return _in_quotes(pc.replace_substring(column, '"', '\\"'))


def _in_quotes(column: pa.Array) -> pa.Array:
    quote = pa.scalar('"', _TEXT)
    return pc.binary_join_element_wise(quote, column, quote, pa.scalar("", _TEXT))


def _one_by_one(column: pa.Array, encode: Callable[[Any], str]) -> pa.Array:
    values = column.to_pylist(maps_as_pydicts="lossy")
    return pa.array([None if value is None else encode(value) for value in values], _TEXT)
