"""Looking at one table without touching anything: its files, its log, its manifest, and the plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lading.catalog.table import Table
from lading.config.archives import UNZIP
from lading.config.project import Config, TableConfig
from lading.errors import ArchiveRefused, ConfigError, LadingError, SourceError
from lading.model import Column, Digest, FoundFile, Member
from lading.plan import FileVerdict, TablePlan, judge, make_plan, to_compare, with_waiting
from lading.sources.discover import discover
from lading.sources.fingerprint import digest, digest_all, unmoved
from lading.sources.ids import check_collisions
from lading.sources.manifest import SourceManifest
from lading.sources.manifest import load as load_source_manifest
from lading.sources.objects import Objects
from lading.sources.preprocess import load_script
from lading.sources.recipe import recipe, transform_source
from lading.steps.again import read_again
from lading.steps.expand import Expander, Session, without_hidden
from lading.steps.ledger import Ledger, make_ledger
from lading.steps.quiet import is_quiet, quiet_ledger, quiet_plan
from lading.steps.rules import relaxes, rules_of
from lading.steps.schema import evolution_of, infer_columns, layout_of, pinned_columns, stale_note
from lading.storage.objects import ObjectStorage
from lading.watch import Watch

if TYPE_CHECKING:
    from lading.sources.evolve import Evolution


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
    preprocessing: dict[str, Any] = field(default_factory=dict)  # for manifest/<table>.json
    made: bool = False  # whether archives were extracted or scripts run for this look
    objects: Objects | None = None  # where the files are, when they are in a bucket
    refused: tuple[ArchiveRefused, ...] = ()  # archives that were set aside, each named by `file`
    evolution: Evolution | None = None  # how `columns` differ from the schema file, which a run then writes

    @property
    def full(self) -> bool:
        return self.config.fingerprint == "full"

    @property
    def preprocessing_changed(self) -> bool:
        return self.manifest is not None and self.preprocessing != self.manifest.preprocessing

    def fetch(self, files: Sequence[FoundFile], tick: Callable[[int], None] | None = None) -> None:
        """Files in a bucket are copied here before anybody opens them."""
        if self.objects is not None:
            self.objects.fetch([file for file in files if file.archive is None], tick)

    def unmoved(self, file: FoundFile) -> bool:
        """Whether a file still is what discovery saw. Members are lading's own copies of what it was."""
        if self.objects is not None and file.archive is None:
            return self.objects.unmoved(file)
        return unmoved(file)


def look(
    config: Config,
    name: str,
    *,
    full: bool = False,
    watch: Watch,
    act: Session | None = None,
    replay: Collection[str] | None = None,
) -> Look:
    """Discover, compare and plan. Opens only files whose content decides their verdict. A run also lets
    archives be extracted and scripts be run: `act` then gives it Spark, should one want it. `replay` are
    keys of which something is set aside and that are read again, empty for all of them."""
    cfg = config.table(name)
    try:
        return _look(config, cfg, full, watch, act, replay)
    except LadingError as error:
        error.table = error.table or name
        raise


def digests_of(
    cfg: TableConfig, files: Sequence[FoundFile], tick: Callable[[int], None] | None = None
) -> dict[str, Digest]:
    encoding = str(cfg.read_options.get("encoding") or "utf-8").lower()
    utf8 = cfg.format != "parquet" and encoding in ("utf-8", "utf8", "utf_8")
    try:
        return digest_all(files, utf8=utf8, tick=tick)
    except SourceError:
        if cfg.on_bad != "quarantine":
            raise
    return {file.key: _tolerant_digest(file, utf8) for file in files}


def _tolerant_digest(file: FoundFile, utf8: bool) -> Digest:
    """A file that can't be decompressed still has bytes, and so a fingerprint to be set aside under."""
    try:
        return digest(file.path, utf8=utf8)
    except SourceError as error:
        return replace(digest(file.path, utf8=False), unreadable=error.message)


