"""A plan as dictionaries give it: every file, every source and every entry in memory, each rule said plainly.
What walks them side by side has to come to the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lading.ingest.plan import Again
from lading.ingest.verdict import FileVerdict, Known, verdict_on
from lading.log.state import TableState
from lading.model import Digest, FoundFile, Source
from lading.sources.fingerprint import source_id
from lading.sources.manifest import FileEntry, SourceManifest

READ = ("success", "quarantined")


def known_of(manifest: SourceManifest | None, state: TableState, name: str) -> dict[str, Known]:
    sources = state.sources()
    if manifest is None or manifest.table_id != state.meta.table_id or manifest.sequence > state.sequence:
        return {key: Known(source) for key, (source, _) in sources.items()}
    entries = manifest.files
    known = {key: failed(one, None) for key, one in entries.items() if one.status == "failed"}
    for key, (source, sequence) in sources.items():
        entry = entries.get(key)
        if sequence > manifest.sequence:
            known[key] = Known(source)
        elif entry is None:
            known[key] = Known(source, f"its entry was removed from {name}")
        elif entry.status not in READ:
            known[key] = failed(entry, source)
        elif entry.hash != source.hash:
            known[key] = Known(source, f"its hash was changed in {name}")
        else:
            known[key] = Known(source, spot=entry.spot)
    return known


def failed(entry: FileEntry, source: Source | None) -> Known:
    return Known(source, f"tried again: {entry.error or 'status is ' + entry.status}", failed=True)


@dataclass(frozen=True)
class Planned:
    files: list[FileVerdict]
    read: list[FoundFile]
    vanished: list[Source]
    note: list[FoundFile]
    replaced: frozenset[int]
    verdicts: dict[str, int]
    sources: int


def planned(
    found: Sequence[FoundFile],
    known: Mapping[str, Known],
    digests: Mapping[str, Digest],
    again: Again | None,
    *,
    full: bool,
) -> Planned:
    verdicts = {
        file.key: verdict_on(file, known.get(file.key), digests.get(file.key), full=full) for file in found
    }
    if again is not None:
        for key, one in verdicts.items():
            if again.asks_for(key) and one.verdict in ("unchanged", "touched", "quarantined"):
                verdicts[key] = FileVerdict(key, "reread", again.why)
    vanished = [one.source for key, one in sorted(known.items()) if one.source and key not in verdicts]
    read = [file for file in found if verdicts[file.key].verdict in ("new", "changed", "reread", "failed")]
    note = [file for file in found if _noted(file, verdicts[file.key], known.get(file.key), digests, full)]
    replaced = {source.id for source in vanished}
    replaced |= {source_id(file.key) for file in read if (one := known.get(file.key)) and one.source}
    gone = [FileVerdict(one.key, "vanished", "in the table, no longer in the folder") for one in vanished]
    files = sorted([*verdicts.values(), *gone], key=lambda one: one.key)
    counts: dict[str, int] = {}
    for one in files:
        counts[one.verdict] = counts.get(one.verdict, 0) + 1
    sources = sum(one.source is not None for one in known.values())
    return Planned(files, read, vanished, note, frozenset(replaced), counts, sources)


def _noted(
    file: FoundFile,
    verdict: FileVerdict,
    known: Known | None,
    digests: Mapping[str, Digest],
    full: bool,
) -> bool:
    if verdict.verdict == "touched":
        return True
    if verdict.verdict not in ("unchanged", "quarantined") or known is None or known.source is None:
        return False
    digest = digests.get(file.key)
    told = digest.sha256 if full and digest is not None and file.fingerprint is None else file.hash
    return (known.source.racy and not file.racy) or known.source.hash != told
