"""A number for each row that stands for what is in some of its columns, nested ones too.

Arrow can't sort by lists, maps and structs. Rows that are told apart by nothing else are put in the order of
these numbers: equal values give equal numbers, whatever batch they come in and on whatever machine. No value
becomes an object of Python's on the way but text, and dates may lie beyond Python's calendar.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

_SLICE = 65_536  # rows at a time: bounds what is gathered of them
_NULL = np.uint64(0x9AE16A3B2F90404F)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_BELOW = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def digests(table: pa.Table, columns: Sequence[str], rows: np.ndarray | None = None) -> np.ndarray:
    """The numbers of all rows, or of those with these row numbers."""
    chosen = table.select(list(columns))
    count = table.num_rows if rows is None else len(rows)
    found = [np.zeros(0, np.uint64)]
    for start in range(0, count, _SLICE):
        if rows is None:
            some = chosen.slice(start, _SLICE)
        else:
            some = chosen.take(pa.array(rows[start : start + _SLICE]))
        found.append(_together([_of(_one(column)) for column in some.columns], some.num_rows))
    return np.concatenate(found)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _of(array: pa.Array) -> np.ndarray:
    found = _values(array)
    if array.null_count:
        found[array.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return found


def _values(array: pa.Array) -> np.ndarray:
    """The numbers of an array's values; what stands for a null is anything."""
    types, kind = pa.types, array.type
    if types.is_struct(kind):
        return _together([_of(array.field(place)) for place in range(kind.num_fields)], len(array))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        return _of_lists(array)
    if types.is_decimal(kind):
        halves = np.frombuffer(array.buffers()[1], np.uint64)[2 * array.offset :][: 2 * len(array)]
        return _together([_mixed(halves[0::2]), _mixed(halves[1::2])], len(array))
    if types.is_string(kind) or types.is_binary(kind):
        texts = pc.fill_null(array.cast(pa.binary()), b"").to_pylist()
        return np.fromiter(map(xxhash.xxh3_64_intdigest, texts), np.uint64, len(texts))
    if types.is_boolean(kind):
        array = array.cast(pa.int8())
    bits = array.view(_BELOW[array.type.bit_width])
    return _mixed(pc.fill_null(bits, 0).to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64))


def _of_lists(array: pa.Array) -> np.ndarray:
    """Each value by its place in its list, summed up; sums may overflow, and differences make up for it."""
    offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    ends = offsets - offsets[0]
    values = _of(array.values.slice(offsets[0], ends[-1]))
    places = np.arange(len(values)) - np.repeat(ends[:-1], np.diff(ends))
    sums = np.concatenate([[np.uint64(0)], np.cumsum(_mixed(values + places.astype(np.uint64) * _STEP))])
    return _mixed(sums[ends[1:]] - sums[ends[:-1]] + np.diff(ends).astype(np.uint64))


def _together(columns: Sequence[np.ndarray], rows: int) -> np.ndarray:
    found = np.zeros(rows, np.uint64)
    for one in columns:
        found = _mixed(found * _STEP + one)
    return found


def _mixed(bits: np.ndarray) -> np.ndarray:
    """Every bit of a number spread over all of it (SplitMix64)."""
    bits = bits + _STEP
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = bits ^ (bits >> np.uint64(31))
    return mixed