def recipe_of(
    config: Config, cfg: TableConfig, columns: tuple[Column, ...], *, rules: str | None = ""
) -> str:
    """`rules` are those of other times, in the form that manifest/<table>.json keeps; empty: today's."""
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
        preprocess=_preprocess_code(config, cfg),
        rules=rules_of(cfg.checks) if rules == "" else rules,
        layout=layout_of(config, cfg),
        drift=cfg.drift,
    )


def _preprocess_code(config: Config, cfg: TableConfig) -> str | None:
    spec = cfg.preprocess
    return None if spec is None or spec.action == UNZIP else load_script(config.project, spec).made_by


def discover_files(config: Config, cfg: TableConfig, objects: Objects | None) -> list[FoundFile]:
    if objects is not None:
        found = objects.discover(cfg.path)
        _refuse_own_files(config, ((file.key, f"{objects.url}/{file.key}") for file in found))
        return found
    found = discover(cfg.root, cfg.path, now_ns=time.time_ns())
    if any(_may_meet(cfg.root, own) for own in (config.warehouse, config.cache)):
        _refuse_own_files(config, ((file.key, file.path) for file in found))
    return found


def _may_meet(root: Path, own: object) -> bool:
    path = Path(str(own))
    return path.is_relative_to(root) or root.is_relative_to(path)


def _look(
    config: Config,
    cfg: TableConfig,
    full: bool,
    watch: Watch,
    act: Session | None,
    replay: Collection[str] | None,
) -> Look:
    watch.phase(cfg.name, "discover")
    objects = objects_of(config, cfg)
    listed = discover_files(config, cfg, objects)
    watch.progress(cfg.name, "files found", len(listed), None)
    folder = config.place(cfg.name)
    table = Table.open(folder) if Table.exists(folder) else None
    manifest = load_source_manifest(config.source_manifest(cfg.name))
    quick = _quick_look(config, cfg, table, manifest, listed) if not full and replay is None else None
    if quick is not None:
        watch.phase(cfg.name, "plan")
        return quick
    section = manifest.preprocessing if manifest is not None else {}
    expander = Expander(config, cfg, watch, objects, act, set_aside=cfg.on_bad == "quarantine")
    expanded = expander.expand(listed, section)
    found = expanded.found
    check_collisions(file.key for file in found)
    ledger = make_ledger(manifest, table.state if table else None, f"manifest/{cfg.name}.json")
    ledger = replace(ledger, known=without_hidden(ledger.known, expanded.hidden))
    watch.phase(cfg.name, "plan")
    readable = act is not None or (objects is None and not expanded.waiting)
    if objects is not None and act is not None and not config.schema_file(cfg.name).exists():
        objects.fetch([file for file in found if file.archive is None])  # the schema is inferred over all
    columns, current = _recipe(config, cfg, table, found if readable else [])
    relaxed = _only_relaxed(config, cfg, table, manifest, columns, current)
    ledger = read_again(ledger, cfg, relaxed=relaxed, replay=replay)
    compare = to_compare(found, ledger.known, full=cfg.fingerprint == "full")
    digests = digests_of(cfg, compare) if compare else {}
    evolution = _evolution(cfg, columns, found, ledger, digests, objects) if readable else None
    if evolution is not None:
        columns, current = evolution.columns, recipe_of(config, cfg, evolution.columns)
        relaxed = False
    reason = _why_all(full, ledger, table, None if relaxed else current, evolution)
    plan = _plan(cfg, table, ledger, found, digests, reason)
    aside = [FileVerdict(str(one.file), "quarantined", one.message) for one in expanded.refused]
    plan = with_waiting(plan, [*expanded.waiting, *aside])
    stale = stale_note(config, cfg, found, plan, manifest)
    plan = replace(plan, notes=(stale,)) if stale else plan
    return Look(
        cfg, table, manifest, ledger, found, columns, current, plan,
        expanded.preprocessing, expanded.made, objects, expanded.refused, evolution,
    )  # fmt: skip


