"""What a task does: read its files, judge the rows, sort them, write them as parts. Plain functions.

Spark's executors run them (spark/tasks.py), and so does this process where there is little to do; a test and
`verify` may call them as they are. Rows that a transform or SQL wants go through Spark in between: then one
task reads and another one writes. Nothing but a small record comes back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from lading.checks.rows import RowChecks
from lading.checks.tally import CheckSpec
from lading.errors import LadingError, SourceError
from lading.formats.arrow_types import arrow_schema
from lading.formats.opening import unreadable
from lading.formats.reader import Bad, ReadSpec, Rows
from lading.formats.registry import reader_of
from lading.formats.source_file import Gone
from lading.formats.values import Texts
from lading.ingest.tasks.judge import AsideOf, AsideRows, FailingRow, Judge, Places, as_text, shortened
from lading.ingest.tasks.splits import FilePiece, ReadTask
from lading.layout.table import SOURCE
from lading.model import BadRow, Check, CheckTally, Column, Member
from lading.parts.task import TaskSpec, with_sources, written
from lading.sources.archives.scratch import scratch

if TYPE_CHECKING:
    from lading.ingest.derived.slots import Cut

FEW_SLOTS = 8  # that a file's rows may be in for the log to keep them
_FIRST_ROWS = 64  # that tell whether there are more

# What a row brings along when Spark makes some of its checks: where it stands, and how.
PLACE = pa.schema(
    [
        pa.field("__lading_start", pa.int64()),
        pa.field("__lading_record", pa.int64()),
        pa.field("__lading_line", pa.int64()),
        pa.field("__lading_text", pa.string()),
    ]
)
NOTE = "__lading_note"  # what a reading task tells the driver, in a row of its own


@dataclass(frozen=True, slots=True)
class Ingest:
    """All that a task has to know; travels to the workers."""

    reading: ReadSpec
    columns: tuple[Column, ...]  # of the table: those of the files and those from their names
    writing: TaskSpec
    order_by: str | None
    checks: tuple[Check, ...]
    judging: CheckSpec
    quarantine: bool
    keys: dict[int, str]  # of the files, by source
    table: str
    tasks: tuple[ReadTask, ...] = ()
    keep_aside: bool = True  # or rows that are set aside are only counted
    cuts: tuple[Cut, ...] = ()  # how tables made of this one cut it

    @property
    def sets_aside(self) -> bool:
        """Whether any rows are: all bad ones under `quarantine`, or those with misfits of some columns."""
        return self.quarantine or self.reading.policy.quarantines


class Refusal(msgspec.Struct, frozen=True):
    """Why a file can't be read as it is."""

    kind: str  # of the error
    message: str
    hint: str | None
    gone: bool = False  # it isn't where the task looked for it

    @classmethod
    def because(cls, error: SourceError) -> Refusal:
        if isinstance(error, Gone):
            return cls(SourceError.__name__, error.message, error.hint, gone=True)
        return cls(type(error).__name__, error.message, error.hint)


class SourceRead(msgspec.Struct):
    """What became of a file, or of a piece of one, in the task that read it."""

    source: int
    start: int
    records: int = 0
    lines: int = 0
    bad: int = 0
    misfits: int = 0  # of the bad ones: those that are set aside whatever `on_bad` says
    ignored: int = 0  # rows with keys that the table leaves out
    left_out: tuple[str, ...] = ()  # columns that it leaves out
    sha256: str | None = None
    refused: Refusal | None = None
    slots: dict[int, dict[int, int]] = msgspec.field(default_factory=dict)  # by cut: rows in each


def add_slots(slots: dict[int, dict[int, int]], more: Mapping[int, Mapping[int, int]]) -> None:
    """Rows in each slot, by cut. Of more than few slots it keeps no more than it takes to see that."""
    for cut, counts in more.items():
        held = slots.setdefault(cut, {})
        for slot, count in counts.items():
            if len(held) <= FEW_SLOTS:
                held[slot] = held.get(slot, 0) + count


class TaskDone(msgspec.Struct):
    """What a task tells the driver."""

    task: int = -1
    members: tuple[Member, ...] = ()
    reads: tuple[SourceRead, ...] = ()
    first: tuple[tuple[int, BadRow], ...] = ()  # bad rows, with their piece's start
    unkeyed: dict[int, int] = msgspec.field(default_factory=dict)
    failing: tuple[FailingRow, ...] = ()
    aside: tuple[AsideOf, ...] = ()
    tally: CheckTally = msgspec.field(default_factory=CheckTally)
    files: dict[str, bytes] = msgspec.field(default_factory=dict)  # parts that were brought along, by path


