"""Some rows at a time, for people who look around: each page goes on where the one before ended.

The work for a page is bounded, however large the table and however few rows a predicate leaves: after so many
rows that were looked through, a page ends with what it has.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lading.errors import ConfigError, NotFound
from lading.parts.rows import WantedRows, read_part
from lading.read.scan import table_schema
from lading.state.memberset import MemberSet
from lading.where.bind import bind, list_columns, parse

SORTED = 10_000  # matching rows that are sorted
_LOOKED = 2_000_000  # rows of parts that one page looks through


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a page begins: at which of the parts that may match, and behind how many of its matching rows."""

    part: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Leaf:
    """One page."""

    rows: pa.Table
    following: Spot | None  # None: that was all
    cut: bool = False  # whether it ended because it had looked through enough, before it was full
    files_total: int = 0
    files_scanned: int = 0  # parts that the predicate can't rule out


def browse(members: MemberSet, where: str | None, at: Spot, limit: int, *, most: int | None = None) -> Leaf:
    """The next `limit` rows in the order of `lading scan`, and no more than `most` rows of parts looked
    through."""
    schema = table_schema(members)
    bound = None if where is None else bind(parse(where), schema)
    wanted = WantedRows(schema, schema.names, bound)
    found = members.candidates(bound)
    taken: list[pa.RecordBatch] = []
    count = looked = 0

    def leaf(following: Spot | None, *, cut: bool = False) -> Leaf:
        rows = pa.Table.from_batches(taken, schema)
        return Leaf(rows, following, cut, members.count(), len(found))

    for number in range(at.part, len(found)):
        if number > at.part and looked >= (_LOOKED if most is None else most):
            return leaf(Spot(number), cut=count < limit)
        place = 0  # among the matching rows of this part
        for batch in read_part(members.root, found[number], wanted):
            start = max(0, at.rows - place) if number == at.part else 0
            rest = batch.slice(start)
            if count + rest.num_rows > limit:
                taken.append(rest.slice(0, limit - count))
                return leaf(Spot(number, place + start + limit - count))
            taken.append(rest)
            count += rest.num_rows
            place += batch.num_rows
        looked += found[number].rows
    return leaf(None)


def browse_sorted(
    members: MemberSet, where: str | None, column: str, *, descending: bool, skip: int, limit: int
) -> tuple[Leaf, bool]:
    """Rows by a column, from the `skip`th on, and whether those are all that match: no more than the first
    10,000 matching rows are sorted."""
    schema = table_schema(members)
    if column not in schema.names:
        raise NotFound(f"there is no column {column}", hint=list_columns(schema))
    all_of_them = browse(members, where, Spot(), SORTED)
    rows = all_of_them.rows
    try:
        order = [(column, "descending" if descending else "ascending")]
        places = pc.sort_indices(rows, sort_keys=order)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise ConfigError(
            f"rows can't be sorted by {column}, which is {schema.field(column).type}",
            hint="choose a column that holds no lists, structs or maps",
        ) from None
    page = rows.take(places.slice(skip, limit))
    more = Spot(0, skip + limit) if rows.num_rows > skip + limit else None
    leaf = Leaf(page, more, False, all_of_them.files_total, all_of_them.files_scanned)
    return leaf, all_of_them.following is None
