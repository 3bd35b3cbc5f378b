"""A table's rows on their way into shards: read from parts, routed, keys and values as bytes.

Runs in Spark's Python workers and, for the few keys of a small change, on the driver. No Spark in here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lading.errors import PartError
from lading.layout.table import NOBODY, SOURCE
from lading.model import Member, Place, Source
from lading.parts.live import columns_to_read, of_sources, without_sources
from lading.parts.open import open_parquet, row_batches, shown_path
from lading.parts.schema import conformed
from lading.serve.routing import Router
from lading.serve.routing_arrays import routing_columns, shards_of, stored_keys
from lading.serve.spec import ServeSpec
from lading.serve.values import encoded_values, rank_bytes

_BATCH = 65_536  # rows
_HINT = "`lading verify` lists what is damaged; `lading run --full` builds the table again from its sources"


@dataclass(frozen=True, slots=True)
class PartRows:
    """Some rows of one part: all but those of `without`, or those of `only` alone."""

    path: str  # relative to the table's folder
    without: tuple[int, ...] = ()
    only: tuple[int, ...] | None = None
    sources: Mapping[int, str] = field(default_factory=dict)  # id -> key, where rows may have to be ranked


def rows_schema(spec: ServeSpec) -> pa.Schema:
    """What a row is on its way: its key and value, and what ranks it among equal keys."""
    fields = [("k", _key_type(spec)), ("v", pa.binary())]
    if spec.latest:
        fields += [("o", pa.binary()), ("s", pa.binary())]
    return pa.schema(fields)


def sort_order(spec: ServeSpec) -> list[str]:
    """By which columns of `rows_schema` rows are sorted. The value comes last: of rows that are equal in
    all else one wins, and always the same."""
    return ["k", "o", "s", "v"] if spec.latest else ["k", "v"]


def routed_rows(
    table_dir: Place, parts: Sequence[PartRows], schema: pa.Schema, spec: ServeSpec, slots: np.ndarray
) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
    """The rows of `parts` that belong to shards with a slot, with the shard of each; `slots[db]` is -1 for
    shards that stay."""
    for part in parts:
        for batch in _batches(table_dir, part, schema, spec.columns()):
            shards = shards_of(spec.router, batch)
            wanted = slots[shards] >= 0
            if not wanted.all():
                batch, shards = batch.filter(pa.array(wanted)), shards[wanted]
            if batch.num_rows:
                yield shards, _row_batch(batch, spec, part)


def shards_touched(
    table_dir: Place, parts: Sequence[PartRows], schema: pa.Schema, router: Router
) -> Iterator[int]:
    """The shards that rows of `parts` belong to; only what decides on that is read."""
    seen: set[int] = set()
    for part in parts:
        for batch in _batches(table_dir, part, schema, routing_columns(router)):
            found = set(np.unique(shards_of(router, batch)).tolist()) - seen
            seen |= found
            yield from found
            if len(seen) == router.num_dbs:
                return


def keys_of(spec: ServeSpec, column: pa.Array) -> pa.Array:
    """Stored keys of the `k` of routed rows."""
    return stored_keys(spec.key, [column]) if pa.types.is_integer(column.type) else column


def _row_batch(batch: pa.RecordBatch, spec: ServeSpec, part: PartRows) -> pa.RecordBatch:
    key_columns = [batch.column(name) for name in spec.key.columns]
    stored = stored_keys(spec.key, key_columns)  # here, so that a key that can't be stored fails early
    integer = pa.types.is_integer(_key_type(spec))
    keys = key_columns[0].cast(pa.int64()) if integer else stored
    values = encoded_values(batch.select(list(spec.value)), spec.encoding).cast(pa.binary())
    arrays = [keys, values]
    if spec.latest:
        order = batch.column(spec.order_by) if spec.order_by else None
        ranks = pa.array([b""] * batch.num_rows, pa.binary()) if order is None else rank_bytes(order)
        found = batch.column(SOURCE).dictionary_encode()
        names = [part.sources.get(number, "").encode() for number in found.dictionary.to_pylist()]
        sources = pa.DictionaryArray.from_arrays(found.indices, pa.array(names, pa.binary()))
        arrays += [ranks.cast(pa.binary()), sources.dictionary_decode()]
    return pa.RecordBatch.from_arrays(arrays, schema=rows_schema(spec))


def _key_type(spec: ServeSpec) -> pa.DataType:
    # Whole numbers travel as such: they are sorted faster than bytes.
    return pa.int64() if not spec.key.is_composite and spec.key.kinds[0] == "int" else pa.binary()


def _batches(
    table_dir: Place, part: PartRows, schema: pa.Schema, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    path = shown_path(table_dir, part.path)
    needed = pa.schema([schema.field(name) for name in dict.fromkeys(columns)])
    by_source = bool(part.without) or part.only is not None
    try:
        with open_parquet(table_dir, part.path) as file:
            own = file.schema_arrow.names
            present = columns_to_read(own, needed.names, sources=by_source) or own[:1]
            for batch in row_batches(table_dir, file, _BATCH, columns=present):
                rows = _counting(batch, part)
                if rows.num_rows:
                    yield conformed(rows, needed, path, _HINT)
    except (OSError, pa.ArrowException) as error:
        raise PartError(f"the part {path} can't be read: {error}", hint=_HINT, file=path) from error


def _counting(rows: pa.RecordBatch, part: PartRows) -> pa.RecordBatch:
    rows = without_sources(rows, part.without)
    return rows if part.only is None else of_sources(rows, part.only)


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows to look at for their keys."""

    gone: tuple[PartRows, ...]
    come: tuple[PartRows, ...]
    bytes: int  # of the parts they lie in


def changed_sources(old: Iterable[Source], new: Iterable[Source]) -> frozenset[int]:
    """Sources whose rows may differ: read anew, retracted, or new."""
    before, after = {_reading(source) for source in old}, {_reading(source) for source in new}
    return frozenset({reading[0] for reading in before ^ after} | {NOBODY})


def changed_rows(old: Iterable[Member], new: Iterable[Member], sources: frozenset[int]) -> Changes:
    """The rows of `sources` that one side has and the other lacks."""
    before = {member.path: member for member in old}
    after = {member.path: member for member in new}
    gone, come, size = [], [], 0
    for path in sorted(before.keys() | after.keys()):
        one, other = before.get(path), after.get(path)
        lost = _live(one, sources) - _live(other, sources)
        found = _live(other, sources) - _live(one, sources)
        if lost:
            gone.append(PartRows(path, only=tuple(sorted(lost))))
        if found:
            come.append(PartRows(path, only=tuple(sorted(found))))
        if lost or found:
            size += (one or other).bytes if one is not None or other is not None else 0  # type: ignore[union-attr]
    return Changes(tuple(gone), tuple(come), size)


def _reading(source: Source) -> tuple[int, str, str, int]:
    # A touched file keeps the time it was read at; one that was read again does not.
    return (source.id, source.sha256, source.processed_at, source.rows)


def _live(member: Member | None, sources: frozenset[int]) -> set[int]:
    if member is None:
        return set()
    return {source for source, _ in member.sources if source in sources and source not in member.minus}
