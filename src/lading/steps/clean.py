"""Cleaning a table: survey what may go, and with `apply` let it go, each file looked at again before.

The order matters: dead runs are given up first, so that one that wakes up conflicts; then old manifests
go, so that nobody can roll back to one while its files disappear; files come last, and only those that
no remaining manifest, checkpoint or log frame refers to.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lading.catalog.table import Table
from lading.config.project import Config
from lading.errors import ConfigError, Conflict, LadingError, ManifestParseError, NotFound
from lading.model import Commit, SnapshotRef
from lading.pipeline.parts import is_part_of
from lading.snapshots.cleaning import (
    GRACE,
    KEEP_RUNS,
    Garbage,
    Kind,
    Listed,
    Reach,
    Runs,
    garbage,
    split_manifests,
)
from lading.snapshots.cleaning_files import FoundFile, delete, files_of, is_shard_file, part_origin
from lading.snapshots.history import gate_failures
from lading.snapshots.opening import References, build_meta, references
from lading.snapshots.runs import give_up, list_runs
from lading.snapshots.stores.protocol import ManifestStore
from lading.steps.record import write_manifest_of
from lading.steps.store import store_of
from lading.steps.work import new_id, new_run_id, now_text

KINDS: tuple[Kind, ...] = (
    "losing attempt",
    "stale attempt",
    "old run",
    "replaced part",
    "quarantine",
    "temporary file",
)
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Rules:
    """What is kept, and which kinds are looked for."""

    keep_runs: int = KEEP_RUNS
    grace: timedelta = GRACE
    kinds: tuple[Kind, ...] = KINDS
    now: datetime | None = None  # the clock's, if None

    def __post_init__(self) -> None:
        if self.keep_runs < 1 or self.grace < timedelta(0):
            raise ConfigError(
                "cleaning keeps at least one run", hint="give --keep-runs 1 or more, --older-than 0s or more"
            )


@dataclass(slots=True)
class CleanReport:
    """What may go, and what went."""

    table: str
    garbage: tuple[Garbage, ...] = ()
    gave_up: tuple[str, ...] = ()  # runs taken for dead
    deleted: list[Garbage] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.garbage)


def clean(config: Config, name: str, rules: Rules, *, apply: bool = False) -> CleanReport:
    """What may go from one table; with `apply` it goes."""
    folder = config.table_dir(name)
    if not Table.exists(folder):
        return CleanReport(name)
    store = store_of(config, name)
    table = Table.open(folder)
    try:
        found = _Survey(table, store, rules).garbage()
        report = CleanReport(name, tuple(found))
        if apply and found:
            _apply(table, store, rules, report)
        return report
    except LadingError as error:
        error.table = error.table or name
        raise
    finally:
        table.close()


def cleanup_losers(config: Config, name: str, *, grace: timedelta = GRACE) -> CleanReport:
    """Delete attempts that lost: files of runs that have ended and that nothing took up."""
    return clean(config, name, Rules(grace=grace, kinds=("losing attempt",)), apply=True)


def cleanup_stale_attempts(config: Config, name: str, *, grace: timedelta = GRACE) -> CleanReport:
    """Delete what dead runs left, after giving them up."""
    return clean(config, name, Rules(grace=grace, kinds=("stale attempt",)), apply=True)


def cleanup_old_runs(
    config: Config, name: str, *, keep_runs: int = KEEP_RUNS, grace: timedelta = GRACE
) -> CleanReport:
    """Delete manifests, shards and records of runs past `keep_runs`. Nothing else deletes a manifest."""
    return clean(config, name, Rules(keep_runs, grace, ("old run",)), apply=True)


class _Survey:
    """One look at a table: its log, its manifests, its runs, its files."""

    def __init__(self, table: Table, store: ManifestStore, rules: Rules) -> None:
        self._table = table
        self._store = store
        self._rules = rules
        self.runs = Runs(list_runs(table.folder)[0], (rules.now or datetime.now(UTC)).astimezone(UTC))

    def garbage(self) -> list[Garbage]:
        """What the rules let go, old manifests included."""
        return [one for one in self._found(*self._split()) if one.kind in self._rules.kinds]

    def unreachable(self) -> set[str]:
        """The files that nothing refers to now, counting every manifest that is there."""
        return {one.path for one in self._found(self._store.list_manifests(), [])}

    def _found(self, kept: list[SnapshotRef], old: list[SnapshotRef]) -> list[Garbage]:
        rules = self._rules
        staying = [references(self._store, one.ref) for one in kept]
        prefixes = frozenset({"shards", *(one.shard_prefix for one in staying)})
        found = [
            Garbage(one.ref, "old run", _size(self._store, one), f"run {one.run_id} is past keep_runs")
            for one in old
        ]
        return found + garbage(
            files_of(self._table.folder, prefixes),
            self._reach(kept, old, staying),
            self.runs,
            keep_runs=rules.keep_runs,
            grace=rules.grace,
            written_by=self._written_by,
            is_part_of=is_part_of,
        )

    def _split(self) -> tuple[list[SnapshotRef], list[SnapshotRef]]:
        manifests = self._store.list_manifests()
        if "old run" not in self._rules.kinds:
            return manifests, []
        listed = [Listed(one, _refused(self._store, one.ref)) for one in manifests]
        current = self._store.load_current()
        rules = self._rules
        return split_manifests(listed, current, self.runs, keep_runs=rules.keep_runs, grace=rules.grace)

    def _reach(
        self, kept: Sequence[SnapshotRef], old: Sequence[SnapshotRef], staying: Sequence[References]
    ) -> Reach:
        state = self._table.state
        aside = {source.quarantine for source, _ in state.sources().values() if source.quarantine}
        return Reach(
            is_live=state.contains,
            removed=_removed(self._table),
            members=frozenset().union(*(one.members for one in staying)),
            old_members=frozenset().union(*(_known_members(self._store, one.ref) for one in old)),
            shards=frozenset().union(*(one.shards for one in staying)),
            aside=aside.union(*(one.aside for one in staying)),
            runs_kept={one.run_id for one in kept},
        )

    def _written_by(self, file: FoundFile) -> str | None:
        if file.kind == "shard":
            return file.run_id if is_shard_file(self._table.folder, file) else None
        origin = part_origin(self._table.folder, file)
        return origin[1] if origin is not None and origin[0] == self._table.table_id else None


def _apply(table: Table, store: ManifestStore, rules: Rules, report: CleanReport) -> None:
    write_manifest_of(table)
    if table.state.removed:
        table.checkpoint()  # the one before still names what is about to go
    report.gave_up = _give_up(table, rules, report.garbage)
    refused = {one.path for one in report.garbage if one.file is None and not store.delete_manifest(one.path)}
    report.deleted += [one for one in report.garbage if one.file is None and one.path not in refused]
    table.refresh()
    again = _Survey(table, store, rules).unreachable()
    log = _LogWatch(table)
    for one in report.garbage:
        if one.file is None or one.path not in again or log.is_live(one.path):
            continue
        if delete(table.folder, one.file):
            report.deleted.append(one)


class _LogWatch:
    """Whether a path is live, asked just before it goes: the log is read again whenever it changed."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._seen = _signature(table.folder)

    def is_live(self, path: str) -> bool:
        now = _signature(self._table.folder)
        if now != self._seen:
            self._table.refresh()
            self._seen = now
        return self._table.state.contains(path)


