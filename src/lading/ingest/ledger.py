"""What is known of each file before a run: the log's word and the source manifest's, put together.

Both are walked in the order of their keys, anew whenever somebody asks: neither is held whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from lading.ingest.compare import KnownByKey, Walk
from lading.ingest.verdict import Known
from lading.log.state import TableState
from lading.model import Source
from lading.sources.fingerprint import source_id
from lading.sources.manifest import FileEntry, SourceManifest

SUCCESS = "success"
FAILED = "failed"
QUARANTINED = "quarantined"
READ = (SUCCESS, QUARANTINED)  # what the log has, too


@dataclass(slots=True)
class Shown:
    """What a manifest from before the log's last commits turns out to show of it, once it has been walked."""

    all_sources: bool = False  # those commits were of others than sources: a merge, say


@dataclass(frozen=True, slots=True)
class Ledger:
    known: KnownByKey = ()  # can be walked more than once
    reset: str | None = None  # why everything is read again
    behind: bool = False  # the manifest does not show what the log holds: it is brought up to it
    sequence: int = 0  # of the log that was asked
    shown: Shown = field(default_factory=Shown)


def make_ledger(manifest: SourceManifest | None, state: TableState | None, name: str) -> Ledger:
    """`name` is how people know the manifest: manifest/<table>.json."""
    if state is None or state.sequence == 0:
        known = Walk(lambda: _never_committed(manifest)) if manifest is not None else ()
        return Ledger(known, behind=manifest is None and state is not None)
    if manifest is None:
        return _from_log(state, f"{name} is missing: everything is read again")
    if manifest.table_id is None:  # Fairway wrote it, or a person: what it shows is meant
        return _reconciled(manifest, state, name, shown=state.sequence)
    if manifest.table_id != state.meta.table_id or manifest.sequence > state.sequence:
        return _from_log(state)
    if is_of(manifest, state):
        return Ledger(Walk(lambda: _from_entries(manifest, state)), sequence=state.sequence)
    return _reconciled(manifest, state, name, shown=manifest.sequence)


def is_of(manifest: SourceManifest, state: TableState) -> bool:
    """Whether lading wrote the manifest from this very state, and nobody has changed an entry since."""
    meta = state.meta
    same = (manifest.table_id, manifest.sequence, manifest.at) == (meta.table_id, meta.sequence, meta.at)
    return manifest.as_written and same


def _never_committed(manifest: SourceManifest) -> Iterator[tuple[str, Known]]:
    return ((key, _failed(entry, None)) for key, entry in manifest.entries() if entry.status == FAILED)


def _from_log(state: TableState, reset: str | None = None) -> Ledger:
    known = Walk(lambda: ((source.key, Known(source)) for source, _ in state.sources_by_key()))
    return Ledger(known, reset, True, state.sequence)


def _from_entries(manifest: SourceManifest, state: TableState) -> Iterator[tuple[str, Known]]:
    """The quick way: the file is as lading wrote it at this very sequence, so the log need not be asked."""
    for key, entry in manifest.entries():
        if entry.status in READ:
            yield key, Known(_source(key, entry), None, False, entry.spot)
        else:
            yield key, _failed(entry, state.source(source_id(key)))


def _reconciled(manifest: SourceManifest, state: TableState, name: str, *, shown: int) -> Ledger:
    """The log's word, and what the entries ask for beyond it; `shown` is the sequence that they go up to."""
    removed, changed = f"its entry was removed from {name}", f"its hash was changed in {name}"
    ours, found = manifest.table_id is not None, Shown()

    def judged(source: Source, sequence: int, entry: FileEntry | None) -> Known:
        if sequence > shown:
            return Known(source)
        if entry is None:
            return Known(source, removed)
        if entry.status not in READ:
            return _failed(entry, source)
        if _changed(entry.hash, source.hash, ours=ours):
            return Known(source, changed)
        return Known(source, spot=entry.spot)

    def walk() -> Iterator[tuple[str, Known]]:
        entries = manifest.entries()
        key, entry = next(entries, (None, None))
        alike = True
        for source, sequence in state.sources_by_key():
            while key is not None and entry is not None and key < source.key:
                alike = alike and entry.status not in READ
                if entry.status == FAILED:
                    yield key, _failed(entry, None)
                key, entry = next(entries, (None, None))
            same = key == source.key
            alike = alike and same and sequence <= shown
            yield source.key, judged(source, sequence, entry if same else None)
            if same:
                key, entry = next(entries, (None, None))
        while key is not None and entry is not None:
            alike = alike and entry.status not in READ
            if entry.status == FAILED:
                yield key, _failed(entry, None)
            key, entry = next(entries, (None, None))
        found.all_sources = alike

    return Ledger(Walk(walk), None, True, state.sequence, found)


def _changed(told: str, known: str, *, ours: bool) -> bool:
    """Whether somebody changed a hash. In a manifest that isn't ours they may be of another kind than the
    table's, and then say nothing."""
    return told != known and (ours or not told or _kind(told) == _kind(known))


def _kind(told: str) -> str:
    return told.partition(":")[0] if ":" in told else "sha256"


def shows_the_log(manifest: SourceManifest | None, state: TableState) -> bool:
    """Whether the manifest has the files that the log has, though perhaps not its last commits: a merge
    changes no source."""
    if manifest is None or manifest.table_id != state.meta.table_id:
        return False
    told = ((key, entry.hash) for key, entry in manifest.entries() if entry.status in READ)
    held = ((source.key, source.hash) for source, _ in state.sources_by_key())
    return all(one == other for one, other in zip_longest(told, held))


def _failed(entry: FileEntry, source: Source | None) -> Known:
    return Known(source, again=f"tried again: {entry.error or 'status is ' + entry.status}", failed=True)


def _source(key: str, entry: FileEntry) -> Source:
    return Source(
        source_id(key), key, entry.hash, entry.sha256 or "", entry.size or 0, entry.mtime_ns or 0,
        entry.row_count or 0, entry.racy, entry.last_processed, entry.archive, entry.rows_rejected,
        entry.quarantine, (entry.error or "") if entry.status == QUARANTINED else None,
    )  # fmt: skip
