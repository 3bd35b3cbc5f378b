"""Staged files as one DataFrame: the pinned columns, `_source`, and the text of what doesn't fit.

Spark maps a CSV file's columns by position and turns what it can't parse into nulls, so files are read
a group of equal headers at a time, every field as text; values are made of the texts by rules of our own
(values.py). Spark hands over the raw text of rows that have too few or too many fields; that of
others is put together from their fields. `_source` is in the link's name: no join.
"""

from __future__ import annotations

import codecs
import re

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)

from lading.errors import ConfigError
from lading.formats.delimited import NOTHING
from lading.layout.table import SOURCE
from lading.model import DELIMITERS, Column, IngestJob, StagedGroup
from lading.spark.read.fixed import fixed_rows
from lading.spark.read.json import NEW_KEYS, json_rows
from lading.spark.read.json_array import elements
from lading.spark.read.values import RAW, Texts, any_of, any_of_sql, literal, quoted, text_name, typed_rows

_GLOB = re.compile(r"([\[\]{}*?,\\])")
_JAVA_CHARSETS = {
    "utf-8-sig": "UTF-8",
    "utf-16-le": "UTF-16LE",
    "utf-16-be": "UTF-16BE",
    "utf-32-le": "UTF-32LE",
    "utf-32-be": "UTF-32BE",
}


def read(spark: SparkSession, job: IngestJob, *, flag_new_keys: bool = False) -> DataFrame:
    """All groups of the job in one frame: the columns of the schema, in its order, `_source` and `RAW`;
    and whether a JSON object has keys that the schema lacks, if asked for."""
    reserved = {SOURCE, RAW}.intersection(column.name for column in job.columns)
    if reserved:
        raise ConfigError(
            f"{job.table} has a column named {reserved.pop()!r}, which is reserved for lading",
            hint="rename it in the files",
            table=job.table,
        )
    frames = [_group(spark, job, group, flag_new_keys) for group in job.groups]
    if not frames:
        return spark.createDataFrame([], f"{ddl(job.columns)}, `{SOURCE}` bigint, `{RAW}` string")
    together = frames[0]
    for frame in frames[1:]:
        together = together.unionAll(frame)
    return together


def ddl(columns: tuple[Column, ...]) -> str:
    """The columns as a Spark schema string."""
    return ", ".join(f"{quoted(column.name)} {column.type}" for column in columns)


def file_columns(job: IngestJob, group: StagedGroup) -> tuple[Column, ...]:
    """The columns that the files of a group hold, in the order they hold them; one that the table leaves
    out is text."""
    by_name = {column.name: column for column in job.columns if column.name not in job.name_columns}
    if not group.header:
        return tuple(by_name.values())
    return tuple(by_name.get(name, Column(name, "string")) for name in group.header)


def json_options() -> dict[str, str]:
    """How Spark has to parse JSON. What dates and timestamps mean is not Spark's to say."""
    return {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": RAW,
        "allowSingleQuotes": "false",
        "maxStringLen": str(2**31 - 1),  # Jackson's own limit, 20 MB, would make good rows bad
    }


def delimited_options(job: IngestJob) -> dict[str, str]:
    """How Spark has to take delimited text apart. What its fields mean is not Spark's to say."""
    given = job.read_options
    trim = "true" if given.get("trim") else "false"
    charset = _java_charset(given.get("encoding", "utf-8"))
    # Spark finds line ends by bytes, which only a reader of whole files gets right in wide encodings.
    multiline = given.get("multiline") or charset.upper().startswith(("UTF-16", "UTF-32"))
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": RAW,
        "sep": given.get("delimiter", DELIMITERS.get(job.format, ",")),
        "quote": given.get("quote", '"'),
        "escape": given.get("escape", '"'),  # RFC 4180; Spark's own default, a backslash, breaks `""`
        "encoding": charset,
        "multiLine": "true" if multiline else "false",
        "ignoreLeadingWhiteSpace": trim,
        "ignoreTrailingWhiteSpace": trim,
        "nullValue": NOTHING,
        "emptyValue": "",
    }
    return options | ({"comment": given["comment"]} if "comment" in given else {})


def _java_charset(name: str) -> str:
    python_name = codecs.lookup(name).name
    return _JAVA_CHARSETS.get(python_name, python_name)


def text_lines(spark: SparkSession, group: StagedGroup, *, whole: bool = False) -> DataFrame:
    """The lines of a group's files (or each file whole) as `value`, with name columns and `_source`."""
    lines = spark.read.text(_escaped(group.folder), wholetext=whole)
    return lines.withColumn(SOURCE, _source_id(lines))


def text_schema(count: int) -> str:
    """The schema of so many fields, all of them text, and of what Spark can't take apart."""
    return ", ".join(f"`{text_name(number)}` string" for number in range(count)) + f", `{RAW}` string"


