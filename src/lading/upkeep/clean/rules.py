"""What may go: decided from what is kept, never from what a manifest calls garbage. Pure.

A snapshot is kept as long as it is current, among the newest, or was visible within the grace period; a
file as long as the log or any snapshot that stays refers to it, and for the grace period after that.
A run at work moves the beginning of that period back to before it started, since it may go by what it
saw then. A run whose lease has lapsed is given up first: what it planned can't be committed any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from lading.model import SnapshotRef
from lading.snapshots.runs import Registered
from lading.upkeep.clean.files import TableFile

Kind = Literal[
    "losing attempt",
    "stale attempt",
    "old run",
    "replaced part",
    "replaced page",
    "quarantine",
    "old log",
    "iceberg",
    "temporary file",
]

_LOOKED = timedelta(hours=1)  # a run looks at the table before it writes its record


@dataclass(frozen=True, slots=True)
class Garbage:
    """One file, or manifest, that may go."""

    path: str  # relative to the root; of a manifest: its reference
    kind: Kind
    bytes: int
    why: str
    file: TableFile | None = None  # None: a manifest, which its store deletes
    give_up: str | None = None  # the run that has to be given up for dead first


@dataclass(frozen=True, slots=True)
class ListedManifest:
    """A manifest, and whether its gate refused it: then nobody saw it."""

    snapshot: SnapshotRef
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Runs:
    """The registry, as cleaning asks it."""

    records: Sequence[Registered]
    now: datetime

    @property
    def alive(self) -> list[Registered]:
        return [one for one in self.records if one.record.alive(self.now)]

    @property
    def dead(self) -> list[Registered]:
        """Still `running` by their record, with a lease that has lapsed."""
        return [
            one for one in self.records if one.record.status == "running" and not one.record.alive(self.now)
        ]

    def horizon(self, grace: timedelta) -> datetime:
        """What was unreachable before this may go."""
        started = [one.started_at - _LOOKED for one in self.alive if one.started_at is not None]
        unknown = [one for one in self.alive if one.started_at is None]
        return datetime.min.replace(tzinfo=self.now.tzinfo) if unknown else min([self.now - grace, *started])

    def seen_since(self, since: datetime) -> set[str]:
        """Manifests that readers saw until somebody moved the pointer, at or after `since`."""
        return {
            one.record.moved_from
            for one in self.records
            if one.record.moved_from is not None and (one.finished_at is None or one.finished_at >= since)
        }

    def ended(self, run_id: str) -> bool:
        """Whether the run is known and all of its attempts have ended by themselves."""
        mine = [one.record for one in self.records if one.record.run_id == run_id]
        return bool(mine) and all(one.status != "running" and not one.given_up for one in mine)

    def given_up(self, run_id: str) -> bool:
        return any(one.record.run_id == run_id and one.record.given_up for one in self.records)


def split_manifests(
    listed: Sequence[ListedManifest],
    current: SnapshotRef | None,
    runs: Runs,
    *,
    keep_runs: int,
    grace: timedelta,
) -> tuple[list[SnapshotRef], list[SnapshotRef]]:
    """Those that stay and those that may go; `listed` comes newest first."""
    horizon = runs.horizon(grace)
    protected = runs.seen_since(horizon)
    good = list(dict.fromkeys(one.snapshot.run_id for one in listed if not one.refused))
    # Of a run that published twice the later one counts.
    last = {one.snapshot.run_id: one.snapshot.published_at for one in reversed(listed) if not one.refused}
    cut = min((last[run_id] for run_id in good[: max(keep_runs, 1)]), default=None)
    by_hand = _moved_unnoticed(current, listed, runs, horizon)
    keep: list[SnapshotRef] = []
    old: list[SnapshotRef] = []
    superseded_at: datetime | None = None  # when the next newer snapshot that readers saw was published
    for one in listed:
        snapshot = one.snapshot
        stays = (
            by_hand
            or (current is not None and snapshot.ref == current.ref)
            or cut is None
            or snapshot.published_at >= cut
            or snapshot.published_at >= horizon
            or (superseded_at is not None and superseded_at >= horizon)
            or snapshot.ref in protected
        )
        (keep if stays else old).append(snapshot)
        if not one.refused:
            superseded_at = snapshot.published_at
    return keep, old


def _moved_unnoticed(
    current: SnapshotRef | None, listed: Iterable[ListedManifest], runs: Runs, horizon: datetime
) -> bool:
    """Whether the pointer moved within the grace period and left no trace of where it was before: then
    any snapshot may have been visible until then."""
    if current is None or current.published_at < horizon:
        return False
    written = {one.snapshot.published_at for one in listed if one.snapshot.ref == current.ref}
    noted = any(
        one.record.moved_from is not None
        and one.record.manifest_ref in (current.ref, None)
        and (one.finished_at is None or one.finished_at >= current.published_at)
        for one in runs.records
    )
    return current.published_at not in written and not noted


@dataclass(frozen=True, slots=True)
class Reach:
    """What is referred to, and by what the log says since when not."""

    is_live: Callable[[str], bool]  # a member of the log, or of its checkpoint
    removed: Mapping[str, datetime]  # members that the log took out, as far as it remembers
    members: Collection[str]  # of the snapshots that stay
    old_members: Collection[str]  # of the snapshots that may go
    shards: Collection[str]  # folders of the snapshots that stay
    aside: Collection[str]  # quarantine files of the log and of the snapshots that stay
    pages: Collection[str]  # of the checkpoints, and of the snapshots that stay
    runs_kept: Collection[str]  # runs with a snapshot that stays
    refs_kept: Collection[str] = ()  # those snapshots: who made one visible by hand stays known
    log: LogReach | None = None  # in a bucket
    is_shown: Callable[[str], bool] = lambda path: True  # an Iceberg file that readers may be led to


@dataclass(frozen=True, slots=True)
class LogReach:
    """How far a log in a bucket is needed. The newest object always is: a writer that fell behind has to see
    that numbers are missing. So are two checkpoints and all commits behind the older one, for `lading repair`
    to go by when the newer one is damaged."""

    newest: int = 0  # the greatest number of a commit
    base: int = 0  # the older one of the two newest checkpoints, 0 if there are fewer

    @classmethod
    def of(cls, files: Iterable[TableFile], horizon: datetime) -> LogReach:
        """Of the checkpoints that everybody at work can know: those from before `horizon`."""
        found = list(files)
        commits = [one.number for one in found if one.kind == "log"]
        known = [one.number for one in found if one.kind == "checkpoint" and one.modified < horizon]
        return cls(max(commits, default=0), sorted([0, 0, *known])[-2])

    def needs(self, file: TableFile) -> bool:
        if file.kind == "log":
            return file.number > self.base or file.number >= self.newest
        return file.number >= self.base


def garbage(
    files: Iterable[TableFile],
    reach: Reach,
    runs: Runs,
    *,
    keep_runs: int,
    grace: timedelta,
    written_by: Callable[[TableFile], str | None],
    is_part_of: Callable[[str, str], bool],
) -> list[Garbage]:
    """`written_by` opens a file: the run that wrote it, None if it isn't this table's. `is_part_of` tells
    a part's run by its name alone."""
    horizon = runs.horizon(grace)
    alive = [one.record.run_id for one in runs.alive]
    newest = {one.folder for one in runs.records[: max(keep_runs, 1)]}
    found = []
    for file in files:
        if file.modified >= horizon or any(is_part_of(file.path, run) for run in alive):
            continue
        judged: Garbage | None = None
        if file.kind == "part":
            judged = _part(file, reach, runs, horizon, written_by)
        elif file.kind == "page":
            judged = _page(file, reach)
        elif file.kind == "shard":
            judged = _shard(file, reach, runs, written_by)
        elif file.kind == "quarantine":
            judged = _aside(file, reach, runs, written_by)
        elif file.kind == "temporary":
            judged = _temporary(file, runs, is_part_of)
        elif file.kind in ("log", "checkpoint"):
            judged = _log(file, reach)
        elif file.kind == "iceberg" and not reach.is_shown(file.path):
            judged = Garbage(file.path, "iceberg", file.bytes, "no kept snapshot has it", file)
        elif file.kind == "record" and file.path.split("/")[1] not in newest:
            judged = _record(file, reach, runs, horizon)
        if judged is not None:
            found.append(judged)
    return found


