"""Keys and shards of whole columns: keys.py and routing.py, without a loop in Python where it counts.

For an 8-byte input xxh3_64 is a handful of multiplications and shifts, so numpy does a column of ints
at once. Longer values go through xxhash one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from lading.cel import columns as cel_columns
from lading.errors import RoutingError
from lading.serve.keys import END, SIGN, TAGS, KeySpec, Kind
from lading.serve.routing import KEY_VARIABLE, Router
from lading.words import count_words

_BITFLIP = np.uint64(0xC73AB174C5ECD5A2)  # two words of xxh3's secret, for inputs of 4 to 8 bytes
_BLOCK = 1 << 15
_PRIME = np.uint64(0x9FB21C651E98DF25)


def xxh3_64_of_ints(values: np.ndarray) -> np.ndarray:
    """xxh3_64, seed 0, of each int64 as 8 little-endian bytes; uint64."""
    if len(values) > _BLOCK:  # what comes in between stays in the processor's cache
        blocks = [xxh3_64_of_ints(values[at : at + _BLOCK]) for at in range(0, len(values), _BLOCK)]
        return np.concatenate(blocks)
    words = values.astype(np.int64, copy=False).view(np.uint64)
    hashed: np.ndarray = _rotated(words, 32) ^ _BITFLIP
    hashed ^= _rotated(hashed, 49) ^ _rotated(hashed, 24)
    hashed *= _PRIME
    hashed ^= (hashed >> np.uint64(35)) + np.uint64(8)
    hashed *= _PRIME
    hashed ^= hashed >> np.uint64(28)
    return hashed


def xxh3_64_of_bytes(values: pa.Array) -> np.ndarray:
    """xxh3_64, seed 0, of each text (as UTF-8) or bytes; uint64."""
    digest = xxhash.xxh3_64_intdigest
    found = (digest(value) for value in values.cast(pa.large_binary()).to_pylist())
    return np.fromiter(found, np.uint64, len(values))


def kind_of(dtype: pa.DataType) -> Kind | None:
    """The kind of key that a column's values are; None when it can't be a key."""
    if pa.types.is_integer(dtype) and dtype != pa.uint64():
        return "int"
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        return "str"
    if pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        return "bytes"
    return None


def stored_keys(spec: KeySpec, columns: Sequence[pa.Array]) -> pa.Array:
    """What `kv.k` holds for each row, as binary; a null or a key that can't be stored is an error."""
    _refuse_nulls(spec, columns)
    if spec.is_composite:
        parts = [_components(column, kind) for column, kind in zip(columns, spec.kinds, strict=True)]
        return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary())).cast(pa.binary())
    if spec.encoding in ("u64be", "u32be"):
        return _big_endian(columns[0], spec)
    return columns[0].cast(pa.binary())


def _refuse_nulls(spec: KeySpec, columns: Sequence[pa.Array]) -> None:
    for name, column in zip(spec.columns, columns, strict=True):
        if column.null_count:
            raise RoutingError(
                f"{count_words(column.null_count, 'row has', 'rows have')} no {name}, "
                "which is the key or a part of it",
                hint="a row that is served by key needs one: fill it, or drop such rows in the transform",
            )


def shards_of(router: Router, batch: pa.RecordBatch) -> np.ndarray:
    """The shard of each row, int32. `batch` has the key's columns and those that CEL needs, by name."""
    if not router.by_hash:
        return _shards_by_cel(router, batch)
    keys = [batch.column(name) for name in router.key.columns]
    _refuse_nulls(router.key, keys)
    if router.key.is_composite:
        hashed = xxh3_64_of_bytes(stored_keys(router.key, keys))
    elif router.key.kinds[0] == "int":
        hashed = _hashes(keys[0].cast(pa.int64()))
    else:
        hashed = _hashes(keys[0])
    return (hashed % np.uint64(router.num_dbs)).astype(np.int32)


def routing_columns(router: Router) -> tuple[str, ...]:
    """The table's columns that decide on a row's shard: the key's first."""
    cel = [name for name in router.sharding.cel_columns or {} if name != KEY_VARIABLE]
    return tuple(dict.fromkeys([*router.key.columns, *cel]))


def _shards_by_cel(router: Router, batch: pa.RecordBatch) -> np.ndarray:
    columns = {}
    for name, dtype in (router.sharding.cel_columns or {}).items():
        column = batch.column(router.key.columns[0] if name == KEY_VARIABLE else name)
        if column.null_count:
            raise RoutingError(
                f"{count_words(column.null_count, 'row has', 'rows have')} no {name}, "
                "which the routing expression needs",
                hint="fill it, or drop such rows in the transform",
            )
        columns[name] = column.cast(cel_columns.TYPES[dtype])
    results = cel_columns.evaluate(router.program, columns, batch.num_rows, _hashes)
    # Few distinct results (there are no more than shards): each is judged once.
    found = results.dictionary_encode()
    numbers = np.asarray([router.shard_of(token) for token in found.dictionary.to_pylist()], np.int32)
    shards: np.ndarray = numbers[found.indices.to_numpy(zero_copy_only=False)]
    return shards


def _hashes(values: pa.Array) -> np.ndarray:
    if pa.types.is_integer(values.type):
        return xxh3_64_of_ints(values.to_numpy(zero_copy_only=False))
    return xxh3_64_of_bytes(values)


def _big_endian(column: pa.Array, spec: KeySpec) -> pa.Array:
    values = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    limit = SIGN if spec.encoding == "u64be" else 1 << 32
    bad = (values < 0) | (values > limit - 1)
    if bad.any():
        raise RoutingError(
            f"the key {values[bad][0]} of {spec.columns[0]} can't be stored as {spec.encoding},"
            f" which holds 0 to {limit - 1}",
            hint="drop such rows in the transform, or turn the key into text there",
        )
    return _fixed(values.astype(">u8" if spec.encoding == "u64be" else ">u4"))


def _fixed(values: np.ndarray) -> pa.Array:
    """Fixed-width values as a binary array, without touching them one by one."""
    width = values.dtype.itemsize
    offsets = pa.py_buffer(np.arange(0, (len(values) + 1) * width, width, dtype=np.int32))
    return pa.Array.from_buffers(pa.binary(), len(values), [None, offsets, pa.py_buffer(values.tobytes())])


def _components(column: pa.Array, kind: Kind) -> pa.Array:
    tag = pa.scalar(TAGS[kind], pa.large_binary())
    nothing = pa.scalar(b"", pa.large_binary())
    if kind == "int":
        values = column.cast(pa.int64()).to_numpy(zero_copy_only=False).view(np.uint64) + np.uint64(SIGN)
        return pc.binary_join_element_wise(tag, _fixed(values.astype(">u8")).cast(pa.large_binary()), nothing)
    data = column.cast(pa.large_binary())
    if pc.any(pc.match_substring(data, b"\0")).as_py():
        data = pc.replace_substring(data, b"\0", b"\0\xff")
    return pc.binary_join_element_wise(tag, data, pa.scalar(END, pa.large_binary()), nothing)


def _rotated(words: np.ndarray, by: int) -> np.ndarray:
    return (words << np.uint64(by)) | (words >> np.uint64(64 - by))
