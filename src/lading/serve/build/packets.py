"""Rows on their way through Spark, many to a packet: Spark moves packets about and never looks at a row.

Taking rows apart in Java, sorting them there and putting them together again for Python costs as much as
everything else about a shard. So rows are grouped by shard before the shuffle and sorted after it, both by
Arrow; what Spark shuffles is a few megabytes at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa

SCHEMA = pa.schema([("slot", pa.int32()), ("db", pa.int32()), ("rows", pa.binary())])
DDL = "slot int, db int, rows binary"  # the same to Spark

_HELD = 32 << 20  # bytes of rows that are grouped together
_PACKET = 2 << 20  # bytes of rows in one packet
# Packets that Spark hands to Python at once: it holds that much of them, and no more than Arrow can address.
AT_ONCE = 32


def packed(rows: Iterable[tuple[np.ndarray, pa.RecordBatch]], slots: np.ndarray) -> Iterator[pa.RecordBatch]:
    """`rows` with the shard of each, as packets; `slots[shard]` is where it is built."""
    shards: list[np.ndarray] = []
    held: list[pa.RecordBatch] = []
    size = 0
    for numbers, batch in rows:
        shards.append(numbers)
        held.append(batch)
        size += batch.nbytes
        if size >= _HELD:
            yield _grouped(np.concatenate(shards), held, slots)
            shards, held, size = [], [], 0
    if held:
        yield _grouped(np.concatenate(shards), held, slots)


def empty_packets(shards: Iterable[int], slots: np.ndarray) -> pa.RecordBatch:
    """A packet without rows for each shard: one that nobody has rows for is heard of as well."""
    numbers = np.asarray(list(shards), np.int32)
    arrays = [pa.array(slots[numbers], pa.int32()), pa.array(numbers), pa.nulls(len(numbers), pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def by_shard(
    packets: Iterator[pa.RecordBatch], schema: pa.Schema
) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
    """Packets sorted by shard, as each shard's rows; one has to be used up before the next is asked for."""
    pairs = (
        pair
        for batch in packets
        for pair in zip(batch.column("db").to_pylist(), batch.column("rows"), strict=True)
    )
    for shard, group in groupby(pairs, key=lambda pair: pair[0]):
        yield shard, (_unpacked(data, schema) for _, data in group if data.is_valid)


def _unpacked(data: pa.BinaryScalar, schema: pa.Schema) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(data.as_py()), schema)  # copied: Arrow wants it aligned


def _grouped(shards: np.ndarray, held: list[pa.RecordBatch], slots: np.ndarray) -> pa.RecordBatch:
    order = np.argsort(shards, kind="stable")
    [rows] = pa.Table.from_batches(held).combine_chunks().take(pa.array(order)).to_batches()
    shards = shards[order]
    ends = [0, *(np.flatnonzero(np.diff(shards)) + 1).tolist(), len(shards)]
    step = max(1, _PACKET * rows.num_rows // max(1, rows.nbytes))
    pieces = [
        (int(shards[begin]), rows.slice(at, min(step, end - at)))
        for begin, end in pairwise(ends)
        for at in range(begin, end, step)
    ]
    numbers = np.asarray([shard for shard, _ in pieces], np.int32)
    data = pa.array([piece.serialize().to_pybytes() for _, piece in pieces], pa.binary())
    arrays = [pa.array(slots[numbers], pa.int32()), pa.array(numbers), data]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
