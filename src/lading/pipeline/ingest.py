"""Spark's part of a run: staged files in, parts out, nothing committed.

Read, let bad rows be counted, transform, send rows to tasks by bucket, and have each task write its
parts (task.py). The driver gets one small record a part and never a row.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import ArithmeticException, DateTimeException, NumberFormatException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)
from pyspark.sql import types as st

from lading.errors import ConfigError, LadingError, PipelineError, TransformError
from lading.model import BadRow, Ingested, IngestJob, Member
from lading.pipeline.arrow_types import arrow_schema, is_nested
from lading.pipeline.badrows import BadRowProbe, Seen
from lading.pipeline.blame import misfit, missing_key
from lading.pipeline.buckets import bucket_column, bucket_ticks
from lading.pipeline.cutting import Limits
from lading.pipeline.parts import SOURCE, Origin
from lading.pipeline.progress import reported
from lading.pipeline.read import RAW, quoted, read
from lading.pipeline.session import quiet_pandas
from lading.pipeline.sorting import TIE
from lading.pipeline.task import RESULT, TaskSpec, decoded, write_parts
from lading.pipeline.transform import transformed

MEMORY_SETTING = "spark.lading.task.memory"  # bytes of rows a task holds before it sorts on disk
_MEMORY = 512 << 20
_PER_TASK = 64 << 20  # input bytes a task
_NO_SHUFFLE = 8 << 20  # input bytes below which one task does everything

_STAGED_LINK = re.compile(r"/[^\s'\"]*/s-?\d+(?:\.\w+)+")


def ingest(spark: SparkSession, job: IngestJob, tick: Callable[[str], None] | None = None) -> Ingested:
    """Write the job's rows as parts that nobody sees yet, and say which rows didn't fit."""
    rows = read(spark, job)
    readable = BadRowProbe(rows, F.col(RAW))
    frame = _with_source(transformed(spark, job, readable.passed.drop(RAW)))
    schema = arrow_schema(frame.schema)
    width = _bucket_width(job, frame)
    keyed = BadRowProbe(frame, _text_if_null(frame, job.order_by)) if job.order_by else None
    tied = _with_tie(keyed.passed if keyed else frame)
    spec = TaskSpec(
        table_dir=job.table_dir,
        origin=Origin(job.table_id, job.run_id, job.commit_id, job.order_by),
        schema=schema.serialize().to_pybytes(),
        tie=TIE in tied.columns,
        bucket_size=width,
        memory=int(job.spark.get(MEMORY_SETTING, _MEMORY)),
        limits=Limits(),
    )
    if not job.groups and job.per == "file":
        return Ingested((), spec.schema, 0, ())
    try:
        with reported(spark, tick):
            members = _written(_spread(spark, job, tied, width), spec)
            unread, unkeyed = readable.seen(), keyed.seen() if keyed else Seen(0, ())
        bad = [misfit(spark, job, source, text) for source, text in unread.sample]
        bad += [missing_key(spark, job, source, text) for source, text in unkeyed.sample]
    except (PySparkException, Py4JError) as error:
        raise _explained(error, job) from error
    return Ingested(members, spec.schema, unread.count + unkeyed.count, _distinct(bad))


def _with_source(frame: DataFrame) -> DataFrame:
    """Data columns first, `_source` last; rows that no file gave (per: table) have the source 0."""
    if SOURCE not in frame.columns:
        frame = frame.withColumn(SOURCE, F.lit(0).cast("bigint"))
    return frame.select(*(F.col(quoted(name)) for name in frame.columns if name != SOURCE), SOURCE)


def _bucket_width(job: IngestJob, frame: DataFrame) -> int | None:
    if job.order_by is None:
        return None
    if job.order_by not in frame.columns:
        where = "the transform's result" if job.transform else "the schema"
        raise ConfigError(
            f"{job.table} is ordered by {job.order_by!r}, which {where} does not have",
            hint=f"tables.{job.table}.order_by: one of {', '.join(frame.columns)}",
            table=job.table,
        )
    type = frame.schema[job.order_by].dataType
    if is_nested(type):
        raise ConfigError(
            f"{job.table} can't be ordered by {job.order_by!r}, which is {type.simpleString()}",
            hint=f"tables.{job.table}.order_by: choose a column of a plain type",
            table=job.table,
        )
    return bucket_ticks(job.bucket_size, type, job.order_by, job.table)


def _text_if_null(frame: DataFrame, order_by: str | None) -> Column:
    columns = [F.col(quoted(name)) for name in frame.columns if name != SOURCE]
    return F.when(F.col(quoted(order_by or "")).isNull(), F.to_json(F.struct(*columns)))


def _with_tie(frame: DataFrame) -> DataFrame:
    """Nested columns can't be sorted by, so a hash of them settles the order of otherwise equal rows."""
    nested = [field for field in frame.schema if is_nested(field.dataType)]
    if not nested:
        return frame
    hashed = [F.to_json(quoted(f.name)) if _has_map(f.dataType) else F.col(quoted(f.name)) for f in nested]
    return frame.withColumn(TIE, F.xxhash64(*hashed))


def _has_map(type: st.DataType) -> bool:
    return "map<" in type.simpleString()  # Spark hashes no maps


def _spread(spark: SparkSession, job: IngestJob, frame: DataFrame, width: int | None) -> DataFrame:
    """Rows of one bucket to one task; without buckets, ranges of the order column; else as they come."""
    most = int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    tasks = max(1, min(most, math.ceil(job.input_bytes / _PER_TASK)))
    if job.input_bytes < _NO_SHUFFLE or job.order_by is None:
        return frame.coalesce(tasks)
    if tasks == 1:
        return frame.repartition(1)
    if width is None:
        return frame.repartitionByRange(tasks, F.col(quoted(job.order_by)))
    bucket = bucket_column(job.order_by, frame.schema[job.order_by].dataType, width)
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(tasks, F.pmod(bucket, F.lit(tasks)).cast("int"))
    return frame.repartition(tasks, bucket)


def _written(frame: DataFrame, spec: TaskSpec) -> tuple[Member, ...]:
    # mapInArrow looks columns up by their names as they are, and trips over dots and backticks.
    frame = frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))
    with quiet_pandas():
        written = frame.mapInArrow(lambda batches: write_parts(batches, spec), RESULT).collect()
    members = [decoded(bytes(row["member"])) for row in written]
    return tuple(sorted(members, key=lambda member: (member.bucket, member.tick_min, member.path)))


def _distinct(bad: list[BadRow]) -> tuple[BadRow, ...]:
    return tuple(dict.fromkeys(bad))


def _explained(error: Exception, job: IngestJob) -> LadingError:
    text = str(error).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    path = job.transform.rpartition(":")[0] if job.transform else None
    in_values = isinstance(error, (ArithmeticException, DateTimeException, NumberFormatException))
    if path and (f'"{path}"' in text or in_values):
        line = re.search(rf'"{re.escape(path)}", line (\d+)', text)
        return TransformError(
            f"{path}, line {line[1]}: {lines[-1]}" if line else f"{path}: {lines[0]}",
            hint="the transform failed on a row: fix it there",
            table=job.table,
            file=path,
        )
    link = _STAGED_LINK.search(text)
    # The gateway's own first line only says which call failed; Java's follows a colon.
    said = next((line[1:].strip() for line in lines if line.startswith(": ")), lines[0])
    return PipelineError(
        f"Spark could not build {job.table}: {said}",
        hint="Spark's own messages are in spark/spark.log in the cache folder",
        table=job.table,
        file=os.path.realpath(link[0]) if link else None,
    )