def delimited_rows(rows: DataFrame, job: IngestJob, columns: tuple[Column, ...]) -> DataFrame:
    """Values for the fields of `rows`, which has `text_schema` and whatever else is to be kept."""
    texts = [text_name(number) for number in range(len(columns))]
    # Spark refuses a query that needs nothing but the raw text, such as that of a transform which keeps
    # no column of the file: the text is tied to a column, of which it takes nothing.
    said = f"replace({RAW}, {literal(NOTHING)}, '')"
    malformed = f"CASE WHEN {RAW} IS NOT NULL THEN concat_ws('', {said}, substr({texts[0]}, 1, 0))"
    options = ", ".join(f"'{name}', {literal(value)}" for name, value in _written(job).items())
    record = f"to_csv(struct({', '.join(texts)}), map({options}))"
    if delimited_options(job)["encoding"].upper() not in ("UTF-8", "ISO8859-1"):
        # Java puts this character where bytes are none of the encoding's; of UTF-8 the digest has seen to it.
        undecodable = [f"contains({text}, {literal(chr(0xFFFD))})" for text in texts]
        malformed += f" WHEN {any_of_sql(undecodable)} THEN {record}"
    return typed_rows(rows, columns, Texts.of(job), malformed=f"{malformed} END", record=record)


def _written(job: IngestJob) -> dict[str, str]:
    """How a record is written down again, once its fields are all there is of it."""
    read = delimited_options(job)
    kept = {name: read[name] for name in ("sep", "quote", "escape")}
    spaces = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
    return kept | spaces | {"nullValue": "", "emptyValue": read["quote"] * 2}


def _group(spark: SparkSession, job: IngestJob, group: StagedGroup, flag_new_keys: bool) -> DataFrame:
    columns = file_columns(job, group)
    if job.format == "parquet":
        rows = _parquet(spark, group, columns)
    elif job.format == "json":
        rows = _json(spark, job, group, columns)
    elif job.format == "fixed_width":
        rows = fixed_rows(text_lines(spark, group), job)
    else:
        reader = spark.read.schema(text_schema(len(columns))).options(**delimited_options(job))
        header = "true" if job.read_options.get("header", True) else "false"
        fields = reader.option("header", header).option("enforceSchema", "true").csv(_escaped(group.folder))
        rows = delimited_rows(fields.withColumn(SOURCE, _source_id(fields)), job, columns)
    here = {column.name for column in columns}
    own = [SOURCE, RAW, NEW_KEYS] if flag_new_keys else [SOURCE, RAW]
    wanted = [*(_as_pinned(column, job, here) for column in job.columns), *map(quoted, own)]
    # A step that changes nothing would still be looked at by every rule that Spark has.
    return rows if wanted == [quoted(name) for name in rows.schema.names] else rows.selectExpr(*wanted)


def _escaped(folder: str) -> str:
    """Spark takes every path for a pattern."""
    return _GLOB.sub(r"\\\1", folder)


def _parquet(spark: SparkSession, group: StagedGroup, columns: tuple[Column, ...]) -> DataFrame:
    held = columns
    if group.header and group.types:  # an older schema's types: read as they are, then widened
        held = tuple(Column(name, kind) for name, kind in zip(group.header, group.types, strict=True))
    # Spark would pass over the checksums of pages, and give what it finds in a damaged one for rows.
    reader = spark.read.schema(ddl(held)).option("parquet.page.verify-checksum.enabled", "true")
    rows = reader.parquet(_escaped(group.folder))
    rows = rows.withColumn(SOURCE, _source_id(rows)).withColumn(RAW, _undecodable(held))
    wider = {c.name: c.type for c, file in zip(columns, held, strict=True) if c.type != file.type}
    for name, kind in wider.items():
        rows = rows.withColumn(name, F.col(quoted(name)).cast(kind))
    return rows


def _undecodable(columns: tuple[Column, ...]) -> SparkColumn:
    """The row as JSON where a text in it is not UTF-8, which a writer of Parquet may get wrong unnoticed."""
    names = [F.col(quoted(column.name)) for column in columns]
    texts = [name for name, column in zip(names, columns, strict=True) if column.type == "string"]
    if not texts:
        return F.lit(None).cast("string")
    broken = [F.coalesce(~F.is_valid_utf8(text), F.lit(False)) for text in texts]
    return F.when(any_of(broken), F.make_valid_utf8(F.to_json(F.struct(*names))))


def _json(spark: SparkSession, job: IngestJob, group: StagedGroup, columns: tuple[Column, ...]) -> DataFrame:
    whole = bool(job.read_options.get("multiline"))
    lines = text_lines(spark, group, whole=whole)
    if whole:
        lines = elements(lines)
    return json_rows(lines, columns, json_options(), Texts.of(job), raw=RAW, ignore_new=job.ignore_new)


def _source_id(frame: DataFrame) -> SparkColumn:
    """The number in `s<source id>.csv`, which the staging gave the file as its name."""
    name = frame.metadataColumn("_metadata")["file_name"]
    return F.substring_index(F.substr(name, F.lit(2)), ".", 1).cast("bigint")


def _as_pinned(column: Column, job: IngestJob, here: set[str]) -> str:
    name = quoted(column.name)
    if column.name in job.name_columns:
        return f"CAST({name} AS {column.type}) AS {name}"
    return name if column.name in here else f"CAST(NULL AS {column.type}) AS {name}"
