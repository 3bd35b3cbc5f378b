"""The log's frame for a run: parts added, parts replaced, sources read, in one atomic commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from lading.errors import Conflict, PartError, SourceError, TransformError
from lading.ingest.plan import recorded_hash, split_members, split_mixed
from lading.ingest.work import Prepared, Read, Work, now_text
from lading.model import Commit, FoundFile, Ingested, Member, Source
from lading.parts.rewrite import rewrite_members
from lading.sources.ids import source_id


def commit_rows(work: Work, prepared: Prepared, read: Read) -> tuple[Commit, tuple[FoundFile, ...]]:
    """One frame: parts added, replaced and subtracted from, sources read. Returns it and the files left
    out as moved."""
    plan, ingested = work.look.plan, read.ingested
    members, moved = without_moved(work, ingested.members if ingested else ())
    stay = {source_id(file.key) for file in moved}
    replaced = plan.replaced - stay
    drop, mixed = plan.drop, plan.rewrite
    if plan.reason is None:
        drop, mixed = split_members((*plan.drop, *plan.rewrite, *plan.subtract), replaced)
        mixed = tuple(member for member in mixed if member.counts_any(replaced))
    rewrite, subtract = split_mixed(mixed, work.look.config.replace)
    kept = _rewritten(work, rewrite, replaced)
    schema = _schema_change(work, prepared, ingested)
    commit = Commit(
        commit_id=work.commit_id,
        run_id=work.run_id,
        at=now_text(),
        recipe=prepared.recipe,
        add=(*members, *kept),
        remove=tuple(member.path for member in (*drop, *rewrite)),
        minus=tuple((member.path, _held(member, replaced)) for member in subtract),
        sources=_sources_read(work, prepared, members, read, stay) + noted(work),
        gone=tuple(source.id for source in plan.vanished),
        schema=schema,
        order_by=work.look.config.order_by if schema is not None else None,
    )
    return work.commit(commit), moved


def _held(member: Member, sources: frozenset[int]) -> tuple[int, ...]:
    return tuple(source for source, _ in member.sources if source in sources and source not in member.minus)


def commit_notes(work: Work) -> None:
    """A frame with sources only: no rows change, so no snapshot follows."""
    sources = noted(work)
    if sources:
        recipe = work.table.state.meta.recipe
        work.commit(Commit(work.commit_id, work.run_id, now_text(), recipe, sources=sources))


def noted(work: Work) -> tuple[Source, ...]:
    """Same bytes under a new fingerprint: recorded, not read; `last_processed` stays."""
    plan, known = work.look.plan, work.look.ledger.known
    pairs = ((file, known[file.key].source) for file in plan.note)
    return tuple(
        msgspec.structs.replace(
            source,
            hash=recorded_hash(file, plan.digests.get(file.key), full=work.look.full),
            mtime_ns=file.mtime_ns,
            racy=file.racy,
        )
        for file, source in pairs
        if source is not None
    )


def without_moved(
    work: Work, members: tuple[Member, ...]
) -> tuple[tuple[Member, ...], tuple[FoundFile, ...]]:
    """Leave out the rows of files that moved while they were read: their old rows stay."""
    moved = tuple(file for file in work.look.plan.read if not work.look.unmoved(file))
    if not moved:
        return members, ()
    if work.look.plan.reason is not None or work.look.config.per == "table":
        raise SourceError(
            f"{moved[0].key} changed while it was being read and everything is to be replaced at once",
            hint="run again when the file is complete; nothing was committed",
            table=work.name,
            file=moved[0].key,
        )
    ids = frozenset(source_id(file.key) for file in moved)
    mixed = [member for member in members if any(source in ids for source, _ in member.sources)]
    clean = [member for member in members if member not in mixed]
    return (*clean, *_rewritten(work, mixed, ids)), moved


def _schema_change(work: Work, prepared: Prepared, ingested: Ingested | None) -> bytes | None:
    meta = work.table.state.meta
    if ingested is None or ingested.schema == meta.schema:
        return None
    if meta.schema and prepared.recipe == meta.recipe and work.look.plan.reason is None:
        raise TransformError(
            "the transform gave other columns or types than before, although its code did not change",
            hint="make its output depend on the input columns only, not on the rows; or run with --full",
            table=work.name,
        )
    return ingested.schema


def _sources_read(
    work: Work, prepared: Prepared, members: Iterable[Member], read: Read, stay: set[int]
) -> tuple[Source, ...]:
    rows: Counter[int] = Counter()
    for member in members:
        rows.update(dict(member.sources))
    at = now_text()
    found = ((source_id(file.key), file) for file in work.look.plan.read)
    return tuple(
        Source(
            id=number,
            key=file.key,
            hash=recorded_hash(file, prepared.digests[file.key], full=work.look.full),
            sha256=prepared.digests[file.key].sha256,
            size=file.size,
            mtime_ns=file.mtime_ns,
            rows=rows[number],
            racy=file.racy,
            processed_at=at,
            archive=file.archive,
            rejected=aside.rows if (aside := read.rejected.get(number)) else 0,
            quarantine=aside.path if aside else None,
            aside=aside.whole if aside else None,
        )
        for number, file in found
        if number not in stay
    )


def _rewritten(work: Work, members: Iterable[Member], drop: frozenset[int]) -> list[Member]:
    several = list(members)
    try:
        return rewrite_members(
            work.table.place,
            several,
            drop,
            table_id=work.table.table_id,
            run_id=work.run_id,
            commit_id=work.commit_id,
            order_by=work.look.config.order_by,
        )
    except PartError as error:
        if work.table.holds([member.path for member in several]):
            raise
        raise Conflict(
            f"somebody else replaced parts of {work.name} that this run was rewriting, and they were cleaned",
            hint="run again: it will plan from there",
        ) from error
