"""Looking at one table without touching anything: its files, its log, its manifest, and the plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lading.config.project import Config
from lading.errors import LadingError
from lading.ingest.expand import expand, without_hidden
from lading.ingest.ledger import Ledger, make_ledger
from lading.ingest.noop import is_quiet, quiet_ledger, quiet_plan
from lading.ingest.plan import FileVerdict, TablePlan, make_plan, to_compare, verdict_on, with_waiting
from lading.ingest.recipe import current_recipe, only_relaxed, recipe_of
from lading.ingest.replay import read_again
from lading.ingest.schema import evolution_of, is_stale_for_good, pinned_columns, stale_note
from lading.ingest.table_run import TableRun, new_run_id
from lading.ingest.unpack import refused_keys
from lading.layout.project import source_manifest
from lading.log.table import Table
from lading.model import Digest, FoundFile, Member, StartSpark
from lading.sources.archives.scratch import scratch
from lading.sources.discover import discover_files, objects_of
from lading.sources.fingerprint import check_collisions, digest_all
from lading.sources.manifest import load as load_source_manifest
from lading.watch import Watch

if TYPE_CHECKING:
    from lading.sources.evolve import Evolution


def look(
    config: Config,
    name: str,
    *,
    full: bool = False,
    watch: Watch,
    start_spark: StartSpark | None = None,
    replay: Collection[str] | None = None,
    run_id: str | None = None,
) -> TableRun:
    """Discover, compare and plan. Opens only files whose content decides their verdict. A run also lets
    archives be extracted and scripts be run: `start_spark` then gives it Spark, should one want it. `replay`
    are keys of which something is set aside and that are read again, empty for all of them."""
    cfg = config.table(name)
    try:
        objects = objects_of(config, cfg)
        run = TableRun(config, cfg, watch, objects, start_spark, replay, run_id or new_run_id())
        return _planned(run, full)
    except LadingError as error:
        error.table = error.table or name
        raise


def _planned(run: TableRun, full: bool) -> TableRun:
    config, cfg = run.config, run.cfg
    run = _discovered(run)
    if not full and run.replay is None and (quick := _quick_look(run)) is not None:
        run.watch.phase(cfg.name, "plan")
        return quick
    section = run.manifest.preprocessing if run.manifest is not None else {}
    expanded = expand(run, run.found, section)
    found = expanded.found
    check_collisions(file.key for file in found)
    ledger = make_ledger(run.manifest, run.opened.state if run.opened else None, source_manifest(cfg.name))
    ledger = replace(ledger, known=without_hidden(ledger.known, expanded.hidden))
    run.watch.phase(cfg.name, "plan")
    acts = run.start_spark is not None
    readable = acts or (run.objects is None and not expanded.waiting)
    run = replace(run, apart=expanded.apart)
    with run.at_hand(found if readable and _infers(run) else []) as at_hand:
        columns, current = current_recipe(config, cfg, run.opened, at_hand)
    relaxed = only_relaxed(config, cfg, run.opened, run.manifest, columns, current)
    ledger = read_again(ledger, cfg, relaxed=relaxed, replay=run.replay, archives=refused_keys(section))
    compare = to_compare(found, ledger.known, full=run.full)
    digests = digest_all(compare) if compare else {}
    reason = _why_all(full, ledger, run.opened, None if relaxed else current)
    evolution = None
    if readable and cfg.policy.follows and columns is not None:
        # What is read again may not have been read under these columns, or only in part.
        fresh = found if reason is not None else _to_read(found, ledger, digests, full=run.full)
        with scratch():
            evolution = evolution_of(config, cfg, columns, fresh, found, run.fetch)
    if evolution is not None:
        columns, current = evolution.columns, recipe_of(config, cfg, evolution.columns)
        reason = _why_all(full, ledger, run.opened, current, evolution)
    run = replace(
        run,
        ledger=ledger,
        found=found,
        columns=columns,
        recipe=current,
        preprocessing=expanded.preprocessing,
        made=expanded.made,
        refused=expanded.refused,
        evolution=evolution,
    )
    aside = [FileVerdict(one.key, "quarantined", one.reason) for one in expanded.refused]
    return _with_stale(run, with_waiting(_plan(run, digests, reason), [*expanded.waiting, *aside]))


def _infers(run: TableRun) -> bool:
    """Whether the columns of a table that has some are asked of its files."""
    opened = run.opened
    return opened is not None and opened.state.sequence > 0 and pinned_columns(run.config, run.cfg) is None


def _discovered(run: TableRun) -> TableRun:
    """With the files that are listed, the log and the source manifest."""
    config, name = run.config, run.cfg.name
    run.watch.phase(name, "discover")
    listed = discover_files(config, run.cfg, run.objects)
    run.watch.progress(name, "files found", len(listed), None)
    folder = config.place(name)
    return replace(
        run,
        found=listed,
        opened=Table.open(folder) if Table.exists(folder) else None,
        manifest=load_source_manifest(config.source_manifest(name)),
    )


def _quick_look(run: TableRun) -> TableRun | None:
    """What the long way comes to when nothing has changed; None when it has to be gone."""
    cfg, table, manifest = run.cfg, run.opened, run.manifest
    if table is None or manifest is None or not is_quiet(cfg, table, manifest, run.found):
        return None
    columns, current = current_recipe(run.config, cfg, table, [])
    if columns is None or current != table.state.meta.recipe:
        return None
    ledger = quiet_ledger(manifest, table, source_manifest(cfg.name))
    run = replace(run, ledger=ledger, columns=columns, recipe=current)
    return _with_stale(run, quiet_plan(cfg, run.found))


def _with_stale(run: TableRun, plan: TablePlan) -> TableRun:
    """The run with its plan, and what that says of a schema that is stale."""
    stale = is_stale_for_good(run.config, run.cfg, run.found, plan, run.manifest)
    if stale and not run.cfg.policy.follows:
        plan = replace(plan, notes=(stale_note(run.cfg),))
    return replace(run, plan=plan, stale=stale)


def _to_read(
    found: list[FoundFile], ledger: Ledger, digests: Mapping[str, Digest], *, full: bool
) -> list[FoundFile]:
    return [
        file
        for file in found
        if verdict_on(file, ledger.known.get(file.key), digests.get(file.key), full=full).verdict
        in ("new", "changed", "failed")
    ]


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


def _plan(run: TableRun, digests: dict[str, Digest], reason: str | None) -> TablePlan:
    table = run.opened

    def live(sources: frozenset[int] | None) -> list[Member]:
        if table is None:
            return []
        return table.state.candidates(None) if sources is None else table.state.members_of(sources)

    def planned(why: str | None) -> TablePlan:
        return make_plan(
            run.name,
            run.found,
            run.ledger.known,
            digests,
            full=run.full,
            reason=why,
            live=live,
            replace=run.cfg.replace,
        )

    plan = planned(reason)
    if run.cfg.per == "table" and plan.changes_rows and reason is None and table is not None:
        return planned("the transform is `per: table`, so any change reads everything again")
    return plan
