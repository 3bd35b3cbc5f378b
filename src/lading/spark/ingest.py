"""Spark's part of a run: staged files in, parts out, nothing committed.

Read, let bad rows be counted, transform, send rows to tasks by bucket, and have each task write its
parts (parts/task.py). The driver gets one small record a part and never a row.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from typing import Any

from pyspark.errors import ArithmeticException, DateTimeException, NumberFormatException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)

from lading.errors import ConfigError, LadingError, PipelineError, TransformError
from lading.layout.table import SOURCE
from lading.model import BadRow, CheckTally, Ingested, IngestJob, Member
from lading.parts.cut import Limits
from lading.parts.footer import Origin
from lading.parts.task import RESULT, TaskSpec, decoded, write_parts
from lading.spark.arrow_types import arrow_schema, is_nested
from lading.spark.buckets import bucket_column, bucket_ticks
from lading.spark.failures import Py4JError, failure_of, raise_interrupt, worker_failure
from lading.spark.job_settings import held_settings, ingest_settings, reported
from lading.spark.read.badrows import BadRowProbe, RowCount, Seen
from lading.spark.read.blame import misfit, missing_key
from lading.spark.read.frame import read
from lading.spark.read.json import NEW_KEYS
from lading.spark.read.values import RAW, quoted
from lading.spark.row_checks import failed_checks
from lading.spark.session import quiet_pandas
from lading.spark.tally import CHECKED, FAILED, CheckSpec, rejecting, summed, write_checked
from lading.spark.transform import refuse_foreign, transformed

MEMORY_SETTING = "spark.lading.task.memory"  # bytes of rows a task holds before it sorts on disk
_MEMORY = 512 << 20
_PER_TASK = 64 << 20  # input bytes a task that writes parts of its own
_PER_SHARE = 16 << 20  # of one that writes whole buckets: many small ones keep all cores busy to the end
_NO_SHUFFLE = 8 << 20  # input bytes below which one task does everything

_STAGED_LINK = re.compile(r"/[^\s'\"]*/s-?\d+(?:\.\w+)+")


def ingest(spark: SparkSession, job: IngestJob, tick: Callable[[str], None] | None = None) -> Ingested:
    """Write the job's rows as parts that nobody sees yet, and say which rows didn't fit."""
    ignoring = job.ignore_new and job.format == "json" and bool(job.groups)
    rows = read(spark, job, flag_new_keys=ignoring)
    ignored = RowCount(rows, NEW_KEYS) if ignoring else None
    readable = BadRowProbe(ignored.passed if ignored else rows, F.col(RAW), sources=job.quarantine)
    frame = _with_source(transformed(spark, job, readable.passed.drop(RAW)), job)
    schema = arrow_schema(frame.schema)
    width = _bucket_width(job, frame)
    keyed = None
    if job.order_by:
        keyed = _keyed(frame, job.order_by, sources=job.quarantine)
    failed = failed_checks(spark, frame, job)
    passed = keyed.passed if keyed else frame
    spec = TaskSpec(
        table_dir=job.table_dir,
        origin=Origin(job.table_id, job.run_id, job.commit_id, job.order_by),
        schema=schema.serialize().to_pybytes(),
        bucket_size=width,
        memory=int(job.spark.get(MEMORY_SETTING, _MEMORY)),
        limits=Limits(),
    )
    if not job.groups and job.per == "file":
        return Ingested((), spec.schema, 0, ())
    try:
        with reported(spark, tick):
            rows = passed if failed is None else passed.withColumn(FAILED, failed)
            with held_settings(spark, ingest_settings(job, spec.memory)):
                members, tally = _written(_spread(spark, job, rows, width), spec, job)
            unread, unkeyed = readable.seen(), keyed.seen() if keyed else Seen(0, ())
            ignored_rows = ignored.seen() if ignored else 0
        held = (source for member in members for source, _ in member.sources)
        refuse_foreign(job, held, tally.rows, unkeyed.sources, (source for source, _ in unkeyed.sample))
        bad = _blamed(spark, job, unread, unkeyed)
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        raise explained(error, job) from error
    count = unread.count + unkeyed.count
    sources = unread.sources | unkeyed.sources
    return Ingested(members, spec.schema, count, bad, tally, sources, ignored_rows)


def _blamed(spark: SparkSession, job: IngestJob, unread: Seen, unkeyed: Seen) -> tuple[BadRow, ...]:
    """A sample of the rows that fail the run. A row that no file gave can't be set aside with one."""
    bad = [] if job.quarantine else [misfit(spark, job, source, text) for source, text in unread.sample]
    if not job.quarantine or job.per == "table":
        bad += [missing_key(spark, job, source, text) for source, text in unkeyed.sample]
    return _distinct(bad)


