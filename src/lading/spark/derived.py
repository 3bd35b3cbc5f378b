"""A table made of tables, evaluated by Spark: its inputs' rows in, the query's rows to the tasks that write.

Tasks read the parts of the inputs themselves, only the columns that the query uses and only the slots that
are wanted. What comes out is given its slot by the task that writes it.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's own idiom)
from pyspark.sql.types import StructType

from lading.errors import ConfigError, LadingError, PipelineError, TransformError
from lading.layout.table import SOURCE
from lading.model import Check, IngestJob
from lading.parts.buckets import bucket_width
from lading.spark.arrow_types import arrow_schema
from lading.spark.cuts import check_cut
from lading.spark.datasource import spark_schema
from lading.spark.determinism import nondeterministic, plans_of
from lading.spark.failures import Py4JError, raise_interrupt, said_first
from lading.spark.ingest import Batches, Output, explained, spread_rows, written_by_tasks
from lading.spark.job_settings import held_settings, ingest_settings, reported
from lading.spark.plan_tree import Broken, plain_names, plain_texts, with_names
from lading.spark.query_plans import refuse_others, refuse_unordered, refuse_unordered_limits, used_columns
from lading.spark.session import quiet_pandas
from lading.spark.sql_checks import spark_bits
from lading.spark.transform import made_of
from lading.spark.workers import imports_are_no_garbage

# Plans are read here, so none may be cut off.
_WHOLE_PLANS = {
    "spark.sql.debug.maxToStringFields": "100000",
    "spark.sql.maxPlanStringLength": str((1 << 31) - 16),
}
_SHUFFLE = "spark.sql.shuffle.partitions"
_PER_SHUFFLE = 8 << 20  # bytes of input a task behind a shuffle
_MOST_SHUFFLED = 512 << 20  # beyond which Spark's own number is as good
# Names of temporary views belong to a session: one query of it at a time.
_queries: WeakKeyDictionary[SparkSession, threading.Lock] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Given:
    """An input, as a query gets it."""

    name: str
    schema: pa.Schema
    tasks: int
    read: Callable[[int, Sequence[str]], Batches]  # the rows of a task, with these columns
    by: tuple[str, ...] = ()  # the columns that it is cut by; empty: it is given whole


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be evaluated, and how its rows are put into slots."""

    given: tuple[Given, ...]
    sql: str | None  # None: the job's transform
    key: str  # where lading.yaml says it, with its line: for messages
    # The `_source` of each row of the result, by the columns that are named; None when there is one slot.
    sources: Callable[[tuple[str, ...], pa.RecordBatch], np.ndarray]
    is_cut: bool


def evaluate(
    spark: SparkSession,
    job: IngestJob,
    question: Question,
    write: Callable[[Batches, Output], bytes],
    checks: Callable[[pa.Schema], Mapping[int, Check]],
    tick: Callable[[str], None] | None = None,
) -> tuple[Output, list[bytes]]:
    """Read, evaluate, check, spread and write; what the rows are, and what the writing tasks have to tell."""
    try:
        with (
            _alone(spark),
            held_settings(spark, _WHOLE_PLANS),
            _evaluated(spark, job, question) as (rows, by),
        ):
            schema = arrow_schema(rows.schema)
            of = "the query's result"
            width = bucket_width(schema, job.order_by, job.bucket_size, table=job.table, of=of)
            whole = schema.append(pa.field(SOURCE, pa.int64()))
            failed = spark_bits(spark, rows, checks(whole), job.table)
            out = Output(whole.serialize().to_pybytes(), width, failed is not None)
            if failed is not None:
                rows = rows.withColumn(f"__lading_bits_{uuid4().hex}", failed)
            sourced = _Sourced(question.sources, by, schema.names, write)
            with reported(spark, tick), held_settings(spark, _settings(job)):
                return out, written_by_tasks(spread_rows(spark, job, rows, width), sourced, out)
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        raise explained(error, job) from error


def _alone(spark: SparkSession) -> threading.Lock:
    return _queries.setdefault(spark, threading.Lock())


def _settings(job: IngestJob) -> dict[str, str]:
    """As for any job; and few rows are not spread over hundreds of tasks. A user's own settings win."""
    few = str(max(2, math.ceil(job.input_bytes / _PER_SHUFFLE)))
    settings = {} if job.input_bytes > _MOST_SHUFFLED else {_SHUFFLE: few}
    return ingest_settings(job) | {key: value for key, value in settings.items() if key not in job.spark}


