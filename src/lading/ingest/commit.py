"""The log's frame for a run: parts added, parts replaced, sources read, in one atomic commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

import msgspec

from lading.errors import CommitUnknown, Conflict, LadingError, PartError, SourceError, TransformError
from lading.ingest.derived.inputs import told as told_inputs
from lading.ingest.plan import parts_to_change
from lading.ingest.prepare import Prepared
from lading.ingest.read import FilesRead
from lading.ingest.recipe import recipe_facts
from lading.ingest.schema import look_spec
from lading.ingest.table_run import TableRun, now_text
from lading.ingest.tasks.outcome import Ingested
from lading.ingest.tasks.task import FEW_SLOTS, table_schema
from lading.ingest.verdict import recorded_hash
from lading.log.state import TableState
from lading.log.table import Table
from lading.model import Commit, FoundFile, Looked, Member, Slots, Source
from lading.parts.field_ids import numbered, same_columns
from lading.parts.rewrite import rewrite_members
from lading.sources.fingerprint import source_id
from lading.sources.recipe import hashed

_ONE_BY_ONE = 64  # sources that are looked up sooner than all are walked


def commit_rows(run: TableRun, prepared: Prepared, read: FilesRead) -> tuple[Commit, tuple[FoundFile, ...]]:
    """One frame: parts added, replaced and subtracted from, sources read, as the plan has it. Decided anew
    only where files moved meanwhile, and their old rows stay. Returns it and the files left out as moved."""
    plan, ingested = run.plan, read.ingested
    members, moved = without_moved(run, ingested.members if ingested else (), read.moved)
    stay = {source_id(file.key) for file in moved}
    replaced, drop, rewrite, subtract = plan.replaced, plan.drop, plan.rewrite, plan.subtract
    if moved:
        replaced -= stay
        drop, rewrite, subtract = parts_to_change((*drop, *rewrite, *subtract), replaced, run.cfg.replace)
    schema = _schema_change(run, prepared, ingested)
    kept = _rewritten(run, rewrite, replaced, schema or run.table.state.schema)
    commit = Commit(
        commit_id=run.commit_id,
        run_id=run.run_id,
        at=now_text(),
        recipe=prepared.recipe,
        add=(*members, *kept),
        remove=tuple(member.path for member in (*drop, *rewrite)),
        minus=tuple((member.path, _held(member, replaced)) for member in subtract),
        sources=_sources_read(run, members, read, stay) + noted(run),
        gone=tuple(source.id for source in plan.vanished),
        schema=schema,
        order_by=run.cfg.order_by if schema is not None else None,
        facts=_facts_change(run, prepared.facts),
        evidence=_evidence(run, read, stay),
        inputs=_inputs_change(run),
    )
    run.commits.append(commit_keeping(run.table, commit, run.kept))
    return run.commits[-1], moved


def _held(member: Member, sources: frozenset[int]) -> tuple[int, ...]:
    return tuple(source for source, _ in member.sources if source in sources and source not in member.minus)


def commit_notes(run: TableRun) -> None:
    """A frame with what is known of sources, and of a recipe that gives the same rows: none of them changes,
    so no snapshot follows."""
    meta, columns = run.table.state.meta, run.columns
    facts = recipe_facts(run.config, run.cfg, columns) if columns is not None and meta.sequence else None
    told = _facts_change(run, facts) if facts is not None else None
    sources, evidence, inputs = noted(run), _evidence(run, None, set()), _inputs_change(run)
    if not sources and not evidence and told is None and inputs is None:
        return
    recipe = meta.recipe if told is None else hashed(told)
    commit = Commit(
        run.commit_id,
        run.run_id,
        now_text(),
        recipe,
        sources=sources,
        facts=told,
        evidence=evidence,
        inputs=inputs,
    )
    run.commits.append(commit_keeping(run.table, commit, run.kept))


def _facts_change(run: TableRun, facts: bytes) -> bytes | None:
    """What the recipe is made of, where the log doesn't have it."""
    return None if facts == run.table.state.meta.facts else facts


def _inputs_change(run: TableRun) -> bytes | None:
    """What the table is made from by now, if the log says otherwise: a table of files that was made of tables
    once is made from none."""
    said = run.table.state.meta.inputs
    now = run.derived.inputs if run.derived is not None else said and told_inputs(())
    return None if now == said else now


def _evidence(run: TableRun, read: FilesRead | None, moved: set[int]) -> tuple[Looked, ...]:
    """What a look at files has found, for the log: of those that are in it by now."""
    if run.followed is None or not run.followed.fresh:
        return ()
    from lading.ingest.evidence import to_keep

    fresh = {key: one for key, one in run.followed.fresh.items() if source_id(key) not in moved}
    held = ((key, run.table.state.source(source_id(key))) for key in fresh)
    content = {key: source.sha256 for key, source in held if source is not None}
    if read is not None:
        content |= {key: digest.sha256 for key, digest in read.digests.items()}
    return to_keep(fresh, content, look_spec(run.cfg, run.followed.schema))


def commit_keeping(table: Table, commit: Commit, kept: set[str]) -> Commit:
    """Commit, and add what was committed to `kept`. What may have been committed is kept as well: only a
    refusal makes its files losers."""
    files = {member.path for member in commit.add}
    files |= {source.quarantine for source in commit.sources if source.quarantine is not None}
    fresh = files - kept
    kept.update(fresh)
    try:
        return table.commit(commit)
    except CommitUnknown:
        raise
    except (LadingError, OSError):
        kept.difference_update(fresh)
        raise


