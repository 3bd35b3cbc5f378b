"""Folds small parts into larger ones, bucket by bucket, and drops for good what no longer counts.

A fold is a few parts of one bucket that lie next to each other in key order. It is planned from the
log alone, and carried out by the same code that a Spark task writes its parts with: rows are sorted in
bounded memory, runs go to disk. So it makes no difference to the result where a fold runs: small work
is done here, large work is handed out by Spark (spark/tasks.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lading.errors import PartError
from lading.layout.table import is_passing
from lading.model import Bound, Member, Place, Zone
from lading.parts.cut import Limits
from lading.parts.footer import Origin
from lading.parts.footer_zones import FooterZones
from lading.parts.live import columns_to_read, without_sources
from lading.parts.open import open_parquet, row_batches, shown_path
from lading.parts.passing import passing_batches
from lading.parts.schema import conformed
from lading.parts.task import MEMORY, TaskSpec, sorted_tables, written
from lading.parts.write import ROW_GROUP, PartWriter
from lading.zones.bounds import from_bound

TARGET_SIZE = 128 << 20  # bytes of a part

_FOLD_PARTS = 8  # of the target size: what one fold reads at most


class Fold(msgspec.Struct, frozen=True):
    """Parts of one bucket that become fewer."""

    bucket: int
    members: tuple[Member, ...]
    low: Bound | None = None  # only rows with a key from here on, below `high`
    high: Bound | None = None

    @property
    def bytes(self) -> int:
        return sum(member.bytes for member in self.members)

    @property
    def rows(self) -> int:
        return sum(member.live_rows for member in self.members)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(member.path for member in self.members)


@dataclass(frozen=True, slots=True)
class FoldSpec:
    """What all folds of one merge have in common; travels to Spark's workers."""

    table_dir: Place
    origin: Origin
    schema: bytes  # Arrow IPC schema of the table
    target: int = TARGET_SIZE
    memory: int = MEMORY


def plan_folds(members: Iterable[Member], target: int = TARGET_SIZE) -> list[Fold]:
    """What is worth folding, by bucket: parts below half the target size if they become fewer, and every
    part with rows that no longer count. Any other bucket is left alone."""
    buckets: defaultdict[int, list[Member]] = defaultdict(list)
    for member in members:
        if member.minus or member.bytes * 2 < target:
            buckets[member.bucket].append(member)
    found = []
    for bucket, several in sorted(buckets.items()):
        found += [Fold(bucket, group) for group in _groups(several, target) if _worthwhile(group, target)]
    return found


def fold_parts(fold: Fold, spec: FoldSpec) -> list[Member]:
    """The parts that replace those of the fold: the rows that count, sorted, in files of the target size."""
    task = TaskSpec(
        table_dir=spec.table_dir,
        origin=spec.origin,
        schema=spec.schema,
        bucket_size=None,
        memory=spec.memory,
        limits=Limits(bytes=spec.target),
        bucket=fold.bucket,
        replaces=fold.paths,
    )
    schema = pa.ipc.read_schema(pa.py_buffer(spec.schema))
    keys = Range(spec.origin.order_by, fold.low, fold.high)
    members = written(live_batches(spec.table_dir, fold.members, schema, keys), task)
    tiers = {member.tier for member in fold.members}
    return [msgspec.structs.replace(member, tier=max(tiers)) for member in members]


def merge_files(members: Sequence[Member], spec: FoldSpec, path: str) -> Member:
    """All rows of `members` as one file at `path`, sorted by the key if there is one."""
    schema = pa.ipc.read_schema(pa.py_buffer(spec.schema))
    batches = live_batches(spec.table_dir, members, schema)
    key = spec.origin.order_by
    tables = (
        sorted_tables(batches, schema, [key], spec.memory)
        if key is not None
        else (pa.Table.from_batches([batch]) for batch in batches)
    )
    replaces = [member.path for member in members]
    writer = PartWriter(spec.table_dir, 0, schema, spec.origin, path=path, replaces=replaces)
    try:
        for table in tables:
            writer.write(table)
    except BaseException:
        writer.abort()
        raise
    return msgspec.structs.replace(writer.close(), tier=max(member.tier for member in members))


