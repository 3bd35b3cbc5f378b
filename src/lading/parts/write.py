"""Writes parts: the one place where a Parquet file of a table comes into being.

A part is written under a hidden name, synced, renamed and only then spoken of, so a listed part is
whole; one for a bucket is written here and uploaded under its name when it is complete. Its name
carries a token of the run in its first 48 bits: what a killed run leaves behind can be told from other
runs' parts by name alone. While it is written, everything that the log wants to know of it (zones,
sources, key and tick range) is gathered, so nobody has to open it again for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lading import clock
from lading.layout.table import SOURCE, part_path
from lading.model import Bound, Member, Zone
from lading.parts.facts import Facts
from lading.parts.footer import Origin
from lading.parts.sort import is_whole
from lading.storage.place import Where, storage_of
from lading.zones.bounds import merge_zones, tick_of, to_bound, zone_of

ROW_GROUP = 131_072  # rows: what a lookup has to decode at most
FIRST = 16_384  # rows that tell whether values repeat


class Described:
    """All that the log wants to know of a part, gathered from its rows."""

    def __init__(
        self, path: str, bucket: int, schema: pa.Schema, origin: Origin, *, zones: bool = True
    ) -> None:
        self.path = path
        self.rows = 0
        self.sources: Counter[int] = Counter()
        self._bucket = bucket
        self._order_by = origin.order_by
        self._order_type = schema.field(origin.order_by).type if origin.order_by else None
        self._zones = {field.name: _ZoneSum() for field in schema if zones}
        self._keys: list[Bound] = []  # least and greatest of the rows so far

    def describe(self, table: pa.Table, facts: Facts | None = None) -> None:
        """More rows; `facts` is what is known of them already."""
        self.rows += table.num_rows
        known = facts.zones if facts is not None else {}
        for name, zones in self._zones.items():
            zones.add(known[name] if name in known else zone_of(table.column(name)), table.num_rows)
        if facts is not None:
            self.sources.update(facts.sources)
        elif SOURCE in table.schema.names:
            counts = pc.value_counts(table.column(SOURCE))
            sources, rows = counts.field("values").to_pylist(), counts.field("counts").to_pylist()
            self.sources.update(dict(zip(sources, rows, strict=True)))
        if self._order_by:
            # Not the zone's ends: those may be cut short, and a lookup needs them exact.
            ends = pc.min_max(table.column(self._order_by))
            found = [to_bound(ends[end], self._order_type) for end in ("min", "max")]
            keys: list[Any] = [*self._keys, *(key for key in found if key is not None)]
            self._keys = [min(keys), max(keys)] if keys else []

    def member(self, size: int) -> Member:
        key_min, key_max = self._keys or (None, None)
        return Member(
            path=self.path,
            rows=self.rows,
            bytes=size,
            bucket=self._bucket,
            tick_min=0 if self._order_type is None else tick_of(key_min, self._order_type),
            tick_max=0 if self._order_type is None else tick_of(key_max, self._order_type),
            key_min=key_min,
            key_max=key_max,
            created_at=clock.now().isoformat(timespec="microseconds"),
            zones={name: zone for name, sums in self._zones.items() if (zone := sums.zone()) is not None},
            sources=tuple(sorted(self.sources.items())),
        )


class PartWriter(Described):
    """One part under construction: `write` sorted rows, then `close`, or `abort` to leave nothing."""

    def __init__(
        self,
        table_dir: Where,
        bucket: int,
        schema: pa.Schema,
        origin: Origin,
        *,
        path: str | None = None,
        replaces: Sequence[str] = (),
        passing: bool = False,
    ) -> None:
        """`path`, relative to the table, is for who wants a name of their own: FileExistsError from `close`
        if somebody else was quicker to take it; `replaces` are the members whose rows it holds, for who has
        nothing left but the files. A `passing` one is read once, by a fold of the same run: quick to write,
        neither small nor durable, and described by its keys only."""
        super().__init__(path or part_path(bucket, origin.run_id), bucket, schema, origin, zones=not passing)
        self._passing = passing
        self._origin = origin
        self._replaces = replaces
        self._schema = schema
        self._storage = storage_of(table_dir)
        self._draft = self._storage.draft(self.path)
        self._sink = pa.OSFile(str(self._draft), "wb")
        self._writer: pq.ParquetWriter | None = None  # made with the first rows: they say how to encode

    @property
    def bytes(self) -> int:
        """What has reached the file so far."""
        return int(self._sink.tell())

    def write(self, table: pa.Table, facts: Facts | None = None) -> None:
        """Append rows, in order, as one or more row groups; `facts` is what is known of them already."""
        self._writer = self._writer or self._started(table, facts)
        self._writer.write_table(table, row_group_size=ROW_GROUP)
        self.describe(table, facts)

    def close(self) -> Member:
        """Make the part durable under its own name and describe it."""
        try:
            writer = self._writer = self._writer or self._started(self._schema.empty_table())
            writer.add_key_value_metadata(self._origin.notes(self._replaces))
            writer.close()
            self._sink.close()
            size = self._draft.stat().st_size
            self._storage.keep(self._draft, self.path, durable=not self._passing)
        except BaseException:
            self.abort()
            raise
        return self.member(size)

    def abort(self) -> None:
        """Drop what was written."""
        if self._writer is not None:
            self._writer.is_open = False  # or it would try to write a footer when it is collected
        try:
            self._sink.close()
        finally:
            self._draft.unlink(missing_ok=True)

    def _started(self, first: pa.Table, facts: Facts | None = None) -> pq.ParquetWriter:
        key = self._origin.order_by
        if self._passing:
            return pq.ParquetWriter(
                self._sink,
                self._schema,
                compression="lz4",
                use_dictionary=False,
                column_encoding=_by_difference(self._schema),
                write_statistics=[key] if key else False,
            )
        return pq.ParquetWriter(
            self._sink,
            self._schema,
            compression="zstd",
            use_dictionary=_worth_a_dictionary(first, facts.repeating if facts is not None else {}),
            write_statistics=True,
            write_page_index=True,
            sorting_columns=_sorting(self._schema, key),
        )


class _ZoneSum:
    """The zone of a column over several writes."""

    def __init__(self) -> None:
        self._zone: Zone | None = None
        self._only_nulls = 0  # rows of the writes that were null throughout: they bound nothing
        self._unordered = False

    def add(self, zone: Zone | None, rows: int) -> None:
        if zone is None:
            self._unordered = True
        elif zone.nulls == rows:
            self._only_nulls += rows
        else:
            self._zone = zone if self._zone is None else merge_zones([self._zone, zone])

    def zone(self) -> Zone | None:
        if self._unordered:
            return None
        if self._zone is None:
            return Zone(None, None, self._only_nulls)
        nulls = None if self._zone.nulls is None else self._zone.nulls + self._only_nulls
        return Zone(self._zone.min, self._zone.max, nulls)


def _by_difference(schema: pa.Schema) -> dict[str, str] | None:
    """Columns of whole numbers, each to be encoded by its difference from the one before. Quick, and small
    where they are sorted; but not every program can read it, so only for parts that nobody else sees."""
    # A name with a point may be what Parquet calls a field inside of another column.
    named = [field.name for field in schema if is_whole(field.type) and "." not in field.name]
    return dict.fromkeys(named, "DELTA_BINARY_PACKED") or None


def _sorting(schema: pa.Schema, order_by: str | None) -> list[pq.SortingColumn] | None:
    """Said only where column numbers are Parquet's own too, that is without nested columns before it."""
    if order_by is None:
        return None
    index = schema.get_field_index(order_by)
    flat = all(not pa.types.is_nested(schema.field(i).type) for i in range(index))
    return [pq.SortingColumn(index)] if flat else None


def _worth_a_dictionary(rows: pa.Table, known: Mapping[str, bool]) -> list[str] | bool:
    """`_source`, and the columns whose values repeat; of some it is `known`. A dictionary of values that
    hardly do takes twice the time to write and a third more room. It goes by the first rows: equal rows still
    give equal files."""
    if any(pa.types.is_nested(field.type) for field in rows.schema):
        return True  # Parquet's names for what is inside aren't ours to guess
    few = rows.slice(0, FIRST)

    def repeats(name: str) -> bool:
        return known[name] if name in known else _repeats(few.column(name))

    return [name for name in few.schema.names if name == SOURCE or repeats(name)]


def _repeats(column: pa.ChunkedArray) -> bool:
    try:
        return bool(2 * pc.count_distinct(column).as_py() <= len(column))
    except pa.ArrowNotImplementedError:  # a type of somebody else's file
        return True
