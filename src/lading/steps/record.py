"""The people's copies, written from the log: manifest.json and manifest/<table>.json."""

from __future__ import annotations

from collections.abc import Mapping

from lading.catalog.manifest import manifest_of, write_manifest
from lading.config import Config
from lading.model import FoundFile, Source
from lading.sources.manifest import FileEntry, SourceManifest, save
from lading.sources.schema import load_schema
from lading.steps.ledger import FAILED, SUCCESS
from lading.steps.look import Look
from lading.steps.work import Work


def write_table_manifest(work: Work) -> None:
    """manifest.json, for people and for the seed's readers; never the source of truth."""
    state = work.table.state
    manifest = manifest_of(
        work.name, state.in_order_added(), created_at=work.table.created_at, updated_at=state.meta.at
    )
    extra = {"table_id": work.table.table_id, "sequence": state.sequence, "order_by": state.order_by}
    write_manifest(work.table.folder, manifest, extra)


def record_sources(
    config: Config,
    look: Look,
    *,
    table_id: str,
    sequence: int,
    sources: Mapping[str, Source],
    failures: Mapping[str, str],
) -> None:
    """`failures` says why, by key; it covers this run and what earlier runs left failed."""
    files = {key: _read(source) for key, source in sources.items()}
    for file in look.found:
        if file.key in failures:
            files[file.key] = _failed(file, failures[file.key], sources.get(file.key))
    lading = {"table_id": table_id, "sequence": sequence}
    schema = _schema_section(config, look.config.name)
    old = look.manifest or SourceManifest(look.config.name, {})
    save(config.source_manifest(look.config.name), old.updated(files, schema=schema, lading=lading))


def _read(source: Source) -> FileEntry:
    return FileEntry(
        hash=source.hash,
        last_processed=source.processed_at,
        status=SUCCESS,
        metadata={"row_count": source.rows},
        sha256=source.sha256,
        size=source.size,
        mtime_ns=source.mtime_ns,
        racy=source.racy,
    )


def _failed(file: FoundFile, error: str, old: Source | None) -> FileEntry:
    return FileEntry(
        hash=file.hash,
        last_processed=old.processed_at if old is not None else "",
        status=FAILED,
        metadata={"row_count": old.rows if old is not None else 0},
        size=file.size,
        mtime_ns=file.mtime_ns,
        error=error,
    )


def _schema_section(config: Config, name: str) -> dict[str, str]:
    schema = load_schema(config.schema_file(name))
    if schema is None:
        return {}
    return {
        "generated_at": schema.generated_at,
        "output_path": f"schema/{name}.yaml",
        "combined_hash": schema.combined_hash,
    }
