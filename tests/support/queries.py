"""Queries over views, asked by which columns they are cut, as a run asks before it evaluates one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lading.formats.arrow_types import arrow_type
from lading.model import IngestJob, Place
from lading.spark.derived import Given, Question, cut_by
from lading.spark.determinism import plans_of

Tables = Mapping[str, Sequence[tuple[str, str]]]  # the columns of each, with their types

_JOB = IngestJob("made", Place("/nowhere"), "", "", "", (), frozenset(), 0)


def columns_cut_by(
    spark: SparkSession, rows: DataFrame, sql: str | None, tables: Tables, by: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """An error for rows that aren't cut. `sql` is the query that they are of, if it is one."""
    given = tuple(
        Given(name, pa.schema([(one, arrow_type(dtype)) for one, dtype in columns]), 1, _nothing, by[name])
        for name, columns in tables.items()
    )
    question = Question(
        given, sql, "tables.made.sql", lambda columns, batch: batch.column(0).to_numpy(), True
    )
    return cut_by(spark, rows, plans_of(rows)[0], question, _JOB)


def _nothing(number: int, columns: Sequence[str]) -> list[pa.RecordBatch]:
    return []
