"""Going deeper: the bytes of every source and part, and sampled sources read again alone.

A source read alone has to give exactly the rows that the table has of it: what differs was read under
another recipe, by a transform that isn't deterministic, or changed since without anybody noticing.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa

from lading.errors import LadingError, PartError
from lading.ingest.apart import is_apart
from lading.ingest.prepare import ingest_job, ingest_of, prepare, read_spec
from lading.ingest.table_run import TableRun
from lading.ingest.tasks.execute import execute
from lading.ingest.tasks.outcome import Ingested
from lading.ingest.tasks.splits import FilePiece, ReadTask, make_tasks
from lading.layout.project import VERIFY, work_folder
from lading.layout.table import SOURCE
from lading.log.table import Table
from lading.model import FoundFile, Member, Place, StartSpark
from lading.parts.intake import in_parallel
from lading.parts.rows import WantedRows, read_part
from lading.read.scan import table_schema
from lading.sources.archives.scratch import scratch
from lading.sources.fingerprint import source_id
from lading.upkeep.same_rows import Row, plain_rows
from lading.upkeep.verify import Verified
from lading.upkeep.verify_slots import verify_slots

SAMPLE = 3
_ROWS = 200_000  # of one sampled source: its rows are compared in memory


def verify_deep(seen: TableRun, found: Verified, session: StartSpark) -> None:
    """Adds to what `verify` found."""
    table, watch = seen.opened, seen.watch
    if table is None:
        return
    watch.phase(found.table, "verify content")
    if seen.derived is not None:
        _part_rows(table, found)
        verify_slots(seen, table, found, session)
        return
    unchanged = _unchanged(seen)
    _source_bytes(seen, unchanged, found, session)
    _part_rows(table, found)
    if seen.cfg.per == "table":
        found.note("source", "rows depend on other files (per: table): no file can be read on its own", "")
        return
    sample = _sample(table, unchanged)
    if sample:
        watch.phase(found.table, "read again")
        _compare(seen, table, sample, found, session)


def _unchanged(seen: TableRun) -> list[FoundFile]:
    """Those whose bytes are what was read, as far as a plan can tell."""
    keys = {one.key for one in seen.plan.files if one.verdict in ("unchanged", "touched")}
    return [file for file in seen.found if file.key in keys]


def _source_bytes(seen: TableRun, files: list[FoundFile], found: Verified, session: StartSpark) -> None:
    digests = _digests(seen, files, session)
    found.count("sources read", len(digests))
    for file in files:
        source = seen.table.state.source(source_id(file.key))
        if source is not None and source.sha256 and digests[file.key] != source.sha256:
            found.wrong(
                "source",
                f"{file.key} has different content than was read, but the same size and time",
                f"touch the file, then lading run {found.table}; `fingerprint: full` notices this by itself",
                file.key,
            )


def _digests(seen: TableRun, files: list[FoundFile], session: StartSpark) -> dict[str, str]:
    """The SHA-256 of each, by key. On a cluster that reads a bucket by itself, tasks work them out."""
    if sum(file.size for file in files) < seen.config.spark.in_process_below or not is_apart(seen):
        with scratch():
            return dict(in_parallel(lambda file: (file.key, seen.source_file(file).digest()), files))
    from lading.spark.tasks import cores, spread

    if not files:
        return {}
    spark = session()
    spec = read_spec(seen, ())
    pieces = [FilePiece(seen.source_file(file), 0, None, together=seen.together(file)) for file in files]
    tasks = make_tasks(pieces, spec, cores(spark))
    answers = spread(spark, partial(_digested, tasks), len(tasks), f"verify {seen.name}", table=seen.name)
    return {key: sha256 for answer in answers for key, sha256 in msgspec.msgpack.decode(answer).items()}


def _digested(tasks: Sequence[ReadTask], number: int) -> bytes:
    with scratch():
        pieces = tasks[number].pieces
        return msgspec.msgpack.encode({one.file.key: one.file.digest() for one in pieces})


def _part_rows(table: Table, found: Verified) -> None:
    """Every column of every part decoded, and its rows counted by source."""
    members = table.state.candidates(None)
    schema = table_schema(table.state)
    found.count("parts read", len(members))
    told = in_parallel(lambda member: (member, _miscounted(table.place, member, schema)), members)
    for member, problem in told:
        if problem is not None:
            remedy = f"restore the file, or: lading run {found.table} --full"
            found.wrong("member", f"{member.path} {problem}", remedy, member.path)


def _miscounted(root: Place, member: Member, schema: pa.Schema) -> str | None:
    counted: Counter[int] = Counter()
    try:
        for batch in read_part(root, member, WantedRows(schema, schema.names)):
            if SOURCE in schema.names:
                counted.update(batch.column(SOURCE).to_pylist())
    except PartError as error:
        return f"can't be read: {error.message}"
    expected = {source: rows for source, rows in member.sources if source not in member.minus}
    if SOURCE in schema.names and member.sources and counted != expected:
        return "has different rows of its sources than the log says"
    return None


def _sample(table: Table, files: list[FoundFile]) -> list[FoundFile]:
    sources = table.state.sources()
    small = [file for file in files if file.key in sources and sources[file.key][0].rows <= _ROWS]
    return random.Random(table.state.sequence).sample(small, min(SAMPLE, len(small)))


def _compare(
    seen: TableRun, table: Table, sample: list[FoundFile], found: Verified, session: StartSpark
) -> None:
    aside = seen.config.cache / VERIFY / work_folder(seen.run_id, seen.name)
    try:
        again = _read_again(seen, sample, aside, session)
        for file in sample:
            number = source_id(file.key)
            held = _rows(table.place, table.state.members_of([number]), number, table)
            fresh = _rows(Place(str(aside)), again.members, number, table)
            if held != fresh:
                _report(file, held, fresh, found)
        if seen.cfg.transform is None:
            _count_records(table, sample, again, found)
        found.count("sources read again", len(sample))
    except LadingError as error:
        found.failed("source", error)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _count_records(table: Table, sample: list[FoundFile], again: Ingested, found: Verified) -> None:
    """Every record of a file has to be a row of it, or one that was set aside."""
    sources = table.state.sources()
    for file in sample:
        source, read = sources[file.key][0], again.files.get(source_id(file.key))
        records = read.records if read is not None else 0
        if records != source.rows + source.rejected:
            found.wrong(
                "source",
                f"{file.key} has {records:,} records, the table has {source.rows:,} rows of it and "
                f"{source.rejected:,} set aside",
                f"lading run {found.table} --full",
                file.key,
            )


def _read_again(seen: TableRun, sample: list[FoundFile], aside: Path, session: StartSpark) -> Ingested:
    """Tasks of this process: no Spark is started where no transform needs one."""
    prepared = prepare(seen, sample)
    job = ingest_job(seen, prepared, Place(str(aside)))
    ingest = ingest_of(seen, prepared, job, 0, keep_aside=False)
    return execute(job, ingest, session, in_process=True, bring=True)


def _rows(root: Place, members: Iterable[Member], source: int, table: Table) -> Counter[Row]:
    schema = table_schema(table.state)
    rows: Counter[Row] = Counter()
    for member in members:
        if any(held == source for held, _ in member.sources) and source not in member.minus:
            for batch in read_part(root, member, WantedRows(schema, schema.names)):
                at = schema.get_field_index(SOURCE)
                rows.update(row for row in _countable(batch) if row[at] == source)
    return rows


def _countable(batch: pa.RecordBatch) -> list[Row]:
    """Rows that can be counted: nested values and NaN as text."""
    return [
        tuple(repr(value) if isinstance(value, (list, dict)) or value != value else value for value in row)
        for row in plain_rows(batch)
    ]


def _report(file: FoundFile, held: Counter[Row], fresh: Counter[Row], found: Verified) -> None:
    more, fewer = (fresh - held).total(), (held - fresh).total()
    found.wrong(
        "source",
        f"{file.key} read again on its own gives different rows: {more:,} that the table lacks, "
        f"{fewer:,} that only the table has",
        f"make the transform depend on the row alone, then: lading run {found.table} --full",
        file.key,
    )
