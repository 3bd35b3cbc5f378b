"""Slots in, parts out: what the tasks that read the inputs and those that write the rows are told."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lading.checks.rows import RowChecks
from lading.checks.tally import CheckSpec
from lading.errors import TransformError
from lading.formats.reader import ReadSpec
from lading.ingest.derived.changed import bare
from lading.ingest.derived.inputs import OpenInput, opened
from lading.ingest.derived.slots import Cut
from lading.ingest.tasks.execute import decoded
from lading.ingest.tasks.outcome import FileRead, Ingested, ingested
from lading.ingest.tasks.task import Ingest, write_rows
from lading.layout.project import CONFIG
from lading.layout.table import slot_of
from lading.model import Check, IngestJob, Member, Place, StartSpark
from lading.parts.cut import Limits
from lading.parts.footer import Origin
from lading.parts.pick import picked
from lading.parts.rows import WantedRows, read_part
from lading.parts.task import MEMORY, TaskSpec
from lading.sources.fingerprint import source_id
from lading.words import count_words
from lading.zones.vector import ZoneVector

if TYPE_CHECKING:
    from lading.ingest.table_run import TableRun
    from lading.spark.derived import Question
    from lading.spark.ingest import Batches, Output

_PER_TASK = 32 << 20  # bytes of parts that a task reads
_PER_TASK_OF_SLOTS = 64 << 20  # of which it needs a few rows only
_BATCH = 1 << 20  # bytes of rows that are handed to Spark at once


@dataclass(frozen=True, slots=True)
class Portions:
    """The parts of one input, in portions for tasks, and which of their rows are wanted. Travels to the
    workers."""

    place: Place
    schema: bytes  # Arrow IPC schema of the table
    portions: tuple[tuple[Member, ...], ...]
    cut: Cut | None
    slots: frozenset[int] | None  # None: all of them

    def read(self, number: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        schema = pa.ipc.read_schema(pa.py_buffer(self.schema))
        cut, slots = self.cut, self.slots
        members = self.portions[number]
        if cut is None or slots is None:
            for member in members:
                yield from read_part(self.place, member, WantedRows(schema, columns))
        else:
            wanted = partial(cut.within, slots=slots)
            yield from _together(picked(self.place, members, schema, columns, cut.columns, wanted))


def _together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, not a few at a time: a batch costs Spark and its worker as much as hundreds of rows."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= _BATCH:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held, size = [], 0
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


def evaluate(
    run: TableRun,
    job: IngestJob,
    session: StartSpark,
    *,
    only: Collection[int] | None = None,
    reject: Mapping[int, int] | None = None,
    tick: Callable[[str], None] | None = None,
) -> Ingested:
    """Evaluate the slots of the plan, or of those `only` some sources, and write their rows. `reject` are row
    checks (as bits) that single slots broke, and whose rows may not stay."""
    assert run.derived is not None
    keys = {source_id(file.key): file.key for file in run.plan.read}
    wanted = {one: key for one, key in keys.items() if only is None or one in only}
    everything = len(wanted) == len(run.found) or (only is None and run.plan.replaces_all)
    slots = None if everything else frozenset(slot_of(key) or 0 for key in wanted.values())
    refs = {pin.name: pin.ref for pin in run.derived.pins}
    with opened(run.derived.shown, refs) as inputs:
        question, size = asked(run, inputs, slots)
    job = replace(job, input_bytes=math.ceil(size * _share(run, slots)))
    ingest = _ingest(run, job, wanted, reject)
    checks = partial(_for_spark, job)
    write = partial(_write, ingest)
    out, told = through_spark(session, job, question, write, checks, tick)
    found = ingested([decoded(one) for one in told], out.schema)
    _refuse_astray(run, job, found, wanted)
    read = {one: FileRead(sha256=_sha256(run, key)) for one, key in wanted.items()}
    return replace(found, files=read)


def _share(run: TableRun, slots: frozenset[int] | None) -> float:
    """How much of what is read belongs to the slots, as far as can be told: of buckets, nothing else is."""
    assert run.cfg.derived is not None
    if slots is None or run.cfg.derived.by_bucket:
        return 1.0
    return len(slots) / max(1, len(run.found))


def through_spark(
    session: StartSpark,
    job: IngestJob,
    question: Question,
    write: Callable[[Batches, Output], bytes],
    checks: Callable[[pa.Schema], Mapping[int, Check]],
    tick: Callable[[str], None] | None,
) -> tuple[Output, list[bytes]]:
    from lading.spark.derived import evaluate as on_spark

    return on_spark(session(), job, question, write, checks, tick)


def whole_rows(session: StartSpark, job: IngestJob, question: Question, sources: Sequence[int]) -> pa.Table:
    """The rows of some slots that the question's answer has, brought here; with `_source`."""
    from lading.spark.derived import answered

    return answered(session(), job, question, sources)


def asked(run: TableRun, inputs: Sequence[OpenInput], slots: frozenset[int] | None) -> tuple[Question, int]:
    """The question to Spark, and how many bytes of parts there are to read for it."""
    from lading.spark.derived import Given, Question

    derived, cfg = run.cfg.derived, run.cfg
    assert derived is not None
    given = []
    total = 0
    cut = Cut()
    for one in inputs:
        own = one.cut(derived)
        cut = own or cut
        members = members_in(one, own, slots)
        total += sum(member.bytes for member in members)
        most = _PER_TASK if own is None or slots is None else _PER_TASK_OF_SLOTS
        portions = tuple(_portions([bare(member) for member in members], most))
        reading = Portions(one.place, one.members.schema, portions, own, slots)
        by = own.columns if own is not None and _is_cut(own) else ()
        given.append(Given(one.name, one.schema, len(portions), reading.read, by))
    key = "sql" if derived.sql is not None else "transform"
    question = Question(
        given=tuple(given),
        sql=derived.sql,
        key=f"{CONFIG}:{derived.line}: tables.{cfg.name}.{key}",
        sources=partial(_sources, cut),
        is_cut=any(one.by for one in given),
    )
    return question, total


