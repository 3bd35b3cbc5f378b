"""What Spark's tasks do for shards: one kind turns parts into routed rows, the other rows into files.

Between the two Spark brings a shard's rows together, packed; they are sorted where they are written. Nothing
but one small record a shard goes back to the driver. A task that runs twice builds its shards twice, in
folders of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from lading import clock
from lading.errors import ShardCoverageError
from lading.model import Place
from lading.parts.task import sorted_tables
from lading.serve.build.packets import by_shard, empty_packets, packed
from lading.serve.build.place import Claim, ShardPlace
from lading.serve.build.rows import PartRows, keys_of, routed_rows, rows_schema, sort_order
from lading.serve.shard_file import ShardWriter, Written
from lading.serve.spec import ServeSpec
from lading.snapshots.manifest import ShardMeta, WriterInfo

RESULT = "shard binary"  # the schema of what a task returns, as Spark DDL

_NAMED = 5  # keys that are there twice and are named, a shard
_INSERT = 8_192  # rows handed to SQLite at a time: bounds what Python holds of them


@dataclass(frozen=True)
class ShardJob:
    """All that tasks have to know; travels to the workers."""

    table_dir: Place
    schema: bytes  # Arrow IPC schema of the table
    spec: ServeSpec
    place: ShardPlace
    shards: tuple[int, ...]  # to be built
    tasks: int  # that build them; slot = position in `shards` modulo this
    parts: tuple[tuple[PartRows, ...], ...]  # read by one task each
    memory: int = 128 << 20  # bytes of rows that a task holds; more are sorted on disk

    def slots(self) -> np.ndarray:
        """Where each shard is built; -1 for those that stay as they are."""
        found = np.full(self.spec.num_dbs, -1, np.int32)
        found[list(self.shards)] = np.arange(len(self.shards)) % self.tasks
        return found


class BuiltShard(msgspec.Struct, frozen=True):
    """What a task says of one shard; `meta.db_url` is None when it has no rows."""

    meta: ShardMeta
    rows: int  # that came in, before equal keys were settled
    twice: int  # rows whose key another row has too
    named: tuple[str, ...]  # some of those keys, as people write them


def route_parts(batches: Iterator[pa.RecordBatch], job: ShardJob) -> Iterator[pa.RecordBatch]:
    """`batches` number the groups of parts to read; out come packets of routed rows."""
    schema = pa.ipc.read_schema(pa.py_buffer(job.schema))
    slots = job.slots()
    for batch in batches:
        for number in batch.column(0).to_pylist():
            if number == 0:
                yield empty_packets(job.shards, slots)
            yield from packed(routed_rows(job.table_dir, job.parts[number], schema, job.spec, slots), slots)


def build_shards(packets: Iterator[pa.RecordBatch], job: ShardJob) -> Iterator[pa.RecordBatch]:
    """Packets sorted by shard in, shard files out; yields what was built, encoded."""
    schema, order = rows_schema(job.spec), sort_order(job.spec)
    done: set[int] = set()
    for db_id, rows in by_shard(packets, schema):
        if db_id in done:
            raise ShardCoverageError(
                f"rows of shard {db_id} were damaged on their way", hint="this is a bug: please report it"
            )
        done.add(db_id)
        shard = _Shard(job, db_id)
        try:
            for table in sorted_tables(rows, schema, order, job.memory):
                shard.add(table)
            yield shard.finish()
        except BaseException:
            shard.abort()
            raise


class _Shard:
    """One shard while its rows come in. The last row is held back: the next may have the same key, and of
    equal keys the last, which sorted greatest, is the one that counts."""

    def __init__(self, job: ShardJob, db_id: int) -> None:
        self.db_id = db_id
        self._job = job
        self._context = TaskContext.get()
        self._started = clock.monotonic()
        self._claim: Claim | None = None
        self._writer: ShardWriter | None = None
        self._held: tuple[bytes, bytes] | None = None
        self._rows = self._twice = 0
        self._named: list[str] = []

    def add(self, rows: pa.Table) -> None:
        """Sorted rows; none of them belongs before those that were added."""
        for piece in rows.to_batches(max_chunksize=_INSERT):
            self._add(keys_of(self._job.spec, piece.column("k")), piece.column("v"))

    def finish(self) -> pa.RecordBatch:
        if self._held is not None:
            self._write([self._held[0]], [self._held[1]])
            self._held = None
        written = self._writer.finish() if self._writer is not None else None
        self._writer = None
        url, attempt = None, self._attempt
        if self._claim is not None:
            url, attempt = self._job.place.keep(self._claim)
        built = BuiltShard(self._meta(written, url, attempt), self._rows, self._twice, tuple(self._named))
        return pa.RecordBatch.from_arrays([pa.array([msgspec.msgpack.encode(built)], pa.binary())], ["shard"])

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.abort()
        if self._claim is not None:
            self._job.place.give_up(self._claim)

    def _add(self, keys: pa.Array, values: pa.Array) -> None:
        count = len(keys)
        first = keys[0].as_py()
        self._rows += count
        if self._held is not None:
            if self._held[0] == first:
                self._note_twice([first])
            else:
                self._write([self._held[0]], [self._held[1]])
        same = pc.equal(keys.slice(0, count - 1), keys.slice(1))
        if pc.any(same).as_py():
            self._note_twice(keys.slice(1).filter(same).to_pylist())
            last = pc.invert(same)
            self._write(keys.slice(0, count - 1).filter(last).to_pylist(), _list(values, count, last))
        else:
            self._write(keys.slice(0, count - 1).to_pylist(), _list(values, count, None))
        self._held = (keys[count - 1].as_py(), values[count - 1].as_py())

    def _note_twice(self, keys: list[bytes]) -> None:
        self._twice += len(keys)
        for key in keys[: _NAMED + 1]:
            shown = repr(self._job.spec.key.decoded(key))
            if len(self._named) < _NAMED and shown not in self._named:
                self._named.append(shown)

    def _write(self, keys: list[bytes], values: list[bytes]) -> None:
        if not keys:
            return
        if self._writer is None:
            self._claim = self._job.place.claim(self.db_id, self._attempt)
            self._writer = ShardWriter(self._claim.path)
        self._writer.add(keys, values)

    @property
    def _attempt(self) -> int:
        return self._context.attemptNumber() if self._context is not None else 0

    def _meta(self, written: Written | None, url: str | None, attempt: int) -> ShardMeta:
        context, key = self._context, self._job.spec.key
        return ShardMeta(
            db_id=self.db_id,
            db_url=url,
            attempt=attempt,
            row_count=written.rows if written else 0,
            min_key=key.shown(written.first) if written else None,
            max_key=key.shown(written.last) if written else None,
            checkpoint_id=written.sha256 if written else None,
            writer_info=WriterInfo(
                stage_id=context.stageId() if context is not None else None,
                task_attempt_id=context.taskAttemptId() if context is not None else None,
                attempt=self._attempt,
                duration_ms=int((clock.monotonic() - self._started) * 1000),
            ),
            db_bytes=written.size if written else 0,
        )


def _list(values: pa.Array, count: int, keep: pa.Array | None) -> list[bytes]:
    held_back = values.slice(0, count - 1)
    found: list[bytes] = (held_back if keep is None else held_back.filter(keep)).to_pylist()
    return found