def _part(
    file: TableFile,
    reach: Reach,
    runs: Runs,
    horizon: datetime,
    written_by: Callable[[TableFile], str | None],
) -> Garbage | None:
    if reach.is_live(file.path) or file.path in reach.members:
        return None
    removed = reach.removed.get(file.path)
    if removed is not None and removed >= horizon:
        return None
    run = written_by(file)
    if run is None:
        return None
    if removed is not None or file.path in reach.old_members:
        return Garbage(file.path, "replaced part", file.bytes, "replaced, and no kept snapshot has it", file)
    return _attempt(file, run, runs, "no commit refers to it")


def _page(file: TableFile, reach: Reach) -> Garbage | None:
    """Its time is that of its writing, or of the last checkpoint that named it (log/checkpoint.py). In a
    bucket each checkpoint that somebody at work may know stays, and with it what it names."""
    if file.path.rpartition("/")[2] in reach.pages:
        return None
    return Garbage(
        file.path, "replaced page", file.bytes, "no checkpoint and no kept snapshot names it", file
    )


def _aside(
    file: TableFile, reach: Reach, runs: Runs, written_by: Callable[[TableFile], str | None]
) -> Garbage | None:
    run = None if file.path in reach.aside else written_by(file)
    if run is None:
        return None
    if runs.ended(run):
        return Garbage(file.path, "quarantine", file.bytes, "no source refers to it", file)
    return _attempt(file, run, runs, "no commit refers to it")


