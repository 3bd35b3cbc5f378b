"""Rows that go through Spark on their way into parts, since a transform or SQL of the user's wants them.

Tasks read the files and hand the rows over; Spark transforms and checks them and sends them to tasks by
bucket, which write the parts. What those tasks do is said elsewhere (ingest/tasks/task.py); what they tell
the driver rides along as an observation, so nothing is collected. Where Spark has to sample the rows to cut
them into ranges, or a transform uses them twice, they are read twice, and both readings have to agree.
"""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import ArithmeticException, DateTimeException, NumberFormatException, PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)

from lading import ids
from lading.errors import LadingError, TransformError
from lading.layout.table import NOBODY, SOURCE
from lading.model import Check, IngestJob
from lading.parts.buckets import bucket_width
from lading.parts.field_ids import numbered
from lading.spark.arrow_types import arrow_schema
from lading.spark.buckets import bucket_column
from lading.spark.failures import Py4JError, failure_of, raise_interrupt, worker_failure
from lading.spark.job_settings import held_settings, ingest_settings, reported
from lading.spark.session import quiet_pandas
from lading.spark.sql import quoted
from lading.spark.sql_checks import spark_bits
from lading.spark.transform import lies_below, transformed
from lading.spark.workers import imports_are_no_garbage

_PER_TASK = 64 << 20  # input bytes a task that writes parts of its own
_PER_SHARE = 16 << 20  # of one that writes whole buckets: many small ones keep all cores busy to the end
_NO_SHUFFLE = 8 << 20  # input bytes below which one task does everything
_PATIENCE = 60.0  # seconds that the figures of a finished job may take to arrive

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows that tasks read, and what came of them: a frame with the table's columns and `_source`, behind
    them what else the rows bring, and a column for the tasks' notes."""

    read: Callable[[int], Batches]  # of each task, by its number
    schema: str  # of what it gives, as Spark DDL, under names of ours
    names: tuple[str, ...]  # of its columns
    tasks: int
    note: str
    whole: Callable[[list[bytes]], bool]  # whether these are the notes of all tasks
    places: tuple[str, ...] = ()  # what a row brings along that isn't the table's


@dataclass(frozen=True, slots=True)
class Output:
    """What the rows are when they are to be written."""

    schema: bytes  # Arrow IPC schema of the parts
    width: int | None  # of a bucket, in ticks
    bits: bool  # whether the last column has the checks that Spark made


def ingest(
    spark: SparkSession,
    job: IngestJob,
    frame: Frame,
    write: Callable[[Batches, Output], bytes],
    checks: Callable[[pa.Schema], Mapping[int, Check]],
    tick: Callable[[str], None] | None = None,
) -> tuple[Output, list[bytes], list[bytes]]:
    """Read, transform, check, spread and write; what the reading and the writing tasks have to tell. `checks`
    are those that only Spark can make, by their bits."""
    notes = _Notes(_read(spark, frame), frame.note)
    rows = notes.rows
    if job.transform is not None:
        rows = _with_source(transformed(spark, job, rows.drop(*frame.places)))
    data = rows.drop(*frame.places)
    schema = arrow_schema(data.schema)
    of = "the transform's result" if job.transform else "the schema"
    width = bucket_width(_without_source(schema), job.order_by, job.bucket_size, table=job.table, of=of)
    failed = spark_bits(spark, data, checks(schema), job.table)
    out = Output(numbered(schema, job.known).serialize().to_pybytes(), width, failed is not None)
    if failed is not None:
        rows = rows.withColumn(f"__lading_bits_{ids.fresh()}", failed)
    try:
        with reported(spark, tick), held_settings(spark, ingest_settings(job)):
            told = written_by_tasks(spread_rows(spark, job, rows, width), write, out)
            return out, notes.arrived(frame.whole), told
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        raise explained(error, job) from error


def _read(spark: SparkSession, frame: Frame) -> DataFrame:
    read = frame.read
    names = [f"c{number}" for number in range(len(frame.names))]  # of frame.schema

    def run(batches: Batches) -> Batches:
        imports_are_no_garbage()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for rows in read(number):
                    yield pa.RecordBatch.from_arrays(rows.columns, names=names)

    count = max(1, frame.tasks)
    numbers = spark.range(0, frame.tasks, 1, count)
    with quiet_pandas():
        return numbers.mapInArrow(run, frame.schema).toDF(*frame.names)