def _is_cut(cut: Cut) -> bool:
    return cut.width is not None or cut.slots > 1


def members_in(one: OpenInput, cut: Cut | None, slots: frozenset[int] | None) -> list[Member]:
    """The parts that may hold rows of `slots`: by bucket, those of these buckets; else all whose zones don't
    say that each row has the same value, of another slot."""
    members = one.members.candidates(None)
    if cut is None or slots is None:
        return members
    if cut.width is not None:
        return [member for member in members if member.bucket in slots]
    return without_others(one, members, cut, slots)


def without_others(
    one: OpenInput, members: Sequence[Member], cut: Cut, slots: Collection[int]
) -> list[Member]:
    """Without parts all of whose rows have one value, and by it are in other slots."""
    single = np.ones(len(members), bool)
    columns = []
    for name in cut.columns:
        vector = one.members.zone(name)
        field = one.schema.field(name)
        if vector is None or vector.kind == "none" or not _as_stored(field.type):
            return list(members)
        known, values = _single(vector.plain())
        single &= known
        columns.append(values.cast(field.type))
    if not single.any():
        return list(members)
    batch = pa.RecordBatch.from_arrays(columns, names=list(cut.columns))
    wanted = np.isin(cut.of(batch), np.fromiter(slots, np.int64, len(slots)))
    return [member for member, stays in zip(members, wanted | ~single, strict=True) if stays]


def _single(zones: ZoneVector) -> tuple[np.ndarray, pa.Array]:
    """Which members have one value and no null, and that value."""
    lows, highs = pa.array(zones.mins), pa.array(zones.maxs)
    known = pc.equal(lows, highs).fill_null(False).to_numpy(zero_copy_only=False) & (zones.nulls == 0)
    for mask in (zones.has_min, zones.has_max):
        known = known if mask is None else known & mask
    return known, lows


def _as_stored(dtype: pa.DataType) -> bool:
    """Whether a zone's bounds are the values themselves."""
    return bool(pa.types.is_signed_integer(dtype) or pa.types.is_string(dtype))


def _portions(members: Sequence[Member], most: int) -> Iterator[tuple[Member, ...]]:
    """Whole parts, as many as make a task worth its while."""
    size = sum(member.bytes for member in members)
    count = max(1, min(len(members), math.ceil(size / most)))
    share = size / count
    portion: list[Member] = []
    held = 0
    for member in members:
        portion.append(member)
        held += member.bytes
        if held >= share:
            yield tuple(portion)
            portion, held = [], 0
    if portion:
        yield tuple(portion)


def _sources(cut: Cut, by: tuple[str, ...], rows: pa.RecordBatch) -> np.ndarray:
    """The `_source` of each row of the result, whose columns `by` are what the inputs are cut by."""
    own = replace(cut, columns=by) if by else Cut()
    if own.width is not None and rows.column(by[0]).null_count:
        raise TransformError(
            f"the result has rows in which {by[0]} is null, so that they are in no slot",
            hint=f"leave them out, or use an inner join: {by[0]} says which bucket a row belongs to",
        )
    return own.sources(rows)


def _ingest(
    run: TableRun, job: IngestJob, keys: Mapping[int, str], reject: Mapping[int, int] | None
) -> Ingest:
    return Ingest(
        reading=ReadSpec(run.cfg.format, {}, ()),
        columns=(),
        writing=TaskSpec(
            table_dir=job.table_dir,
            origin=Origin(job.table_id, job.run_id, job.commit_id, job.order_by),
            schema=b"",
            bucket_size=None,
            memory=MEMORY,
            limits=Limits(),
        ),
        order_by=job.order_by,
        checks=job.checks,
        judging=CheckSpec.of(job.row_checks, quarantine=job.quarantine, more=reject),
        quarantine=job.quarantine,
        keys=dict(keys),
        table=job.table,
    )


def _write(ingest: Ingest, batches: Batches, out: Output) -> bytes:
    writing = replace(ingest.writing, schema=out.schema, bucket_size=out.width)
    done = write_rows(batches, replace(ingest, writing=writing), places=False, bits=out.bits)
    return msgspec.msgpack.encode(done)


def _for_spark(job: IngestJob, rows: pa.Schema) -> Mapping[int, Check]:
    return RowChecks(job.checks, rows, job.table).needs_spark


def _refuse_astray(run: TableRun, job: IngestJob, found: Ingested, wanted: Mapping[int, str]) -> None:
    """A row in a slot that isn't being evaluated, or that no input has rows in, would stay when its inputs
    change: the query is not cut."""
    held = {source for member in found.members for source, _ in member.sources}
    held |= found.tally.rows.keys() | found.unkeyed.keys()
    astray = held - wanted.keys()
    if not astray:
        return
    assert run.cfg.derived is not None
    whole = "remove `by`" if run.cfg.derived.by_bucket else "remove `by`, or set slots: 1"
    raise TransformError(
        f"evaluated for {count_words(len(wanted), 'slot')}, the query of {job.table} gave rows of others: it "
        "is not cut by its `by` columns",
        hint=f"select the `by` columns unchanged; or evaluate it as a whole: {whole}; nothing was committed",
        table=job.table,
    )


def _sha256(run: TableRun, key: str) -> str:
    assert run.derived is not None
    fingerprint = next((file.fingerprint for file in run.plan.read if file.key == key), None)
    return (fingerprint or "").partition(":")[2]
