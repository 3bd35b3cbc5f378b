"""Which slots changed between two snapshots of an input: those in which rows came or went.

Sources that were read, retracted or replaced in between are found without opening a file. Their rows, old and
new, are compared exactly as long as there are few enough to hold in memory: what is the same on both sides
has only moved, or was read again as it was, and changes nothing. Where there are more, each of their rows
counts. So a slot may be called changed that isn't; never the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lading.ingest.derived.inputs import OpenInput
from lading.ingest.derived.slots import Cut
from lading.layout.table import SOURCE
from lading.model import Member, Place, Source
from lading.parts.rows import WantedRows, read_part
from lading.state.members import MemberStore

EXACT_ROWS = 2_000_000  # old and new together, beyond which each counts

# (slot, source) -> rows that went and rows that came
Moves = dict[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Changed:
    """What became of one input."""

    slots: frozenset[int] | None = frozenset()  # None: all of them
    moves: Moves = field(default_factory=dict)  # as far as they are known
    why: str = ""  # when it is all of them


@dataclass(frozen=True, slots=True)
class Side:
    """Rows of some sources in one snapshot. Travels to Spark's workers."""

    place: Place
    members: tuple[Member, ...]
    schema: bytes  # Arrow IPC schema of the table
    sources: frozenset[int]
    sign: int  # -1: these went, 1: these came

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """With `_source` as the last column."""
        schema = pa.ipc.read_schema(pa.py_buffer(self.schema))
        names = [*columns, SOURCE]
        ids = np.fromiter(self.sources, np.int64, len(self.sources))
        for member in self.members:
            for batch in read_part(self.place, member, WantedRows(schema, names)):
                held = np.isin(batch.column(SOURCE).to_numpy(zero_copy_only=False), ids)
                rows = batch if held.all() else batch.filter(pa.array(held))
                if rows.num_rows:
                    yield rows

    @property
    def rows(self) -> int:
        return sum(n for member in self.members for source, n in member.sources if source in self.sources)

    @property
    def bytes(self) -> int:
        return sum(member.bytes for member in self.members)


# Works out the moves of many rows: of sides and a cut.
Counting = Callable[[Sequence[Side], Cut], Moves]


def changed_slots(old: OpenInput, new: OpenInput, cut: Cut | None, count: Counting | None = None) -> Changed:
    """`cut` is how the input is cut, None if it is given whole: then whatever changes, changes every slot.
    `count` counts rows that are too many to be compared; in this process if it is None."""
    went, came = changed_sources(old.members, new.members)
    if not went and not came:
        return Changed()
    if not (_all_accounted(old.members) and _all_accounted(new.members)):
        return Changed(None, why=f"rows of {new.name} that belong to no file may have changed")
    sides = (side_of(old, went, -1), side_of(new, came, 1))
    rows = sum(side.rows for side in sides)
    columns = new.schema.names
    if not rows:
        return Changed()
    whole = cut or Cut()
    if rows <= EXACT_ROWS and can_compare(new.schema):
        moves = _compared(sides, columns, whole)
    elif cut is None:
        return Changed(
            None, why=f"{new.name} is given whole, and {rows:,} of its rows were read or retracted"
        )
    else:
        moves = (count or count_moves)(sides, whole)
    if not moves:
        return Changed()
    if cut is None:
        return Changed(None, moves, f"{new.name} is given whole, and changed")
    return Changed(frozenset(slot for slot, _ in moves), moves)


def changed_sources(old: MemberStore, new: MemberStore) -> tuple[frozenset[int], frozenset[int]]:
    """The sources whose rows went, and those whose rows came; one that was read again is in both."""
    before = {source.id: source for source, _ in old.sources()}
    after = {source.id: source for source, _ in new.sources()}
    same = {one for one, source in before.items() if one in after and _is_same(source, after[one])}
    return frozenset(before.keys() - same), frozenset(after.keys() - same)


def _is_same(old: Source, new: Source) -> bool:
    """Reading a file again sets its time; noting a new fingerprint for the same bytes does not."""
    return (old.processed_at, old.sha256, old.rows) == (new.processed_at, new.sha256, new.rows)