class _Notes:
    """Takes the notes of the reading tasks out of the rows, while they go by for the first time."""

    def __init__(self, frame: DataFrame, note: str) -> None:
        self._frame = frame
        self._notes = F.collect_list(F.col(note)).alias("notes")  # nulls don't count
        self._observation = Observation(f"lading-{ids.fresh()}")
        self.rows = frame.observe(self._observation, self._notes).where(F.col(note).isNull()).drop(note)

    def arrived(self, whole: Callable[[list[bytes]], bool]) -> list[bytes]:
        """Call it when the job that read the rows is done. Spark may have left some of them unread (a
        transform that keeps nothing, a limit, a join with an empty side): only then they are asked for by a
        job of its own."""
        found = self._observed()
        if not whole(found):
            found = [bytes(note) for note in self._frame.agg(self._notes).collect()[0]["notes"]]
        return found

    def _observed(self) -> list[bytes]:
        found: list[dict[str, Any]] = []

        def ask() -> None:
            try:
                found.append(self._observation.get)
            except Exception:  # 4.3 fails an assertion in the JVM when the observed part was optimised away
                return

        asking = threading.Thread(target=ask, daemon=True)  # older Sparks wait forever in that case
        asking.start()
        asking.join(_PATIENCE)
        return [bytes(note) for note in found[0].get("notes") or ()] if found else []


def _with_source(frame: DataFrame) -> DataFrame:
    """Data columns first, `_source` last."""
    names = frame.schema.names
    nobody = F.lit(NOBODY).cast("bigint")
    source = F.coalesce(F.col(SOURCE), nobody) if SOURCE in names else nobody
    return frame.select(*(F.col(quoted(name)) for name in names if name != SOURCE), source.alias(SOURCE))


def _without_source(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in schema if field.name != SOURCE])


def spread_rows(spark: SparkSession, job: IngestJob, frame: DataFrame, width: int | None) -> DataFrame:
    """Rows of one bucket to one task; without buckets, ranges of the order column; else as they come."""
    most = int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    tasks = max(1, min(most, math.ceil(job.input_bytes / _PER_TASK)))
    if job.input_bytes < _NO_SHUFFLE or job.order_by is None:
        return frame.coalesce(tasks)
    if width is None:
        return frame.repartitionByRange(tasks, F.col(quoted(job.order_by)))
    tasks = max(1, min(most, math.ceil(job.input_bytes / _PER_SHARE)))
    bucket = bucket_column(job.order_by, frame.schema[job.order_by].dataType, width)
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(tasks, F.pmod(bucket, F.lit(tasks)).cast("int"))
    return frame.repartition(tasks, bucket)


def written_by_tasks(frame: DataFrame, write: Callable[[Batches, Output], bytes], out: Output) -> list[bytes]:
    # mapInArrow looks columns up by their names as they are, and trips over dots and backticks.
    frame = frame.toDF(*(f"c{number}" for number in range(len(frame.schema.names))))

    def run(batches: Batches) -> Batches:
        imports_are_no_garbage()
        yield pa.RecordBatch.from_arrays([pa.array([write(batches, out)], pa.binary())], names=["told"])

    with quiet_pandas():
        return [bytes(row["told"]) for row in frame.mapInArrow(run, "told binary").collect()]


def explained(error: Exception, job: IngestJob) -> LadingError:
    # Spark Connect puts a code and the server's own stack behind what was said.
    text = re.split(r"\s*SQLSTATE: \w{5}\s*(?:JVM stacktrace:|$)", str(error))[0].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    path = job.transform.rpartition(":")[0] if job.transform else None
    in_values = isinstance(error, (ArithmeticException, DateTimeException, NumberFormatException))
    known = worker_failure(text)
    at = _line_of_theirs(text, path, job.project) if path else None
    if path and (at is not None or in_values) and known is None:
        return TransformError(
            f"{at[0]}, line {at[1]}: {lines[-1]}" if at else f"{path}: {lines[0]}",
            hint="the transform failed on a row; fix it at this line",
            table=job.table,
            file=path,
        )
    return failure_of(error, f"build {job.table}", table=job.table)


def _line_of_theirs(text: str, path: str, project: str | None) -> tuple[str, str] | None:
    """File and line of the transform that a traceback goes through, else of a module that it imports."""
    found = re.findall(r'File "([^"]+)", line (\d+)', text)
    roots = (os.path.dirname(path), project or os.path.dirname(path))
    theirs = [(file, line) for file, line in found if lies_below(file, roots)]
    return next((one for one in theirs if one[0] == path), theirs[0] if theirs else None)
