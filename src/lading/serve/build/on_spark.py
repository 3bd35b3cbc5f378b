"""Shards on Spark: parts are read and routed, a shard's rows are brought together, files are written.

The driver gets one small record a shard and never a row, says which attempt counts, and refuses a
result with a hole in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lading.errors import ShardCoverageError
from lading.model import Place
from lading.serve.build.packets import AT_ONCE, DDL
from lading.serve.build.rows import PartRows, shards_touched
from lading.serve.build.task import RESULT, BuiltShard, ShardJob, build_shards, route_parts
from lading.serve.routing import Router
from lading.snapshots.manifest import ShardMeta
from lading.spark.failures import Py4JError, failure_of, raise_interrupt
from lading.spark.job_settings import held_settings, reported
from lading.spark.session import quiet_pandas
from lading.words import count_words

_LOOKERS = 64  # tasks that look for touched shards
# Spark counts rows, not bytes, when it hands them to Python, and each of ours is a whole packet.
_FEW_AT_ONCE = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(AT_ONCE)}


@dataclass(frozen=True, slots=True)
class BuiltShards:
    """What a job built. Empty shards are among `shards`, without a db_url."""

    shards: tuple[ShardMeta, ...]
    rows: int  # that were read
    twice: int  # rows whose key another row has too
    named: tuple[str, ...]


def build_on_spark(
    spark: SparkSession, job: ShardJob, tick: Callable[[str], None] | None = None
) -> BuiltShards:
    """Build the job's shards; nobody sees them until a manifest lists them."""
    building = replace(job, parts=())  # what the second kind of task need not know does not travel
    try:
        with reported(spark, tick), quiet_pandas(), held_settings(spark, _FEW_AT_ONCE):
            rows = _routed(spark, job).mapInArrow(lambda it: build_shards(it, building), RESULT).collect()
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        raise failure_of(error, "build the shards") from error
    built = [msgspec.msgpack.decode(bytes(row["shard"]), type=BuiltShard) for row in rows]
    winners = select_winners((one.meta for one in built), job.shards)
    counted = [next(one for one in built if one.meta is winner) for winner in winners]
    named = tuple(key for one in counted for key in one.named)
    return BuiltShards(winners, sum(one.rows for one in counted), sum(one.twice for one in counted), named)


def touched_on_spark(
    spark: SparkSession, table_dir: Place, parts: Sequence[PartRows], schema: bytes, router: Router
) -> set[int]:
    """The shards that rows of `parts` belong to, found where there are too many to look at here."""
    groups = [tuple(parts[number::_LOOKERS]) for number in range(min(_LOOKERS, len(parts)))]

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table_schema = pa.ipc.read_schema(pa.py_buffer(schema))
        for batch in batches:
            for number in batch.column(0).to_pylist():
                found = list(shards_touched(table_dir, groups[number], table_schema, router))
                yield pa.RecordBatch.from_arrays([pa.array(found, pa.int32())], ["db"])

    try:
        with quiet_pandas():
            frame = spark.range(0, len(groups), 1, len(groups)).mapInArrow(look, "db int")
            return {row["db"] for row in frame.distinct().collect()}
    except (PySparkException, Py4JError) as error:
        raise_interrupt(error)
        raise failure_of(error, "build the shards") from error


def check_rows(built: BuiltShards, expected: int) -> None:
    """Every row of the table went into one shard, when all were built."""
    if built.rows != expected:
        raise ShardCoverageError(
            f"{count_words(built.rows, 'row')} reached the shards, but the table has {expected:,}",
            hint="nothing was published; run again; if it happens again, see `lading verify`",
        )


def _routed(spark: SparkSession, job: ShardJob) -> DataFrame:
    """Packets of rows, each shard's in one task and one after the other."""
    count = max(1, len(job.parts))
    packets = spark.range(0, count, 1, count).mapInArrow(lambda it: route_parts(it, job), DDL)
    if hasattr(packets, "repartitionById"):
        spread = packets.repartitionById(job.tasks, packets["slot"])
    else:  # before Spark 4.1: by hash, so that some tasks get several slots
        spread = packets.repartition(job.tasks, "slot")
    return spread.sortWithinPartitions("db")


_HINT = "nothing was published; run again; if it happens again, see spark/spark.log in the cache folder"


def preference(shard: ShardMeta) -> tuple[int, int, str]:
    """The least of these wins."""
    task = shard.writer_info.task_attempt_id
    return (shard.attempt, 2**63 - 1 if task is None else task, shard.db_url or "")


def select_winners(attempts: Iterable[ShardMeta], expected: Collection[int]) -> tuple[ShardMeta, ...]:
    """One attempt for each shard of `expected`, by id; ShardCoverageError when one has none."""
    best: dict[int, ShardMeta] = {}
    for shard in attempts:
        known = best.get(shard.db_id)
        if known is None or preference(shard) < preference(known):
            best[shard.db_id] = shard
    missing = sorted(set(expected) - best.keys())
    if missing:
        raise ShardCoverageError(f"no task built {_listed(missing)} of {len(expected)}", hint=_HINT)
    strange = sorted(best.keys() - set(expected))
    if strange:
        raise ShardCoverageError(f"built without being asked for: {_listed(strange)}", hint=_HINT)
    return tuple(best[db_id] for db_id in sorted(best))


def _listed(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return f"{'shards' if len(numbers) > 1 else 'shard'} {shown}{' and more' if len(numbers) > 10 else ''}"
