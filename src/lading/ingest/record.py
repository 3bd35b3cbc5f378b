"""The people's copies, written from the log: manifest.json and manifest/<table>.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lading.checks.relaxed import rules_of
from lading.config.project import Config
from lading.ingest.changes import changes_of, failed_entry, read_entry
from lading.ingest.compare import KnownByKey
from lading.ingest.ledger import make_ledger
from lading.ingest.noop import SEAL, Seal, is_sealable
from lading.ingest.schema import FOUND_HASH, follows, found_hash
from lading.ingest.table_run import TableRun, now_text
from lading.layout.project import schema_file, source_manifest
from lading.log.table import Table
from lading.log.table_manifest import manifest_of, replace_manifest
from lading.model import Source
from lading.sources.found import find, rows_of
from lading.sources.manifest import FileEntry, SourceManifest, save
from lading.sources.manifest import load as load_source_manifest
from lading.sources.schema import load_schema
from lading.sources.since import Recorded, append_since

SMALL = 10_000  # parts of a table whose manifest.json is written by every run


def write_table_manifest(table: Table, *, asked: bool = False, mending: bytes | None = None) -> bool:
    """manifest.json, for people and for the seed's readers; never the source of truth. Of a table with many
    parts only if it was `asked` for: what the last one names is there until somebody cleans, who writes it
    first. Whether it was written."""
    state = table.state
    if not asked and state.count() > SMALL:
        return False
    table.make_durable()
    manifest = manifest_of(
        state.meta.table, state.in_order_added(), created_at=table.created_at, updated_at=state.meta.at
    )
    extra = {"table_id": table.table_id, "sequence": state.sequence, "order_by": state.order_by}
    replace_manifest(table.place, manifest, extra, mending=mending)
    return True


def record_sources(
    run: TableRun, failures: Mapping[str, str], *, settled: bool = True, whole: bool = False
) -> None:
    """`failures` says why, by key; it covers this run and what earlier runs left failed. What people asked
    for since the look is asked for still: a file that they removed stays away, entries that they removed or
    changed are left as failed. `settled`: the log has what the plan says of the files found. `whole`: also a
    large file is written, and not only what changed."""
    path = run.config.source_manifest(run.name)
    stands = run.manifest is not None and run.manifest.stands(path)
    there = run.manifest if stands else load_source_manifest(path)
    if there is None and run.manifest is not None:
        return
    if there is not None and not there.as_written:
        failures = _asked_since(there, run) | dict(failures)
    old = run.manifest or SourceManifest(run.name, {})
    schema, lading = schema_section(run.config, run.name), _lading(run, old)
    preprocessing = _preprocessing(run, settled)
    changes = None if whole else changes_of(run, there, failures, settled)
    if changes is not None:
        preprocessed = preprocessing if preprocessing != old.preprocessing else None
        told = old.lading | lading | changes.told(bool(schema.get("combined_hash")))
        append_since(path, Recorded(old.base, changes.entries(), schema, told, preprocessed))
        return
    new = old.updated({}, schema=schema, lading=lading, preprocessing=preprocessing)
    every = _Whole(run, failures, settled, hashed=bool(schema.get("combined_hash")))
    save(path, new, every.entries(), every.told)


class _Whole:
    """All entries, made from the log's sources one after the other, and what can be said of all of them
    when they are through."""

    def __init__(self, run: TableRun, failures: Mapping[str, str], settled: bool, *, hashed: bool) -> None:
        """`hashed`: whether somebody will ask for a hash of all the files."""
        self._run, self._failures, self._settled, self._hashed = run, failures, settled, hashed
        self._failed = find(run.found, failures)
        self._seal: Seal | None = None if self._failed else Seal()
        self._shown = not self._failed  # the log has the files that were found, and no others

    def entries(self) -> Iterator[tuple[str, FileEntry]]:
        now, waiting = now_text(), sorted(self._failed, reverse=True)
        for source, spot in self._placed():
            while waiting and waiting[-1] < source.key:
                yield self._bad(waiting.pop(), None, now)
            if waiting and waiting[-1] == source.key:
                yield self._bad(waiting.pop(), source, now)
                continue
            if self._seal is not None:
                if spot and is_sealable(source):
                    self._seal.add(source, spot)
                else:
                    self._seal = None
            yield source.key, read_entry(source, spot)
        while waiting:
            yield self._bad(waiting.pop(), None, now)

    def told(self) -> dict[str, Any]:
        run = self._run
        # What others committed may make the schema another one, of which nobody has thought yet.
        settled_by_all = self._shown or not follows(run.cfg)
        return {
            # Others may have committed files since the look: a hash of those found then is not theirs.
            FOUND_HASH: found_hash(run.found) if self._shown and self._hashed else None,
            SEAL: self._seal.text() if self._seal is not None and settled_by_all else None,
        }

    def _bad(self, key: str, source: Source | None, now: str) -> tuple[str, FileEntry]:
        return key, failed_entry(self._failed[key], self._failures[key], source, now)

    def _placed(self) -> Iterator[tuple[Source, int]]:
        """The log's sources, and where the file of each lay: as it was found, or was known before, if that is
        what the log has. Another process may have committed it since the look, as another one."""
        rows = rows_of(self._run.found) if self._settled else _rows_known(self._run.ledger.known)
        key, size, at, lies, _ = next(rows, _NO_ROW)
        passed = False
        for source, _ in self._run.table.state.sources_by_key():
            while key is not None and key < source.key:
                passed = True
                key, size, at, lies, _ = next(rows, _NO_ROW)
            if key != source.key:
                passed = True
                yield source, 0
                continue
            yield source, lies if (size, at) == (source.size, source.mtime_ns) else 0
            key, size, at, lies, _ = next(rows, _NO_ROW)
        self._shown = self._shown and self._settled and not passed and key is None


_NO_ROW = (None, 0, 0, 0, None)


def _rows_known(known: KnownByKey) -> Iterator[tuple[str, int, int, int, None]]:
    return (
        (key, one.source.size, one.source.mtime_ns, one.spot, None)
        for key, one in known
        if one.source is not None
    )


def _lading(run: TableRun, old: SourceManifest) -> dict[str, Any]:
    meta = run.table.state.meta
    lading: dict[str, Any] = {"table_id": meta.table_id, "sequence": meta.sequence, "at": meta.at}
    rules = rules_of(run.cfg.checks)
    if run.recipe in (None, meta.recipe) and (rules or "rules" in old.lading):
        lading["rules"] = rules  # those that the log's rows were made by
    return lading


def _preprocessing(run: TableRun, settled: bool) -> dict[str, Any]:
    """An archive that was refused only now is tried again, and counted again, if the run fails."""
    fresh = set() if settled else {one.key for one in run.refused if one.fresh}
    return {key: entry for key, entry in run.preprocessing.items() if key not in fresh}


def _asked_since(there: SourceManifest, run: TableRun) -> dict[str, str]:
    """Requests that the file makes, and that this run hasn't met by reading."""
    asked = make_ledger(there, run.table.state, source_manifest(run.name)).known
    met = {file.key for file in run.plan.read}
    return {key: one.again for key, one in asked if one.again is not None and key not in met}


def schema_section(config: Config, name: str) -> dict[str, str]:
    schema = load_schema(config.schema_file(name))
    if schema is None:
        return {}
    return {
        "generated_at": schema.generated_at,
        "output_path": schema_file(name),
        "combined_hash": schema.combined_hash,
    }
