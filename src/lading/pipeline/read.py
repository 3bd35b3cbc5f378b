"""Staged files as one DataFrame: the pinned columns, `_source`, and the text of what doesn't fit.

Spark maps a CSV file's columns by position and turns what it can't parse into nulls, so files are read
a group of equal headers at a time, with the schema in the file's own order, and Spark is made to hand
over the raw text of every row that it found malformed. `_source` is in the link's name: no join.
"""

from __future__ import annotations

import codecs
import re
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)

from lading.errors import ConfigError
from lading.model import Column, IngestJob, StagedGroup
from lading.pipeline.parts import SOURCE
from lading.pipeline.read_json import json_rows

RAW = "__lading_raw"  # the text of a bad row; null in good ones

# Spark's own default would read '12:30' as that time today.
TIMESTAMP_FORMAT = "yyyy-MM-dd[['T'][' ']HH:mm[:ss[.SSSSSSSSS]][XXX][XX][X]]"
DATE_FORMAT = "yyyy-MM-dd"

_GLOB = re.compile(r"([\[\]{}*?,\\])")
_JAVA_CHARSETS = {
    "utf-8-sig": "UTF-8",
    "utf-16-le": "UTF-16LE",
    "utf-16-be": "UTF-16BE",
    "utf-32-le": "UTF-32LE",
    "utf-32-be": "UTF-32BE",
}


def read(spark: SparkSession, job: IngestJob) -> DataFrame:
    """All groups of the job in one frame: the columns of the schema, in its order, `_source` and `RAW`."""
    reserved = {SOURCE, RAW}.intersection(column.name for column in job.columns)
    if reserved:
        raise ConfigError(
            f"{job.table} has a column called {reserved.pop()!r}, which is lading's own",
            hint="rename it in the files, or select around it with another format",
            table=job.table,
        )
    frames = [_group(spark, job, group) for group in job.groups]
    if not frames:
        return spark.createDataFrame([], f"{ddl(job.columns)}, `{SOURCE}` bigint, `{RAW}` string")
    together = frames[0]
    for frame in frames[1:]:
        together = together.unionAll(frame)
    return together


def ddl(columns: tuple[Column, ...]) -> str:
    """The columns as a Spark schema string."""
    return ", ".join(f"{quoted(column.name)} {column.type}" for column in columns)


def quoted(name: str) -> str:
    """A column's name as Spark's parser takes it, dots and all."""
    return "`" + name.replace("`", "``") + "`"


def file_columns(job: IngestJob, group: StagedGroup) -> tuple[Column, ...]:
    """The columns that the files of a group hold, in the order they hold them."""
    by_name = {column.name: column for column in job.columns if column.name not in job.name_columns}
    return tuple(by_name[name] for name in group.header) if group.header else tuple(by_name.values())


def parse_options(job: IngestJob) -> dict[str, str]:
    """How Spark has to parse the values of this job's files."""
    given = job.read_options
    timestamp = given.get("timestamp_format")
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": RAW,
        "enableDateTimeParsingFallback": "false",
        "dateFormat": given.get("date_format", DATE_FORMAT),
        "timestampFormat": timestamp or TIMESTAMP_FORMAT,
    }
    if timestamp:
        options["timestampNTZFormat"] = timestamp
    if job.format == "json":
        options["allowSingleQuotes"] = "false"
        return options
    return options | _delimited_options(job.format, given)


def _delimited_options(format: str, given: dict[str, Any]) -> dict[str, str]:
    trim = "true" if given.get("trim") else "false"
    charset = _java_charset(given.get("encoding", "utf-8"))
    # Spark finds line ends by bytes, which only a reader of whole files gets right in wide encodings.
    multiline = given.get("multiline") or charset.upper().startswith(("UTF-16", "UTF-32"))
    options = {
        "sep": given.get("delimiter", "\t" if format == "tsv" else ","),
        "quote": given.get("quote", '"'),
        "escape": given.get("escape", '"'),  # RFC 4180; Spark's own default, a backslash, breaks `""`
        "encoding": charset,
        "multiLine": "true" if multiline else "false",
        "ignoreLeadingWhiteSpace": trim,
        "ignoreTrailingWhiteSpace": trim,
    }
    if "null" in given:
        options["nullValue"] = given["null"]
    if "comment" in given:
        options["comment"] = given["comment"]
    return options


def _java_charset(name: str) -> str:
    python_name = codecs.lookup(name).name
    return _JAVA_CHARSETS.get(python_name, python_name)


def text_lines(spark: SparkSession, group: StagedGroup, *, whole: bool = False) -> DataFrame:
    """The lines of a group's files (or each file whole) as `value`, with name columns and `_source`."""
    lines = spark.read.text(_escaped(group.folder), wholetext=whole)
    return lines.withColumn(SOURCE, _source_id(lines))


def _group(spark: SparkSession, job: IngestJob, group: StagedGroup) -> DataFrame:
    columns = file_columns(job, group)
    if job.format == "json":
        whole = bool(job.read_options.get("multiline"))
        lines = text_lines(spark, group, whole=whole)
        rows = json_rows(lines, columns, parse_options(job), whole=whole, raw=RAW)
    else:
        rows = _columnar(spark.read, job, columns, _escaped(group.folder))
        rows = rows.withColumn(SOURCE, _source_id(rows))
    return rows.select(*(_as_pinned(column, job) for column in job.columns), SOURCE, RAW)


def _escaped(folder: str) -> str:
    """Spark takes every path for a pattern."""
    return _GLOB.sub(r"\\\1", folder)


def _columnar(reader: DataFrameReader, job: IngestJob, columns: tuple[Column, ...], folder: str) -> DataFrame:
    if job.format == "parquet":
        return reader.schema(ddl(columns)).parquet(folder).withColumn(RAW, F.lit(None).cast("string"))
    header = "true" if job.read_options.get("header", True) else "false"
    reader = reader.schema(f"{ddl(columns)}, `{RAW}` string").options(**parse_options(job))
    rows = reader.option("header", header).option("enforceSchema", "true").csv(folder)
    # Spark refuses a query that needs nothing but the raw text, such as that of a transform which keeps
    # no column of the file: the text is tied to a column, of which it takes nothing.
    nothing = F.substr(F.col(quoted(columns[0].name)).cast("string"), F.lit(1), F.lit(0))
    return rows.withColumn(RAW, F.when(F.col(RAW).isNotNull(), F.concat_ws("", F.col(RAW), nothing)))


def _source_id(frame: DataFrame) -> SparkColumn:
    """The number in `s<source id>.csv`, which the staging gave the file as its name."""
    name = frame.metadataColumn("_metadata")["file_name"]
    return F.substring_index(F.substr(name, F.lit(2)), ".", 1).cast("bigint")


def _as_pinned(column: Column, job: IngestJob) -> SparkColumn:
    found = F.col(quoted(column.name))
    return found.cast(column.type).alias(column.name) if column.name in job.name_columns else found
