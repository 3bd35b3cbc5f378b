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

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.layout.table import slot_key
from lading.serve.routing_arrays import xxh3_64_of_bytes, xxh3_64_of_ints
from lading.sources.fingerprint import source_id

_FOLD = np.uint64(31)


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

    def keep(self, batch: pa.RecordBatch, slots: Collection[int] | None) -> pa.RecordBatch:
        """The rows that are in any of `slots`; None: in whichever."""
        if slots is None or not batch.num_rows:
            return batch
        wanted = np.isin(self.of(batch), np.fromiter(slots, np.int64, len(slots)))
        return batch if wanted.all() else batch.filter(pa.array(wanted))

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


def _hashes(column: pa.Array) -> np.ndarray:
    """One hash a row, uint64. Few different values are hashed once each."""
    column = _canonical(column)
    distinct = column.dictionary_encode()
    values = distinct.dictionary
    if pa.types.is_integer(values.type):
        hashed = xxh3_64_of_ints(values.to_numpy(zero_copy_only=False))
    else:
        hashed = xxh3_64_of_bytes(values)
    at = distinct.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
    found: np.ndarray = np.append(hashed, np.uint64(0))[at]
    return found


def _canonical(column: pa.Array) -> pa.Array:
    """As int64, text or bytes."""
    dtype = column.type
    if pa.types.is_dictionary(dtype):
        return _canonical(column.cast(dtype.value_type))
    if pa.types.is_floating(dtype):
        return _float_bits(column.cast(pa.float64()))
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


def _float_bits(column: pa.Array) -> pa.Array:
    values = column.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0  # -0.0 + 0.0 is 0.0
    values = np.where(np.isnan(values), np.nan, values)
    return pc.if_else(column.is_valid(), pa.array(values.view(np.int64)), pa.scalar(None, pa.int64()))


def _ticks(column: pa.Array) -> np.ndarray:
    whole = column.cast(pa.int32()) if pa.types.is_date32(column.type) else column
    found: np.ndarray = whole.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found
