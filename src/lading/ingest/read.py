"""Files in, parts out: what is read in one pass, what is refused, and what is set aside.

The data is read once. Only files that turn out to hold bad rows are read again: to say where those rows
are, and under `on_bad: quarantine` to keep them.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from lading.checks.table import broken_by_source, row_results
from lading.errors import BadRows, PipelineError
from lading.formats.records import records
from lading.ingest.prepare import Prepared, ingest_job, refuse_bad_rows
from lading.ingest.quarantine import Aside, Rejected, keep_files, refuse_too_many
from lading.ingest.table_run import TableRun
from lading.model import CheckResult, FoundFile, Ingested, IngestJob
from lading.parts.rewrite import rewrite_members
from lading.sources.fingerprint import source_id
from lading.words import count_words

_STAGED = re.compile(r"s(-?\d+)\.")


@dataclass(frozen=True, slots=True)
class FilesRead:
    """What became of the files that were read; nobody sees it until it is committed."""

    ingested: Ingested | None = None
    rejected: dict[int, Rejected] = field(default_factory=dict)  # by source
    checks: tuple[CheckResult, ...] = ()
    buckets: frozenset[int] = frozenset()  # where parts were written, those that did not stay included
    notes: tuple[str, ...] = ()  # for people: what `drift` let pass


def read_files(run: TableRun, prepared: Prepared) -> FilesRead:
    """Everything that Spark has to do for this table. Nothing of it is seen until it is committed."""
    by_id = {source_id(file.key): file for file in prepared.files}
    whole = list(prepared.aside)
    # A table without a row still has columns, and whoever builds it anew from these files sees the same:
    # so the first time Spark is asked for them, even if there is nothing to read.
    if not prepared.groups and run.table.state.schema:
        refuse_too_many(run, whole, {}, 0, 0)
        return FilesRead(None, keep_files(run, whole))
    spark = run.spark()
    ingested, job = _ingested(spark, run, ingest_job(run, prepared), by_id, whole)
    checks = row_results(run.cfg.checks, ingested.tally, by_id)
    if run.cfg.on_bad == "fail" or ingested.bad:
        refuse_bad_rows(run, ingested, by_id)
        _refuse_failed(spark, job, ingested, by_id, checks)
        return FilesRead(ingested, {}, checks, _buckets(ingested))
    return _with_bad_aside(spark, run, job, ingested, by_id, whole, checks)


def _ingested(
    spark: Any, run: TableRun, job: IngestJob, by_id: Mapping[int, FoundFile], whole: list[Aside]
) -> tuple[Ingested, IngestJob]:
    """One pass over the files. Under `quarantine` a file that Spark can't read to its end is set aside
    (in `whole`) and the others are read again."""
    from lading.spark.ingest import ingest  # here, so that a run with nothing to read needs no pyspark
    from lading.spark.quarantine import narrowed

    while True:
        try:
            return ingest(spark, job, lambda text: run.watch.progress(run.name, text, None, None)), job
        except PipelineError as error:
            source = _unreadable(error, by_id)
            if source is None or not job.quarantine or source in {source_id(one.file.key) for one in whole}:
                raise
            whole.append(Aside.because(by_id[source], error.message))
            left = {one for group in job.groups for one in group.sources} - {source}
            job = narrowed(job, left)


def _unreadable(error: PipelineError, by_id: Mapping[int, FoundFile]) -> int | None:
    """The source whose file the error names."""
    if error.file is None:
        return None
    staged = _STAGED.match(os.path.basename(error.file))
    if staged is not None and int(staged[1]) in by_id:
        return int(staged[1])
    return next((one for one, file in by_id.items() if os.path.realpath(file.path) == error.file), None)


def _with_bad_aside(
    spark: Any,
    run: TableRun,
    job: IngestJob,
    ingested: Ingested,
    by_id: Mapping[int, FoundFile],
    whole: Sequence[Aside],
    checks: tuple[CheckResult, ...],
) -> FilesRead:
    from lading.spark.quarantine import set_aside

    strict, exceeded = broken_by_source(job.row_checks, ingested.tally)
    refuse_too_many(run, whole, *_rejected_rows(job, ingested, strict, exceeded))
    buckets = _buckets(ingested)
    job = replace(job, reject=exceeded)
    if exceeded:
        ingested = _without_failing(spark, job, ingested)
    bad = ingested.bad_sources | strict.keys() | exceeded.keys()
    rejected = keep_files(run, whole)
    if bad:
        run.watch.phase(run.name, "quarantine")
        find = partial(records, layout=job.layout)
        for member in set_aside(spark, job, {one: by_id[one] for one in sorted(bad)}, find):
            rejected[member.sources[0][0]] = Rejected(member.rows, member.path)
    return FilesRead(ingested, rejected, checks, buckets | _buckets(ingested))


def _rejected_rows(
    job: IngestJob, ingested: Ingested, strict: Mapping[int, int], exceeded: Mapping[int, int]
) -> tuple[dict[str, int], int, int]:
    """How many rows are bad by what is wrong with them (one may fail two checks), how many there are of
    them, and how many were read."""
    rows: Counter[str] = Counter({"not fitting the schema": ingested.bad_rows})
    to_leave = 0  # that were written, and still have to leave
    for number, check in enumerate(job.row_checks):
        for source, failed in ingested.tally.failed.get(check.name, {}).items():
            if (strict.get(source, 0) | exceeded.get(source, 0)) & (1 << number):
                rows[f"failing {check.name!r}"] += failed
            if exceeded.get(source, 0) & (1 << number):
                to_leave += failed
    written = sum(member.rows for member in ingested.members)
    read = ingested.bad_rows + (sum(ingested.tally.rows.values()) if job.row_checks else written)
    return {what: count for what, count in rows.items() if count}, read - written + to_leave, read


def _without_failing(spark: Any, job: IngestJob, ingested: Ingested) -> Ingested:
    """Files that broke a threshold, read again without the rows that failed: whether a file does shows
    only when all of it was read."""
    from lading.spark.ingest import ingest
    from lading.spark.quarantine import narrowed

    again = ingest(spark, narrowed(job, job.reject))
    kept = rewrite_members(
        job.table_dir,
        [member for member in ingested.members if member.counts_any(frozenset(job.reject))],
        frozenset(job.reject),
        table_id=job.table_id,
        run_id=job.run_id,
        commit_id=job.commit_id,
        order_by=job.order_by,
    )
    clean = [member for member in ingested.members if not member.counts_any(frozenset(job.reject))]
    return replace(ingested, members=(*clean, *kept, *again.members))


def _refuse_failed(
    spark: Any,
    job: IngestJob,
    ingested: Ingested,
    by_id: Mapping[int, FoundFile],
    checks: tuple[CheckResult, ...],
) -> None:
    """`on_bad: fail`: a check that failed commits nothing, and the error names the first row."""
    strict, exceeded = broken_by_source(job.row_checks, ingested.tally)
    broken = {**exceeded, **{one: bits | exceeded.get(one, 0) for one, bits in strict.items()}}
    if not broken:
        return
    number = min((bits & -bits).bit_length() - 1 for bits in broken.values())
    check = job.row_checks[number]
    sources = [one for one, bits in broken.items() if bits & (1 << number)]
    source = min(sources, key=lambda one: by_id[one].key if one in by_id else "")
    file = by_id.get(source)
    line, text = _first_failing(spark, job, file, source, number)
    failed = sum(ingested.tally.failed[check.name][one] for one in sources)
    where = f"{file.key}{f':{line}' if line else ''}: " if file is not None else ""
    column = f" in column {check.columns[0]!r}" if len(check.columns) == 1 else ""
    more = f" ({count_words(failed - 1, 'more row')})" if failed > 1 else ""
    error = BadRows(
        f"{where}fails the check {check.name!r}{column}: {text[:200]!r}{more}",
        hint=f"fix the row, or the check in lading.yaml:{check.line}; nothing was committed",
        table=job.table,
        file=file.key if file is not None else None,
    )
    error.checks = checks
    raise error


def _first_failing(
    spark: Any, job: IngestJob, file: FoundFile | None, source: int, number: int
) -> tuple[int | None, str]:
    from lading.spark.quarantine import first_failing

    found = first_failing(spark, job, source, number) if file is not None and job.per == "file" else None
    if found is None or file is None:
        return None, ""
    if found.record is not None:
        rows = records(file.path, job.format, job.read_options, layout=job.layout)
        for at, (line, text) in enumerate(rows, start=1):
            if at == found.record:
                return line, text
    return None, found.row


def _buckets(ingested: Ingested) -> frozenset[int]:
    return frozenset(member.bucket for member in ingested.members)