def _with_source(frame: DataFrame, job: IngestJob) -> DataFrame:
    """Data columns first, `_source` last; rows that no file gave have the source 0."""
    names = frame.schema.names
    if job.transform is None and names[-1] == SOURCE:
        return frame
    nobody = F.lit(0).cast("bigint")
    source = F.coalesce(F.col(SOURCE), nobody) if SOURCE in names else nobody
    return frame.select(*(F.col(quoted(name)) for name in names if name != SOURCE), source.alias(SOURCE))


def _bucket_width(job: IngestJob, frame: DataFrame) -> int | None:
    if job.order_by is None:
        return None
    if job.order_by not in frame.schema.names:
        where = "the transform's result" if job.transform else "the schema"
        raise ConfigError(
            f"{job.table} is ordered by {job.order_by!r}, but {where} does not have it",
            hint=f"tables.{job.table}.order_by: one of {', '.join(frame.columns)}",
            table=job.table,
        )
    dtype = frame.schema[job.order_by].dataType
    if is_nested(dtype):
        raise ConfigError(
            f"{job.table} can't be ordered by {job.order_by!r}, which is {dtype.simpleString()}",
            hint=f"tables.{job.table}.order_by: choose a column of a plain type",
            table=job.table,
        )
    return bucket_ticks(job.bucket_size, dtype, job.order_by, job.table)


def _keyed(frame: DataFrame, order_by: str, *, sources: bool) -> BadRowProbe:
    """Rows without an order value are bad; their text is the row as JSON."""
    names = ", ".join(quoted(name) for name in frame.schema.names if name != SOURCE)
    missing = F.col(quoted(order_by)).isNull()
    return BadRowProbe(frame, F.expr(f"to_json(struct({names}))"), missing, sources=sources)


def _spread(spark: SparkSession, job: IngestJob, frame: DataFrame, width: int | None) -> DataFrame:
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


def _written(frame: DataFrame, spec: TaskSpec, job: IngestJob) -> tuple[tuple[Member, ...], CheckTally]:
    # mapInArrow looks columns up by their names as they are, and trips over dots and backticks.
    frame = frame.toDF(*(f"c{number}" for number in range(len(frame.schema.names))))
    checks = CheckSpec(
        tuple(check.name for check in job.row_checks),
        rejecting(job.row_checks) if job.quarantine else 0,
        job.reject,
    )
    with quiet_pandas():
        if checks.names:
            found = frame.mapInArrow(lambda batches: write_checked(batches, spec, checks), CHECKED).collect()
        else:
            found = frame.mapInArrow(lambda batches: write_parts(batches, spec), RESULT).collect()
    members = [decoded(bytes(row["member"])) for row in found if row["member"] is not None]
    tally = summed(bytes(row["tally"]) for row in found if checks.names and row["tally"] is not None)
    return tuple(sorted(members, key=_by_key)), tally


def _by_key(member: Member) -> tuple[int, Any, str]:
    return (member.bucket, 0 if member.key_min is None else member.key_min, member.path)


def _distinct(bad: list[BadRow]) -> tuple[BadRow, ...]:
    return tuple(dict.fromkeys(bad))


def explained(error: Exception, job: IngestJob) -> LadingError:
    # Spark Connect puts a code and the server's own stack behind what was said.
    text = re.split(r"\s*SQLSTATE: \w{5}\s*(?:JVM stacktrace:|$)", str(error))[0].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    path = job.transform.rpartition(":")[0] if job.transform else None
    in_values = isinstance(error, (ArithmeticException, DateTimeException, NumberFormatException))
    known = worker_failure(text)
    if path and (f'"{path}"' in text or in_values) and known is None:
        line = re.search(rf'"{re.escape(path)}", line (\d+)', text)
        return TransformError(
            f"{path}, line {line[1]}: {lines[-1]}" if line else f"{path}: {lines[0]}",
            hint="the transform failed on a row; fix it at this line",
            table=job.table,
            file=path,
        )
    link = _STAGED_LINK.search(text)
    if link and "FAILED_READ_FILE" in text:
        real = os.path.realpath(link[0])
        causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
        return PipelineError(
            f"{real} can't be read: {causes[-1] if causes else lines[0]}",
            hint="restore the file, or exclude it from the table's `path`, then run again",
            table=job.table,
            file=real,
        )
    failure = failure_of(error, f"build {job.table}", table=job.table)
    if isinstance(failure, PipelineError) and link:
        failure.file = os.path.realpath(link[0])
    return failure
