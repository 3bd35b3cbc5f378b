"""Says of a bad row which column is to blame, and why. Runs only when a run is about to fail.

The text of the row is parsed once more, alone, by the same Spark functions: a value that is there in
the text and null in the result is the one that didn't fit.
"""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)
from pyspark.sql import types as st

from lading.model import BadRow, Column, IngestJob, StagedGroup
from lading.pipeline.parts import SOURCE
from lading.pipeline.read import RAW, ddl, file_columns, parse_options, quoted, text_lines
from lading.pipeline.read_json import json_rows, unknown_keys

_MISFIT = "does not fit the schema"
_LINE = "__lading_line"


def misfit(spark: SparkSession, job: IngestJob, source: int, text: str) -> BadRow:
    """Why Spark could not read this row of this source."""
    columns = file_columns(job, _group_of(job, source))
    if job.format == "json":
        column, reason = _json_reason(spark, job, columns, text)
    else:
        column, reason = _delimited_reason(spark, job, columns, text)
    return BadRow(source, text, column, reason)


def missing_key(spark: SparkSession, job: IngestJob, source: int, row: str) -> BadRow:
    """A row without a value in the order column: its own text if it can be found, else `row`."""
    reason = f"the order column {job.order_by!r} is null"
    text = None if job.transform else _text_without_key(spark, job, source)
    return BadRow(source, text if text is not None else row, job.order_by, reason)


def _delimited_reason(
    spark: SparkSession, job: IngestJob, columns: tuple[Column, ...], text: str
) -> tuple[str | None, str]:
    options = parse_options(job)
    fields = _fields(text, options)
    if fields is not None and len(fields) != len(columns):
        return None, f"has {len(fields)} fields where the header has {len(columns)}"
    parsed = F.from_csv(F.lit(text), f"{ddl(columns)}, `{RAW}` string", options)
    for column, field, is_null in zip(columns, fields or (), _nulls(spark, parsed, columns), strict=False):
        if is_null and field.strip() and field != job.read_options.get("null"):
            return column.name, f"{field!r} is not {_a(column.type)}"
    return None, _MISFIT


def _fields(text: str, options: dict[str, str]) -> list[str] | None:
    doubled = options["escape"] == options["quote"]
    try:
        records = csv.reader(
            io.StringIO(text, newline=""),
            delimiter=options["sep"],
            quotechar=options["quote"],
            doublequote=doubled,
            escapechar=None if doubled else options["escape"],
        )
        return next(records, None)
    except csv.Error:
        return None


def _json_reason(
    spark: SparkSession, job: IngestJob, columns: tuple[Column, ...], text: str
) -> tuple[str | None, str]:
    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs)
    except ValueError as error:
        return None, f"is not one JSON object: {error}"
    if not isinstance(pairs, _Pairs):
        return None, "is not a JSON object"
    values: dict[str, Any] = dict(pairs)
    by_name = {column.name: column for column in columns}
    for name, _ in pairs:
        if name not in by_name:
            return name, f"the key {name!r} is not in the schema"
        if sum(other == name for other, _ in pairs) > 1:
            return name, f"has the key {name!r} twice"
    for name, is_null in _json_nulls(spark, job, columns, text).items():
        if is_null and values.get(name) is not None:
            return name, f"{json.dumps(_plain(values[name]))} is not {_a(by_name[name].type)}"
    for column in columns:
        if column.name in values and _has_unknown_key(spark, column, _plain(values[column.name])):
            return column.name, f"{column.name!r} has a key that its type {column.type} lacks"
    return None, _MISFIT


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with its doubles."""


def _plain(value: Any) -> Any:
    if isinstance(value, _Pairs):
        return {name: _plain(inner) for name, inner in value}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _json_nulls(
    spark: SparkSession, job: IngestJob, columns: tuple[Column, ...], text: str
) -> dict[str, bool]:
    lines = spark.range(1).select(F.lit(text).alias("value"))
    rows = json_rows(lines, columns, parse_options(job), whole=False, raw=RAW)
    found = rows.select(*(F.col(quoted(c.name)).isNull() for c in columns)).collect()
    return {column.name: bool(flag) for column, flag in zip(columns, found[0] if found else (), strict=False)}


def _has_unknown_key(spark: SparkSession, column: Column, value: Any) -> bool:
    unknown = unknown_keys(F.lit(json.dumps(value)), st.DataType.fromDDL(column.type))
    if unknown is None:
        return False
    return bool(spark.range(1).select(F.coalesce(unknown, F.lit(False))).collect()[0][0])


def _nulls(spark: SparkSession, parsed: SparkColumn, columns: tuple[Column, ...]) -> list[bool]:
    flags = [parsed.getField(column.name).isNull() for column in columns]
    return [bool(flag) for flag in spark.range(1).select(*flags).collect()[0]]


def _text_without_key(spark: SparkSession, job: IngestJob, source: int) -> str | None:
    """The first line of a source that is fine but for its order column. Reads that group once more."""
    group = _group_of(job, source)
    columns = file_columns(job, group)
    options = parse_options(job)
    plain = job.format != "parquet" and options.get("encoding", "utf-8") == "utf-8"
    if not plain or job.read_options.get("multiline") or job.order_by not in {c.name for c in columns}:
        return None
    lines = (
        text_lines(spark, group).where(F.col(SOURCE) == source).select("value", F.col("value").alias(_LINE))
    )
    if job.format == "json":
        rows = json_rows(lines, columns, options, whole=False, raw=RAW)
    else:
        parsed = F.from_csv(F.col("value"), f"{ddl(columns)}, `{RAW}` string", options)
        rows = (
            lines.where(F.col("value").rlike(r"\S")).select(_LINE, parsed.alias("row")).select(_LINE, "row.*")
        )
    bare = rows.where(F.col(RAW).isNull() & F.col(quoted(job.order_by)).isNull()).select(_LINE).take(1)
    return str(bare[0][0]) if bare else None


def _group_of(job: IngestJob, source: int) -> StagedGroup:
    return next((group for group in job.groups if source in group.sources), job.groups[0])


def _a(type: str) -> str:
    return f"{'an' if type[0] in 'aeiou' else 'a'} {type}"
