"""Looking at one table without touching anything: its files, its log, its manifest, and the plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lading.config.project import Config, TableConfig
from lading.errors import LadingError
from lading.ingest.expand import expand, without_hidden
from lading.ingest.ledger import Ledger, make_ledger, read_again
from lading.ingest.plan import FileVerdict, TablePlan, judge, make_plan, to_compare, with_waiting
from lading.ingest.quiet import is_quiet, quiet_ledger, quiet_plan
from lading.ingest.recipe import current_recipe, only_relaxed, recipe_of
from lading.ingest.schema import evolution_of, is_stale_for_good, stale_note
from lading.ingest.setting import Refused, Setting
from lading.ingest.unpack import refused_keys
from lading.layout.project import source_manifest
from lading.log.table import Table
from lading.model import Column, Digest, FoundFile, Member, StartSpark
from lading.sources.discover import digests_of, discover_files, objects_of
from lading.sources.fingerprint import check_collisions, unmoved
from lading.sources.manifest import SourceManifest
from lading.sources.manifest import load as load_source_manifest
from lading.sources.objects import Objects
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
    refused: tuple[Refused, ...] = ()  # archives that are set aside
    evolution: Evolution | None = None  # how `columns` differ from the schema file, which a run then writes
    stale: bool = False  # whether the schema is, though there is nothing to read
    settled: bool = True  # whether the log has what the plan says of the files found

    @property
    def full(self) -> bool:
        return self.config.fingerprint == "full"

    @property
    def preprocessing_changed(self) -> bool:
        return self.preprocessing != (self.manifest.preprocessing if self.manifest is not None else {})

    @property
    def unsettled(self) -> Look:
        """What may be recorded before the run is done: an archive that was refused only now is tried again,
        and counted again, if the run fails; a file that was found is not yet the one that was read."""
        fresh = {one.key for one in self.refused if one.fresh}
        old = {key: entry for key, entry in self.preprocessing.items() if key not in fresh}
        return replace(self, preprocessing=old, settled=False)

    def forget(self) -> None:
        """Let go of what every file was compared with, once the outcome is recorded: the snapshot that is
        built next takes as much again."""
        self.ledger.forget()
        if self.manifest is not None:
            self.manifest.forget()

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
    act: StartSpark | None = None,
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


def _look(
    config: Config,
    cfg: TableConfig,
    full: bool,
    watch: Watch,
    act: StartSpark | None,
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
    expanded = expand(Setting(config, cfg, watch, objects, act, replay), listed, section)
    found = expanded.found
    check_collisions(file.key for file in found)
    ledger = make_ledger(manifest, table.state if table else None, source_manifest(cfg.name))
    ledger = replace(ledger, known=without_hidden(ledger.known, expanded.hidden))
    watch.phase(cfg.name, "plan")
    readable = act is not None or (objects is None and not expanded.waiting)
    if objects is not None and act is not None and not config.schema_file(cfg.name).exists():
        objects.fetch([file for file in found if file.archive is None])  # the schema is inferred over all
    columns, current = current_recipe(config, cfg, table, found if readable else [])
    relaxed = only_relaxed(config, cfg, table, manifest, columns, current)
    ledger = read_again(ledger, cfg, relaxed=relaxed, replay=replay, archives=refused_keys(section))
    compare = to_compare(found, ledger.known, full=cfg.fingerprint == "full")
    digests = digests_of(cfg, compare) if compare else {}
    reason = _why_all(full, ledger, table, None if relaxed else current)
    evolution = None
    if readable and cfg.drift == "evolve" and columns is not None:
        # What is read again may not have been read under these columns, or only in part.
        fresh = found if reason is not None else _to_read(cfg, found, ledger, digests)
        evolution = _evolution(config, cfg, columns, fresh, found, objects)
    if evolution is not None:
        columns, current = evolution.columns, recipe_of(config, cfg, evolution.columns)
        reason = _why_all(full, ledger, table, current, evolution)
    plan = _plan(cfg, table, ledger, found, digests, reason)
    aside = [FileVerdict(one.key, "quarantined", one.reason) for one in expanded.refused]
    plan = with_waiting(plan, [*expanded.waiting, *aside])
    stale = is_stale_for_good(config, cfg, found, plan, manifest)
    plan = replace(plan, notes=(stale_note(cfg),)) if stale and cfg.drift != "evolve" else plan
    return Look(
        cfg, table, manifest, ledger, found, columns, current, plan,
        expanded.preprocessing, expanded.made, objects, expanded.refused, evolution, stale,
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
    columns, current = current_recipe(config, cfg, table, [])
    if columns is None or current != table.state.meta.recipe:
        return None
    plan = quiet_plan(cfg, found)
    stale = is_stale_for_good(config, cfg, found, plan, manifest)
    if stale and cfg.drift != "evolve":
        plan = replace(plan, notes=(stale_note(cfg),))
    ledger = quiet_ledger(manifest, table, source_manifest(cfg.name))
    return Look(cfg, table, manifest, ledger, found, columns, current, plan, stale=stale)


def _to_read(
    cfg: TableConfig, found: list[FoundFile], ledger: Ledger, digests: dict[str, Digest]
) -> list[FoundFile]:
    full = cfg.fingerprint == "full"
    return [
        file
        for file in found
        if judge(file, ledger.known.get(file.key), digests.get(file.key), full=full).verdict
        in ("new", "changed", "failed")
    ]


def _evolution(
    config: Config,
    cfg: TableConfig,
    columns: tuple[Column, ...],
    fresh: list[FoundFile],
    found: list[FoundFile],
    objects: Objects | None,
) -> Evolution | None:
    """What files that are about to be read under the pinned columns make of them."""

    def fetch(files: Sequence[FoundFile]) -> None:
        if objects is not None:
            objects.fetch([file for file in files if file.archive is None])

    return evolution_of(config, cfg, columns, fresh, found, fetch)


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