@dataclass(frozen=True, slots=True)
class _Sourced:
    """Gives each row its `_source` before it is written. Travels to the workers."""

    sources: Callable[[tuple[str, ...], pa.RecordBatch], np.ndarray]
    by: tuple[str, ...]
    names: Sequence[str]
    write: Callable[[Batches, Output], bytes]

    def __call__(self, batches: Batches, out: Output) -> bytes:
        return self.write(self._with_sources(batches), out)

    def _with_sources(self, batches: Batches) -> Batches:
        width = len(self.names)
        for batch in batches:
            rows = pa.RecordBatch.from_arrays(batch.columns[:width], names=list(self.names))
            source = pa.array(self.sources(self.by, rows), pa.int64())
            columns = [*batch.columns[:width], source, *batch.columns[width:]]
            yield pa.RecordBatch.from_arrays(columns, names=[f"c{at}" for at in range(len(columns))])


@dataclass(frozen=True, slots=True)
class _Only:
    """Keeps the rows of some slots, with their `_source`. Travels to the workers."""

    sources: Callable[[tuple[str, ...], pa.RecordBatch], np.ndarray]
    by: tuple[str, ...]
    names: tuple[str, ...]
    wanted: frozenset[int]

    def __call__(self, batches: Batches) -> Batches:
        ids = np.fromiter(self.wanted, np.int64, len(self.wanted))
        for batch in batches:
            rows = pa.RecordBatch.from_arrays(batch.columns, names=list(self.names))
            source = self.sources(self.by, rows)
            columns = [*batch.columns, pa.array(source, pa.int64())]
            named = pa.RecordBatch.from_arrays(columns, names=[f"c{at}" for at in range(len(columns))])
            yield named.filter(pa.array(np.isin(source, ids)))


@contextmanager
def _evaluated(
    spark: SparkSession, job: IngestJob, question: Question
) -> Iterator[tuple[DataFrame, tuple[str, ...]]]:
    """The query's rows, and the columns of them by which they are put into slots."""
    with _views(spark, question.given, {}) as frames:
        rows = _asked(spark, job, question, frames)
        analysed, optimised = plans_of(rows)
        by = cut_by(spark, rows, analysed, question, job)
        used = {one.name: one.schema.names for one in question.given}
        if question.sql is None:  # a transform is called once
            yield rows, by
            return
        used = _used(analysed, optimised, question)
    with _views(spark, question.given, used) as frames:
        yield _asked(spark, job, question, frames), by


def answered(spark: SparkSession, job: IngestJob, question: Question, wanted: Sequence[int]) -> pa.Table:
    """The rows of the result whose `_source` is one of `wanted`, brought here."""
    try:
        with (
            _alone(spark),
            held_settings(spark, _WHOLE_PLANS),
            _evaluated(spark, job, question) as (rows, by),
        ):
            schema = arrow_schema(rows.schema).append(pa.field(SOURCE, pa.int64()))
            only = _Only(question.sources, by, tuple(rows.columns), frozenset(wanted))
            plain = pa.schema([field.with_name(f"c{at}") for at, field in enumerate(schema)])
            with quiet_pandas():
                few = rows.toDF(*plain.names[:-1]).mapInArrow(only, spark_schema(plain))
                return few.toArrow().rename_columns(schema.names).cast(schema)
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        raise explained(error, job) from error


def _used(analysed: str, optimised: str, question: Question) -> dict[str, list[str]]:
    columns = {one.name: one.schema.names for one in question.given}
    found = used_columns(analysed, optimised, columns)
    return {
        name: [one for one in names if one in found[name]] or list(names[:1])
        for name, names in columns.items()
    }


@contextmanager
def _views(
    spark: SparkSession, given: Sequence[Given], used: Mapping[str, Sequence[str]]
) -> Iterator[dict[str, DataFrame]]:
    """The inputs under their names, for SQL and for Python. Of each the columns `used`, or all; the others
    are null, for the query may name them where nothing comes of it."""
    try:
        for one in given:
            _frame(spark, one, tuple(used.get(one.name, one.schema.names))).createOrReplaceTempView(one.name)
        yield {one.name: spark.table(one.name) for one in given}
    finally:
        for one in given:
            spark.catalog.dropTempView(one.name)


def _frame(spark: SparkSession, given: Given, columns: tuple[str, ...]) -> DataFrame:
    read = given.read
    # Names that no input has: Spark drops a step that renames nothing, and then nobody could see which
    # columns the query gives (`used_columns`).
    names = [f"__lading_{number}" for number in range(len(columns))]

    def run(batches: Batches) -> Batches:
        imports_are_no_garbage()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for rows in read(number, columns):
                    yield pa.RecordBatch.from_arrays(rows.columns, names=names)

    kept = pa.schema(
        [pa.field(name, given.schema.field(at).type) for name, at in zip(names, columns, strict=True)]
    )
    numbers = spark.range(0, given.tasks, 1, max(1, given.tasks))
    with quiet_pandas():
        rows = numbers.mapInArrow(run, spark_schema(kept))
    if len(columns) < len(given.schema):
        number_of = dict(zip(columns, names, strict=True))
        types = spark_schema(given.schema)
        rows = rows.select([number_of.get(one.name) or F.lit(None).cast(one.dataType) for one in types])
    return rows.toDF(*given.schema.names)


