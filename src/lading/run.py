"""One run: for each table, the sequence of steps, and what becomes of it when one fails.

`look` discovers and plans; `_read_and_commit` prepares, reads, writes and commits; `_record` writes the
people's copies; `_release` builds shards, asks the gate and publishes; `tidy` cleans up.

A run interrupted anywhere is completed by the next one: what was committed is recorded and published,
what was not is planned again. Tables stand alone: one that fails does not stop the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from lading import clock
from lading.chain import Interruptible, each_after
from lading.checks.table import as_object
from lading.config.derived import in_order
from lading.config.project import Config, TableConfig
from lading.errors import (
    BadRows,
    CommitUnknown,
    Conflict,
    GateFailed,
    GivenUp,
    LadingError,
    NotReady,
    SourceError,
    Unexpected,
)
from lading.ingest.commit import commit_notes, commit_rows
from lading.ingest.look import look
from lading.ingest.plan import guard_vanished
from lading.ingest.prepare import drift_notes, prepare
from lading.ingest.quarantine import refuse_too_many
from lading.ingest.read import FilesRead, read_files
from lading.ingest.record import record_sources, write_table_manifest
from lading.ingest.release import Released, finish, release, release_of_nothing
from lading.ingest.schema import extend_evidence, repin
from lading.ingest.table_run import TableRun, at_work, new_run_id, now_text
from lading.log.table import Table
from lading.model import CheckResult, Commit, FoundFile
from lading.plan import plan_tables as plan_tables
from lading.plan import selected
from lading.serve.shard import output_of, refuse_unservable
from lading.snapshots.runs import RunHandle
from lading.snapshots.runs import start as start_record
from lading.spark.session import cancel_jobs, session_beside, spark_session
from lading.storage.folder import disk_failure
from lading.upkeep.tidy import tidy
from lading.watch import SILENT, Watch
from lading.words import count_words

_ATTEMPTS = 5  # plans made anew after somebody else committed in between


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

    def as_json(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        found = {
            "table": self.table,
            "verdicts": self.verdicts,
            "rows_added": self.rows_added,
            "rows_removed": self.rows_removed,
            "parts_added": self.parts_added,
            "parts_removed": self.parts_removed,
            "rows": self.rows,
            "sequence": self.sequence,
            "published": self.published,
            "manifest_ref": self.manifest_ref,
            "seconds": round(self.seconds, 3),
            "rows_rejected": self.rows_rejected,
            "files_rejected": self.files_rejected,
            "checks": [as_object(check) for check in self.checks],
            "notes": list(self.notes),
        }
        return {**found, "error": self.error.as_json()} if self.error is not None else found


@dataclass(frozen=True, slots=True)
class RunReport:
    run_id: str
    spark_started: bool
    tables: tuple[TableReport, ...]

    @property
    def error(self) -> LadingError | None:
        return next((table.error for table in self.tables if table.error is not None), None)

    def as_json(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        tables = [table.as_json() for table in self.tables]
        return {"run_id": self.run_id, "spark_started": self.spark_started, "tables": tables}


def run(
    config: Config,
    names: Sequence[str] = (),
    *,
    full: bool = False,
    allow_vanish: bool = False,
    watch: Watch = SILENT,
    replay: Collection[str] | None = None,
    only: bool = False,
    near: Mapping[str, Collection[str]] | None = None,
    jobs: int = 1,
) -> RunReport:
    """Make every selected table what a rebuild from nothing would give, after those that it is made of
    (`only`: without them). `replay` are files of which something was set aside and that are read again, empty
    for all of them. What is asked for beyond a plain run is asked of the selected tables alone. `near` are
    files that somebody says have changed, by table: where that can be, only those are looked at, and the
    people's copies are left to the next run that looks at all. `jobs` is how many tables may be run at once,
    where none of them is made of another."""
    asked = selected(config, names)
    anew = frozenset(asked) if full else frozenset[str]()
    interruptible = Interruptible(watch)
    order = _Order(
        config, new_run_id(), anew, allow_vanish, interruptible, replay, near=near or {}, jobs=jobs
    )
    wanted = in_order(config.graph, asked, only=only or replay is not None)
    _check_columns(config, wanted)

    def stop() -> None:
        interruptible.stop()
        order.cancel()

    reports = each_after(
        {name: _inputs(config.table(name)) for name in wanted}, partial(_run_if_ready, order), jobs, stop
    )
    return RunReport(order.run_id, order.spark_started, tuple(reports.values()))


def _inputs(table: TableConfig) -> tuple[str, ...]:
    return table.derived.tables if table.derived is not None else ()


def _run_if_ready(order: _Order, name: str, reports: Mapping[str, TableReport]) -> TableReport:
    stopped = _stopped(order.config.table(name), reports)
    if stopped is not None:
        return TableReport(name, {}, error=stopped)
    try:
        return _run_table(order, name)
    finally:
        order.ended(name)


def _check_columns(config: Config, names: Sequence[str]) -> None:
    """ConfigError for inputs that can't be cut as they are told to be, before anything runs."""
    derived = [config.table(name) for name in names if config.table(name).derived is not None]
    if derived:
        from lading.ingest.derived.columns import check_known_columns  # late: few projects have any

        for table in derived:
            check_known_columns(config, table)


