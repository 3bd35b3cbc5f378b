"""The people's copies, written from the log: manifest.json and manifest/<table>.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from lading.checks.relaxed import rules_of
from lading.config.project import Config
from lading.ingest.ledger import FAILED, QUARANTINED, SUCCESS, Sources, make_ledger
from lading.ingest.noop import SEAL, seal_of
from lading.ingest.schema import FOUND_HASH, follows, found_hash
from lading.ingest.table_run import TableRun, now_text
from lading.layout.project import schema_file, source_manifest
from lading.log.table import Table
from lading.log.table_manifest import manifest_of, replace_manifest
from lading.model import FoundFile, Source
from lading.sources.manifest import FileEntry, SourceManifest, save
from lading.sources.manifest import load as load_source_manifest
from lading.sources.schema import load_schema


def write_table_manifest(table: Table, *, mending: bool = False) -> None:
    """manifest.json, for people and for the seed's readers; never the source of truth."""
    state = table.state
    manifest = manifest_of(
        state.meta.table, state.in_order_added(), created_at=table.created_at, updated_at=state.meta.at
    )
    extra = {"table_id": table.table_id, "sequence": state.sequence, "order_by": state.order_by}
    replace_manifest(table.place, manifest, extra, mending=mending)


def record_sources(run: TableRun, failures: Mapping[str, str], *, settled: bool = True) -> None:
    """`failures` says why, by key; it covers this run and what earlier runs left failed. What people asked
    for since the look is asked for still: a file that they removed stays away, entries that they removed or
    changed are left as failed. `settled`: the log has what the plan says of the files found."""
    config, state = run.config, run.table.state
    path = config.source_manifest(run.name)
    there = load_source_manifest(path)
    if there is None and run.manifest is not None:
        return
    if there is not None and not there.as_written:
        failures = _asked_since(there, run) | dict(failures)
    sources = run.ledger.sources(state)
    failed = {file.key: file for file in run.found if file.key in failures} if failures else {}
    keys = sorted(sources.keys() | failed.keys() if failed else sources)
    schema = schema_section(config, run.name)
    old = run.manifest or SourceManifest(run.name, {})
    meta = state.meta
    lading: dict[str, Any] = {"table_id": meta.table_id, "sequence": meta.sequence, "at": meta.at}
    rules = rules_of(run.cfg.checks)
    if run.recipe in (None, meta.recipe) and (rules or "rules" in old.lading):
        lading["rules"] = rules  # those that the log's rows were made by
    # Another process may have committed files since the look: a hash of those found then is not theirs.
    shown = keys == sorted([file.key for file in run.found])
    lading[FOUND_HASH] = found_hash(run.found) if shown else None
    spots = _spots(run, sources, keys, settled)
    # What others committed may make the schema another one, of which nobody has thought yet.
    settled_by_all = shown or not follows(run.cfg)
    seal = seal_of([sources[key][0] for key in keys], spots) if settled_by_all and not failed else None
    lading[SEAL] = seal
    now = now_text()
    new = old.updated({}, schema=schema, lading=lading, preprocessing=_preprocessing(run, settled))

    def entries() -> Iterator[tuple[str, FileEntry]]:
        for key, spot in zip(keys, spots, strict=True):
            source = sources[key][0] if key in sources else None
            if key in failed:
                yield key, _failed(failed[key], failures[key], source, now)
            elif source is not None:
                yield key, _read(source, spot)

    save(path, new, entries())


def _preprocessing(run: TableRun, settled: bool) -> dict[str, Any]:
    """An archive that was refused only now is tried again, and counted again, if the run fails."""
    fresh = set() if settled else {one.key for one in run.refused if one.fresh}
    return {key: entry for key, entry in run.preprocessing.items() if key not in fresh}


def _asked_since(there: SourceManifest, run: TableRun) -> dict[str, str]:
    """Requests that the file makes, and that this run hasn't met by reading."""
    asked = make_ledger(there, run.table.state, source_manifest(run.name)).known
    met = {file.key for file in run.plan.read}
    return {key: one.again for key, one in asked.items() if one.again is not None and key not in met}


def _spots(run: TableRun, sources: Sources, keys: Sequence[str], settled: bool) -> list[int]:
    """Where each file lay that the log has: those found, if the log has what was found of them."""
    if not settled:
        known = run.ledger.known
        return [one.spot if (one := known.get(key)) is not None else 0 for key in keys]
    spots = []
    found = iter(sorted(run.found, key=attrgetter("key")))  # beside `keys`, without another 100,000 names
    file = next(found, None)
    for key in keys:
        while file is not None and file.key < key:
            file = next(found, None)
        spot = 0
        if file is not None and file.key == key and key in sources:
            source = sources[key][0]
            # As `plan.is_same`, without a call for each file: another process may have committed it since the
            # look, as another one.
            if file.mtime_ns == source.mtime_ns and file.size == source.size:
                spot = file.spot
        spots.append(spot)
    return spots


def _read(source: Source, spot: int) -> FileEntry:
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


def _failed(file: FoundFile, error: str, old: Source | None, now: str) -> FileEntry:
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


def schema_section(config: Config, name: str) -> dict[str, str]:
    schema = load_schema(config.schema_file(name))
    if schema is None:
        return {}
    return {
        "generated_at": schema.generated_at,
        "output_path": schema_file(name),
        "combined_hash": schema.combined_hash,
    }
