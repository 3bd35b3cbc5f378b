"""Files in, parts out: what is read in one pass, what is refused, and what is set aside.

Every file is read once. Only those that break a check which tolerates some rows are read again, without the
rows that failed: whether a file does shows only at its end.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import lading.errors as errors
from lading.checks.table import broken_by_source, row_results
from lading.errors import BadRows, LadingError, PipelineError, SourceError
from lading.formats.advice import advice
from lading.ingest.derived.evaluate import evaluate
from lading.ingest.prepare import Prepared, ingest_job, ingest_of, read_spec
from lading.ingest.quarantine import Aside, Rejected, keep_files, refuse_too_many
from lading.ingest.table_run import TableRun
from lading.ingest.tasks.execute import execute
from lading.ingest.tasks.judge import no_key
from lading.ingest.tasks.outcome import FileRead, Ingested
from lading.ingest.tasks.settle import settled
from lading.model import BadRow, CheckResult, Digest, FoundFile, IngestJob, Member
from lading.parts.aside import AsidePiece, joined
from lading.parts.footer import Origin
from lading.parts.rewrite import rewrite_members
from lading.sources.fingerprint import EMPTY_SHA256, source_id
from lading.storage.place import storage_of
from lading.words import count_words


@dataclass(frozen=True, slots=True)
class FilesRead:
    """What became of the files that were read; nobody sees it until it is committed."""

    ingested: Ingested | None = None
    rejected: dict[int, Rejected] = field(default_factory=dict)  # by source
    checks: tuple[CheckResult, ...] = ()
    buckets: frozenset[int] = frozenset()  # where parts were written, those that did not stay included
    notes: tuple[str, ...] = ()  # for people: what `drift` let pass
    digests: dict[str, Digest] = field(default_factory=dict)  # by key
    moved: frozenset[int] = frozenset()  # sources that changed while they were read: their old rows stay


def read_files(run: TableRun, prepared: Prepared) -> FilesRead:
    """Everything that has to be read and written for this table. Nothing of it is seen until it is
    committed."""
    # A table without a row still has columns, and whoever builds it anew from these files sees the same:
    # so the first time tasks are asked for them, even if there is nothing to read.
    nothing = not any(file.size for file in prepared.files) and not prepared.aside
    if nothing and run.table.state.schema and run.cfg.per != "table" and run.derived is None:
        refuse_too_many(run, prepared.aside, {}, 0, 0)
        digests = _digests(run, prepared, Ingested())
        return FilesRead(None, keep_files(run, prepared.aside), digests=digests)
    return _Read(run, prepared).files()


class _Read:
    """One pass over the files of a table, and what follows from it."""

    def __init__(self, run: TableRun, prepared: Prepared) -> None:
        self.run = run
        self.prepared = prepared
        self.job = ingest_job(run, prepared)
        self.by_id = {source_id(file.key): file for file in prepared.files}
        self._aside = {source_id(one.file.key): one.file for one in prepared.aside}
        self._moved: set[int] = set()  # said once: a file may come back meanwhile as it was

    def files(self) -> FilesRead:
        run = self.run
        found = self._ingested()
        written = _buckets(found.members)
        digests = _digests(run, self.prepared, found)
        found, whole = self._without_refused(found)
        checks = row_results(run.cfg.checks, found.tally, self.by_id)
        rejected: dict[int, Rejected] = {}
        if not self.job.quarantine:
            self._refuse_bad(found.bad, found.stopping_rows)
            self._refuse_failing(found, checks)
        elif self.job.per == "table":  # a row that no file gave can't be set aside with one
            unkeyed = [row for row in found.bad if row.reason == no_key(self.job.order_by)]
            self._refuse_bad(unkeyed, sum(found.unkeyed.values()))
        if self.job.quarantine or run.cfg.policy.quarantines:
            found, rejected = self._with_bad_aside(found, whole)
        written |= _buckets(found.members)
        if found.passing:
            found = replace(found, members=settled(run, self.job, found.members, found.schema))
        written |= _buckets(found.members)
        return FilesRead(found, rejected, checks, written, digests=digests, moved=frozenset(self._moved))

    def _ingested(
        self, only: Collection[int] | None = None, reject: Mapping[int, int] | None = None
    ) -> Ingested:
        run, job = self.run, self.job
        tick = partial(_tick, run) if run.watch.counts else None
        if run.derived is not None:
            found = evaluate(run, job, run.spark, only=only, reject=reject, tick=tick)
            _refuse_elsewhere(job, _paths(found))
            return found
        in_process = job.input_bytes < run.config.spark.in_process_below
        started: list[Any] = []

        def session() -> Any:
            started.append(run.spark())
            return started[0]

        cores = 0
        if not in_process:
            spark = session()  # first: it says what is missing
            from lading.spark.tasks import cores as cores_of

            cores = cores_of(spark)
        wanted = None if only is None else set(only)
        ingest = ingest_of(run, self.prepared, job, cores, only=wanted, reject=reject)
        found = execute(job, ingest, session, in_process=in_process, tick=tick)
        _refuse_elsewhere(job, _paths(found))
        return found

    def _without_refused(self, found: Ingested) -> tuple[Ingested, tuple[Aside, ...]]:
        """Files that can't be read as they are fail the run, or under `on_bad: quarantine` are set aside:
        then whatever was read of them before that showed leaves again."""
        whole = list(self.prepared.aside)
        out: set[int] = set()
        while refused := self._refused(found):
            for source in sorted(refused, key=self._key):
                error = self._error(source, found.files[source])
                if not self.job.quarantine or found.files[source].sha256 is None:
                    raise error
                whole.append(Aside.because(self._file(source), error.message))
            out |= refused
            if self.job.per == "table":  # its rows can't be told from those of others any more
                found = self._ingested(self.by_id.keys() - out)
            else:
                found = replace(found.without(refused), members=self._rewritten(found.members, refused))
        return found, tuple(whole)

    def _refused(self, found: Ingested) -> frozenset[int]:
        """The sources that were refused, but for those that moved meanwhile."""
        refused = {one for one, file in found.files.items() if file.refused is not None}
        self._moved |= {one for one in refused if not self.run.unmoved(self._file(one))}
        return frozenset(refused - self._moved)

    def _error(self, source: int, file: FileRead) -> LadingError:
        assert file.refused is not None
        found = self._file(source)
        if file.refused.gone and os.path.exists(found.path):
            return SourceError(
                f"{found.key} is not there on the machine that reads it ({found.path})",
                hint="on a cluster, `root` must be the same path on every machine, or a bucket; "
                "nothing was committed",
                table=self.run.name,
                file=found.key,
            )
        kind = getattr(errors, file.refused.kind, SourceError)
        error: LadingError = kind(
            file.refused.message or f"{found.key} changed while it was being read",
            hint=file.refused.hint or "",
            table=self.run.name,
            file=found.key,
        )
        return error

    def _rewritten(self, members: Sequence[Member], drop: frozenset[int]) -> tuple[Member, ...]:
        """The parts without the rows of some sources."""
        job = self.job
        mixed = [member for member in members if member.counts_any(drop)]
        kept = rewrite_members(
            job.table_dir,
            mixed,
            drop,
            table_id=job.table_id,
            run_id=job.run_id,
            commit_id=job.commit_id,
            order_by=job.order_by,
        )
        return (*(member for member in members if not member.counts_any(drop)), *kept)

    def _with_bad_aside(
        self, found: Ingested, whole: Sequence[Aside]
    ) -> tuple[Ingested, dict[int, Rejected]]:
        run, job = self.run, self.job
        strict, exceeded = broken_by_source(job.row_checks, found.tally)
        refuse_too_many(run, whole, *_rejected_rows(job, found, strict, exceeded))
        if exceeded:
            found = self._without_failing(found, exceeded)
        rejected = keep_files(run, whole)
        if found.aside:
            run.watch.phase(run.name, "quarantine")
            rejected |= self._kept(found.aside)
        return found, rejected

    def _without_failing(self, found: Ingested, exceeded: Mapping[int, int]) -> Ingested:
        """Files that broke a threshold, read again without the rows that failed."""
        gone = frozenset(exceeded)
        again = self._ingested(exceeded, exceeded)
        for source in sorted(self._refused(again), key=self._key):
            raise self._error(source, again.files[source])  # it could be read a moment ago
        return replace(
            found,
            members=(*self._rewritten(found.members, gone), *again.members),
            passing=found.passing or again.passing,
            aside={one: pieces for one, pieces in found.aside.items() if one not in gone} | again.aside,
        )

    def _kept(self, aside: Mapping[int, tuple[AsidePiece, ...]]) -> dict[int, Rejected]:
        """One file of bad rows a source; those of a file that was read in pieces are joined."""
        job = self.job
        origin = Origin(job.table_id, job.run_id, job.commit_id, None)
        kept = {}
        for source, pieces in aside.items():
            first = pieces[0]
            if len(pieces) == 1 and not (first.records or first.lines):
                kept[source] = Rejected(first.rows, first.path)
                continue
            member = joined(pieces, job.table_dir, origin)
            assert member is not None
            kept[source] = Rejected(member.rows, member.path)
        return kept

    def _refuse_bad(self, rows: Iterable[BadRow], count: int) -> None:
        """`on_bad: fail`: the table commits nothing; the error names file, line, column and text. `rows` are
        the first of the `count` bad ones."""
        bad = min(rows, key=lambda row: (self._key(row.source), row.record or 0), default=None)
        if bad is None:
            return
        more = f" ({count_words(count - 1, 'more bad row')})" if count > 1 else ""
        column = f" in column {bad.column!r}" if bad.column else ""
        raise BadRows(
            f"{self._place(bad)}: {bad.reason}{column}: {bad.text[:200]!r}{more}",
            hint=f"{self._advice(bad)}; nothing was committed",
            table=self.run.name,
            file=self._key(bad.source),
        )

    def _advice(self, bad: BadRow) -> str:
        if bad.reason == no_key(self.job.order_by):
            return "fix the row, or choose another column for `order_by`"
        return advice(read_spec(self.run, self.prepared.columns), bad, self.run.name)

    def _refuse_failing(self, found: Ingested, checks: tuple[CheckResult, ...]) -> None:
        """`on_bad: fail`: a check that failed commits nothing, and the error names the first row."""
        job = self.job
        strict, exceeded = broken_by_source(job.row_checks, found.tally)
        broken = {**exceeded, **{one: bits | exceeded.get(one, 0) for one, bits in strict.items()}}
        if not broken:
            return
        number = min((bits & -bits).bit_length() - 1 for bits in broken.values())
        check = job.row_checks[number]
        sources = [one for one, bits in broken.items() if bits & (1 << number)]
        rows = [row for row in found.failing.get(number, ()) if row.source in sources]
        row = min(rows, key=lambda one: (self._key(one.source), one.record or 0), default=None)
        failed = sum(found.tally.failed[check.name][one] for one in sources)
        column = f" in column {check.columns[0]!r}" if len(check.columns) == 1 else ""
        more = f" ({count_words(failed - 1, 'more row')})" if failed > 1 else ""
        where = f"{self._place(row)}: " if row is not None and row.source in self.by_id else ""
        error = BadRows(
            f"{where}fails the check {check.name!r}{column}: {(row.text if row else '')[:200]!r}{more}",
            hint=f"fix the row, or the check in lading.yaml:{check.line}; nothing was committed",
            table=job.table,
            file=self._key(row.source) if row is not None and row.source in self.by_id else None,
        )
        error.checks = checks
        raise error

    def _file(self, source: int) -> FoundFile:
        return self.by_id.get(source) or self._aside[source]

    def _place(self, row: BadRow) -> str:
        return f"{self._key(row.source)}{f':{row.line}' if row.line else ''}"

    def _key(self, source: int) -> str:
        return self.by_id[source].key if source in self.by_id else "an unknown file"


def _paths(found: Ingested) -> list[str]:
    kept = (piece.path for pieces in found.aside.values() for piece in pieces)
    return [*(member.path for member in found.members), *kept]


def _refuse_elsewhere(job: IngestJob, paths: Iterable[str]) -> None:
    """Parts that a machine wrote to a folder of its own must not be committed: nobody could read them."""
    folder = storage_of(job.table_dir).folder
    if folder is None:
        return
    for path in paths:
        if not os.path.exists(os.path.join(folder, path)):
            raise PipelineError(
                f"{path} was written to {folder}, but is not on this machine",
                hint="on a cluster, `warehouse` must be the same path on every machine, or a bucket; "
                "nothing was committed",
                table=job.table,
            )


def _digests(run: TableRun, prepared: Prepared, found: Ingested) -> dict[str, Digest]:
    """The SHA-256 of everything that was read, as the tasks found it on their way."""
    digests = dict(run.plan.digests)
    for file in run.plan.read:
        read = found.files.get(source_id(file.key))
        if not file.size and run.derived is None:
            digests[file.key] = Digest(EMPTY_SHA256, 0)
        elif read is not None and read.sha256 is not None:
            digests[file.key] = Digest(read.sha256, file.size)
    _refuse_altered(run, prepared.files, digests)
    return digests


def _refuse_altered(run: TableRun, read: Sequence[FoundFile], digests: Mapping[str, Digest]) -> None:
    """A member's fingerprint is its content when it was extracted: whoever changed the cache since, a disk
    that lost it, or a script that doesn't give the same again, must not become rows."""
    for file in read:
        if file.archive is None or file.key not in digests or digests[file.key].sha256 == file.fingerprint:
            continue
        if file.archive in run.apart:
            message = f"{file.key}, made again of {file.archive} to be read, is not what it was at first"
            hint = "if a preprocess script makes it: it has to write the same for the same input; run again"
        else:
            message = f"{file.path} is not what was extracted from {file.archive}"
            hint = "delete that file: the next run extracts the archive again"
        raise SourceError(message, hint=hint, table=run.name, file=file.key)


def _rejected_rows(
    job: IngestJob, found: Ingested, strict: Mapping[int, int], exceeded: Mapping[int, int]
) -> tuple[dict[str, int], int, int]:
    """How many rows are bad by what is wrong with them (one may fail two checks), how many there are of
    them, and how many were read."""
    rows: Counter[str] = Counter({"not fitting the schema": found.bad_rows})
    to_leave = 0  # that were written, and still have to leave
    for number, check in enumerate(job.row_checks):
        for source, failed in found.tally.failed.get(check.name, {}).items():
            if (strict.get(source, 0) | exceeded.get(source, 0)) & (1 << number):
                rows[f"failing {check.name!r}"] += failed
            if exceeded.get(source, 0) & (1 << number):
                to_leave += failed
    written = sum(member.rows for member in found.members)
    read = found.bad_rows + (sum(found.tally.rows.values()) if job.row_checks else written)
    return {what: count for what, count in rows.items() if count}, read - written + to_leave, read


def _tick(run: TableRun, text: str) -> None:
    run.watch.progress(run.name, text, None, None)


def _buckets(members: Iterable[Member]) -> frozenset[int]:
    return frozenset(member.bucket for member in members)