def _stopped(table: TableConfig, reports: Mapping[str, TableReport]) -> NotReady | None:
    """Why a table can't be made now: one that it is made of is not what it should be."""
    for name in _inputs(table):
        error = reports[name].error if name in reports else None
        if error is not None:
            return NotReady(
                f"{table.name} was not run: {name}, which it is made of, {_what_went_wrong(error)}",
                hint=f"mend {name}, then run again; or make it of what readers see of {name} now: "
                f"lading run {table.name} --only",
                table=table.name,
            )
    return None


def _what_went_wrong(error: LadingError) -> str:
    if isinstance(error, GateFailed):
        return "was refused by its gate"
    return "was not run" if isinstance(error, NotReady) else "failed"


@dataclass(slots=True)
class _Order:
    """What was asked for, and whether Spark was needed for it."""

    config: Config
    run_id: str
    full: frozenset[str]  # tables of which everything is read again
    allow_vanish: bool
    watch: Watch
    replay: Collection[str] | None = None
    spark_started: bool = False
    kept: dict[str, set[str]] = field(default_factory=dict)  # by table: see TableRun.kept
    near: Mapping[str, Collection[str]] = field(default_factory=dict)
    jobs: int = 1
    sessions: dict[str, Any] = field(default_factory=dict)  # side by side: that of each table at work

    def session(self, table: str) -> Any:
        """One Spark for all; side by side, with a session for each table."""
        self.spark_started = True
        spark = self.config.spark
        whole = spark_session(spark.master, spark.conf, self.config.cache)
        if self.jobs == 1:
            return whole
        if table not in self.sessions:
            self.sessions[table] = session_beside(whole, spark.conf, f"lading-{table}")
        return self.sessions[table]

    def ended(self, table: str) -> None:
        self.sessions.pop(table, None)
        self.watch.ended(table)

    def cancel(self) -> None:
        for session in list(self.sessions.values()):
            cancel_jobs(session)


def _run_table(order: _Order, name: str) -> TableReport:
    started = clock.monotonic()
    verdicts: dict[str, int] = {}
    for attempt in range(_ATTEMPTS):
        try:
            run = look(
                order.config,
                name,
                full=name in order.full,
                watch=order.watch,
                start_spark=partial(order.session, name),
                replay=order.replay,
                run_id=order.run_id,
                near=order.near.get(name),
            )
            verdicts = run.plan.verdicts
            if not run.near:
                # Rows that leave an input were asked about there.
                guard_vanished(run.plan, allow=order.allow_vanish or run.derived is not None)
            return _carry_out(replace(run, kept=order.kept.setdefault(name, set())), started)
        except Conflict as error:
            if attempt == _ATTEMPTS - 1:
                return _failed_report(name, verdicts, error, started)
            if isinstance(error, GivenUp):
                order.run_id = new_run_id()  # the dead one's name is in the log, and maybe in a manifest
        except Exception as error:  # in one table: it must not stop the others
            return _failed_report(name, verdicts, _told(error, name), started)
    raise AssertionError("unreachable")


