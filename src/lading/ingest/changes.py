"""What a run has changed in manifest/<table>.json, where the file is too large to be written for it.

The run's own commit says which entries are others now. That holds while nobody else committed since the look,
and while the file showed the sources that the log had (a merge before doesn't matter): otherwise it is
written whole, from the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lading.ingest.compare import BY_CONTENT, PLAIN
from lading.ingest.ledger import FAILED, QUARANTINED, SUCCESS
from lading.ingest.noop import SEAL, is_sealable, seal_of
from lading.ingest.schema import FOUND_HASH, found_hash
from lading.ingest.table_run import TableRun, now_text
from lading.ingest.verdict import is_same
from lading.model import FoundFile, Source
from lading.sources.fingerprint import source_id
from lading.sources.found import all_placed, find
from lading.sources.manifest import FileEntry, SourceManifest

LARGE = 100_000  # entries from which on a manifest is not written for every change
_SHARE = 20  # and it is written when more than one entry in so many changed since
_LEAST = 1_000  # or so many, whatever its size
_LEAST_BYTES = 4 << 20  # or what came since is so long, and more than that share of it: each look decodes it


@dataclass(frozen=True, slots=True)
class Changes:
    """Of a run whose commit is the only one since the look."""

    run: TableRun
    failures: Mapping[str, str]
    settled: bool

    def entries(self) -> dict[str, FileEntry | None]:
        run, now = self.run, now_text()
        gone = run.compared.left if run.compared is not None else []
        entries: dict[str, FileEntry | None] = dict.fromkeys(gone)
        for commit in run.commits:
            retracted = frozenset(commit.gone)
            entries |= dict.fromkeys(one.key for one in run.plan.vanished if one.id in retracted)
            found = find(run.found, {source.key for source in commit.sources})
            for source in commit.sources:
                file = found.get(source.key)
                same = file is not None and is_same(file, source)
                entries[source.key] = read_entry(source, file.spot if file is not None and same else 0)
        state = run.table.state
        for key, file in find(run.found, self.failures).items():
            entries[key] = failed_entry(file, self.failures[key], state.source(source_id(key)), now)
        return entries

    def told(self, hashed: bool) -> dict[str, Any]:
        """What can be said of all entries. `hashed`: whether somebody will ask for a hash of all files."""
        quiet = self._leaves_nothing()
        return {
            FOUND_HASH: found_hash(self.run.found) if quiet and hashed else None,
            SEAL: seal_of(self.run.found) if quiet else None,
        }

    def _leaves_nothing(self) -> bool:
        """Whether the log has the files that were found and no others, with nothing left to do about any."""
        run = self.run
        if not self.settled or self.failures:
            return False
        read = {source.key: source for commit in run.commits for source in commit.sources}
        gone = {number for commit in run.commits for number in commit.gone}
        if any(source.id not in gone for source in run.plan.vanished) or not all_placed(run.found):
            return False
        if run.compared is None:
            return True
        marks = run.compared.marks
        if marks.count(BY_CONTENT) or len(marks) - marks.count(PLAIN) != len(read):
            return False
        found = find(run.found, read.keys())
        return len(found) == len(read) and all(
            is_same(file, read[key]) and is_sealable(read[key]) for key, file in found.items()
        )


def changes_of(
    run: TableRun, there: SourceManifest | None, failures: Mapping[str, str], settled: bool
) -> Changes | None:
    """None: the file is better written whole. `there` is what it says by now."""
    if there is None:
        return None
    if len(run.found) <= LARGE or run.manifest is None or run.ledger.reset is not None:
        return None
    if run.ledger.behind and not run.ledger.shown.all_sources:
        return None
    if not there.as_written or not there.since.whole or there.base != run.manifest.base:
        return None
    if (there.sequence, there.at) != (run.manifest.sequence, run.manifest.at):
        return None
    if run.table.state.sequence != run.ledger.sequence + len(run.commits):
        return None  # others have committed, too
    if run.compared is not None and run.compared.unplaced:
        return None
    if there.since.bytes > max(_LEAST_BYTES, there.bytes // _SHARE):
        return None  # the same files changed again and again
    many = len(there.since.files) + sum(map(len, _keys(run))) + len(failures)
    if many > max(_LEAST, len(run.found) // _SHARE):
        return None
    return Changes(run, failures, settled)


def _keys(run: TableRun) -> Iterator[tuple[object, ...]]:
    return ((*commit.sources, *commit.gone) for commit in run.commits)


def read_entry(source: Source, spot: int) -> FileEntry:
    return FileEntry(
        hash=source.hash,
        last_processed=source.processed_at,
        status=SUCCESS if source.aside is None else QUARANTINED,
        metadata={"row_count": source.rows},
        sha256=source.sha256,
        size=source.size,
        mtime_ns=source.mtime_ns,
        racy=source.racy,
        error=source.aside,
        archive=source.archive,
        rows_rejected=source.rejected,
        quarantine=source.quarantine,
        spot=spot,
    )


def failed_entry(file: FoundFile, error: str, old: Source | None, now: str) -> FileEntry:
    """With the time of the attempt, unless it was read before: those rows stay, and so does their time."""
    return FileEntry(
        hash=file.hash,
        last_processed=old.processed_at if old is not None else now,
        status=FAILED,
        metadata={"row_count": old.rows if old is not None else 0},
        size=file.size,
        mtime_ns=file.mtime_ns,
        error=error,
        archive=file.archive,
    )
