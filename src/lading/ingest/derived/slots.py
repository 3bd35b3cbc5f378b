"""Which slot a row is in: one function for Spark's tasks, for this process and for tests.

Rows are cut by the hash of some columns, or along the buckets of the order column. By hash, the slot is
`h % slots`, where `h` is the column's hash, and with several columns `h = xxh3_64(31 h + next column's hash)`
from left to right. The hash of a value is xxh3_64, seed 0, of

    ints, booleans, dates, timestamps   the number (days, microseconds) as 8 bytes, signed, little-endian
    floats                              the double's 8 bytes; -0.0 counts as 0.0, every NaN as one NaN
    text, bytes                         as they are (UTF-8)
    decimals                            the unscaled number as 16 bytes, signed, little-endian
    null                                nothing: it is 0 itself, so that nulls have a slot like any value
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from lading.layout.table import slot_key
from lading.serve.routing_arrays import xxh3_64_of_bytes, xxh3_64_of_ints
from lading.sources.fingerprint import source_id

_FOLD = np.uint64(31)
_OTHER_FOLD = np.uint64(0x9E37_79B9_7F4A_7C15)
_SEEDS = (np.uint64(0x243F_6A88_85A3_08D3), np.uint64(0x1319_8A2E_0370_7344))
_NULLS = (np.uint64(0xA409_3822_299F_31D0), np.uint64(0x082E_FA98_EC4E_6C89))
_MIX = 0x4528_21E6_38D0_1377
_LOW = (1 << 64) - 1
_FEW = 8  # numbers that are looked for one by one


@dataclass(frozen=True, slots=True)
class Cut:
    """How the rows of one table are cut. Travels to Spark's workers."""

    columns: tuple[str, ...] = ()  # of `width`: the order column
    slots: int = 1
    width: int | None = None  # of a bucket, in ticks: then a slot is a bucket

    def of(self, batch: pa.RecordBatch) -> np.ndarray:
        """The slot of each row, int64. A null in the order column has none, and is an error of the caller's:
        parts hold no such row."""
        if self.width is not None:
            ticks = _ticks(batch.column(self.columns[0]))
            found: np.ndarray = np.floor_divide(ticks, np.int64(self.width))
            return found
        if self.slots == 1 or not self.columns:
            return np.zeros(batch.num_rows, np.int64)
        hashed = _hashes(batch.column(self.columns[0]))
        for name in self.columns[1:]:
            hashed = xxh3_64_of_ints((hashed * _FOLD + _hashes(batch.column(name))).view(np.int64))
        return (hashed % np.uint64(self.slots)).astype(np.int64)

    def within(self, batch: pa.RecordBatch, slots: Collection[int]) -> np.ndarray:
        """Which rows are in any of `slots`."""
        if (
            self.width is None
            and len(self.columns) == 1
            and _is_plain_dictionary(coded := batch.column(self.columns[0]))
        ):
            hashed = _hashes_of(coded.dictionary)
            wanted = _among((hashed % np.uint64(self.slots)).astype(np.int64), slots)
            return _among(coded.indices.to_numpy(), np.flatnonzero(wanted).tolist())
        return _among(self.of(batch), slots)

    def counts(self, batch: pa.RecordBatch) -> dict[int, int]:
        """How many rows are in each slot."""
        slots, rows = np.unique(self.of(batch), return_counts=True)
        return dict(zip(slots.tolist(), rows.tolist(), strict=True))

    def mark(self, schema: pa.Schema) -> int:
        """What the log calls this cut of a table with these columns: by another type, a value is in another
        slot."""
        told = [self.slots, *((name, str(schema.field(name).type)) for name in self.columns)]
        return int(xxhash.xxh3_64_intdigest(json.dumps(told).encode())) >> 1

    def key(self, slot: int) -> str:
        return slot_key(slot, of_bucket=self.width is not None)

    def sources(self, batch: pa.RecordBatch) -> np.ndarray:
        """The `_source` of each row, by its slot."""
        slots, at = np.unique(self.of(batch), return_inverse=True)
        ids = np.fromiter((source_id(self.key(int(slot))) for slot in slots), np.int64, len(slots))
        found: np.ndarray = ids[at]
        return found


def can_cut(dtype: pa.DataType) -> bool:
    """Whether rows can be cut by a column of this type."""
    return not (pa.types.is_nested(dtype) or pa.types.is_null(dtype))


