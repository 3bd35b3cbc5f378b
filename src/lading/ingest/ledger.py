"""What is known of each file before a run: the log's word and the source manifest's, put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lading.ingest.plan import Known
from lading.log.state import TableState
from lading.model import Source
from lading.sources.fingerprint import source_id
from lading.sources.manifest import FileEntry, SourceManifest
from lading.state.tables import StateMeta

SUCCESS = "success"
FAILED = "failed"
QUARANTINED = "quarantined"
READ = (SUCCESS, QUARANTINED)  # what the log has, too

Sources = dict[str, tuple[Source, int]]  # by key, with the sequence that recorded each


@dataclass(frozen=True, slots=True)
class Ledger:
    known: Mapping[str, Known] = field(default_factory=dict)
    reset: str | None = None  # why everything is read again
    behind: bool = False  # the manifest does not show what the log holds: it is written anew
    read: Sources = field(default_factory=dict)  # the log's, where it was asked for them
    read_at: StateMeta | None = None  # what the log said of itself then

    def sources(self, state: TableState) -> Sources:
        """The log's sources, read a second time only if it has gone on since, or they were let go."""
        return self.read if self.read and self.read_at == state.meta else state.sources()

    def forget(self) -> None:
        if isinstance(self.known, dict):
            self.known.clear()
        self.read.clear()


def make_ledger(manifest: SourceManifest | None, state: TableState | None, name: str) -> Ledger:
    """`name` is how people know the manifest: manifest/<table>.json."""
    if state is None or state.sequence == 0:
        return Ledger(_never_committed(manifest), behind=manifest is None and state is not None)
    if manifest is None:
        reset = f"{name} is missing: everything is read again"
        return _from_log(state, reset)
    if manifest.table_id is None:  # Fairway wrote it, or a person: what it shows is meant
        return _reconciled(manifest, state, name, shown=state.sequence)
    if manifest.table_id != state.meta.table_id or manifest.sequence > state.sequence:
        return _from_log(state)
    if is_of(manifest, state):
        return Ledger(_from_entries(manifest, state))
    return _reconciled(manifest, state, name, shown=manifest.sequence)


def is_of(manifest: SourceManifest, state: TableState) -> bool:
    """Whether lading wrote the manifest from this very state, and nobody has changed an entry since."""
    meta = state.meta
    same = (manifest.table_id, manifest.sequence, manifest.at) == (meta.table_id, meta.sequence, meta.at)
    return manifest.as_written and same


def _never_committed(manifest: SourceManifest | None) -> dict[str, Known]:
    entries = manifest.files if manifest is not None else {}
    return {key: _failed(entry, None) for key, entry in entries.items() if entry.status == FAILED}


def _from_log(state: TableState, reset: str | None = None) -> Ledger:
    read = state.sources()
    return Ledger({key: Known(source) for key, (source, _) in read.items()}, reset, True, read, state.meta)


def _from_entries(manifest: SourceManifest, state: TableState) -> dict[str, Known]:
    """The quick way: the file is as lading wrote it at this very sequence, so the log need not be asked."""
    return {
        key: Known(_source(key, entry), spot=entry.spot)
        if entry.status in READ
        else _failed(entry, state.source(source_id(key)))
        for key, entry in manifest.files.items()
    }


def _reconciled(manifest: SourceManifest, state: TableState, name: str, *, shown: int) -> Ledger:
    """The log's word, and what the entries ask for beyond it; `shown` is the sequence that they go up to."""
    known = _never_committed(manifest)
    read, entries = state.sources(), manifest.files
    for key, (source, sequence) in read.items():
        entry = entries.get(key)
        again, spot = None, 0
        if sequence <= shown:
            if entry is None:
                again = f"its entry was removed from {name}"
            elif entry.status not in READ:
                known[key] = _failed(entry, source)
                continue
            elif _changed(entry.hash, source.hash, ours=manifest.table_id is not None):
                again = f"its hash was changed in {name}"
            else:
                spot = entry.spot
        known[key] = Known(source, again, spot=spot)
    return Ledger(known, None, True, read, state.meta)


def _changed(told: str, known: str, *, ours: bool) -> bool:
    """Whether somebody changed a hash. In a manifest that isn't ours they may be of another kind than the
    table's, and then say nothing."""
    return told != known and (ours or not told or _kind(told) == _kind(known))


def _kind(told: str) -> str:
    return told.partition(":")[0] if ":" in told else "sha256"


def shows_the_log(manifest: SourceManifest | None, ledger: Ledger, state: TableState) -> bool:
    """Whether the manifest has the files that the log has, though perhaps not its last commits: a merge
    changes no source."""
    if manifest is None or manifest.table_id != state.meta.table_id:
        return False
    told = {key: entry.hash for key, entry in manifest.files.items() if entry.status in READ}
    return told == {key: source.hash for key, (source, _) in ledger.sources(state).items()}


def _failed(entry: FileEntry, source: Source | None) -> Known:
    return Known(source, again=f"tried again: {entry.error or 'status is ' + entry.status}", failed=True)


def _source(key: str, entry: FileEntry) -> Source:
    return Source(
        source_id(key), key, entry.hash, entry.sha256 or "", entry.size or 0, entry.mtime_ns or 0,
        entry.row_count or 0, entry.racy, entry.last_processed, entry.archive, entry.rows_rejected,
        entry.quarantine, (entry.error or "") if entry.status == QUARANTINED else None,
    )  # fmt: skip
