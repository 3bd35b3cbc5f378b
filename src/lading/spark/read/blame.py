"""Says of a bad row which column is to blame, and why. Runs only when a run is about to fail.

The text of the row is read once more, alone, in the way its file was: a value that is there in the text
and null in the result is the one that didn't fit.
"""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)
from pyspark.sql import types as st

from lading.formats.reasons import is_not
from lading.layout.table import SOURCE
from lading.model import BadRow, Column, IngestJob, StagedGroup
from lading.spark.read.faults import MISFIT, TOO_DEEP, Fault, advice, fault
from lading.spark.read.fixed import fixed_rows
from lading.spark.read.frame import (
    delimited_options,
    delimited_rows,
    file_columns,
    json_options,
    text_lines,
    text_schema,
)
from lading.spark.read.json import json_rows, unknown_keys
from lading.spark.read.values import RAW, Texts, quoted

_REASON = 300  # characters of it
_LINE = "__lading_whole_line"


def misfit(spark: SparkSession, job: IngestJob, source: int, text: str) -> BadRow:
    """Why Spark could not read this row of this source."""
    columns = file_columns(job, _group_of(job, source))
    lines = spark.range(1).select(F.lit(text).alias("value"))
    found = _rows(lines, job, columns).select(*(F.col(quoted(c.name)).isNull() for c in columns)).collect()
    unread = {c.name: c for c, null in zip(columns, found[0] if found else (), strict=False) if null}
    column, reason = fault(
        text,
        fmt=job.format,
        options=job.read_options,
        names=[column.name for column in columns],
        unread=unread,
        layout=job.layout,
    )
    if job.format == "json" and reason == MISFIT:
        try:
            column, reason = _inside(spark, job, columns, text)
        except RecursionError:
            column, reason = None, TOO_DEEP
    blamed = next((one for one in columns if one.name == column), None)
    hint = advice(text, blamed, table=job.table, fmt=job.format, options=job.read_options)
    short = reason if len(reason) <= _REASON else f"{reason[:_REASON]}…"
    return BadRow(source, text, column, short, hint)


def missing_key(spark: SparkSession, job: IngestJob, source: int, row: str) -> BadRow:
    """A row without a value in the order column: its own text if it can be found, else `row`."""
    reason = f"the order column {job.order_by!r} is null"
    text = None if job.transform else _text_without_key(spark, job, source)
    hint = "fix the row, or choose another column for `order_by`"
    return BadRow(source, text if text is not None else row, job.order_by, reason, hint)


def _rows(lines: DataFrame, job: IngestJob, columns: tuple[Column, ...]) -> DataFrame:
    """The records of `lines`, whose text is `value`, as the job reads them."""
    if job.format == "json":
        return json_rows(lines, columns, json_options(), Texts.of(job), raw=RAW, ignore_new=job.ignore_new)
    if job.format == "fixed_width":
        return fixed_rows(lines, job)
    kept = [F.col(quoted(name)) for name in lines.columns if name != "value"]
    fields = F.from_csv(F.col("value"), text_schema(len(columns)), delimited_options(job))
    return delimited_rows(lines.select(*kept, fields.alias("fields")).select(*kept, "fields.*"), job, columns)


def _inside(spark: SparkSession, job: IngestJob, columns: tuple[Column, ...], text: str) -> Fault:
    """A fault deep in a value: a key that its type lacks, or one of its own values."""
    values = json.loads(text)
    for column in columns:
        if column.name not in values:
            continue
        dtype = st.DataType.fromDDL(column.type)
        unknown = unknown_keys(F.lit(json.dumps(values[column.name])), dtype)
        if unknown is not None and spark.range(1).select(F.coalesce(unknown, F.lit(False))).collect()[0][0]:
            return column.name, f"{column.name!r} has a key that is not in its type {column.type}"
    for column in columns:
        alone = json.dumps({column.name: values.get(column.name)})
        rows = _rows(spark.range(1).select(F.lit(alone).alias("value")), job, (column,))
        if rows.where(F.col(RAW).isNotNull()).count():
            said = json.dumps(values[column.name])
            return column.name, f"{said} {is_not(said, column)}"
    return None, MISFIT


def _text_without_key(spark: SparkSession, job: IngestJob, source: int) -> str | None:
    """The first line of a source that is fine but for its order column. Reads that group once more."""
    group = _group_of(job, source)
    columns = file_columns(job, group)
    utf8 = str(job.read_options.get("encoding", "utf-8")).lower().replace("_", "-") in ("utf-8", "utf8")
    plain = job.format != "parquet" and (utf8 or job.format == "fixed_width")
    if not plain or job.read_options.get("multiline") or job.order_by not in {c.name for c in columns}:
        return None
    lines = text_lines(spark, group).where(F.col(SOURCE) == source)
    lines = lines.where(F.col("value") != "").select("value", F.col("value").alias(_LINE))
    rows = _rows(lines, job, columns)
    bare = rows.where(F.col(RAW).isNull() & F.col(quoted(job.order_by)).isNull()).select(_LINE).take(1)
    return str(bare[0][0]) if bare else None


def _group_of(job: IngestJob, source: int) -> StagedGroup:
    return next((group for group in job.groups if source in group.sources), job.groups[0])
