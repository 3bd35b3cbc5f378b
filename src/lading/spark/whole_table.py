"""Questions about a whole table that only reading it answers, put to Spark: does an expression hold, and
is a key unique. Rows that a `minus` took away don't count."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody writes it)

from lading.errors import ConfigError, LadingError
from lading.model import Member, Place
from lading.parts.fold import live_batches
from lading.spark.datasource import spark_schema
from lading.spark.failures import Py4JError, failure_of, raise_interrupt
from lading.spark.session import quiet_pandas
from lading.spark.sql import condition
from lading.words import count_words

_TASKS = 200  # that read parts as lading does


def whole_table(
    spark: SparkSession, place: Place, members: Sequence[Member], columns: pa.Schema
) -> DataFrame:
    """These columns of the table, of the rows of `members`. Tasks read the parts as lading does: Spark's own
    reader knows nothing of a `minus`, of a part that is older than its table's types, nor of the bucket."""
    if not members:
        return spark.createDataFrame(columns.empty_table())

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from live_batches(place, _decoded(batch), columns)

    with quiet_pandas():
        return _by_task(spark, members).mapInArrow(read, spark_schema(columns))


def first_found(
    spark: SparkSession, members: Sequence[Member], find: Callable[[Member], str | None]
) -> str | None:
    """What `find`, in Spark's tasks, finds in the first of the members that have it; None if none has."""

    def ask(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for found in filter(None, map(find, _decoded(batch))):
                yield pa.RecordBatch.from_arrays([pa.array([found], pa.string())], names=["found"])
                return

    try:
        with quiet_pandas():
            row = _by_task(spark, members).mapInArrow(ask, "found string").first()
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        raise _failed(error) from error
    return None if row is None else str(row["found"])


def _by_task(spark: SparkSession, members: Sequence[Member]) -> DataFrame:
    rows = [(bytearray(msgspec.msgpack.encode(member)),) for member in members]
    return spark.createDataFrame(rows, "member binary").repartition(min(len(rows), _TASKS))


def _decoded(batch: pa.RecordBatch) -> list[Member]:
    return [msgspec.msgpack.decode(one, type=Member) for one in batch.column(0).to_pylist()]


def broken_by(
    bare: DataFrame, rows_with: Callable[[Sequence[str]], DataFrame], expression: str
) -> str | None:
    """How the expression, over aggregates or of each row, is false; None when it isn't. `bare` has the table's
    columns and no rows, `rows_with` gives those columns of all rows that are asked for."""

    def wrong(problem: str, hint: str) -> ConfigError:
        return ConfigError(
            f"gate.sql: {expression!r} {problem}",
            hint="fix the expression in lading.yaml; nothing was published",
        )

    try:
        holds, of_rows = condition(bare, expression, wrong, aggregates=True)
        frame = rows_with(may_name(expression, bare.columns))
        if of_rows:
            count = frame.where(~holds).count()
            return f"it is false for {count_words(count, 'row')}" if count else None
        row = frame.agg(holds.alias("holds")).first()
        return "it is false" if row is not None and row["holds"] is False else None
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        raise _failed(error) from error


def may_name(expression: str, columns: Sequence[str]) -> list[str]:
    """The columns that an expression may be about, at least one: what no word of it can mean isn't read."""
    if re.search(r"(?<!count)[(,.]\s*\*|distinct\s*\*", expression, re.IGNORECASE):  # all of them
        return list(columns)
    text = expression.casefold()
    return [name for name in columns if "`" in name or name.casefold() in text] or list(columns[:1])


def repeated(frame: DataFrame, columns: Sequence[str], shown: int) -> tuple[int, tuple[str, ...]]:
    """How many rows repeat a key that another row has, and a few such keys."""
    try:
        keys = frame.select(*[F.col(f"`{name}`") for name in columns]).dropna()
        twice = keys.groupBy(*[F.col(f"`{name}`") for name in columns]).count().where("count > 1")
        total = twice.agg(F.sum(F.col("count") - 1)).first()
        few = twice.orderBy(*[F.col(f"`{name}`") for name in columns]).limit(shown).collect()
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        raise _failed(error) from error
    texts = tuple(", ".join(f"{name}={row[name]}" for name in columns) for row in few)
    return int(total[0] or 0) if total is not None else 0, texts


def _failed(error: Exception) -> LadingError:
    return failure_of(
        error,
        "check the whole table",
        hint="nothing was published; Spark's own messages are in spark/spark.log in the cache folder",
    )