def read_and_write(ingest: Ingest, number: int) -> TaskDone:
    """One task that does all of it."""
    with scratch():
        return _read_and_written(ingest, number)


def _read_and_written(ingest: Ingest, number: int) -> TaskDone:
    reading = _Reading(ingest, number)
    judge = reading.judge()

    def judged() -> Iterator[pa.RecordBatch]:
        for batch, rows, start in reading.blocks():
            passed = judge.passed(
                batch, Places(rows.texts, start, rows.records, rows.lines, cells=rows.cells)
            )
            reading.note_slots(passed)
            yield passed

    members = written(judged(), ingest.writing)
    return reading.done(members, judge)


def read_rows(ingest: Ingest, number: int, *, places: bool) -> Iterator[pa.RecordBatch]:
    """The rows of one task for Spark, and at their end a row that holds the note."""
    with scratch():
        yield from _rows_and_note(ingest, number, places=places)


def _rows_and_note(ingest: Ingest, number: int, *, places: bool) -> Iterator[pa.RecordBatch]:
    reading = _Reading(ingest, number)
    schema = frame_schema(ingest, places=places)
    for batch, rows, start in reading.blocks():
        columns = list(batch.columns)
        if places:
            everywhere = range(batch.num_rows)
            lines = pa.nulls(batch.num_rows, pa.int64()) if rows.lines is None else pa.array(rows.lines)
            columns += [
                pa.array(np.full(batch.num_rows, start, np.int64)),
                pa.array(rows.records),
                lines,
                pa.array(rows.texts(everywhere), pa.string()),
            ]
        yield pa.RecordBatch.from_arrays([*columns, pa.nulls(batch.num_rows, pa.binary())], schema=schema)
    note = pa.array([msgspec.msgpack.encode(reading.done((), None))], pa.binary())
    yield pa.RecordBatch.from_arrays(
        [*(pa.nulls(1, kind) for kind in schema.types[:-1]), note], schema=schema
    )


def frame_schema(ingest: Ingest, *, places: bool) -> pa.Schema:
    """The columns of what `read_rows` gives."""
    more = list(PLACE) if places else []
    return pa.schema([*table_schema(ingest.columns), *more, pa.field(NOTE, pa.binary())])


def table_schema(columns: Sequence[Column]) -> pa.Schema:
    """The columns of a table whose rows nobody transforms, with `_source`."""
    return arrow_schema(columns).append(pa.field(SOURCE, pa.int64()))


def write_rows(batches: Iterator[pa.RecordBatch], ingest: Ingest, *, places: bool, bits: bool) -> TaskDone:
    """Rows that come back from Spark, written: the table's columns, `_source`, their places, their bits."""
    schema = pa.ipc.read_schema(pa.py_buffer(ingest.writing.schema))
    aside = _aside(ingest) if ingest.quarantine else None
    judge = Judge(ingest.order_by, _row_checks(ingest, schema), ingest.judging, aside)
    width = len(schema)

    def judged() -> Iterator[pa.RecordBatch]:
        for batch in with_sources(batches, schema):
            rows = pa.RecordBatch.from_arrays(batch.columns[:width], names=schema.names).cast(schema)
            failed = _numbers(batch, batch.num_columns - 1).astype(np.uint64) if bits else None
            yield judge.passed(rows, _places(batch, width) if places else Places(as_text(rows)), failed)

    members = written(judged(), ingest.writing)
    if aside is not None:
        aside.flush()
    return TaskDone(
        members=tuple(members),
        first=tuple(judge.first_unkeyed),
        unkeyed=dict(judge.unkeyed),
        failing=tuple(judge.failing.values()),
        aside=tuple(aside.written) if aside is not None else (),
        tally=judge.tally,
    )


def _places(batch: pa.RecordBatch, width: int) -> Places:
    texts = batch.column(width + 3)
    return Places(
        lambda places: texts.take(pa.array(places, pa.int64())).to_pylist(),
        records=_numbers(batch, width + 1),
        lines=None if batch.column(width + 2).null_count else _numbers(batch, width + 2),
        starts=_numbers(batch, width),
    )


def _numbers(batch: pa.RecordBatch, at: int) -> np.ndarray:
    found: np.ndarray = batch.column(at).to_numpy(zero_copy_only=False)
    return found


def _row_checks(ingest: Ingest, schema: pa.Schema) -> RowChecks:
    return RowChecks(ingest.checks, schema, ingest.table)


def _aside(ingest: Ingest) -> AsideRows | None:
    if not ingest.sets_aside:
        return None
    place = ingest.writing.table_dir if ingest.keep_aside else None
    return AsideRows(place, ingest.writing.origin, ingest.keys)


