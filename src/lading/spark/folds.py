"""Folds handed out by Spark: one row a fold goes to the workers, one small row a part comes back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lading.model import Member
from lading.parts.fold import Fold, FoldSpec, fold_parts
from lading.spark.failures import Py4JError, failure_of, raise_interrupt
from lading.spark.session import quiet_pandas

_RESULT = "number int, member binary"


def fold_on_spark(spark: SparkSession, folds: Sequence[Fold], spec: FoldSpec) -> list[list[Member]]:
    """What replaces each fold, in their order."""
    rows = [(number, bytearray(msgspec.msgpack.encode(fold))) for number, fold in enumerate(folds)]
    found: list[list[Member]] = [[] for _ in folds]
    try:
        frame = spark.createDataFrame(rows, "number int, fold binary").repartition(len(rows))
        with quiet_pandas():
            written = frame.mapInArrow(lambda batches: _folded(batches, spec), _RESULT).collect()
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        raise failure_of(
            error,
            "merge the parts",
            hint="nothing was merged; Spark's own messages are in spark/spark.log in the cache folder",
        ) from error
    for row in written:
        found[row["number"]].append(msgspec.msgpack.decode(bytes(row["member"]), type=Member))
    return found


def _folded(batches: Iterator[pa.RecordBatch], spec: FoldSpec) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number, fold in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            members = fold_parts(msgspec.msgpack.decode(fold, type=Fold), spec)
            encoded = [msgspec.msgpack.encode(member) for member in members]
            numbers = pa.array([number] * len(members), pa.int32())
            yield pa.RecordBatch.from_arrays(
                [numbers, pa.array(encoded, pa.binary())], names=["number", "member"]
            )