def _quick_look(
    config: Config,
    cfg: TableConfig,
    table: Table | None,
    manifest: SourceManifest | None,
    found: list[FoundFile],
) -> Look | None:
    """What the long way comes to when nothing has changed; None when it has to be gone."""
    if table is None or manifest is None or not is_quiet(cfg, table, manifest, found):
        return None
    columns, current = _recipe(config, cfg, table, [])
    if columns is None or current != table.state.meta.recipe:
        return None
    plan = quiet_plan(cfg, found)
    stale = stale_note(config, cfg, found, plan, manifest)
    ledger = quiet_ledger(manifest, table, f"manifest/{cfg.name}.json")
    return Look(
        cfg, table, manifest, ledger, found, columns, current, replace(plan, notes=(stale,) if stale else ())
    )


def objects_of(config: Config, cfg: TableConfig) -> Objects | None:
    """The bucket that a table's files are in; None when they are in a folder."""
    return None if cfg.url is None else Objects(ObjectStorage(cfg.url, config.s3), cfg.root)


def _refuse_own_files(config: Config, found: Iterable[tuple[str, str]]) -> None:
    """A glob that reaches into the warehouse or the cache would feed a table its own parts."""
    own = (f"{config.warehouse}/", f"{config.cache}/")
    for key, path in found:
        if path.startswith(own):
            raise ConfigError(
                f"`path` matches {path}, which lading itself wrote",
                hint="set `root` to the folder of the raw files, or narrow `path`, in lading.yaml",
                file=key,
            )


def _recipe(
    config: Config, cfg: TableConfig, table: Table | None, found: list[FoundFile]
) -> tuple[tuple[Column, ...] | None, str | None]:
    columns = pinned_columns(config, cfg)
    if columns is None and table is not None and table.state.sequence > 0 and found:
        columns = infer_columns(cfg, found).columns
    if columns is None:
        return None, None
    return columns, recipe_of(config, cfg, columns)


def _only_relaxed(
    config: Config,
    cfg: TableConfig,
    table: Table | None,
    manifest: SourceManifest | None,
    columns: tuple[Column, ...] | None,
    current: str | None,
) -> bool:
    """Whether the recipe differs from the log's by checks alone, and those let every row of the table in:
    then only what was set aside is read again. The manifest's word on the old checks has to fit the log's
    recipe, or it doesn't count."""
    if table is None or manifest is None or columns is None or current in (None, table.state.meta.recipe):
        return False
    old = manifest.lading.get("rules")
    if not isinstance(old, str | None) or not relaxes(old, rules_of(cfg.checks)):
        return False
    return recipe_of(config, cfg, columns, rules=old) == table.state.meta.recipe


def _evolution(
    cfg: TableConfig,
    columns: tuple[Column, ...] | None,
    found: list[FoundFile],
    ledger: Ledger,
    digests: dict[str, Digest],
    objects: Objects | None,
) -> Evolution | None:
    """What files that were never read under the pinned columns make of them, if the table lets them."""
    if cfg.drift != "evolve" or columns is None:
        return None

    def fetch(files: Sequence[FoundFile]) -> None:
        if objects is not None:
            objects.fetch([file for file in files if file.archive is None])

    full = cfg.fingerprint == "full"
    fresh = [
        file
        for file in found
        if judge(file, ledger.known.get(file.key), digests.get(file.key), full=full).verdict
        in ("new", "changed", "failed")
    ]
    return evolution_of(cfg, columns, fresh, found, fetch)


def _why_all(
    full: bool,
    ledger: Ledger,
    table: Table | None,
    current: str | None,
    evolution: Evolution | None = None,
) -> str | None:
    if table is None or table.state.sequence == 0:
        return None
    if evolution is not None:
        return f"the schema evolves: {'; '.join(evolution.changes)}"
    if full:
        return "--full: everything is read again"
    if ledger.reset is not None:
        return ledger.reset
    if current is not None and current != table.state.meta.recipe:
        return (
            "the recipe changed (schema, transform, checks, read options, order, bucket size or format): "
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
            cfg.name,
            found,
            ledger.known,
            digests,
            full=cfg.fingerprint == "full",
            reason=why,
            live=live,
            replace=cfg.replace,
        )

    plan = planned(reason)
    if cfg.per == "table" and plan.changes_rows and reason is None and table is not None:
        return planned("the transform is per: table: any change reads everything again")
    return plan