def _carry_out(run: TableRun, started: float) -> TableReport:
    if run.opened is None and not run.found and not run.refused:
        return _nothing_there(run, started)
    run = _begun(run)
    before = run.table.state.row_count()
    with run.table.not_expired(run.run_id):
        done = _change_rows(run) if run.plan.changes_rows else _settle(run)
    run.table.checkpoint_if_due()
    if run.objects is not None:
        run.objects.drop()
    run.watch.phase(run.name, "done")
    return _report(run, done, before, started)


def _nothing_there(run: TableRun, started: float) -> TableReport:
    """No files and no table: none is made, and its checks may refuse that there is none."""
    released = release_of_nothing(run.cfg)
    return TableReport(
        run.name,
        run.plan.verdicts,
        seconds=clock.monotonic() - started,
        error=released.refused,
        checks=released.checks,
        notes=("its inputs have no rows" if run.derived else f"no file matches {run.cfg.path!r}",),
    )


def _begun(run: TableRun) -> TableRun:
    if run.opened is None:
        table = Table.create(run.config.place(run.name), run.name)
        if table.state.sequence:
            raise Conflict(  # the plan is for an empty table
                f"another run started {table.state.meta.table} meanwhile",
                hint="run again: it will plan from the new state",
            )
        run = replace(run, opened=table)
    if run.manifest is None and run.table.state.sequence == 0:
        # Empty, before the first commit: "missing" then means "removed".
        record_sources(run, {}, settled=False)
    return run


@dataclass(frozen=True, slots=True)
class _Done:
    commit: Commit | None = None
    read: FilesRead = field(default_factory=FilesRead)
    moved: tuple[FoundFile, ...] = ()
    released: Released = field(default_factory=Released)


def _change_rows(run: TableRun) -> _Done:
    output = output_of(run.config, run.cfg, run.table)
    with start_record(run.table.place, run.run_id, tables=[run.name], output=output) as record:
        try:
            commit, read, moved = _read_and_commit(run)
        except BadRows as error:
            checks = [as_object(one) for one in error.checks]
            record.finish("failed", error=f"{error.kind}: {error}", checks=checks or None)
            raise
        unrecorded = _error_of(lambda: _record_all(run, moved))
        released = _release(run, record)
        finish(record, released, read.checks)
    run.watch.phase(run.name, "clean")
    tidy(run.table, run.run_id, run.kept, {member.bucket for member in commit.add} | read.buckets)
    if unrecorded is not None:
        raise unrecorded
    return _Done(commit, read, moved, released)


def _read_and_commit(run: TableRun) -> tuple[Commit, FilesRead, tuple[FoundFile, ...]]:
    try:
        with at_work(run):
            run.watch.phase(run.name, "prepare")
            prepared = prepare(run, run.plan.read)
            if run.derived is None:
                refuse_unservable(run.cfg, prepared.columns)
            run.watch.phase(run.name, "ingest")
            read = read_files(run, prepared)
            read = replace(read, notes=drift_notes(run, prepared, read.ingested))
            run.watch.phase(run.name, "commit")
            commit, moved = commit_rows(run, prepared, read)
    except CommitUnknown:
        raise  # the commit may have been made: nothing that it refers to may go
    except Exception as error:
        if isinstance(error, LadingError):
            _record_failure(run, error)
        tidy(run.table, run.run_id, run.kept, None)
        raise
    return commit, read, moved


def _record_all(run: TableRun, moved: Sequence[FoundFile]) -> None:
    if run.near:
        return  # it knows of some files only
    if not moved:
        _extend_evidence(run)
    _record(run, {file.key: "it changed while it was being read" for file in moved})


def _error_of(write: Callable[[], None]) -> Exception | None:
    """The people's copies must not come between a commit and its publish: what goes wrong with them is for
    the end, and the next run writes them anew from the log."""
    try:
        write()
    except Exception as error:
        return error
    return None


def _record(run: TableRun, failures: dict[str, str]) -> None:
    """manifest.json first: once the source manifest shows a sequence, both have it."""
    run.watch.phase(run.name, "record")
    write_table_manifest(run.table)
    record_sources(run, failures)


