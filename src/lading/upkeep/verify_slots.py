"""Sampled slots of a table made of tables, compared with what its whole query gives for them.

The query is evaluated as a whole over the snapshots that the table names, so a query that is not cut by its
slots shows.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lading.errors import LadingError, ManifestGone
from lading.ingest.derived.evaluate import asked, whole_rows
from lading.ingest.derived.inputs import opened, pins_of
from lading.ingest.derived.recipe import what_changed
from lading.ingest.prepare import ingest_job, prepare
from lading.ingest.table_run import TableRun
from lading.layout.table import SOURCE
from lading.log.table import Table
from lading.model import Source, StartSpark
from lading.parts.rows import WantedRows, read_part
from lading.read.scan import table_schema
from lading.upkeep.same_rows import Row, plain_rows, same_rows
from lading.upkeep.verify import Verified

SAMPLE = 8
_ROWS = 200_000  # of the sampled slots: they are compared in memory


def verify_slots(seen: TableRun, table: Table, found: Verified, session: StartSpark) -> None:
    """Adds to what `verify` found."""
    sources = [source for source, _ in table.state.sources_by_key()]
    if not sources or seen.derived is None:
        return
    if seen.recipe != table.state.meta.recipe:
        changed = what_changed(table.state.meta.facts, seen.derived.facts)
        found.note("source", f"{changed}: no slot is compared before a run", f"lading run {seen.name}")
        return
    sample = _sample(sources, table.state.sequence)
    if not any(map(_given, sample)) and any(map(_given, sources)):
        told = f"no slot that has rows is compared: each has more than {_ROWS:,}"
        found.note("source", told, "to have some compared, make them smaller: `by`, `slots`")
    if not sample:
        return
    seen.watch.phase(found.table, "evaluate again")
    try:
        fresh = _evaluated(seen, table, sample, session)
        held = _held(table, sample)
    except ManifestGone:
        found.note(
            "source", "the snapshots that it was made from are no longer kept", f"lading run {seen.name}"
        )
        return
    except LadingError as error:
        found.failed("source", error)
        return
    found.count("slots evaluated again", len(sample))
    for source in sample:
        mine, theirs = held.get(source.id, []), fresh.get(source.id, [])
        if not same_rows(mine, theirs, aside=source.rejected):
            aside = f" and {source.rejected:,} set aside" if source.rejected else ""
            found.wrong(
                "source",
                f"{source.key} has {len(mine):,} rows{aside}; the whole query gives others ({len(theirs):,})",
                "the query is not cut by its `by` columns: cut it otherwise, or set slots: 1; then: "
                f"lading run {seen.name} --full",
                source.key,
            )


def _given(source: Source) -> int:
    """How many rows the query gives of a slot: those that its checks set aside, too."""
    return source.rows + source.rejected


def _sample(sources: Sequence[Source], seed: int) -> list[Source]:
    """Slots with rows first: one without any says less."""
    shuffled = random.Random(seed).sample(sources, len(sources))
    chosen: list[Source] = []
    left = _ROWS
    for source in sorted(shuffled, key=lambda one: _given(one) == 0):
        if len(chosen) < SAMPLE and _given(source) <= left:
            chosen.append(source)
            left -= _given(source)
    return chosen


def _evaluated(
    seen: TableRun, table: Table, sample: Sequence[Source], session: StartSpark
) -> dict[int, list[Row]]:
    """The rows that the whole query gives, of the sampled slots."""
    assert seen.derived is not None
    refs = {name: pin.ref for name, pin in pins_of(table.state.meta.inputs).items()}
    job = ingest_job(seen, prepare(seen, ()))
    with opened(seen.derived.shown, refs) as inputs:
        question, _ = asked(seen, inputs, None)
        rows = whole_rows(session, job, question, [source.id for source in sample])
    return _by_source(rows)


def _held(table: Table, sample: Sequence[Source]) -> dict[int, list[Row]]:
    schema = table_schema(table.state)
    ids = [source.id for source in sample]

    def batches() -> Iterator[pa.RecordBatch]:
        for member in table.state.members_of(ids):
            for batch in read_part(table.place, member, WantedRows(schema, schema.names)):
                wanted = pc.is_in(batch.column(SOURCE), pa.array(ids, pa.int64()))
                yield batch.filter(wanted)

    return _by_source(pa.Table.from_batches(batches(), schema))


def _by_source(table: pa.Table) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    rows = plain_rows(table.drop_columns([SOURCE]))
    for source, row in zip(table[SOURCE].to_pylist(), rows, strict=True):
        found.setdefault(source, []).append(row)
    return found
