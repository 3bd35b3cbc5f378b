"""Looking at one table without touching anything: its files, its log, its manifest, and the plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lading.catalog.table import Table
from lading.config import Config, TableConfig
from lading.errors import ConfigError, LadingError
from lading.model import Column, Digest, FoundFile, Member
from lading.plan import TablePlan, make_plan, to_compare
from lading.sources.discover import discover
from lading.sources.fingerprint import digest_all
from lading.sources.ids import check_collisions
from lading.sources.manifest import SourceManifest
from lading.sources.manifest import load as load_source_manifest
from lading.sources.names import name_columns
from lading.sources.recipe import recipe, transform_source
from lading.sources.schema import load_schema
from lading.steps.ledger import Ledger, make_ledger
from lading.watch import Watch


@dataclass(frozen=True, slots=True)
class Look:
    """One table as a run finds it."""

    config: TableConfig
    table: Table | None  # None before the first run
    manifest: SourceManifest | None
    ledger: Ledger
    found: list[FoundFile]
    columns: tuple[Column, ...] | None  # None: no schema yet and nothing committed under one
    recipe: str | None
    plan: TablePlan

    @property
    def full(self) -> bool:
        return self.config.fingerprint == "full"


def look(config: Config, name: str, *, full: bool = False, watch: Watch) -> Look:
    """Discover, compare and plan. Opens only files whose content decides their verdict."""
    cfg = config.table(name)
    try:
        return _look(config, cfg, full, watch)
    except LadingError as error:
        error.table = error.table or name
        raise


def digests_of(
    cfg: TableConfig, files: Sequence[FoundFile], tick: Callable[[int], None] | None = None
) -> dict[str, Digest]:
    encoding = str(cfg.read_options.get("encoding") or "utf-8").lower()
    utf8 = cfg.format in ("csv", "tsv", "json") and encoding in ("utf-8", "utf8", "utf_8")
    return digest_all(files, utf8=utf8, tick=tick)


def infer_columns(cfg: TableConfig, found: list[FoundFile]) -> tuple[Column, ...]:
    from lading.sources.infer import infer  # pyarrow: only when there is something to infer

    names = name_columns(cfg.columns_from_name)
    return infer(found, format=cfg.format, read_options=cfg.read_options, name_columns=names)


def recipe_of(config: Config, cfg: TableConfig, columns: tuple[Column, ...]) -> str:
    _, function, code = (
        transform_source(config.project, cfg.transform) if cfg.transform else (None, None, None)
    )
    return recipe(
        columns=columns,
        format=cfg.format,
        read_options=cfg.read_options,
        columns_from_name=cfg.columns_from_name,
        order_by=cfg.order_by,
        bucket_size=cfg.bucket_size,
        transform_name=function,
        transform_code=code,
        per=cfg.per,
    )


def _look(config: Config, cfg: TableConfig, full: bool, watch: Watch) -> Look:
    watch.phase(cfg.name, "discover")
    found = discover(cfg.root, cfg.path, now_ns=time.time_ns())
    check_collisions(file.key for file in found)
    _refuse_own_files(config, found)
    watch.progress(cfg.name, "files found", len(found), None)
    folder = config.table_dir(cfg.name)
    table = Table.open(folder) if Table.exists(folder) else None
    manifest = load_source_manifest(config.source_manifest(cfg.name))
    ledger = make_ledger(manifest, table.state if table else None, f"manifest/{cfg.name}.json")
    watch.phase(cfg.name, "plan")
    compare = to_compare(found, ledger.known, full=cfg.fingerprint == "full")
    digests = digests_of(cfg, compare) if compare else {}
    columns, current = _recipe(config, cfg, table, found)
    plan = _plan(cfg, table, ledger, found, digests, _why_all(full, ledger, table, current))
    return Look(cfg, table, manifest, ledger, found, columns, current, plan)


def _refuse_own_files(config: Config, found: list[FoundFile]) -> None:
    """A glob that reaches into the warehouse or the cache would feed a table its own parts."""
    own = (f"{config.warehouse}/", f"{config.cache}/")
    for file in found:
        if file.path.startswith(own):
            raise ConfigError(
                f"`path` matches {file.path}, which lading itself wrote",
                hint="set `root` to the folder of the raw files, or narrow `path`, in lading.yaml",
                file=file.key,
            )


def _recipe(
    config: Config, cfg: TableConfig, table: Table | None, found: list[FoundFile]
) -> tuple[tuple[Column, ...] | None, str | None]:
    schema = load_schema(config.schema_file(cfg.name))
    if schema is not None:
        columns = schema.columns
    elif table is not None and table.state.sequence > 0 and found:
        columns = infer_columns(cfg, found)
    else:
        return None, None
    return columns, recipe_of(config, cfg, columns)


def _why_all(full: bool, ledger: Ledger, table: Table | None, current: str | None) -> str | None:
    if table is None or table.state.sequence == 0:
        return None
    if full:
        return "--full: everything is read again"
    if ledger.reset is not None:
        return ledger.reset
    if current is not None and current != table.state.meta.recipe:
        return (
            "the recipe changed (schema, transform, read options, order, bucket size or format): "
            "everything is read again"
        )
    return None


def _plan(
    cfg: TableConfig,
    table: Table | None,
    ledger: Ledger,
    found: list[FoundFile],
    digests: dict[str, Digest],
    reason: str | None,
) -> TablePlan:
    def live(sources: frozenset[int] | None) -> list[Member]:
        if table is None:
            return []
        return table.state.candidates(None) if sources is None else table.state.members_of(sources)

    def planned(why: str | None) -> TablePlan:
        return make_plan(
            cfg.name, found, ledger.known, digests, full=cfg.fingerprint == "full", reason=why, live=live
        )

    plan = planned(reason)
    if cfg.per == "table" and plan.changes_rows and reason is None and table is not None:
        return planned("the transform is per: table: any change reads everything again")
    return plan
