"""Many rows by predicate: the members that can't be ruled out, read lazily, filtered exactly.

Zones decide which files are opened, the files' own statistics which row groups are read, and the
predicate itself which rows come out. So a statistic may be missing or coarse; it only costs time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from copy import copy

import pyarrow as pa

from lading.errors import ConfigError, NotFound
from lading.parts.field_ids import without_numbers
from lading.parts.rows import Tally, WantedRows, read_part
from lading.state.memberset import MemberSet
from lading.where.bind import bind, list_columns, parse


def scan(
    members: MemberSet,
    *,
    where: str | None = None,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
) -> Scan:
    """The matching rows, in key order of the members. Errors in `where` and `columns` show at once."""
    return Scan(members, where=where, columns=columns, limit=limit)


class Scan:
    """Iterates record batches. Each iteration reads anew; the counts are those of the latest."""

    def __init__(
        self, members: MemberSet, *, where: str | None, columns: Sequence[str] | None, limit: int | None
    ) -> None:
        if limit is not None and limit < 0:
            raise ConfigError(f"the limit can't be {limit}", hint="give a number, 0 or more")
        table = table_schema(members)
        bound = None if where is None else bind(parse(where), table)
        names = _chosen(table, columns)
        self.schema: pa.Schema = table if columns is None else _narrowed(table, names)
        self.files_total = members.count()
        self.rows = 0
        self._wanted = WantedRows(table, names, bound)
        self._root = members.root
        self._members = members.candidates(bound)
        self._limit = None if limit is None else min(limit, sys.maxsize)
        self._ended = False

    @property
    def files_scanned(self) -> int:
        """Files opened. Until the scan has ended: those it would open if no limit stopped it."""
        return self._wanted.tally.files if self._ended else len(self._members)

    @property
    def row_groups_total(self) -> int:
        """Row groups in the files opened so far."""
        return self._wanted.tally.row_groups_total

    @property
    def row_groups_scanned(self) -> int:
        """Row groups read so far, those of the file at hand included."""
        return self._wanted.tally.row_groups

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self.rows = 0
        self._ended = False
        self._wanted = WantedRows(self._wanted.schema, self._wanted.columns, self._wanted.where, Tally())
        try:
            for batch in self._batches():
                self.rows += batch.num_rows
                yield batch
        finally:
            self._ended = True

    def again(self, columns: Sequence[str] | None = None) -> Scan:
        """The same rows of the same snapshot, with other columns if asked, and with counts of its own."""
        other = copy(self)
        names = self.schema.names if columns is None else _chosen(self._wanted.schema, columns)
        other.schema = _narrowed(self._wanted.schema, names)
        other._wanted = WantedRows(self._wanted.schema, names, self._wanted.where)
        other.rows, other._ended = 0, False
        return other

    def to_table(self) -> pa.Table:
        """All matching rows in memory."""
        return pa.Table.from_batches(self, self.schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for member in self._members:
            if self.rows == self._limit:
                return
            for batch in read_part(self._root, member, self._wanted):
                left = batch.num_rows if self._limit is None else self._limit - self.rows
                yield batch.slice(0, left)
                if self.rows == self._limit:
                    return


def table_schema(members: MemberSet) -> pa.Schema:
    """The table's Arrow schema; empty before its first commit."""
    if not members.schema:
        return pa.schema([])
    return without_numbers(pa.ipc.read_schema(pa.py_buffer(members.schema)))


def _narrowed(table: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([table.field(name) for name in names])


def _chosen(schema: pa.Schema, columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        return list(schema.names)
    if not columns:
        raise ConfigError(
            "a scan needs at least one column",
            hint=f"omit columns to get all of them; {list_columns(schema)}",
        )
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise NotFound(f"there is no column {', '.join(missing)}", hint=list_columns(schema))
    return list(dict.fromkeys(columns))
