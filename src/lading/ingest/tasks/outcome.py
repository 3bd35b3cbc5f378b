"""What all tasks of an ingest have to tell, put together: pure.

Tasks number lines and records from the start of their piece of a file; here the pieces before it are added.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lading.checks.tally import summed
from lading.ingest.tasks.task import Refusal, SourceRead, TaskDone, add_slots
from lading.model import BadRow, CheckTally, Member
from lading.parts.aside import AsidePiece


@dataclass(slots=True)
class FileRead:
    """What became of one file."""

    records: int = 0
    bad: int = 0
    misfits: int = 0  # of the bad ones: those that are set aside whatever `on_bad` says
    ignored: int = 0
    left_out: tuple[str, ...] = ()
    sha256: str | None = None
    refused: Refusal | None = None
    slots: dict[int, dict[int, int]] = field(default_factory=dict)  # as in SourceRead


@dataclass(frozen=True, slots=True)
class Ingested:
    """What an ingest wrote, parts that nobody sees until they are committed, and what it left out."""

    members: tuple[Member, ...] = ()
    schema: bytes = b""  # Arrow IPC schema of the parts, `_source` included
    files: dict[int, FileRead] = field(default_factory=dict)  # by source
    bad: tuple[BadRow, ...] = ()  # the first that each task saw in each file
    unkeyed: dict[int, int] = field(default_factory=dict)  # rows without an order value, by source
    failing: dict[int, tuple[BadRow, ...]] = field(default_factory=dict)  # the first, by check
    aside: dict[int, tuple[AsidePiece, ...]] = field(default_factory=dict)  # kept bad rows, by source
    tally: CheckTally = field(default_factory=CheckTally)
    passing: bool = False  # whether the members still have to be folded (settle.py)

    @property
    def bad_rows(self) -> int:
        return sum(one.bad for one in self.files.values()) + sum(self.unkeyed.values())

    @property
    def stopping_rows(self) -> int:
        """The bad rows that stop a run under `on_bad: fail`."""
        return self.bad_rows - sum(one.misfits for one in self.files.values())

    @property
    def ignored_rows(self) -> int:
        return sum(one.ignored for one in self.files.values())

    def without(self, sources: frozenset[int]) -> Ingested:
        """All but what is told of some sources; parts are another matter."""
        tally = CheckTally(
            _less(self.tally.rows, sources),
            {name: _less(failed, sources) for name, failed in self.tally.failed.items()},
            self.tally.sample,
        )
        return replace(
            self,
            files={one: file for one, file in self.files.items() if one not in sources},
            bad=tuple(row for row in self.bad if row.source not in sources),
            unkeyed=_less(self.unkeyed, sources),
            failing={
                check: tuple(row for row in rows if row.source not in sources)
                for check, rows in self.failing.items()
            },
            aside=_less(self.aside, sources),
            tally=tally,
        )


def ingested(done: Iterable[TaskDone], schema: bytes, *, passing: bool = False) -> Ingested:
    """A task that Spark ran twice, for a transform that uses its rows twice, counts once."""
    told: list[TaskDone] = []
    read: dict[int, TaskDone] = {}
    for one in done:
        if one.task < 0:
            told.append(one)
        else:
            read[one.task] = _agreed(read[one.task], one) if one.task in read else one
    told += read.values()
    pieces = _Pieces(read for one in told for read in one.reads)
    unkeyed: Counter[int] = Counter()
    for one in told:
        unkeyed.update(one.unkeyed)
    failing: defaultdict[int, list[BadRow]] = defaultdict(list)
    for one in told:
        for row in one.failing:
            failing[row.check].append(pieces.placed(row.start, row.row))
    return Ingested(
        members=tuple(sorted((member for one in told for member in one.members), key=_by_key)),
        schema=schema,
        files=pieces.files,
        bad=tuple(dict.fromkeys(pieces.placed(start, row) for one in told for start, row in one.first)),
        unkeyed=dict(unkeyed),
        failing={check: tuple(rows) for check, rows in failing.items()},
        aside=pieces.aside(told),
        tally=summed(one.tally for one in told),
        passing=passing,
    )


def _agreed(one: TaskDone, other: TaskDone) -> TaskDone:
    """What two readings of the same files tell. If they differ, who reads last can't be known: whatever is
    refused in one of them, or isn't the same, has changed meanwhile."""
    changed = Refusal("SourceError", "", "run again when the file is complete; nothing was committed")
    for mine, theirs in zip(one.reads, other.reads, strict=True):
        mine.refused = mine.refused or theirs.refused
        if mine.refused is None and mine != theirs:
            mine.refused = changed
    return one


class _Pieces:
    """The pieces of each file, in its order."""

    def __init__(self, reads: Iterable[SourceRead]) -> None:
        self.files: dict[int, FileRead] = {}
        self._before: dict[tuple[int, int], tuple[int, int]] = {}  # records and lines, by source and start
        by_source: defaultdict[int, list[SourceRead]] = defaultdict(list)
        for read in reads:
            by_source[read.source].append(read)
        for source, several in by_source.items():
            self.files[source] = file = FileRead()
            lines = 0
            for read in sorted(several, key=lambda one: one.start):
                self._before[source, read.start] = (file.records, lines)
                lines += read.lines
                _add(file, read)

    def placed(self, start: int, row: BadRow) -> BadRow:
        """A row with the numbers that it has in the whole file."""
        records, lines = self._before.get((row.source, start), (0, 0))
        return replace(
            row,
            record=None if row.record is None else row.record + records,
            line=None if row.line is None else row.line + lines,
        )

    def aside(self, told: Iterable[TaskDone]) -> dict[int, tuple[AsidePiece, ...]]:
        found: defaultdict[int, list[tuple[int, AsidePiece]]] = defaultdict(list)
        for one in told:
            for kept in one.aside:
                records, lines = self._before.get((kept.source, kept.start), (0, 0))
                found[kept.source].append((kept.start, AsidePiece(kept.path, kept.rows, records, lines)))
        return {
            source: tuple(piece for _, piece in sorted(pieces, key=lambda one: one[0]))
            for source, pieces in found.items()
        }


def _add(file: FileRead, read: SourceRead) -> None:
    file.records += read.records
    file.bad += read.bad
    file.misfits += read.misfits
    file.ignored += read.ignored
    file.left_out = read.left_out or file.left_out
    file.sha256 = read.sha256 or file.sha256
    file.refused = file.refused or read.refused
    add_slots(file.slots, read.slots)


def _less(counts: Mapping[int, Any], sources: frozenset[int]) -> dict[int, Any]:
    return {one: count for one, count in counts.items() if one not in sources}


def _by_key(member: Member) -> tuple[int, Any, str]:
    return (member.bucket, 0 if member.key_min is None else member.key_min, member.path)