@dataclass(slots=True)
class _Reading:
    """Goes through the pieces of one task."""

    ingest: Ingest
    number: int
    reads: list[SourceRead] = field(default_factory=list)
    first: list[tuple[int, BadRow]] = field(default_factory=list)
    aside: AsideRows | None = None

    def __post_init__(self) -> None:
        self.aside = _aside(self.ingest)

    def judge(self) -> Judge:
        schema = pa.ipc.read_schema(pa.py_buffer(self.ingest.writing.schema))
        aside = self.aside if self.ingest.quarantine else None
        return Judge(self.ingest.order_by, _row_checks(self.ingest, schema), self.ingest.judging, aside)

    def blocks(self) -> Iterator[tuple[pa.RecordBatch, Rows, int]]:
        """Rows in the table's columns with `_source`, as they were read, and where their piece starts."""
        reader = reader_of(self.ingest.reading)
        for one in self.ingest.tasks[self.number].pieces:
            read = SourceRead(one.source, one.piece.start if one.piece is not None else -1)
            self.reads.append(read)
            try:
                if one.piece is not None:
                    head = reader.head(one.file)
                    read.left_out = head.ignored if head is not None else ()
                    named = _Named(self.ingest, one)
                    for rows in reader.rows(one.file, one.piece):
                        self._note(rows, read)
                        if rows.batch.num_rows:
                            yield named.complete(rows.batch), rows, read.start
            except SourceError as error:
                read.refused = Refusal.because(error)
            if not one.is_cut:
                read.sha256 = self._digest(one, read)
            if self.aside is not None:
                self.aside.flush()

    def note_slots(self, rows: pa.RecordBatch) -> None:
        """Note the slots of tables made of this one that the rows which `blocks` gave last are in. A file
        with rows in more than a few is known by its first rows, mostly."""
        slots = self.reads[-1].slots
        for cut in self.ingest.cuts:
            mark = cut.mark(rows.schema)
            for some in (rows.slice(0, _FIRST_ROWS), rows.slice(_FIRST_ROWS)):
                add_slots(slots, {mark: cut.counts(some)} if len(slots.get(mark, ())) <= FEW_SLOTS else {})

    def done(self, members: Sequence[Member], judge: Judge | None) -> TaskDone:
        if self.aside is not None:
            self.aside.flush()
        return TaskDone(
            task=self.number,
            members=tuple(members),
            reads=tuple(self.reads),
            first=(*self.first, *(judge.first_unkeyed if judge else ())),
            unkeyed=dict(judge.unkeyed) if judge else {},
            failing=tuple(judge.failing.values()) if judge else (),
            aside=tuple(self.aside.written) if self.aside is not None else (),
            tally=judge.tally if judge else CheckTally(),
        )

    def _note(self, rows: Rows, read: SourceRead) -> None:
        if rows.bad:
            misfits, others = (
                [(read.start, _row(one, read)) for one in rows.bad if one.quarantine == aside]
                for aside in (True, False)
            )
            if others and read.bad == read.misfits:
                self.first += shortened(others[:1])
            read.bad += len(rows.bad)
            read.misfits += len(misfits)
            if self.aside is not None:
                self.aside.add([*misfits, *others] if self.ingest.quarantine else misfits)
        read.records += rows.taken_records
        read.lines += rows.taken_lines
        read.ignored += rows.ignored

    def _digest(self, one: FilePiece, read: SourceRead) -> str | None:
        try:
            return one.file.digest()
        except SourceError as error:
            refused: LadingError = error
        except OSError as error:
            refused = unreadable(one.file.key, error)
        if not isinstance(refused, SourceError):
            raise refused  # the machine's fault: whoever tries again may succeed
        read.refused = read.refused or Refusal.because(refused)
        return None


def _row(bad: Bad, read: SourceRead) -> BadRow:
    """Numbered from the start of the piece, as everything is that a task tells."""
    return BadRow(read.source, bad.record, bad.line, bad.column, bad.reason, bad.text)


class _Named:
    """Completes the rows of one file by what its name says, and by `_source`."""

    def __init__(self, ingest: Ingest, one: FilePiece) -> None:
        names = ingest.reading.name_columns
        texts = dict(zip(names, one.names, strict=True))
        self._names = [*(column.name for column in ingest.columns), SOURCE]
        self._fixed: dict[str, Any] = {SOURCE: pa.scalar(one.source, pa.int64())}
        for column in ingest.columns:
            if column.name in texts:
                value, _ = Texts.of({}).read(pa.array([texts[column.name]], pa.string()), column)
                self._fixed[column.name] = value[0]

    def complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            pa.repeat(self._fixed[name], batch.num_rows) if name in self._fixed else batch.column(name)
            for name in self._names
        ]
        return pa.RecordBatch.from_arrays(columns, names=self._names)
