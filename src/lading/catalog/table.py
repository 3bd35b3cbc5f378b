"""A collection on disk: open it, read its state, commit to it, checkpoint and compact its log."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from lading.catalog.checkpoint import open_checkpoint, write_checkpoint
from lading.catalog.conflict import refuse_conflicts
from lading.catalog.log import LogFile
from lading.catalog.state import TableState
from lading.errors import Conflict, LogCorrupt
from lading.format.frame import FORMAT_VERSION, LogHeader, encode_commit
from lading.format.members import MemberStore, StateMeta
from lading.model import Commit

CHECKPOINT_EVERY = 1000


class Table:
    """The one handle on a collection's log; its `state` is as of the last open, refresh or commit."""

    def __init__(self, folder: Path, state: TableState, header: LogHeader, end: int) -> None:
        self.folder = folder
        self.state = state
        self._header = header
        self._end = end
        self._log = LogFile(folder)

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
    def exists(folder: Path) -> bool:
        return LogFile(folder).exists()

    @classmethod
    def create(cls, folder: Path, name: str, *, now: datetime | None = None) -> Table:
        """Start an empty table; one that somebody else started meanwhile is opened instead."""
        created = (now or datetime.now(UTC)).isoformat()
        header = LogHeader(FORMAT_VERSION, name, uuid.uuid4().hex, uuid.uuid4().hex, created, 0)
        try:
            LogFile(folder).create(header)
        except FileExistsError:
            return cls.open(folder)
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Table:
        """Checkpoint and the commits behind it. A compaction in between is noticed and looked at again."""
        for _ in range(10):
            base = open_checkpoint(folder)
            known = base.meta if base is not None else None
            tail = LogFile(folder).read(*((known.log_id, known.log_offset) if known else ("", 0)))
            if tail.header.base <= (known.sequence if known else 0):
                break
            if base is not None:
                base.close()
        else:
            raise LogCorrupt(
                f"{folder} has a log that starts behind sequence {tail.header.base} and no checkpoint for it",
                hint="manifest.db is missing or old: restore it, or run `lading collection rebuild`",
            )
        state = _state_at(folder, base, tail.header)
        table = cls(folder, state, tail.header, tail.frames.end)
        table._apply(tail.frames.commits)
        return table

    def refresh(self) -> None:
        """Take in what others committed since."""
        fresh = Table.open(self.folder)
        self.close()
        self.state, self._header, self._end = fresh.state, fresh._header, fresh._end

    def commit(self, commit: Commit) -> Commit:
        """Append one frame, planned from `state`. Disjoint commits that others made since are rebased
        over, anything else raises Conflict. Returns the commit with its sequence."""
        recipe = self.state.meta.recipe
        with self._log.lock():
            refuse_conflicts(commit, self._catch_up(), recipe)
            self._refuse_unknown(commit)
            commit = msgspec.structs.replace(commit, sequence=self.state.sequence + 1)
            self._end = self._log.append(encode_commit(commit), self._end)
        self.state.apply(commit)
        return commit

    def checkpoint_if_due(self) -> bool:
        if self.state.sequence - self.checkpoint_sequence < CHECKPOINT_EVERY:
            return False
        self.checkpoint()
        return True

    def checkpoint(self) -> None:
        """Write the state beside the log; the log stays as it is."""
        with self._log.lock():
            self.refresh()
            self._write_checkpoint(self._header.log_id, self._end)

    def compact(self) -> None:
        """Keep the live set, drop the history: checkpoint first, then an empty log that starts behind it.
        Killed in between, the old log's frames lie at or below the checkpoint and are passed over."""
        with self._log.lock():
            self.refresh()
            header = msgspec.structs.replace(self._header, log_id=uuid.uuid4().hex, base=self.state.sequence)
            self._write_checkpoint(header.log_id, len(header.to_bytes()))
            self._log.replace(header)
            self._header = header
            self._end = len(header.to_bytes())

    def close(self) -> None:
        if self.state.base is not None:
            self.state.base.close()

    def _catch_up(self) -> list[Commit]:
        """Apply and return what others appended since `state`; the caller holds the lock."""
        tail = self._log.read(self._header.log_id, self._end)
        if tail.header.log_id != self._header.log_id:
            if tail.header.base > self.state.sequence:
                raise Conflict(
                    f"{self.folder} was compacted in between, past sequence {self.state.sequence}",
                    hint="run again: it will plan from there",
                )
            self._header = tail.header
        self._end = tail.frames.end
        since = [one for one in tail.frames.commits if one.sequence > self.state.sequence]
        self._apply(since)
        return since

    def _apply(self, commits: list[Commit]) -> None:
        for commit in commits:
            if commit.sequence <= self.state.sequence:
                continue
            if commit.sequence != self.state.sequence + 1:
                raise LogCorrupt(
                    f"{self.folder} jumps from sequence {self.state.sequence} to {commit.sequence}",
                    hint="restore both files from one backup, or `lading collection rebuild`",
                )
            self.state.apply(commit)

    def _refuse_unknown(self, commit: Commit) -> None:
        for path in (*commit.remove, *(p for p, _ in commit.tier), *(p for p, _ in commit.minus)):
            if not self.state.contains(path):
                raise LogCorrupt(
                    f"a commit names {path}, which is not a live member of {self.folder}",
                    hint="open the table again and retry",
                )

    def _write_checkpoint(self, log_id: str, offset: int) -> None:
        meta = msgspec.structs.replace(self.state.meta, log_id=log_id, log_offset=offset)
        write_checkpoint(self.folder, meta, self.state.columns())
        old, base = self.state.base, open_checkpoint(self.folder)
        assert base is not None
        self.state = TableState(str(self.folder), self.state.meta, base)
        if old is not None:
            old.close()


def _state_at(folder: Path, base: MemberStore | None, header: LogHeader) -> TableState:
    if base is not None:
        if base.meta.table_id != header.table_id:
            raise LogCorrupt(
                f"{folder}: manifest.db and manifest.log are of different tables",
                hint="restore both from one backup, or run `lading collection rebuild`",
            )
        return TableState(str(folder), msgspec.structs.replace(base.meta, log_id="", log_offset=0), base)
    meta = StateMeta(
        table=header.table, table_id=header.table_id, created_at=header.created_at, sequence=0,
        data_sequence=0, at=header.created_at, recipe="", schema=b"", order_by=None, next_serial=0,
    )  # fmt: skip
    return TableState(str(folder), meta)
