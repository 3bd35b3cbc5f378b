"""Looking at a table's files for its schema, and writing it down where that is due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from lading.config.project import Config, TableConfig
from lading.errors import ConfigError, LadingError
from lading.ingest.expand import expand
from lading.ingest.record import schema_section
from lading.ingest.schema import infer_schema, is_stale, one_column_note, pinned_columns, says_the_same
from lading.ingest.table_run import TableRun, now_text
from lading.log.table import Table
from lading.model import Column, FoundFile, StartSpark
from lading.sources.discover import discover_files, objects_of
from lading.sources.manifest import SourceManifest
from lading.sources.manifest import load as load_source_manifest
from lading.sources.manifest import save as save_source_manifest
from lading.sources.schema import TableSchema, load_schema, save_schema
from lading.watch import Watch


@dataclass(frozen=True, slots=True)
class SchemaReport:
    """What became of one table's schema file."""

    table: str
    path: Path
    state: Literal["fresh", "stale", "generated", "failed"]
    columns: tuple[Column, ...] = ()
    because: Mapping[str, str] | None = None
    looked_at: str = ""
    changes: tuple[str, ...] = ()  # against the file that was there
    error: LadingError | None = None
    notes: tuple[str, ...] = ()  # for people


def discover_schemas(
    config: Config,
    names: Sequence[str] = (),
    *,
    full_scan: bool = False,
    check: bool = False,
    watch: Watch,
    session: StartSpark,
) -> list[SchemaReport]:
    """Generate the schemas that are missing or stale; with `check` only say which those are."""
    reports = []
    of_files = [name for name, table in config.tables.items() if table.derived is None]
    for name in [config.table(name).name for name in names] or of_files:
        cfg = config.table(name)
        try:
            if cfg.derived is not None:
                raise ConfigError(
                    f"{name} is made of other tables: its columns are those of its query's result",
                    hint="name a table of files",
                )
            reports.append(_discover(config, cfg, full_scan, watch, None if check else session))
        except LadingError as error:
            error.table = error.table or name
            reports.append(SchemaReport(name, config.schema_file(name), "failed", error=error))
    return reports


def _discover(
    config: Config, cfg: TableConfig, full_scan: bool, watch: Watch, act: StartSpark | None
) -> SchemaReport:
    watch.phase(cfg.name, "discover")
    path = config.schema_file(cfg.name)
    old = load_schema(path)
    run, found = _found(config, cfg, watch, act)
    if old is not None and found is not None and not full_scan and not _is_due(config, cfg, old, found):
        return SchemaReport(cfg.name, path, "fresh", old.columns, old.because, old.looked_at)
    if act is None:
        due = old is None or found is None or _is_due(config, cfg, old, found)
        return SchemaReport(cfg.name, path, "stale" if due else "fresh")
    assert found is not None, "archives that are opened are not waiting"
    schema = infer_schema(run, found, now=now_text(), full_scan=full_scan)
    if old is not None and says_the_same(old, schema):
        return SchemaReport(cfg.name, path, "fresh", old.columns, old.because, old.looked_at)
    save_schema(path, schema)
    _record(config, cfg)
    return SchemaReport(
        cfg.name,
        path,
        "generated",
        schema.columns,
        schema.because,
        schema.looked_at,
        _changes(old, schema),
        notes=tuple(one_column_note(cfg, schema.columns)),
    )


def _is_due(config: Config, cfg: TableConfig, old: TableSchema, found: Sequence[FoundFile]) -> bool:
    if cfg.spec is not None:
        return old.columns != pinned_columns(config, cfg)
    return is_stale(old, found)


def _found(
    config: Config, cfg: TableConfig, watch: Watch, act: StartSpark | None
) -> tuple[TableRun, Sequence[FoundFile] | None]:
    """The files that the table is made of; None while archives wait to be opened by somebody who may."""
    objects = objects_of(config, cfg)
    manifest = load_source_manifest(config.source_manifest(cfg.name))
    section = manifest.preprocessing if manifest is not None else {}
    listed = discover_files(config, cfg, objects)
    run = TableRun(config, cfg, watch, objects, act)
    expanded = expand(run, listed, section)
    return replace(run, apart=expanded.apart), None if expanded.waiting else expanded.found


def _record(config: Config, cfg: TableConfig) -> None:
    """The manifest names the schema, as the seed's does. A missing one asks for the table to be read again,
    and one that a person edited for some of it: those are left for the run that answers."""
    path = config.source_manifest(cfg.name)
    manifest = load_source_manifest(path)
    if manifest is None:
        place = config.place(cfg.name)
        if Table.exists(place) and Table.open(place).state.sequence > 0:
            return
        manifest = SourceManifest(cfg.name, {})
    if manifest.as_written:
        schema = schema_section(config, cfg.name)
        save_source_manifest(path, manifest.updated({}, schema=schema), manifest.entries())


def _changes(old: TableSchema | None, new: TableSchema) -> tuple[str, ...]:
    if old is None:
        return ()
    before = {column.name: column.type for column in old.columns}
    after = {column.name: column.type for column in new.columns}
    changes = [f"{name}: {before[name]} is gone" for name in before if name not in after]
    changes += [f"{name}: {kind} is new" for name, kind in after.items() if name not in before]
    changes += [
        f"{name}: {before[name]} becomes {kind}"
        for name, kind in after.items()
        if name in before and before[name] != kind
    ]
    return tuple(changes)