def _all_accounted(members: MemberStore) -> bool:
    """Whether every row is one of a source that the snapshot lists."""
    return sum(source.rows for source, _ in members.sources()) == members.row_count()


def side_of(one: OpenInput, sources: Collection[int], sign: int) -> Side:
    held = frozenset(sources)
    members = tuple(one.members.members_of(held)) if held else ()
    return Side(one.place, members, one.members.schema, held, sign)


def can_compare(schema: pa.Schema) -> bool:
    return not any(pa.types.is_nested(one.type) for one in schema)


def _compared(sides: Sequence[Side], columns: Sequence[str], cut: Cut) -> Moves:
    """Only rows that one side has more of than the other count."""
    moved = net_rows(sides, columns)
    if not moved.num_rows:
        return {}
    slots = cut.of(moved.combine_chunks().to_batches()[0]) if moved.num_rows else np.zeros(0, np.int64)
    return _tally(slots, _numbers(moved, SOURCE), _numbers(moved, _N))


_N = "__lading_n"


def net_rows(sides: Sequence[Side], columns: Sequence[str]) -> pa.Table:
    """The rows that differ, once each, with their source and by how many there are more (or fewer) now."""
    batches = []
    for side in sides:
        for rows in side.batches(columns):
            sign = pa.array(np.full(rows.num_rows, side.sign, np.int64))
            batches.append(pa.RecordBatch.from_arrays([*rows.columns, sign], names=[*rows.schema.names, _N]))
    if not batches:
        return pa.table({})
    names = [f"c{number}" for number in range(len(columns))]  # two of the user's may be called alike
    table = pa.Table.from_batches(batches).rename_columns([*names, SOURCE, _N])
    held = _without_zeros(table.group_by([*names, SOURCE]).aggregate([(_N, "sum")]), f"{_N}_sum")
    held = held.rename_columns([*names, SOURCE, _N])  # a row that stands in its file as before is no more
    if held.num_rows:
        numbered = held.append_column("at", pa.array(np.arange(held.num_rows)))
        by_row = numbered.group_by(names).aggregate([(_N, "sum"), ("at", "list")])
        kept = _without_zeros(by_row, f"{_N}_sum")  # nor is one that stands in another file now
        held = held.take(kept.column("at_list").combine_chunks().flatten())
    return held.rename_columns([*columns, SOURCE, _N])


def _without_zeros(table: pa.Table, column: str) -> pa.Table:
    return table.filter(pa.array(_numbers(table, column) != 0))


def _numbers(table: pa.Table, column: str) -> np.ndarray:
    found: np.ndarray = table.column(column).to_numpy()
    return found


def count_moves(sides: Iterable[Side], cut: Cut) -> Moves:
    """All rows of the sides, whether both have them or not; reads only the columns that rows are cut by."""
    found: Moves = {}
    for side in sides:
        for rows in side.batches(cut.columns):
            sign = np.full(rows.num_rows, side.sign, np.int64)
            found = added(found, _tally(cut.of(rows), rows.column(SOURCE).to_numpy(), sign))
    return found


def added(one: Moves, other: Mapping[tuple[int, int], tuple[int, int]]) -> Moves:
    found = dict(one)
    for key, (went, came) in other.items():
        before = found.get(key, (0, 0))
        found[key] = (before[0] + went, before[1] + came)
    return found


def _tally(slots: np.ndarray, sources: np.ndarray, signed: np.ndarray) -> Moves:
    pairs, at = np.unique(np.stack([slots, sources]), axis=1, return_inverse=True)
    went = np.bincount(at.ravel(), np.where(signed < 0, -signed, 0), pairs.shape[1]).astype(np.int64)
    came = np.bincount(at.ravel(), np.where(signed > 0, signed, 0), pairs.shape[1]).astype(np.int64)
    keys = zip(pairs[0].tolist(), pairs[1].tolist(), strict=True)
    return dict(zip(keys, zip(went.tolist(), came.tolist(), strict=True), strict=True))