def noted(run: TableRun) -> tuple[Source, ...]:
    """Same bytes under a new fingerprint: recorded, not read; `last_processed` stays."""
    plan, known = run.plan, run.known
    slots = _slots_in_log(run.table.state, [source_id(file.key) for file in plan.note])
    pairs = ((file, known[file.key].source) for file in plan.note)
    return tuple(
        msgspec.structs.replace(
            source,
            hash=recorded_hash(file, plan.digests.get(file.key), full=run.full),
            mtime_ns=file.mtime_ns,
            racy=file.racy,
            slots=slots.get(source.id, ()),
        )
        for file, source in pairs
        if source is not None
    )


def _slots_in_log(state: TableState, sources: Collection[int]) -> dict[int, Slots]:
    """The slots that the log has noted of some sources: what is known of them may be from the source
    manifest, which tells none."""
    if len(sources) <= _ONE_BY_ONE:
        found = (source for one in sources if (source := state.source(one)) is not None)
    else:
        wanted = frozenset(sources)
        found = (source for source, _ in state.sources_by_key() if source.id in wanted)
    return {source.id: source.slots for source in found}


def without_moved(
    run: TableRun, members: tuple[Member, ...], known: frozenset[int] = frozenset()
) -> tuple[tuple[Member, ...], tuple[FoundFile, ...]]:
    """Leave out the rows of files that moved while they were read: their old rows stay. Of some that is
    `known` already, by their sources."""
    moved = tuple(file for file in run.plan.read if source_id(file.key) in known or not run.unmoved(file))
    if not moved:
        return members, ()
    if run.plan.replaces_all or run.cfg.per == "table":
        raise SourceError(
            f"{moved[0].key} changed while it was being read and this run replaces everything at once",
            hint="run again when the file is complete; nothing was committed",
            table=run.name,
            file=moved[0].key,
        )
    ids = frozenset(source_id(file.key) for file in moved)
    mixed = [member for member in members if any(source in ids for source, _ in member.sources)]
    clean = [member for member in members if member not in mixed]
    return (*clean, *_rewritten(run, mixed, ids)), moved


def _schema_change(run: TableRun, prepared: Prepared, ingested: Ingested | None) -> bytes | None:
    meta = run.table.state.meta
    if ingested is None:
        if run.cfg.transform is not None or not run.plan.reshapes:
            return None
        schema = numbered(table_schema(prepared.columns), meta.schema)  # no row was read for it
        told: bytes = schema.serialize().to_pybytes()
        return None if same_columns(told, meta.schema) else told
    if same_columns(ingested.schema, meta.schema):
        return None
    if meta.schema and prepared.recipe == meta.recipe and not run.plan.replaces_all:
        raise TransformError(
            "the transform returned different columns or types than before, although its code did not change",
            hint="make its output depend on the input columns only, not on the rows; or run with --full",
            table=run.name,
        )
    return ingested.schema


def _sources_read(
    run: TableRun, members: Iterable[Member], read: FilesRead, stay: set[int]
) -> tuple[Source, ...]:
    rows: Counter[int] = Counter()
    for member in members:
        rows.update(dict(member.sources))
    at = now_text()
    found = ((source_id(file.key), file) for file in run.plan.read)
    return tuple(
        Source(
            id=number,
            key=file.key,
            hash=recorded_hash(file, read.digests[file.key], full=run.full),
            sha256=read.digests[file.key].sha256,
            size=file.size,
            mtime_ns=file.mtime_ns,
            rows=rows[number],
            racy=file.racy,
            processed_at=at,
            archive=file.archive,
            rejected=aside.rows if (aside := read.rejected.get(number)) else 0,
            quarantine=aside.path if aside else None,
            aside=aside.whole if aside else None,
            slots=_slots(read.ingested, number, rows[number]),
        )
        for number, file in found
        if number not in stay
    )


def _slots(ingested: Ingested | None, source: int, rows: int) -> Slots:
    """Where its rows are, for tables that are made of this one; where some of them did not stay after all,
    nothing is said."""
    read = ingested.files.get(source) if ingested is not None else None
    noted = read.slots.items() if read is not None else ()
    few = ((cut, held) for cut, held in noted if len(held) <= FEW_SLOTS and sum(held.values()) == rows)
    return tuple((cut, tuple(sorted(held.items()))) for cut, held in sorted(few))


def _rewritten(
    run: TableRun, members: Iterable[Member], drop: frozenset[int], schema: bytes = b""
) -> list[Member]:
    """`schema`: of the table, for parts that may be older than it."""
    several = list(members)
    try:
        return rewrite_members(
            run.table.place,
            several,
            drop,
            table_id=run.table.table_id,
            run_id=run.run_id,
            commit_id=run.commit_id,
            order_by=run.cfg.order_by,
            schema=schema,
        )
    except PartError as error:
        if run.table.holds([member.path for member in several]):
            raise
        raise Conflict(
            f"someone else replaced parts of {run.name} that this run was rewriting, and they were cleaned",
            hint="run again: it will plan from the new state",
        ) from error