def _shard(
    file: TableFile, reach: Reach, runs: Runs, written_by: Callable[[TableFile], str | None]
) -> Garbage | None:
    if any(
        folder in reach.shards for name in (file.path, f"{file.where}/{file.path}") for folder in _above(name)
    ):
        return None
    run = file.run_id or ""
    if run in {one.record.run_id for one in runs.alive} or written_by(file) is None:
        return None
    if runs.ended(run) and run not in reach.runs_kept:
        return Garbage(file.path, "old run", file.bytes, f"run {run} has no snapshot any more", file)
    return _attempt(file, run, runs, "no snapshot took it")


def _above(path: str) -> Iterator[str]:
    """`path`, and every folder that it lies in."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _log(file: TableFile, reach: Reach) -> Garbage | None:
    if reach.log is None or reach.log.needs(file):
        return None
    why = f"replaced by the checkpoint of sequence {reach.log.base}"
    return Garbage(file.path, "old log", file.bytes, why, file)


def _attempt(file: TableFile, run: str, runs: Runs, why: str) -> Garbage:
    if runs.ended(run):
        return Garbage(file.path, "losing attempt", file.bytes, f"{why}; run {run} has ended", file)
    give_up = None if runs.given_up(run) else run
    return Garbage(file.path, "stale attempt", file.bytes, f"{why}; run {run} is dead", file, give_up=give_up)


def _temporary(file: TableFile, runs: Runs, is_part_of: Callable[[str, str], bool]) -> Garbage:
    dead = next((one.record.run_id for one in runs.dead if is_part_of(file.path, one.record.run_id)), None)
    return Garbage(file.path, "temporary file", file.bytes, "left half written", file, give_up=dead)


def _record(file: TableFile, reach: Reach, runs: Runs, horizon: datetime) -> Garbage | None:
    folder = file.path.split("/")[1]
    one = next((one for one in runs.records if one.folder == folder), None)
    if one is None or one.record.run_id in reach.runs_kept or one.record.manifest_ref in reach.refs_kept:
        return None
    if one.finished_at is None or one.finished_at >= horizon:
        return None  # at work, or not given up yet
    return Garbage(file.path, "old run", file.bytes, f"the record of run {one.record.run_id}", file)