def _give_up(table: Table, rules: Rules, found: Sequence[Garbage]) -> tuple[str, ...]:
    """Commit `expire` for every run that is dead, or that nobody knows and whose files go."""
    survey = Runs(list_runs(table.folder)[0], (rules.now or datetime.now(UTC)).astimezone(UTC))
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
        give_up(table.folder, one, survey.now)
    return runs


def _removed(table: Table) -> dict[str, datetime]:
    found = {}
    for commit in table.history():
        at = datetime.fromisoformat(commit.at)
        found.update(dict.fromkeys(commit.remove, at if at.tzinfo is not None else at.replace(tzinfo=UTC)))
    return found


def _refused(store: ManifestStore, ref: str) -> bool:
    try:
        return bool(gate_failures(build_meta(store, ref).custom))
    except ManifestParseError:
        return False  # it counts as kept, and what it refers to can't be told: that stops all cleaning


def _known_members(store: ManifestStore, ref: str) -> frozenset[str]:
    """Of a manifest that goes: only to say what a part was, so a damaged one may say nothing."""
    try:
        return references(store, ref).members
    except ManifestParseError:
        return frozenset()


def _size(store: ManifestStore, one: SnapshotRef) -> int:
    return len(store.load_manifest(one.ref))


def _signature(folder: Path) -> tuple[tuple[int, int, int], ...]:
    return tuple(
        (found.st_ino, found.st_size, found.st_mtime_ns)
        for found in (
            os.stat(folder / name) for name in ("manifest.log", "manifest.db") if (folder / name).exists()
        )
    )


def tables_to_clean(config: Config, names: Sequence[str]) -> list[str]:
    """The selected tables; one that the config dropped can be named too."""
    for name in names:
        if name not in config.tables and not (name.isidentifier() and Table.exists(config.table_dir(name))):
            config.table(name)
            raise NotFound(f"there is no table {name!r}", hint="`lading status` lists them")
    return list(names) or list(config.tables)