def _asked(
    spark: SparkSession, job: IngestJob, question: Question, frames: Mapping[str, DataFrame]
) -> DataFrame:
    if question.sql is None:
        rows = made_of(spark, job, frames)
    else:
        try:
            rows = spark.sql(question.sql)
            _ = rows.schema  # a Spark Connect client finds out about nothing before it is asked
        except (PySparkException, Py4JError) as error:
            raise_interrupt(error)
            raise ConfigError(
                f"{question.key}: {said_first(error) or type(error).__name__}",
                hint=f"fix the query in lading.yaml; its inputs are {', '.join(frames)}",
                table=job.table,
            ) from error
    _refuse(rows, question, job)
    return rows


def _refuse(rows: DataFrame, question: Question, job: IngestJob) -> None:
    """What no table can hold, and what would differ from one evaluation to the next."""
    names = rows.columns
    doubles = sorted({name for name in names if names.count(name) > 1})
    if doubles:
        raise _wrong(question, job, f"two columns are named {doubles[0]!r}", "give one of them an alias")
    if SOURCE in names:
        raise _wrong(question, job, f"{SOURCE} is reserved for lading", "give the column another name")
    chance = nondeterministic(rows)
    if chance is not None:
        raise _wrong(
            question, job, f"it uses {chance}, so each evaluation would differ", "compute it from columns"
        )
    try:
        arrow_schema(rows.schema)
    except PipelineError as error:
        raise _wrong(question, job, error.message, "cast it to another type") from error


def cut_by(
    spark: SparkSession, rows: DataFrame, analysed: str, question: Question, job: IngestJob
) -> tuple[str, ...]:
    """The columns of the result by which its rows are put into slots. An error for a query that can be seen
    not to be cut by them, or whose rows would depend on more than its inputs."""
    words = plain_names([*rows.columns, *(name for one in question.given for name in one.schema.names)])
    as_a_whole = ""
    try:
        refuse_others(analysed)
        plan = with_names(_plain_plan(spark, question, analysed), words)
        refuse_unordered(plan)
        slot: tuple[str, ...] = ()
        if question.is_cut:
            as_a_whole = _as_a_whole(plan)
            slot = _checked_cut(plan, rows, question, words)
            as_a_whole = ""
        refuse_unordered_limits(plan)
        return slot
    except Broken as broken:
        raise _wrong(question, job, broken.why, broken.remedy + as_a_whole) from broken


def _as_a_whole(plan: str) -> str:
    """The other way out for a query that isn't cut."""
    way = "evaluate it as a whole: remove `by`, or set slots: 1"
    try:
        refuse_unordered_limits(plan)
    except Broken:
        return f"; or order the rows before the limit, and {way}"
    return f"; or {way}"


def _checked_cut(plan: str, rows: DataFrame, question: Question, words: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of the result by which the query is cut; the first reason why not, if it isn't by any."""
    refused: list[Broken] = []
    for slot in _slot_columns(rows, question):
        try:
            check_cut(plan, {one.name: one.by for one in question.given}, rows.columns, slot, words)
            return slot
        except Broken as broken:
            refused.append(broken)
    raise refused[0]


def _plain_plan(spark: SparkSession, question: Question, analysed: str) -> str:
    """A plan that puts together the same rows, without texts of the query that would be taken for parts of
    it. Where Spark needs these very texts, the plan as it is."""
    plain = question.sql and plain_texts(question.sql)
    if not plain or plain == question.sql:
        return analysed
    try:
        return plans_of(spark.sql(plain))[0]
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        return analysed


def _slot_columns(rows: DataFrame, question: Question) -> list[tuple[str, ...]]:
    """The columns of the result that an input is cut by; a row of it is in the slot that they say. There is a
    choice where inputs are cut by columns of different names."""
    there = {field.name: field.dataType for field in rows.schema}
    cut = [one for one in question.given if one.by]
    found = [one.by for one in cut if all(there.get(kind.name) == kind.dataType for kind in _kinds(one))]
    if found:
        return list(dict.fromkeys(found))
    first = cut[0]
    raise ConfigError(
        f"{question.key}: the result has no column{'s' if len(first.by) > 1 else ''} {', '.join(first.by)} "
        f"unchanged from {first.name}, so nobody could tell which slot a row is in",
        hint=f"select {', '.join(first.by)}; or evaluate it as a whole: remove `by`, or set slots: 1",
    )


def _kinds(given: Given) -> StructType:
    """The columns that it is cut by, as Spark types them."""
    return spark_schema(pa.schema([given.schema.field(name) for name in given.by]))


def _wrong(question: Question, job: IngestJob, why: str, remedy: str) -> LadingError:
    if question.sql is not None:
        return ConfigError(f"{question.key}: {why}", hint=remedy, table=job.table)
    path = re.sub(r":\w+$", "", job.transform or "")
    return TransformError(f"{path}: {why}", hint=remedy, table=job.table, file=path)
