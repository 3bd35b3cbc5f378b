"""One run: for each table, the sequence of steps, and what becomes of it when one fails.

A run interrupted anywhere is completed by the next one: what was committed is recorded and published,
what was not is planned again. Tables stand alone: one that fails does not stop the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lading.checks.table import as_object
from lading.config.project import Config
from lading.errors import BadRows, CommitUnknown, Conflict, LadingError, SourceError, Unexpected
from lading.ingest.commit import commit_notes, commit_rows
from lading.ingest.foresee import foreseen
from lading.ingest.look import Look, look
from lading.ingest.plan import TablePlan, guard_vanished
from lading.ingest.prepare import drift_notes, prepare, staging
from lading.ingest.quarantine import refuse_too_many
from lading.ingest.read import read_files
from lading.ingest.record import record_sources, write_table_manifest
from lading.ingest.release import Released, finish, release, release_of_nothing
from lading.ingest.schema import extend_evidence
from lading.ingest.served import with_publish_note
from lading.ingest.shard import output_of, refuse_unservable
from lading.ingest.work import Read, Work, new_id, new_run_id
from lading.log.table import Table
from lading.model import CheckResult, Commit, FoundFile
from lading.snapshots.runs import start as start_record
from lading.spark.session import spark_session
from lading.storage.folder import disk_failure
from lading.upkeep.tidy import drop_losers
from lading.watch import Watch

_ATTEMPTS = 5  # plans made anew after somebody else committed in between

SILENT = Watch()


@dataclass(frozen=True, slots=True)
class TableReport:
    """What one run did to one table."""

    table: str
    verdicts: dict[str, int]
    rows_added: int = 0
    rows_removed: int = 0
    parts_added: int = 0
    parts_removed: int = 0
    rows: int = 0
    sequence: int = 0
    published: bool = False
    manifest_ref: str | None = None
    seconds: float = 0.0
    error: LadingError | None = None
    checks: tuple[CheckResult, ...] = ()  # on the rows read in this run, and on the table if it was published
    rows_rejected: int = 0  # rows set aside in this run
    files_rejected: int = 0  # and whole files
    notes: tuple[str, ...] = ()  # for people: a stale schema, columns that were left out


@dataclass(frozen=True, slots=True)
class RunReport:
    run_id: str
    spark_started: bool
    tables: tuple[TableReport, ...]

    @property
    def error(self) -> LadingError | None:
        return next((table.error for table in self.tables if table.error is not None), None)


def plan_tables(
    config: Config, names: Sequence[str] = (), *, full: bool = False, watch: Watch = SILENT
) -> list[TablePlan]:
    """What a run would do. Touches nothing."""
    seen = [look(config, name, full=full, watch=watch) for name in _selected(config, names)]
    plans = [with_publish_note(config, one) for one in seen]
    return [replace(plan, notes=(*plan.notes, *foreseen(one))) for plan, one in zip(plans, seen, strict=True)]


def run(
    config: Config,
    names: Sequence[str] = (),
    *,
    full: bool = False,
    allow_vanish: bool = False,
    watch: Watch = SILENT,
    replay: Collection[str] | None = None,
) -> RunReport:
    """Make every selected table what a rebuild from nothing would give. `replay` are files of which
    something was set aside and that are read again, empty for all of them."""
    order = _Order(config, new_run_id(), full, allow_vanish, watch, replay)
    reports = tuple(_run_table(order, name) for name in _selected(config, names))
    return RunReport(order.run_id, order.spark_started, reports)


@dataclass(slots=True)
class _Order:
    """What was asked for, and whether Spark was needed for it."""

    config: Config
    run_id: str
    full: bool
    allow_vanish: bool
    watch: Watch
    replay: Collection[str] | None = None
    spark_started: bool = False
    kept: dict[str, set[str]] = field(default_factory=dict)  # by table: see Work.kept

    def session(self) -> Any:
        self.spark_started = True
        return spark_session(self.config.spark.master, self.config.spark.conf, self.config.cache)


def _run_table(order: _Order, name: str) -> TableReport:
    started = time.monotonic()
    verdicts: dict[str, int] = {}
    for attempt in range(_ATTEMPTS):
        try:
            seen = look(
                order.config,
                name,
                full=order.full,
                watch=order.watch,
                act=order.session,
                replay=order.replay,
            )
            verdicts = seen.plan.verdicts
            guard_vanished(seen.plan, seen.ledger.known, allow=order.allow_vanish)
            return _carry_out(order, seen, started)
        except Conflict as error:
            if attempt == _ATTEMPTS - 1:
                return _failed_report(name, verdicts, error, started)
        except Exception as error:  # in one table: it must not stop the others
            return _failed_report(name, verdicts, _told(error, name), started)
    raise AssertionError("unreachable")


def _carry_out(order: _Order, seen: Look, started: float) -> TableReport:
    if seen.table is None and not seen.found and not seen.refused:
        return _nothing_there(seen, started)
    work = _begin(order, seen)
    before = work.table.state.row_count()
    done = _change_rows(order, work) if seen.plan.changes_rows else _settle(order, work)
    work.table.checkpoint_if_due()
    if seen.objects is not None:
        seen.objects.drop()
    order.watch.phase(work.name, "done")
    return _report(work, done, before, started)


def _nothing_there(seen: Look, started: float) -> TableReport:
    """No files and no table: none is made, and its checks may refuse that there is none."""
    released = release_of_nothing(seen.config)
    return TableReport(
        seen.config.name,
        seen.plan.verdicts,
        seconds=time.monotonic() - started,
        error=released.refused,
        checks=released.checks,
        notes=(f"no file matches {seen.config.path!r}",),
    )


@dataclass(frozen=True, slots=True)
class _Done:
    commit: Commit | None = None
    read: Read = field(default_factory=lambda: Read(None))
    moved: tuple[FoundFile, ...] = ()
    released: Released = field(default_factory=Released)


def _begin(order: _Order, seen: Look) -> Work:
    table = seen.table or Table.create(order.config.place(seen.config.name), seen.config.name)
    if seen.table is None and table.state.sequence:
        raise Conflict(  # the plan is for an empty table
            f"another run started {table.state.meta.table} meanwhile",
            hint="run again; it will plan from there",
        )
    kept = order.kept.setdefault(seen.config.name, set())
    work = Work(order.config, seen, table, order.run_id, new_id(), order.watch, kept)
    if seen.manifest is None and table.state.sequence == 0:
        _record_sources(work, {})  # empty, before the first commit: "missing" then means "removed"
    return work


def _change_rows(order: _Order, work: Work) -> _Done:
    with start_record(work.table.place, work.run_id, tables=[work.name], output=output_of(work)) as record:
        try:
            with staging(work):
                commit, read, moved = _read_and_commit(order, work)
        except BadRows as error:
            checks = [as_object(one) for one in error.checks]
            record.finish("failed", error=f"{error.kind}: {error}", checks=checks or None)
            raise
        unrecorded = _error_of(lambda: _record_all(work, moved))
        released = release(work, order.session, record)
        finish(record, released, read.checks)
    work.watch.phase(work.name, "clean")
    drop_losers(work, commit, read)
    if unrecorded is not None:
        raise unrecorded
    return _Done(commit, read, moved, released)


def _record_all(work: Work, moved: Sequence[FoundFile]) -> None:
    if not moved:
        _extend_evidence(work)
    _record(work, {file.key: "it changed while it was being read" for file in moved})
    work.look.forget()


def _error_of(write: Callable[[], None]) -> Exception | None:
    """The people's copies must not come between a commit and its publish: what goes wrong with them is for
    the end, and the next run writes them anew from the log."""
    try:
        write()
    except Exception as error:
        return error
    return None


def _read_and_commit(order: _Order, work: Work) -> tuple[Commit, Read, tuple[FoundFile, ...]]:
    try:
        work.watch.phase(work.name, "prepare")
        prepared = prepare(work)
        refuse_unservable(work, prepared.columns)
        work.watch.phase(work.name, "ingest")
        read = read_files(work, prepared, order.session)
        read = replace(read, notes=drift_notes(work, prepared, read.ingested))
        work.watch.phase(work.name, "commit")
        commit, moved = commit_rows(work, prepared, read)
    except CommitUnknown:
        raise  # the commit may have been made: nothing that it refers to may go
    except LadingError as error:
        _record_failure(work, error)
        drop_losers(work, None)
        raise
    except Exception:
        drop_losers(work, None)
        raise
    return commit, read, moved


def _settle(order: _Order, work: Work) -> _Done:
    """No rows change: note new fingerprints, and publish what an earlier run could not."""
    refuse_too_many(work, (), {}, 0, 0)
    if work.look.plan.note:
        work.watch.phase(work.name, "commit")
        commit_notes(work)
    unrecorded = _error_of(lambda: _record_notes(work))
    released = release(work, order.session)
    if unrecorded is not None:
        raise unrecorded
    return _Done(released=released)


def _record_notes(work: Work) -> None:
    """Bring manifests that a kill left behind, or that lack what was noted, up to the log."""
    fresh = (work.look.plan.note or work.look.stale) and _extend_evidence(work)
    if fresh or work.look.plan.note or work.look.ledger.behind or work.look.preprocessing_changed:
        _record(work, {})


def _extend_evidence(work: Work) -> bool:
    look = work.look
    return extend_evidence(work.config, look.config, look.found, look.ledger.sources(work.table.state))


def _record(work: Work, failures: dict[str, str]) -> None:
    """manifest.json first: once the source manifest shows a sequence, both have it."""
    work.watch.phase(work.name, "record")
    write_table_manifest(work)
    _record_sources(work, failures, settled=True)


def _record_sources(work: Work, failures: dict[str, str], *, settled: bool = False) -> None:
    record_sources(work.config, work.look if settled else work.look.unsettled, work.table.state, failures)


def _record_failure(work: Work, error: LadingError) -> None:
    """A file that could not be read is shown as failed, and tried again by the next run. So is whatever
    the manifest asked to be read again: writing it anew must not lose that."""
    if work.look.ledger.reset is not None:
        return  # the missing file is the request
    asked = {key: known.again for key, known in work.look.ledger.known.items() if known.again is not None}
    bad = [file.key for file in work.look.plan.read if error.file in (file.key, file.path)]
    if asked or bad or work.look.made:
        _record_sources(work, asked | dict.fromkeys(bad, error.message))


def _report(work: Work, done: _Done, before: int, started: float) -> TableReport:
    state = work.table.state
    rows = state.row_count()
    ingested = done.read.ingested
    added = sum(member.rows for member in ingested.members) if ingested else 0
    return TableReport(
        table=work.name,
        verdicts=work.look.plan.verdicts,
        rows_added=added,
        rows_removed=before + added - rows,
        parts_added=len(done.commit.add) if done.commit else 0,
        parts_removed=len(done.commit.remove) if done.commit else 0,
        rows=rows,
        sequence=state.sequence,
        published=done.released.is_current,
        manifest_ref=done.released.ref,
        seconds=time.monotonic() - started,
        error=_moved_error(work, done.moved) or done.released.refused,
        checks=(*done.read.checks, *done.released.checks),
        rows_rejected=sum(one.rows for one in done.read.rejected.values()),
        files_rejected=sum(one.whole is not None for one in done.read.rejected.values())
        + sum(one.fresh for one in work.look.refused),
        notes=(
            *work.look.plan.notes,
            *done.read.notes,
            *([done.released.note] if done.released.note else []),
        ),
    )


def _moved_error(work: Work, moved: Sequence[FoundFile]) -> LadingError | None:
    if not moved:
        return None
    return SourceError(
        f"{moved[0].key} changed while it was being read"
        + (f", and {len(moved) - 1} more files" if len(moved) > 1 else "")
        + "; the rows it had before stay",
        hint="run again when the file is complete; everything else was committed",
        table=work.name,
        file=moved[0].key,
    )


def _told(error: Exception, table: str) -> LadingError:
    told = error if isinstance(error, LadingError) else None
    if isinstance(error, OSError):
        told = disk_failure(error)
    if told is None:
        told = Unexpected.of(error)
    told.table = told.table or table
    return told


def _failed_report(name: str, verdicts: dict[str, int], error: LadingError, started: float) -> TableReport:
    checks = error.checks if isinstance(error, BadRows) else ()
    return TableReport(name, verdicts, seconds=time.monotonic() - started, error=error, checks=checks)


def _selected(config: Config, names: Sequence[str]) -> list[str]:
    return [config.table(name).name for name in names] or list(config.tables)