@dataclass(frozen=True, slots=True)
class Range:
    """Rows with a key from `low` on and below `high`; None: no end there. NaN is beyond all numbers."""

    key: str | None = None
    low: Bound | None = None
    high: Bound | None = None

    def groups(self, file: pq.ParquetFile) -> list[int] | None:
        """The row groups that may hold such rows; None for all."""
        if self.key is None or (self.low is None and self.high is None):
            return None
        zones = FooterZones(file.metadata, file.schema_arrow).groups(self.key)
        return [number for number, zone in enumerate(zones) if self._meets(zone)]

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Those of some rows that are sorted by the key."""
        if self.key is None:
            return rows
        keys = rows.column(self.key)
        start = 0 if self.low is None else _below(keys, self.low)
        end = rows.num_rows if self.high is None else _below(keys, self.high)
        return rows.slice(start, max(0, end - start))

    def _meets(self, zone: Zone | None) -> bool:
        if zone is None or zone.min is None or zone.max is None:
            return True
        least: Any = zone.min
        most: Any = zone.max
        # A zone says nothing of NaN, which the last range takes.
        return (self.high is None or least < self.high) and (
            self.low is None or self.high is None or most >= self.low
        )


def _below(keys: pa.Array, bound: Bound) -> int:
    """How many keys are less."""
    return int(pc.less(keys, from_bound(bound, keys.type)).true_count)


def live_batches(
    table_dir: Place, members: Sequence[Member], schema: pa.Schema, keys: Range | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of `members` that count, one member after the other, in the table's terms; with `keys` only
    those of a range."""
    keys = keys or Range()
    for member in members:
        path = shown_path(table_dir, member.path)
        try:
            for batch in _stored(table_dir, member, schema, keys):
                rows = keys.of(conformed(without_sources(batch, member.minus), schema, path))
                if rows.num_rows:
                    yield rows
        except (OSError, pa.ArrowException) as error:
            raise PartError(
                f"the part {path} can't be read: {error}",
                hint="nothing was merged; `lading collection check` lists what is damaged",
                file=path,
            ) from error


def _stored(table_dir: Place, member: Member, schema: pa.Schema, keys: Range) -> Iterator[pa.RecordBatch]:
    if is_passing(member.path):
        yield from passing_batches(table_dir, member.path)
        return
    with open_parquet(table_dir, member.path, member.bytes) as file:
        own = file.schema_arrow.names
        columns = columns_to_read(own, schema.names, sources=bool(member.minus)) or own[:1]
        groups = keys.groups(file)
        yield from row_batches(table_dir, file, ROW_GROUP // 2, groups=groups, columns=columns)


def _groups(members: list[Member], target: int) -> Iterator[tuple[Member, ...]]:
    """Neighbours in key order, no more of them than one fold should read."""
    group: list[Member] = []
    size = 0
    for member in sorted(members, key=_by_key):
        if group and size + member.bytes > _FOLD_PARTS * target:
            yield tuple(group)
            group, size = [], 0
        group.append(member)
        size += member.bytes
    if group:
        yield tuple(group)


def _by_key(member: Member) -> tuple[bool, object, str]:
    return (member.key_min is not None, member.key_min, member.path)


def _worthwhile(group: tuple[Member, ...], target: int) -> bool:
    if any(member.minus for member in group):
        return True
    if len(group) < 2:
        return False
    sources = {source for member in group for source, _ in member.sources}
    rows = sum(member.rows for member in group)
    limits = Limits(bytes=target)
    least = max(
        _ceiling(sum(member.bytes for member in group), limits.bytes),
        _ceiling(len(sources), limits.sources),
        _ceiling(rows, limits.rows),
    )
    return least < len(group)


def _ceiling(amount: int, most: int) -> int:
    return -(-amount // most)
