"""Cleaning a table: survey what may go, and with `apply` let it go, each file looked at again before.

The order matters: dead runs are given up first, so that one that wakes up conflicts; then old manifests
go, so that nobody can roll back to one while its files disappear; files come last, and only those that
no remaining manifest, checkpoint or log frame refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from lading.config.derived import in_order
from lading.config.project import Config
from lading.errors import Conflict, LadingError, NotFound
from lading.iceberg.follow import where
from lading.iceberg.show import follow_pointer
from lading.ingest.record import write_table_manifest
from lading.ingest.table_run import new_id, new_run_id, now_text
from lading.layout.table import RETURNING, TABLE_MANIFEST
from lading.log.table import Table, log_of
from lading.model import Commit
from lading.snapshots.runs import give_up
from lading.snapshots.stores.by_url import beside_the_data, store_of
from lading.storage.place import storage_of
from lading.upkeep.clean.files import delete
from lading.upkeep.clean.pinned import Pinned
from lading.upkeep.clean.rules import Garbage, Kind
from lading.upkeep.clean.survey import Around, Manifests, Rules, Survey

_ATTEMPTS = 5


@dataclass(slots=True)
class CleanReport:
    """What may go, and what went."""

    table: str
    garbage: tuple[Garbage, ...] = ()
    gave_up: tuple[str, ...] = ()  # runs taken for dead
    deleted: list[Garbage] = field(default_factory=list)
    note: str | None = None  # why Iceberg readers don't see what lading's do
    error: LadingError | None = None  # why not all of it went, or could be found

    @property
    def manifests(self) -> frozenset[str]:
        """The manifests among what may go."""
        return frozenset(one.path for one in self.garbage if one.file is None)

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.garbage)


def clean_tables(
    config: Config, names: Sequence[str], rules: Rules, *, apply: bool = False
) -> list[CleanReport]:
    """Each table as `clean` does, one that fails apart from the others.

    Tables made of others come first. So wherever this ends, a snapshot that is there has those that it was
    made from, and what only a snapshot that goes had needed goes with it.
    """
    reports: dict[str, CleanReport] = {}
    pinned = Pinned(config)
    for name in reversed(in_order(config.graph, names, only=True)):
        going = {} if apply else {one.table: one.manifests for one in reports.values()}
        try:
            reports[name] = clean(config, name, rules, apply=apply, going=going, pinned=pinned)
        except LadingError as error:
            reports[name] = CleanReport(name, error=error)
    return [reports[name] for name in names]


def clean(
    config: Config,
    name: str,
    rules: Rules,
    *,
    apply: bool = False,
    going: Mapping[str, Container[str]] | None = None,
    pinned: Pinned | None = None,
) -> CleanReport:
    """What may go from one table; with `apply` it goes. `going`: manifests of other tables that would have
    gone before. `pinned` is shared by tables that are cleaned together."""
    where = config.place(name)
    if not Table.exists(where):
        return CleanReport(name)
    table = Table.open(where)
    try:
        store = store_of(config, name)
        around = Around(
            table,
            Manifests(store, table.place),
            beside_the_data(config, name),
            rules,
            follow=_follow(config, name, rules),
            pinned=(pinned or Pinned(config)).refs(name, table.table_id, going or {}),
        )
        survey = Survey(around)
        report = CleanReport(name, tuple(survey.garbage()))
        # A dead run keeps what it saw from going: it has to be given up even when nothing else may go yet.
        if apply and (report.garbage or survey.runs.dead):
            _apply(around, report)
        elif apply and around.follow is not None:
            # Whoever moves the pointer by hand leaves Iceberg readers behind. What they see can't go; next
            # time it can, and is shown first.
            report.note = around.follow()
        return report
    except LadingError as error:
        error.table = error.table or name
        raise
    finally:
        table.close()


def _follow(config: Config, name: str, rules: Rules) -> Callable[..., str | None] | None:
    is_on = name in config.tables and config.tables[name].iceberg
    if not is_on or where(config.place(name)) is None:
        return None
    return partial(follow_pointer, config, config.tables[name], keep=rules.keep_runs)


def cleanup_losers(config: Config, name: str, *, grace: timedelta | None = None) -> CleanReport:
    """Delete attempts that lost: files of runs that have ended and that nothing took up."""
    return _clean_kind(config, name, "losing attempt", grace)


def cleanup_stale_attempts(config: Config, name: str, *, grace: timedelta | None = None) -> CleanReport:
    """Delete what dead runs left, after giving them up."""
    return _clean_kind(config, name, "stale attempt", grace)


def cleanup_old_runs(
    config: Config, name: str, *, keep_runs: int | None = None, grace: timedelta | None = None
) -> CleanReport:
    """Delete manifests, shards and records of runs past `keep_runs`. Nothing else deletes a manifest."""
    return _clean_kind(config, name, "old run", grace, keep_runs)


def _clean_kind(
    config: Config, name: str, kind: Kind, grace: timedelta | None, keep_runs: int | None = None
) -> CleanReport:
    """What is not given is as lading.yaml has it."""
    kept = config.clean
    rules = Rules(
        kept.keep_runs if keep_runs is None else keep_runs, kept.grace if grace is None else grace, (kind,)
    )
    return clean(config, name, rules, apply=True)


def _apply(around: Around, report: CleanReport) -> None:
    table, store = around.table, around.manifests.store
    # One that is there may name what is about to go.
    write_table_manifest(table, asked=storage_of(table.place).has(TABLE_MANIFEST))
    if table.state.removed:
        table.checkpoint()  # the one before still names what is about to go
    elif any(one.kind == "old log" for one in report.garbage) and table.state.base is not None:
        table.state.base.check()  # LogCorrupt if the checkpoint that stays isn't whole
    report.gave_up = _give_up(around, report.garbage)
    if around.follow is not None:
        # Iceberg's metadata first: it must not name what is gone. If the snapshot of today can't be shown,
        # what its readers see instead stays: see _split.
        report.note = around.follow(going=report.manifests)
    refused = {one.path for one in report.garbage if one.file is None and not store.delete_manifest(one.path)}
    report.deleted += [one for one in report.garbage if one.file is None and one.path not in refused]
    log = LiveLog(table)
    again = Survey(around).unreachable()
    for one in report.garbage:
        if one.file is None or one.file not in again or log.is_live(one.file.path):
            continue
        with log.lock() if one.file.kind in RETURNING else nullcontext():
            gone = delete(one.file)
        if gone:
            report.deleted.append(one)


def _give_up(around: Around, found: Sequence[Garbage]) -> tuple[str, ...]:
    """Commit `expire` for every run that is dead, or that nobody knows and whose files go."""
    table, survey = around.table, around.runs()
    wanted = {one.give_up for one in found if one.give_up is not None}
    wanted |= {one.record.run_id for one in survey.dead}
    runs = tuple(sorted(wanted - {one.record.run_id for one in survey.alive}))
    if not runs:
        return ()
    for attempt in range(_ATTEMPTS):
        try:
            table.refresh()
            recipe = table.state.meta.recipe
            table.commit(Commit(new_id(), new_run_id(), now_text(), recipe, expire=runs))
            break
        except Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
    for one in survey.dead:
        give_up(table.place, one, survey.now)
    return runs


def tables_to_clean(config: Config, names: Sequence[str]) -> list[str]:
    """The selected tables; one that the config dropped can be named too."""
    for name in names:
        if name not in config.tables and not (name.isidentifier() and Table.exists(config.place(name))):
            config.table(name)
            raise NotFound(f"there is no table {name!r}", hint="`lading status` lists them")
    return list(names) or list(config.tables)


class LiveLog:
    """One table, brought up to date and then asked again and again: on disk a question costs two stats, in a
    bucket one request."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._log = log_of(table.place)
        self._seen = self._log.mark()  # before the log is read: what comes later is noticed
        table.refresh()

    def lock(self) -> AbstractContextManager[object]:
        """Whoever puts back in a folder what is named by its content holds it too: what was looked at is what
        is deleted. In a bucket there is no lock, and no need of one: there no such name comes back."""
        return self._log.lock()

    def is_live(self, path: str) -> bool:
        now = self._log.mark()
        if now != self._seen or self._log.is_behind(self._table.state.sequence):
            self._table.refresh()
        self._seen = now
        return self._table.state.contains(path)
