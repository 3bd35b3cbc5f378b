"""Runs the tasks of an ingest: on Spark, in this process, or with Spark in between for a user's own code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from lading.checks.rows import RowChecks
from lading.ingest.tasks.outcome import Ingested, ingested
from lading.ingest.tasks.task import (
    NOTE,
    PLACE,
    Ingest,
    TaskDone,
    frame_schema,
    read_and_write,
    read_rows,
    table_schema,
    write_rows,
)
from lading.layout.table import SOURCE
from lading.model import Check, IngestJob, Place, StartSpark
from lading.parts.buckets import bucket_width
from lading.parts.field_ids import numbered
from lading.storage.place import storage_of
from lading.storage.temporary import temporary_folder

if TYPE_CHECKING:
    from lading.spark.ingest import Batches, Output

Tick = Callable[[str], None]


def execute(
    job: IngestJob,
    ingest: Ingest,
    session: StartSpark,
    *,
    in_process: bool,
    bring: bool = False,
    tick: Tick | None = None,
) -> Ingested:
    """Read the files, write the rows. `in_process` starts no Spark where nobody's own code needs one. To
    `bring` the parts here is for a few files, and a folder that only this machine has."""
    if job.transform is None:
        settled = _settled(job, ingest)
        if not RowChecks(job.checks, table_schema(job.columns), job.table).needs_spark:
            done = _here(settled) if in_process else _on_spark(settled, session(), job, tick)
            return ingested(done, settled.writing.schema, passing=settled.writing.passing)
    return _through_spark(job, ingest, session(), bring, tick)


def _settled(job: IngestJob, ingest: Ingest) -> Ingest:
    """With what follows from the schema."""
    schema = numbered(table_schema(job.columns), job.known)
    data = pa.schema([field for field in schema if field.name != SOURCE])
    width = bucket_width(data, job.order_by, job.bucket_size, table=job.table)
    writing = replace(
        ingest.writing,
        schema=schema.serialize().to_pybytes(),
        bucket_size=width,
        passing=job.order_by is not None and len(ingest.tasks) > 1,
    )
    return replace(ingest, writing=writing)


def _here(ingest: Ingest) -> list[TaskDone]:
    return [read_and_write(ingest, task.number) for task in ingest.tasks]


def _on_spark(ingest: Ingest, spark: Any, job: IngestJob, tick: Tick | None) -> list[TaskDone]:
    from lading.spark.job_settings import reported
    from lading.spark.tasks import spread

    with reported(spark, tick):
        answers = spread(
            spark,
            partial(_answer, ingest),
            len(ingest.tasks),
            f"build {job.table}",
            table=job.table,
            sizes=[task.bytes for task in ingest.tasks],
        )
    return [decoded(answer) for answer in answers]


def _answer(ingest: Ingest, number: int) -> bytes:
    return msgspec.msgpack.encode(read_and_write(ingest, number))


def decoded(answer: bytes) -> TaskDone:
    return msgspec.msgpack.decode(answer, type=TaskDone)


def _through_spark(job: IngestJob, ingest: Ingest, spark: Any, bring: bool, tick: Tick | None) -> Ingested:
    from lading.spark.ingest import Frame
    from lading.spark.ingest import ingest as through
    from lading.spark.transform import refuse_foreign

    places = job.transform is None
    schema = frame_schema(ingest, places=places)
    frame = Frame(
        read=partial(_numbered, ingest, places),
        schema=_ddl(ingest, places=places),
        names=tuple(schema.names),
        tasks=len(ingest.tasks),
        note=NOTE,
        whole=partial(_of_all, len(ingest.tasks)),
        places=tuple(PLACE.names) if places else (),
    )

    def checks(rows: pa.Schema) -> Mapping[int, Check]:
        return RowChecks(job.checks, rows, job.table).needs_spark

    write = partial(_brought if bring else _write, ingest, places)
    out, read, written = through(spark, job, frame, write, checks, tick)
    done = [decoded(one) for one in (*read, *written)]
    for path, data in (file for one in done for file in one.files.items()):
        storage_of(job.table_dir).put_new(path, data)
    found = ingested(done, out.schema)
    held = (source for member in found.members for source, _ in member.sources)
    refuse_foreign(job, held, found.tally.rows, found.unkeyed)
    return found


def _of_all(tasks: int, notes: list[bytes]) -> bool:
    return {decoded(note).task for note in notes} >= set(range(tasks))


def _numbered(ingest: Ingest, places: bool, number: int) -> Batches:
    return read_rows(ingest, number, places=places)


def _write(ingest: Ingest, places: bool, batches: Batches, out: Output) -> bytes:
    return msgspec.msgpack.encode(_wrote(ingest, places, batches, out))


def _brought(ingest: Ingest, places: bool, batches: Batches, out: Output) -> bytes:
    """Parts written to a folder of the task's own, and brought along."""
    with TemporaryDirectory(prefix="lading-", dir=temporary_folder()) as folder:
        writing = replace(ingest.writing, table_dir=Place(folder))
        done = _wrote(replace(ingest, writing=writing), places, batches, out)
        done.files = {member.path: Path(folder, member.path).read_bytes() for member in done.members}
    return msgspec.msgpack.encode(done)


def _wrote(ingest: Ingest, places: bool, batches: Batches, out: Output) -> TaskDone:
    writing = replace(ingest.writing, schema=out.schema, bucket_size=out.width)
    return write_rows(batches, replace(ingest, writing=writing), places=places, bits=out.bits)


def _ddl(ingest: Ingest, *, places: bool) -> str:
    """The types of what reading tasks give Spark, under names that it can't trip over."""
    kinds = [column.type for column in ingest.columns] + ["bigint"]
    kinds += ["bigint", "bigint", "bigint", "string"] if places else []
    return ", ".join(f"c{number} {kind}" for number, kind in enumerate([*kinds, "binary"]))