def row_hashes(rows: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    """128 bits of each row, in two halves: of all of its columns, and of whether they are null. Numbers are
    taken by their bits, so that two rows which differ in anything differ here, but by an accident."""
    high, low = np.full(rows.num_rows, _SEEDS[0]), np.full(rows.num_rows, _SEEDS[1])
    for column in rows.columns:
        one, other = _two_hashes(column)
        high = xxh3_64_of_ints((high * _FOLD + one).view(np.int64))
        low = xxh3_64_of_ints((low * _OTHER_FOLD + other).view(np.int64))
    return high, low


def _two_hashes(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    plain = _canonical(column, exact=True)
    distinct = plain.dictionary_encode()
    values = distinct.dictionary
    if pa.types.is_integer(values.type):
        numbers = values.to_numpy(zero_copy_only=False)
        halves = xxh3_64_of_ints(numbers), xxh3_64_of_ints(numbers ^ np.int64(_MIX))
    else:
        found = [xxhash.xxh3_128_intdigest(one) for one in values.cast(pa.large_binary()).to_pylist()]
        halves = (
            np.fromiter((one >> 64 for one in found), np.uint64, len(found)),
            np.fromiter((one & _LOW for one in found), np.uint64, len(found)),
        )
    at = distinct.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
    one, other = (np.append(half, null)[at] for half, null in zip(halves, _NULLS, strict=True))
    return one, other


def _hashes(column: pa.Array) -> np.ndarray:
    """One hash a row, uint64. Few different values are hashed once each."""
    distinct = column if _is_dictionary(column) else _canonical(column).dictionary_encode()
    hashed = _hashes_of(distinct.dictionary)
    at = distinct.indices.fill_null(len(hashed)).to_numpy(zero_copy_only=False)
    found: np.ndarray = np.append(hashed, np.uint64(0))[at]
    return found


def _hashes_of(values: pa.Array) -> np.ndarray:
    """The same of values of which none is null."""
    values = _canonical(values)
    if pa.types.is_integer(values.type):
        return xxh3_64_of_ints(values.to_numpy(zero_copy_only=False))
    return xxh3_64_of_bytes(values)


def _among(numbers: np.ndarray, wanted: Collection[int]) -> np.ndarray:
    """Which of the numbers are wanted. For a few, numpy's own search takes longer than a look for each."""
    if len(wanted) > _FEW:
        return np.isin(numbers, np.fromiter(wanted, np.int64, len(wanted)))
    found = np.zeros(len(numbers), bool)
    for one in wanted:
        found |= numbers == one
    return found


def _is_dictionary(column: pa.Array) -> bool:
    return bool(pa.types.is_dictionary(column.type) and not column.dictionary.null_count)


def _is_plain_dictionary(column: pa.Array) -> bool:
    return _is_dictionary(column) and not column.null_count


def _canonical(column: pa.Array, *, exact: bool = False) -> pa.Array:
    """As int64, text or bytes. `exact`: -0.0 is not 0.0, and a NaN is its bits."""
    dtype = column.type
    if pa.types.is_dictionary(dtype):
        return _canonical(column.cast(dtype.value_type), exact=exact)
    if pa.types.is_floating(dtype):
        return _float_bits(column.cast(pa.float64()), exact)
    if pa.types.is_decimal(dtype):
        wide = column.cast(pa.decimal128(38, dtype.scale))
        return pa.Array.from_buffers(
            pa.binary(16), len(wide), wide.buffers(), wide.null_count, wide.offset
        ).cast(pa.binary())
    if pa.types.is_date32(dtype):
        return column.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_boolean(dtype) or pa.types.is_integer(dtype):
        return column.cast(pa.int64())
    if pa.types.is_temporal(dtype):
        return column.cast(pa.int64())
    return column


def _float_bits(column: pa.Array, exact: bool) -> pa.Array:
    values = column.fill_null(0.0).to_numpy(zero_copy_only=False)
    if not exact:
        values = np.where(np.isnan(values), np.nan, values + 0.0)  # -0.0 + 0.0 is 0.0
    return pc.if_else(column.is_valid(), pa.array(values.view(np.int64)), pa.scalar(None, pa.int64()))


def _ticks(column: pa.Array) -> np.ndarray:
    whole = column.cast(pa.int32()) if pa.types.is_date32(column.type) else column
    found: np.ndarray = whole.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found