def _record_failure(run: TableRun, error: LadingError) -> None:
    """A file that could not be read is shown as failed, and tried again by the next run. So is whatever
    the manifest asked to be read again: writing it anew must not lose that."""
    if run.ledger.reset is not None or run.near:
        return  # the missing file is the request; who looked at some files knows nothing of the others
    asked = {key: known.again for key, known in run.known.items() if known.again is not None}
    bad = [file.key for file in run.plan.read if error.file in (file.key, file.path)]
    if asked or bad or run.made:
        record_sources(run, asked | dict.fromkeys(bad, error.message), settled=False)


def _release(run: TableRun, record: RunHandle | None = None) -> Released:
    """Shard, gate, publish."""
    return release(
        run.config,
        run.cfg,
        run.table,
        run.run_id,
        session=run.spark,
        watch=run.watch,
        kept=run.kept,
        record=record,
        schema_changes=run.followed.changes if run.followed is not None else (),
    )


def _settle(run: TableRun) -> _Done:
    """No rows change: note new fingerprints, and publish what an earlier run could not."""
    refuse_too_many(run, (), {}, 0, 0)
    if run.followed is not None:
        repin(run.config, run.cfg, run.followed.columns, run.followed, run.found, now_text())
    if run.plan.note or _is_news(run):
        run.watch.phase(run.name, "commit")
        commit_notes(run)
    unrecorded = _error_of(lambda: _record_notes(run))
    released = _release(run)
    if unrecorded is not None:
        raise unrecorded
    return _Done(released=released)


def _is_news(run: TableRun) -> bool:
    """Whether the log lacks evidence of a file, or a recipe that is another and gives the same rows."""
    looked = run.followed is not None and bool(run.followed.fresh)
    followed = run.derived is not None and run.derived.advanced
    return looked or followed or (run.recipe is not None and run.recipe != run.table.state.meta.recipe)


def _record_notes(run: TableRun) -> None:
    """Bring manifests that a kill left behind, or that lack what was noted, up to the log."""
    if run.near:
        return
    fresh = (run.plan.note or run.stale) and _extend_evidence(run)
    preprocessed = run.preprocessing != (run.manifest.preprocessing if run.manifest is not None else {})
    if fresh or run.plan.note or run.ledger.behind or preprocessed:
        _record(run, {})


def _extend_evidence(run: TableRun) -> bool:
    return extend_evidence(run.config, run.cfg, run.found, run.table.state)


def _report(run: TableRun, done: _Done, before: int, started: float) -> TableReport:
    state = run.table.state
    rows = state.row_count()
    ingested = done.read.ingested
    added = sum(member.rows for member in ingested.members) if ingested else 0
    return TableReport(
        table=run.name,
        verdicts=run.plan.verdicts,
        rows_added=added,
        rows_removed=before + added - rows,
        parts_added=len(done.commit.add) if done.commit else 0,
        parts_removed=len(done.commit.remove) if done.commit else 0,
        rows=rows,
        sequence=state.sequence,
        published=done.released.is_current,
        manifest_ref=done.released.ref,
        seconds=clock.monotonic() - started,
        error=_moved_error(run, done.moved) or done.released.refused,
        checks=(*done.read.checks, *done.released.checks),
        rows_rejected=sum(one.rows for one in done.read.rejected.values()),
        files_rejected=sum(one.whole is not None for one in done.read.rejected.values())
        + sum(one.fresh for one in run.refused),
        notes=(
            *run.plan.notes,
            *done.read.notes,
            *([done.released.note] if done.released.note else []),
        ),
    )


def _moved_error(run: TableRun, moved: Sequence[FoundFile]) -> LadingError | None:
    if not moved:
        return None
    return SourceError(
        f"{moved[0].key} changed while it was being read"
        + (f", and {count_words(len(moved) - 1, 'more file')}" if len(moved) > 1 else "")
        + "; the rows it had before stay",
        hint="run again when the file is complete; everything else was committed",
        table=run.name,
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
    return TableReport(name, verdicts, seconds=clock.monotonic() - started, error=error, checks=checks)
