"""Sets bad rows aside: a second read, of the bad files only, that keeps what the first one left out.

Spark reads each of these files in one piece, so a row's number within its task is its number in the
file; `records` turns that into a line and the text that stands there. Behind a transform rows have no
number any more: then the row itself is kept, as JSON. Each file gets a Parquet file of its own, under a
name that carries the run's token like a part's, so that what is set aside comes and goes with its source.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)

from lading.layout.table import SOURCE
from lading.model import Column as Pinned
from lading.model import FoundFile, IngestJob, Member, StagedGroup
from lading.parts.footer import Origin
from lading.parts.task import RESULT, decoded
from lading.spark.failures import Py4JError, raise_interrupt
from lading.spark.ingest import explained
from lading.spark.job_settings import held_settings
from lading.spark.read.frame import read
from lading.spark.read.values import RAW, quoted
from lading.spark.row_checks import failed_checks
from lading.spark.session import quiet_pandas
from lading.spark.set_aside import AsideSpec, SourceFile, write_aside
from lading.spark.tally import CheckSpec, rejecting
from lading.spark.transform import transformed

Records = Callable[[str, str, Mapping[str, Any]], Iterator[tuple[int, str]]]

# So large that no two files share a task and none is cut.
_ONE_FILE_A_TASK = {
    "spark.sql.files.maxPartitionBytes": str(1 << 44),
    "spark.sql.files.openCostInBytes": str(1 << 44),
}
_STAGED = re.compile(r"s(-?\d+)\.")
_RECORD = "__lading_record"
_ROW_BITS = (1 << 33) - 1  # what counts rows in Spark's increasing ids; the rest is the task


@dataclass(frozen=True, slots=True)
class Failing:
    """One row that fails a check."""

    record: int | None  # from 1; None when it can't be told
    row: str  # as JSON


def set_aside(
    spark: SparkSession, job: IngestJob, files: Mapping[int, FoundFile], records: Records
) -> list[Member]:
    """Write the bad rows of `files` (by source) as Parquet, one file a source, and describe what was
    written. Nobody knows of it until it is committed."""
    again = narrowed(job, files)
    spec = _spec(again, files, records)
    try:
        with file_by_file(spark), quiet_pandas():
            rows = _bad_rows(spark, again, spec.checks)
            tasks = min(len(files), int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200))
            spread = rows.repartition(tasks, SOURCE).sortWithinPartitions(SOURCE, "record")
            written = spread.mapInArrow(lambda batches: write_aside(batches, spec), RESULT).collect()
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        raise explained(error, job) from error
    return [decoded(bytes(row["member"])) for row in written]


def first_failing(spark: SparkSession, job: IngestJob, source: int, bit: int) -> Failing | None:
    """The first row of a source that fails the check with that bit."""
    again = replace(narrowed(job, {source}), reject={source: 1 << bit})
    try:
        with file_by_file(spark):
            rows = _bad_rows(spark, again, CheckSpec((), 1 << bit))
            hit = rows.where(F.col("failed").bitwiseAND(F.lit(1 << bit).cast("bigint")) != 0)
            found = hit.orderBy(F.col("record").asc_nulls_last(), "text").select("record", "text").take(1)
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        raise explained(error, job) from error
    return Failing(found[0]["record"], found[0]["text"]) if found else None


def narrowed(job: IngestJob, sources: Collection[int]) -> IngestJob:
    """The same job on some of its sources only."""
    groups = [_narrowed_group(group, set(sources)) for group in job.groups]
    return replace(job, groups=tuple(group for group in groups if group is not None))


def _narrowed_group(group: StagedGroup, sources: set[int]) -> StagedGroup | None:
    wanted = tuple(source for source in group.sources if source in sources)
    if not wanted or len(wanted) == len(group.sources):
        return group if wanted else None
    folder = f"{group.folder}-{uuid.uuid4().hex[:8]}"
    for below, _, names in os.walk(group.folder):
        kept = [name for name in names if (of := _STAGED.match(name)) and int(of[1]) in sources]
        if kept:
            beside = folder + below[len(group.folder) :]
            os.makedirs(beside, exist_ok=True)
            for name in kept:
                os.symlink(os.path.join(below, name), os.path.join(beside, name))
    return replace(group, folder=folder, sources=wanted)


def file_by_file(spark: SparkSession) -> AbstractContextManager[None]:
    """Spark reads each file in a task of its own; it plans that when a job starts."""
    return held_settings(spark, _ONE_FILE_A_TASK)


def _spec(job: IngestJob, files: Mapping[int, FoundFile], records: Records) -> AsideSpec:
    plain = tuple(column.name for column in job.columns if column.name not in job.name_columns)
    names = {source: group.header or plain for group in job.groups for source in group.sources}
    return AsideSpec(
        table_dir=job.table_dir,
        origin=Origin(job.table_id, job.run_id, job.commit_id, None),
        format=job.format,
        read_options=job.read_options,
        columns=job.columns,
        layout=job.layout,
        order_by=job.order_by,
        checks=CheckSpec(
            tuple(check.name for check in job.row_checks), rejecting(job.row_checks), job.reject
        ),
        check_columns=tuple(", ".join(check.columns) or None for check in job.row_checks),
        files={source: SourceFile(f.key, f.path, names[source]) for source, f in files.items()},
        records=records,
    )


def _bad_rows(spark: SparkSession, job: IngestJob, checks: CheckSpec) -> DataFrame:
    """`_source`, `record`, `text`, `nulls` (which columns Spark found nothing in; null for a row that it
    could read), `failed` and `unkeyed` of every row that may have to be set aside."""
    number = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_BITS)) + 1
    # Numbered as read, before anything is left out.
    rows = read(spark, job).withColumn(_RECORD, number)
    if job.transform is None:
        return _judged(spark, job, rows, checks)
    unread = _described(rows.where(F.col(RAW).isNotNull()), job.columns)
    if job.per == "table":
        return unread
    clean = read(spark, job).where(F.col(RAW).isNull()).drop(RAW)
    return unread.unionAll(_judged(spark, job, transformed(spark, job, clean), checks))


def _judged(spark: SparkSession, job: IngestJob, frame: DataFrame, checks: CheckSpec) -> DataFrame:
    """Rows that can't be read, or that can and still may not stay."""
    readable = F.col(RAW).isNull() if RAW in frame.columns else F.lit(True)
    failed = failed_checks(spark, frame.drop(_RECORD, RAW), job)
    unkeyed = F.col(quoted(job.order_by)).isNull() if job.order_by else F.lit(False)
    bits = checks.reject
    for more in checks.more.values():
        bits |= more
    rows = _described(
        frame,
        job.columns if RAW in frame.columns else (),
        None if failed is None else F.when(readable, failed).otherwise(F.lit(0).cast("bigint")),
        readable & unkeyed,
    )
    broken = F.col("failed").bitwiseAND(F.lit(bits).cast("bigint")) != 0
    return rows.where(F.col("nulls").isNotNull() | F.col("unkeyed") | broken)


def _described(
    frame: DataFrame,
    columns: Collection[Pinned],
    failed: Column | None = None,
    unkeyed: Column | None = None,
) -> DataFrame:
    own = (SOURCE, RAW, _RECORD)
    row = F.to_json(F.struct(*(F.col(quoted(name)) for name in frame.columns if name not in own)))
    raw = F.col(RAW) if RAW in frame.columns else F.lit(None).cast("string")
    nulls = F.array(*(F.col(quoted(column.name)).isNull() for column in columns)).cast("array<boolean>")
    return frame.select(
        SOURCE,
        (F.col(_RECORD) if _RECORD in frame.columns else F.lit(None).cast("bigint")).alias("record"),
        F.coalesce(raw, row).alias("text"),
        F.when(raw.isNotNull(), nulls).alias("nulls"),
        (F.lit(0).cast("bigint") if failed is None else failed).alias("failed"),
        (F.lit(False) if unkeyed is None else unkeyed).alias("unkeyed"),
    )
