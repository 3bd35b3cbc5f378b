"""Work handed out by Spark, one answer a task: reading and writing, folds of parts, scripts on files.

What travels is pickled with the function, so nothing of it (a key to a bucket, say) shows in a plan or a log.
An error of lading's own comes back as itself, so that it names the file and the line just as on the driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lading.errors import LadingError, StorageError
from lading.model import Member, Place
from lading.parts.fold import Fold, FoldSpec, fold_parts
from lading.parts.packs import packed
from lading.spark.failures import Py4JError, failure_of, raise_interrupt
from lading.spark.session import quiet_pandas, spark_session
from lading.spark.workers import imports_are_no_garbage
from lading.storage.place import storage_of

_Task = TypeVar("_Task")

_ANSWERS = "number bigint, answer binary"
_PACK = (8 << 20, 256 << 20)  # bytes of parts that a task folds
_ROUNDS = 2  # of tasks a core, at least: the largest begin first, so they end at about the same time


def spread(
    spark: SparkSession,
    work: Callable[[int], bytes],
    count: int,
    what: str,
    *,
    table: str | None = None,
    hint: str = "",
    sizes: Sequence[int] = (),
) -> list[bytes]:
    """`work` of 0, 1, … in a task each; the answers in that order. `what` is what could not be done, should
    it fail, such as "build ships". The largest by `sizes` begin first: then none is waited for alone."""
    order = sorted(range(count), key=lambda number: -sizes[number]) if sizes else list(range(count))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        imports_are_no_garbage()
        for batch in batches:
            for place in batch.column(0).to_pylist():
                number = order[place]
                answer = pa.array([work(number)], pa.binary())
                yield pa.RecordBatch.from_arrays([pa.array([number]), answer], names=["number", "answer"])

    if not count:
        return []
    try:
        with quiet_pandas():
            found = spark.range(0, count, 1, count).mapInArrow(run, _ANSWERS).collect()
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        raise failure_of(error, what, table=table, hint=hint) from error
    return [bytes(row["answer"]) for row in sorted(found, key=lambda row: int(row["number"]))]


def warm_up(master: str, conf: dict[str, str], cache: Path) -> None:
    """Start Spark and its Python workers, so that whoever needs them next need not wait for that."""
    spark = spark_session(master, conf, cache)
    count = cores(spark) if master.startswith("local") else 1
    spread(spark, _nothing, count, "start Spark's tasks")


def _nothing(number: int) -> bytes:
    return b""


def cores(spark: SparkSession) -> int:
    """How many tasks may run at once, as far as can be told."""
    try:
        return max(1, int(spark.sparkContext.defaultParallelism))
    except PySparkException:  # Spark Connect has no such thing
        return max(1, int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200))


def on_cluster(
    spark: SparkSession, work: Callable[[_Task], str], tasks: Sequence[_Task]
) -> list[str | LadingError]:
    """`work` of each task, in order: its answer or its error. `work` is a function of a module."""
    answers = spread(
        spark,
        partial(_answered, work, [pickle.dumps(task) for task in tasks]),
        len(tasks),
        "run the script in its tasks",
        hint="try `where: driver`; Spark's own log has details",
    )
    return [_answer(answer) for answer in answers]


def _answered(work: Callable[[Any], str], tasks: Sequence[bytes], number: int) -> bytes:
    try:
        return pickle.dumps(work(pickle.loads(tasks[number])))
    except LadingError as error:
        return pickle.dumps((type(error), error.message, error.hint, error.file))


def _answer(pickled: bytes) -> str | LadingError:
    answer = pickle.loads(pickled)
    if isinstance(answer, str):
        return answer
    kind, message, hint, file = answer
    error: LadingError = kind(message, hint=hint, file=file)
    return error


def fold_on_spark(spark: SparkSession, folds: Sequence[Fold], spec: FoldSpec) -> list[list[Member]]:
    """What replaces each fold, in their order. Small ones share a task."""
    total = sum(fold.bytes for fold in folds)
    share = max(_PACK[0], min(_PACK[1], -(-total // (cores(spark) * _ROUNDS))))
    packs = [tuple(pack) for pack in packed(folds, lambda fold: fold.bytes, share)]
    answers = spread(
        spark,
        partial(_folded, packs, spec),
        len(packs),
        "merge the parts",
        hint="nothing was merged; Spark's own messages are in spark/spark.log in the cache folder",
        sizes=[sum(fold.bytes for fold in pack) for pack in packs],
    )
    return [
        members for answer in answers for members in msgspec.msgpack.decode(answer, type=list[list[Member]])
    ]


def _folded(packs: Sequence[Sequence[Fold]], spec: FoldSpec, number: int) -> bytes:
    return msgspec.msgpack.encode([fold_parts(fold, spec) for fold in packs[number]])


def delete_on_spark(spark: SparkSession, table_dir: Place, paths: Sequence[str]) -> None:
    """Parts that nobody needs any more go, as far as they can: whoever tidies up finds those that stay."""
    count = min(cores(spark), len(paths))
    shares = [tuple(paths[number::count]) for number in range(count)]
    spread(spark, partial(_deleted, table_dir, shares), count, "delete parts")


def _deleted(table_dir: Place, shares: Sequence[Sequence[str]], number: int) -> bytes:
    for path in shares[number]:
        with suppress(OSError, StorageError):
            storage_of(table_dir).delete(path)
    return b""
