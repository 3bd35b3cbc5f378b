"""Work handed out by Spark, one row a task: scripts on files that all machines share, and folds of parts.

What travels is pickled on the way there and back. An error of lading's own comes back as itself, so that
it names the file and the line just as it does on the driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lading.errors import LadingError
from lading.model import Member
from lading.parts.fold import Fold, FoldSpec, fold_parts
from lading.spark.failures import Py4JError, failure_of, raise_interrupt
from lading.spark.session import quiet_pandas

_Task = TypeVar("_Task")


def on_cluster(
    spark: SparkSession, work: Callable[[_Task], str], tasks: Sequence[_Task]
) -> list[str | LadingError]:
    """`work` of each task, in order: its answer or its error. `work` is a function of a module."""
    rows = [(number, pickle.dumps(task)) for number, task in enumerate(tasks)]
    frame = spark.createDataFrame(rows, "number bigint, task binary").repartition(len(rows), "number")

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _worked(batch, work)

    try:
        answers = frame.mapInArrow(run, "number bigint, ok boolean, answer binary").collect()
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        raise failure_of(
            error,
            "run the script in its tasks",
            hint="try `where: driver`; Spark's own log has details",
        ) from error
    ordered = sorted(answers, key=lambda one: one.number)
    return [bytes(one.answer).decode() if one.ok else _error(bytes(one.answer)) for one in ordered]


def _worked(batch: pa.RecordBatch, work: Callable[[Any], str]) -> pa.RecordBatch:
    ok: list[bool] = []
    answers: list[bytes] = []
    for task in batch.column("task").to_pylist():
        try:
            answers.append(work(pickle.loads(task)).encode())
            ok.append(True)
        except LadingError as error:
            answers.append(pickle.dumps((type(error), error.message, error.hint, error.file)))
            ok.append(False)
    columns = [batch.column("number"), pa.array(ok), pa.array(answers, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["number", "ok", "answer"])


def _error(answer: bytes) -> LadingError:
    kind, message, hint, file = pickle.loads(answer)
    error: LadingError = kind(message, hint=hint, file=file)
    return error


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
