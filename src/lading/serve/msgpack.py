"""Columns as MessagePack, a column at a time, byte for byte what msgspec writes of the rows one by one.

A value is a head of one to thirteen bytes and, for text and bytes, the data behind it. numpy makes all
heads of a column at once; Arrow puts heads and data together. Nested columns go value by value.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_encode = msgspec.msgpack.Encoder().encode
_BINARY = pa.large_binary()
_NOTHING = pa.scalar(b"", _BINARY)
_NIL = pa.scalar(b"\xc0", _BINARY)


def as_msgpack(rows: pa.RecordBatch) -> pa.Array:
    """One map a row, with the columns in their order; large_binary."""
    pieces: list[Any] = []
    for number, field in enumerate(rows.schema):
        head = _map_head(rows.num_columns) if number == 0 else b""
        pieces.append(pa.scalar(head + _encode(field.name), _BINARY))
        pieces.append(pc.fill_null(_column(rows.column(number)), _NIL))
    return pc.binary_join_element_wise(*pieces, _NOTHING)


def _map_head(count: int) -> bytes:
    return _encode(dict.fromkeys(map(str, range(count))))[: 1 if count < 16 else 3]


def _column(column: pa.Array) -> pa.Array:
    dtype = column.type
    if pa.types.is_integer(dtype) and dtype != pa.uint64():
        return _ints(column)
    if pa.types.is_boolean(dtype):
        return pc.if_else(column, pa.scalar(b"\xc3", _BINARY), pa.scalar(b"\xc2", _BINARY))
    if pa.types.is_float32(dtype) or pa.types.is_float64(dtype):
        return _floats(column)
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        return _text(column)
    if pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        return _with_length(column.cast(_BINARY), -1, (0xC4, 0xC5, 0xC6))
    if pa.types.is_date32(dtype):
        return _text(column.cast(pa.large_string()))
    if pa.types.is_timestamp(dtype) and dtype.unit == "us":
        return _moments(column) if dtype.tz is not None else _local_times(column)
    values = column.to_pylist(maps_as_pydicts="lossy")
    return pa.array([_encode(value) for value in values], _BINARY)


def _text(column: pa.Array) -> pa.Array:
    return _with_length(column.cast(_BINARY), 31, (0xD9, 0xDA, 0xDB))


def _local_times(column: pa.Array) -> pa.Array:
    """ISO 8601, without the fraction of a second where there is none."""
    text = pc.replace_substring(column.cast(pa.large_string()), " ", "T", max_replacements=1)
    return _text(pc.replace_substring_regex(text, r"\.000000$", ""))


def _ints(column: pa.Array) -> pa.Array:
    """The shortest form of each: within the tag, or in 1, 2, 4 or 8 bytes, unsigned unless negative."""
    values = _numbers(column.cast(pa.int64()), np.int64)
    tags, widths = np.full(len(values), 0xD3, np.uint8), np.full(len(values), 8, np.uint8)
    for tag, width, least, most in (
        (0xCF, 8, 0, 2**63 - 1),
        (0xD2, 4, -(2**31), -1),
        (0xCE, 4, 0, 2**32 - 1),
        (0xD1, 2, -(2**15), -1),
        (0xCD, 2, 0, 2**16 - 1),
        (0xD0, 1, -(2**7), -1),
        (0xCC, 1, 0, 2**8 - 1),
    ):
        fits = (values >= least) & (values <= most)
        tags[fits], widths[fits] = tag, width
    short = (values >= -32) & (values <= 127)
    tags[short], widths[short] = values[short].astype(np.uint8), 0
    return _heads(tags, widths, values.astype(">i8").view(np.uint8).reshape(-1, 8), column)


def _floats(column: pa.Array) -> pa.Array:
    values = _numbers(column.cast(pa.float64()), np.float64)
    tags, widths = np.full(len(values), 0xCB, np.uint8), np.full(len(values), 8, np.uint8)
    return _heads(tags, widths, values.astype(">f8").view(np.uint8).reshape(-1, 8), column)


def _with_length(column: pa.Array, most_in_tag: int, tags_of: tuple[int, int, int]) -> pa.Array:
    """Data behind its length, which is in the tag (0xA0 and up) if it is at most `most_in_tag`."""
    lengths = _numbers(pc.binary_length(column), np.int64)
    tags, widths = np.full(len(lengths), tags_of[2], np.uint8), np.full(len(lengths), 4, np.uint8)
    for tag, width, most in ((tags_of[1], 2, 2**16 - 1), (tags_of[0], 1, 2**8 - 1)):
        fits = lengths <= most
        tags[fits], widths[fits] = tag, width
    short = lengths <= most_in_tag
    tags[short], widths[short] = 0xA0 | lengths[short].astype(np.uint8), 0
    heads = _heads(tags, widths, lengths.astype(">i8").view(np.uint8).reshape(-1, 8), column)
    return pc.binary_join_element_wise(heads, column, _NOTHING)


def _moments(column: pa.Array) -> pa.Array:
    """MessagePack's own timestamps: 4 bytes of seconds, 8 with nanoseconds, 12 before 1970 and after 2514."""
    micros = _numbers(column.cast(pa.int64()), np.int64)
    seconds, nanos = micros // 1_000_000, micros % 1_000_000 * 1000
    packed = (nanos.astype(np.uint64) << np.uint64(34)) | (seconds.astype(np.uint64) & np.uint64(2**34 - 1))
    short = (nanos == 0) & (seconds >= 0) & (seconds < 2**32)
    far = (seconds < 0) | (seconds >= 2**34)
    cells = np.zeros((len(micros), 15), np.uint8)
    cells[:, 5], cells[:, 6] = 0xD7, 0xFF
    cells[:, 7:] = packed.astype(">u8").view(np.uint8).reshape(-1, 8)
    cells[short, 9], cells[short, 10] = 0xD6, 0xFF
    cells[far, 0:3] = (0xC7, 12, 0xFF)
    cells[far, 3:7] = nanos[far].astype(">u4").view(np.uint8).reshape(-1, 4)
    cells[far, 7:] = seconds[far].astype(">i8").view(np.uint8).reshape(-1, 8)
    lengths = np.where(far, 15, np.where(short, 6, 10))
    return _cut(cells, lengths, column)


def _heads(tags: np.ndarray, widths: np.ndarray, payload: np.ndarray, column: pa.Array) -> pa.Array:
    """Each tag with the last `width` bytes of its payload."""
    cells = np.empty((len(tags), 9), np.uint8)
    cells[:, 1:] = payload
    cells[np.arange(len(tags)), 8 - widths] = tags
    return _cut(cells, widths.astype(np.int64) + 1, column)


def _cut(cells: np.ndarray, lengths: np.ndarray, column: pa.Array) -> pa.Array:
    """The last `length` bytes of each row, null where `column` is."""
    count, width = cells.shape
    data = cells[np.arange(width) >= (width - lengths)[:, None]]
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    found = pa.Array.from_buffers(_BINARY, count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return found if not column.null_count else pc.if_else(column.is_valid(), found, pa.scalar(None, _BINARY))


def _numbers(column: pa.Array, dtype: type[np.generic]) -> np.ndarray:
    """The values; where there is none, any."""
    filled = pc.fill_null(column, 0) if column.null_count else column
    return np.ascontiguousarray(filled.to_numpy(zero_copy_only=False), dtype)
