"""A collection on disk or in a bucket: open it, read it, commit to it, checkpoint and compact its log."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import msgspec

from lading import clock, ids
from lading.errors import CommitUnknown, Conflict, GivenUp, LadingError, LogCorrupt, StorageError
from lading.log.checkpoint import is_in_place, open_checkpoint, write_checkpoint
from lading.log.conflict import expired, refuse_conflicts
from lading.log.file import LogFile, LogTail, OpenedLog, Trail
from lading.log.objects import ObjectLog, Taken
from lading.log.state import TableState
from lading.model import Commit, Place
from lading.state.log_frames import FORMAT_VERSION, LogHeader, encode_commit
from lading.state.members import MemberStore
from lading.state.overlay import Overlay
from lading.state.tables import StateMeta
from lading.storage.place import Where, folder_of, place_of, storage_of

_log = logging.getLogger(__name__)

CHECKPOINT_EVERY = 1000  # commits
CHECKPOINT_CHANGES = 10_000  # members and sources changed since, if that is a quarter of them or more
OVERLAY_EVERY = 64  # commits that whoever opens the table has to decode, as a rule
_OVERLAY_GROWTH = 16  # one in so many of the commits behind a checkpoint has to be new to its overlay
_OVERLAY_MOST = 20_000  # members and sources, which are written whole each time


class Table:
    """The one handle on a collection's log; its `state` is as of the last open, refresh or commit."""

    def __init__(self, place: Place, state: TableState, tail: LogTail, trail: Trail | None = None) -> None:
        self.place = place
        self.state = state
        self._header = tail.header
        self._end = tail.frames.end
        self._tip = tail.tip  # the frame before `_end`, unless it is known to be durable
        self._log = log_of(place)
        # What `state` was read from, behind its checkpoint; None in a bucket, and when that is in no log now.
        self._trail = trail
        self._loose = 0  # commits of it that no overlay has

    @property
    def folder(self) -> Path:
        """Where it lies, for what can be done to a table in a folder only; ConfigError for a bucket."""
        return folder_of(self.place)

    @property
    def table_id(self) -> str:
        return self._header.table_id

    @property
    def created_at(self) -> str:
        return self._header.created_at

    @property
    def checkpoint_sequence(self) -> int:
        return 0 if self.state.base is None else self.state.base.meta.sequence

    @staticmethod
    def exists(place: Where) -> bool:
        return log_of(place).exists()

    @classmethod
    def create(cls, place: Where, name: str, *, now: datetime | None = None) -> Table:
        """Start an empty table; one that somebody else started meanwhile is opened instead."""
        created = (now or clock.now()).isoformat()
        header = LogHeader(FORMAT_VERSION, name, ids.fresh(), ids.fresh(), created, 0)
        try:
            log_of(place).create(header)
        except FileExistsError:
            return cls.open(place)
        return cls.open(place)

    @classmethod
    def open(cls, place: Where) -> Table:
        """Checkpoint and the commits behind it. A compaction in between is noticed and looked at again."""
        place = place_of(place)
        for _ in range(10):
            overlay = log_of(place).overlay()
            base = open_checkpoint(place, overlay.root if overlay is not None else None)
            known = base.meta if base is not None else None
            opened = _opened(place, known, overlay)
            tail = opened.tail
            if tail.header.base <= (known.sequence if known else 0):
                break
            if base is not None:
                base.close()
        else:
            raise LogCorrupt(
                f"{place} has a log that starts after sequence {tail.header.base} and no checkpoint for it",
                hint="manifest.db is missing or old: restore it, or run `lading collection rebuild`",
            )
        state = _state_at(place, base, opened)
        table = cls(place, state, tail, opened.trail)
        table._apply(tail.frames.commits)
        return table

    def catch_up(self) -> None:
        """Take in what others committed since, for the cost of that. Under the lock: a commit that is being
        written counts when it is durable."""
        with self._log.lock():
            try:
                self._catch_up()
            except Conflict:  # compacted in between, or taken back
                self.refresh()

    def refresh(self) -> None:
        """Open the table anew: what others committed since, over the newest checkpoint."""
        fresh = Table.open(self.place)
        self.close()
        as_before = (fresh._header.log_id, fresh._end) == (self._header.log_id, self._end)
        self._tip = None if as_before and self._tip is None else fresh._tip
        self.state, self._header, self._end = fresh.state, fresh._header, fresh._end
        self._trail, self._loose = fresh._trail, fresh._loose

    def commit(self, commit: Commit, *, relies_on: Collection[str] = ()) -> Commit:
        """Append one frame, planned from `state`. Disjoint commits that others made since are rebased
        over, anything else raises Conflict: also what touches members that the plan found in order and
        `relies_on`. Returns the commit with its sequence."""
        recipe = self.state.meta.recipe
        while True:
            with self._log.lock():
                refuse_conflicts(commit, self._catch_up(), recipe, relies_on)
                self._refuse_impossible(commit)
                commit = msgspec.structs.replace(commit, sequence=self.state.sequence + 1)
                frame = encode_commit(commit)
                try:
                    self._end, self._tip = self._log.append(frame, self._end), None
                except Taken:  # in a bucket, where nobody waits for anybody
                    continue
            self._lay_over([commit], frame)
            self._write_overlay_if_due()
            return commit

    def make_durable(self) -> None:
        """Let what `state` holds outlive a power cut, before anything is built on it: its last commit may be
        of somebody who was killed before the sync, or is about to do it. Conflict if it was taken back."""
        if self._tip is not None:
            with self._log.lock():
                self._sync()

    def _sync(self) -> None:
        """The caller holds the lock."""
        if self._tip is not None:
            self._read_on()
            self._log.sync()
            self._tip = None

    def refuse_expired(self, run_id: str) -> None:
        """Raise GivenUp if cleaning gave up on the run since `state`: files that it knows may be gone."""
        tail = self._read_on()
        since = [one for one in tail.frames.commits if one.sequence > self.state.sequence]
        gave_up = next((one.sequence for one in since if run_id in one.expire), None)
        if gave_up is None and tail.header.base > self.state.sequence:
            gave_up = tail.header.base  # compacted past `state`: it can't be told any more
        if gave_up is not None:
            raise expired(run_id, gave_up)

    @contextmanager
    def not_expired(self, run_id: str) -> Iterator[None]:
        """What fails in a run that cleaning took for dead fails because of that: GivenUp then, whatever is
        missed first. Where a commit may have been made, that is said as it is."""
        try:
            yield
        except (Conflict, CommitUnknown):
            raise
        except Exception as error:
            dead = self._expired(run_id)
            if dead is None:
                raise
            raise dead from error

    def _expired(self, run_id: str) -> GivenUp | None:
        try:
            self.refuse_expired(run_id)
        except GivenUp as given_up:
            return given_up
        except (LadingError, OSError):
            return None  # nobody knows: what went wrong first is told
        return None

    def holds(self, paths: Iterable[str]) -> bool:
        """Whether all of these are members of the log as it is at this moment, whatever `state` says."""
        now = Table.open(self.place)
        try:
            return all(now.state.contains(path) for path in paths)
        finally:
            now.close()

    def history(self) -> list[Commit]:
        """Every commit that the log still holds, oldest first; compaction takes them away."""
        return self._log.read().frames.commits

    def checkpoint_if_due(self) -> bool:
        """Write one if opening the table would otherwise mean decoding much. Who made a commit is not told
        that it failed for want of a checkpoint: the next commit tries again."""
        commits = self.state.sequence - self.checkpoint_sequence
        changes = self.state.changes()
        many = changes >= CHECKPOINT_CHANGES and 4 * changes >= self.state.size()
        if commits < CHECKPOINT_EVERY and not many:
            return False
        try:
            self.checkpoint()
        except (OSError, StorageError) as error:
            _log.warning(
                "%s: no checkpoint could be written, the next commit tries again: %s", self.place, error
            )
            return False
        return True

    def checkpoint(self) -> None:
        """Write the state beside the log; the log stays as it is."""
        with self._log.lock():
            self.refresh()
            self._sync()
            self._write_checkpoint(self._header.log_id, self._end, self.state.base)

    def settle(self) -> MemberStore:
        """The state as pages that lie where everybody finds them, so that a snapshot may name them. If there
        are any, the checkpoint names them too: then the next one that is asked for costs what changed until
        then."""
        store = self.state.settled()
        if store.is_one_file() or not (self.state.changes() or store.unsaved()):
            return store
        with self._log.lock():
            self._sync()
            with self._newest_checkpoint() as newest:
                if not self._is_further_than(newest):
                    return self.state.save()
                self._write_checkpoint(self._header.log_id, self._end, newest)
            assert self.state.base is not None
            return self.state.base

    @contextmanager
    def _newest_checkpoint(self) -> Iterator[MemberStore | None]:
        """The one that another would take the place of: somebody else may have written it since `state` was
        opened. In a bucket each has a name of its own. The caller holds the lock."""
        base = self.state.base
        if isinstance(self._log, ObjectLog) or (base is not None and is_in_place(self.place, base)):
            yield base
            return
        newest = open_checkpoint(self.place)
        try:
            yield newest
        finally:
            if newest is not None:
                newest.close()

    def _is_further_than(self, newest: MemberStore | None) -> bool:
        """Whether that is not of a later state, and nobody started the log over."""
        if isinstance(self._log, ObjectLog):
            return True
        known = self._read_on().header
        reached = newest.meta.sequence if newest is not None else 0
        return known.log_id == self._header.log_id and reached <= self.state.sequence

    def compact(self) -> None:
        """Keep the live set, drop the history: checkpoint first, then an empty log that starts behind it (in
        a bucket the old objects stay until they are cleaned away). Killed in between, the old log's frames
        lie at or below the checkpoint and are passed over."""
        if isinstance(self._log, ObjectLog):
            self.checkpoint()
            return
        with self._log.lock():
            self.refresh()
            header = msgspec.structs.replace(self._header, log_id=ids.fresh(), base=self.state.sequence)
            self._write_checkpoint(header.log_id, len(header.to_bytes()), self.state.base)
            self._log.replace(header)
            self._header = header
            self._end, self._tip = len(header.to_bytes()), None

    def close(self) -> None:
        if self.state.base is not None:
            self.state.base.close()

    def _read_on(self) -> LogTail:
        """What others appended since; Conflict if the last commit of `state` was taken back."""
        return self._log.read(self._header.log_id, self._end, self._tip)

    def _catch_up(self) -> list[Commit]:
        """Apply and return what others appended since `state`; the caller holds the lock."""
        tail = self._read_on()
        if tail.header.base > self.state.sequence:
            raise Conflict(
                f"{self.place} was compacted in between, past sequence {self.state.sequence}",
                hint="run again: it will plan from the new state",
            )
        log_id = self._header.log_id
        if tail.header.log_id != log_id:  # compacted at `state`, which goes on from there
            self._trail = None
        self._header = tail.header
        if tail.frames.commits or tail.header.log_id != log_id:
            self._tip = tail.tip
        self._end = tail.frames.end
        since = [one for one in tail.frames.commits if one.sequence > self.state.sequence]
        self._apply(since, tail.data)
        return since

    def _apply(self, commits: list[Commit], data: bytes = b"") -> None:
        """`data` is what they were read from, as far as the trail doesn't have it yet."""
        known = self.state.sequence
        fresh = commits
        if commits and commits[0].sequence <= known:
            fresh = [commit for commit in commits if commit.sequence > known]
        sequences = [known, *[commit.sequence for commit in fresh]]
        if sequences != list(range(known, known + len(sequences))):
            before, after = next(pair for pair in pairwise(sequences) if pair[1] != pair[0] + 1)
            raise LogCorrupt(
                f"{self.place} jumps from sequence {before} to {after}",
                hint="restore both files from one backup, or `lading collection rebuild`",
            )
        self._lay_over(fresh, data)

    def _lay_over(self, commits: list[Commit], data: bytes) -> None:
        self.state.apply(commits)
        self._loose += len(commits)
        if self._trail is not None:
            self._trail.add(data)

    def _write_overlay_if_due(self) -> None:
        """So that whoever opens the table decodes few commits. It costs what came since the checkpoint, so it
        is done when enough of that is new."""
        behind = self.state.sequence - self.checkpoint_sequence
        if self._trail is None or self._loose < max(OVERLAY_EVERY, behind // _OVERLAY_GROWTH):
            return
        if self.state.changes() > _OVERLAY_MOST:
            return
        with suppress(Exception):  # the commit is made: for want of an overlay it doesn't fail
            LogFile(self.folder).write_overlay(self.state.overlay(self._trail.covered()))
        self._loose = 0

    def _refuse_impossible(self, commit: Commit) -> None:
        """What is changed has to be live, and what is added must not be: the log can't say it twice."""
        changed = (*commit.remove, *(p for p, _ in commit.tier), *(p for p, _ in commit.minus))
        leaving = set(commit.remove)
        added = [member.path for member in commit.add if member.path not in leaving]
        live = self.state.contained([*changed, *added])
        for path in changed:
            if path not in live:
                raise LogCorrupt(
                    f"a commit names {path}, which is not a live member of {self.place}",
                    hint="open the table again and retry",
                )
        for path in added:
            if path in live:
                raise LogCorrupt(
                    f"a commit adds {path}, which is a live member of {self.place} already",
                    hint="open the table again and retry",
                )

    def _write_checkpoint(self, log_id: str, offset: int, replaced: MemberStore | None) -> None:
        meta = msgspec.structs.replace(self.state.meta, log_id=log_id, log_offset=offset)
        old, base = self.state.base, write_checkpoint(self.place, meta, self.state.settled(), replaced)
        self.state, self._loose = TableState(self.place, self.state.meta, base), 0
        if isinstance(self._log, LogFile):
            self._trail = Trail(log_id, self.state.sequence, offset)
            with suppress(OSError):  # it is of another checkpoint, and counts no more
                self._log.drop_overlay()
        if old is not None:
            old.close()


def log_bytes(place: Where) -> int:
    """How large the log is, its checkpoints apart."""
    return log_of(place).size()


def log_of(where: Where) -> LogFile | ObjectLog:
    """A file that grows, where files can; else one object a commit."""
    folder = storage_of(where).folder
    return ObjectLog(place_of(where)) if folder is None else LogFile(folder)


def _opened(place: Place, known: StateMeta | None, overlay: Overlay | None) -> OpenedLog:
    """What lies behind a checkpoint, or behind the log's beginning."""
    log_id, offset, base = (known.log_id, known.log_offset, known.sequence) if known else ("", 0, 0)
    return log_of(place).open(log_id, offset, base, overlay)


def _state_at(place: Place, base: MemberStore | None, opened: OpenedLog) -> TableState:
    if base is not None and base.meta.table_id != opened.tail.header.table_id:
        raise LogCorrupt(
            f"{place}: manifest.db and manifest.log belong to different tables",
            hint="restore both from one backup, or run `lading collection rebuild`",
        )
    if opened.overlay is not None:
        return TableState.over(place, base, opened.overlay)
    if base is not None:
        return TableState(place, msgspec.structs.replace(base.meta, log_id="", log_offset=0), base)
    return TableState(place, StateMeta.before_the_first_commit(opened.tail.header))
