"""Looking at one table without touching anything: its files, its log, its manifest, and the plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lading.config.project import Config
from lading.errors import LadingError
from lading.ingest.compare import Compared, compare
from lading.ingest.ledger import make_ledger
from lading.ingest.noop import is_quiet, quiet_plan
from lading.ingest.plan import Again, TablePlan, make_plan, with_waiting
from lading.ingest.recipe import only_relaxed, recipe_facts, recipe_of
from lading.ingest.schema import follows, is_as_configured, is_stale_for_good, pinned_columns, stale_note
from lading.ingest.table_run import TableRun, new_run_id, now_text
from lading.ingest.verdict import FileVerdict
from lading.layout.project import source_manifest
from lading.log.table import Table
from lading.model import FoundFile, Member, Source, StartSpark
from lading.sources.discover import discover_files, objects_of
from lading.sources.fingerprint import check_collisions
from lading.sources.found import keys_of
from lading.sources.manifest import load as load_source_manifest
from lading.sources.names import name_columns
from lading.sources.recipe import hashed
from lading.sources.schema import load_schema
from lading.watch import Watch

if TYPE_CHECKING:
    from lading.formats.evidence import FileEvidence
    from lading.ingest.schema import Followed

# The sources of files that are in the table, or set aside, and are as they were; by key, and from the
# beginning for each who asks.
There = Callable[[], Iterator[Source]]


def look(
    config: Config,
    name: str,
    *,
    full: bool = False,
    watch: Watch,
    start_spark: StartSpark | None = None,
    replay: Collection[str] | None = None,
    run_id: str | None = None,
    near: Collection[str] | None = None,
) -> TableRun:
    """Discover, compare and plan. Opens only files whose content decides their verdict. A run also lets
    archives be extracted and scripts be run: `start_spark` then gives it Spark, should one want it. `replay`
    are keys of which something is set aside and that are read again, empty for all of them. `near` are
    files that changed: where that can be, only those are looked at (ingest/near.py)."""
    cfg = config.table(name)
    try:
        if cfg.derived is not None:
            from lading.ingest.derived.look import look_derived  # late: few tables are

            made = TableRun(config, cfg, watch, None, start_spark, replay, run_id or new_run_id())
            return look_derived(made, full)
        objects = objects_of(config, cfg)
        run = TableRun(config, cfg, watch, objects, start_spark, replay, run_id or new_run_id())
        if near is not None and not full and replay is None:
            from lading.ingest.near import look_near  # late: only `lading watch` is told what changed

            planned = look_near(run, near)
            if planned is not None:
                return planned
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
    # Late, here and below: most looks end before the long way, which loads half of lading.
    from lading.ingest.expand import expand, without_hidden
    from lading.ingest.replay import read_again
    from lading.ingest.unpack import refused_keys

    section = run.manifest.preprocessing if run.manifest is not None else {}
    expanded = expand(run, run.found, section)
    found = expanded.found
    check_collisions(keys_of(found))
    ledger = make_ledger(run.manifest, run.opened.state if run.opened else None, source_manifest(cfg.name))
    ledger = replace(ledger, known=without_hidden(ledger.known, expanded.hidden))
    run.watch.phase(cfg.name, "plan")
    acts = run.start_spark is not None
    readable = acts or (run.objects is None and not expanded.waiting)
    run = replace(run, apart=expanded.apart)
    compared = compare(found, ledger.known, full=run.full)

    def there() -> Iterator[Source]:
        return compared.there(ledger.known)

    followed = _followed(run, found, there) if readable else None
    columns = followed.columns if followed is not None else pinned_columns(config, cfg)
    facts = recipe_facts(config, cfg, columns) if columns is not None else None
    current = hashed(facts) if facts is not None else None
    relaxed = only_relaxed(config, cfg, run.opened, run.manifest, columns, current)
    run = replace(
        run,
        ledger=ledger,
        known=read_again(
            compared.known, cfg, relaxed=relaxed, replay=run.replay, archives=refused_keys(section)
        ),
        found=found,
        compared=compared,
        columns=columns,
        recipe=current,
        preprocessing=expanded.preprocessing,
        made=expanded.made,
        refused=expanded.refused,
        followed=followed,
    )
    again = _again(run, full, there, None if relaxed else facts)
    aside = [FileVerdict(one.key, "quarantined", one.reason) for one in expanded.refused]
    return _with_stale(run, with_waiting(_plan(run, compared, again), [*expanded.waiting, *aside]))


def _followed(run: TableRun, found: Sequence[FoundFile], there: There) -> Followed | None:
    """What the files make of the schema, where they may, or where there is none although there is a table."""
    from lading.ingest.schema import Followed, follow, infer_schema, look_spec

    config, cfg, table = run.config, run.cfg, run.opened
    begun = table is not None and table.state.sequence > 0
    if not follows(cfg):
        missing = begun and found and pinned_columns(config, cfg) is None
        return Followed(infer_schema(run, found, now=now_text()), {}) if missing else None
    if not found and not begun:
        return None
    known: dict[str, FileEvidence] = {}
    if table is not None:
        from lading.ingest.evidence import kept_evidence

        spec = look_spec(cfg, load_schema(config.schema_file(cfg.name)))
        files = ((source.key, source.sha256) for source in there())
        known = kept_evidence(table.state.evidence(), files, spec)
    from lading.ingest.reread import columns_in

    has = columns_in(table.state.meta.facts) if table is not None and begun else None
    return follow(run, found, known, table=has, now=now_text())


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
    columns = pinned_columns(run.config, cfg)
    current = recipe_of(run.config, cfg, columns) if columns is not None else None
    if columns is None or current != table.state.meta.recipe or not is_as_configured(run.config, cfg):
        return None
    ledger = make_ledger(manifest, table.state, source_manifest(cfg.name))
    run = replace(run, ledger=ledger, columns=columns, recipe=current)
    return _with_stale(run, quiet_plan(cfg, run.found))


def _with_stale(run: TableRun, plan: TablePlan) -> TableRun:
    """The run with its plan, and what that says of a schema that is stale."""
    if run.followed is not None:
        plan = replace(plan, columns=run.followed.changes)
    stale = is_stale_for_good(run.config, run.cfg, run.found, plan, run.manifest)
    if stale and not follows(run.cfg):
        plan = replace(plan, notes=(stale_note(run.cfg),))
    return replace(run, plan=plan, stale=stale)


def _again(run: TableRun, full: bool, there: There, facts: bytes | None) -> Again | None:
    """What is read again although it is as it was, and why."""
    table, cfg = run.opened, run.cfg
    if table is None or table.state.sequence == 0:
        return None
    if full:
        return Again("--full: everything is read again")
    if run.ledger.reset is not None:
        return Again(run.ledger.reset)
    meta = table.state.meta
    if facts is None or run.recipe is None or run.recipe == meta.recipe:
        return None
    from lading.ingest.reread import Stored, Wanted, files_to_reread

    evidence = run.followed.evidence if run.followed is not None else {}
    wanted = Wanted(
        run.recipe,
        facts,
        cfg.order_by,
        cfg.checks,
        transformed=cfg.transform is not None,
        name_columns=name_columns(cfg.columns_from_name),
        rules=cfg.rules,
    )
    return files_to_reread(Stored(meta.recipe, meta.facts, there, evidence), wanted)


def _plan(run: TableRun, compared: Compared, again: Again | None) -> TablePlan:
    from lading.ingest.reread import columns_in

    table = run.opened
    has = columns_in(table.state.meta.facts) if table is not None else None
    reshapes = has is not None and run.columns is not None and run.columns != has

    def live(sources: frozenset[int] | None) -> list[Member]:
        if table is None:
            return []
        return table.state.candidates(None) if sources is None else table.state.members_of(sources)

    def planned(why: Again | None) -> TablePlan:
        return make_plan(
            run.name,
            compared,
            run.known,
            again=why,
            live=live,
            replace=run.cfg.replace,
            reshapes=reshapes,
        )

    plan = planned(again)
    if run.cfg.per == "table" and plan.changes_rows and not plan.replaces_all and table is not None:
        return planned(Again("the transform is `per: table`, so any change reads everything again"))
    return plan
