"""Which slots changed between two snapshots of an input: those in which rows came or went.

Sources that were read, retracted or replaced in between are found without opening a file. Their rows, old and
new, are compared by 128 bits of hash each, as long as there are few enough of them: what is the same on both
sides has only moved, or was read again as it was, and changes nothing. Where there are more, each of their
rows counts. So a slot may be called changed that isn't; never the other way round.

Tasks read the parts, and tell slots, sources and hashes: the driver sees no row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import pyarrow as pa

from lading.ingest.derived.inputs import OpenInput
from lading.ingest.derived.signed import Side, Signed, signed_rows
from lading.ingest.derived.slots import Cut
from lading.layout.table import NOBODY
from lading.model import Member, Source
from lading.state.members import MemberStore

EXACT_ROWS = 2_000_000  # old and new together, beyond which each counts
LARGE = 32 << 20  # bytes of parts of which the columns that rows are cut by are looked at first
FEW = 8  # slots that are evaluated sooner than large parts are read to see whether fewer would do
_SHARE = 8  # of all slots, one in so many is, where the log knows them and no part was opened yet
MOST_OF_A_LOOK = 256 << 20  # bytes of parts that `lading plan` and `lading status` read

# (slot, source) -> rows that went and rows that came
Moves = dict[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Changed:
    """What became of one input."""

    slots: frozenset[int] | None = frozenset()  # None: all of them
    moves: Moves = field(default_factory=dict)  # as far as they are known
    why: str = ""  # when it is all of them


# Reads the rows of both sides, by these columns; with their hashes or without.
Reading = Callable[[Sequence[Side], Sequence[str], Cut, bool], Signed]


def net(rows: Signed) -> Signed:
    """Without those that both sides have: in the same file, or in another one."""
    return rows.condensed(("high", "low", "slots", "sources")).without_even(("high", "low", "slots"))


def moves_of(rows: Signed) -> Moves:
    """What came and went, by slot and source."""
    found: Moves = {}
    for one in (side.condensed(("slots", "sources")) for side in rows.signs()):
        each = zip(one.slots.tolist(), one.sources.tolist(), one.counts.tolist(), strict=True)
        for slot, source, count in each:
            went, came = found.get((slot, source), (0, 0))
            found[slot, source] = (went - count, came) if count < 0 else (went, came + count)
    return found


def changed_slots(
    old: OpenInput, new: OpenInput, cut: Cut | None, read: Reading = signed_rows, look: bool = False
) -> Changed:
    """`cut` is how the input is cut, None if it is given whole: then whatever changes, changes every slot.
    `read` is who reads the rows. A `look` leaves it to a run to read much."""
    before, after = changed_sources(old.members, new.members)
    if _has_strays(old.members, new.members) or _has_strays(new.members, old.members):
        return Changed(None, why=f"rows of {new.name} that belong to no file may have changed")
    if not before and not after:
        return Changed()
    sides = (side_of(old, before.keys() | {NOBODY}, -1), side_of(new, after.keys() | {NOBODY}, 1))
    rows = sum(side.rows for side in sides)
    if not rows:
        return Changed()
    size = sum(side.bytes for side in sides)
    can_tell = rows <= EXACT_ROWS and can_compare(new.schema)
    if cut is not None and (size > LARGE or not can_tell):  # what is quickly found may be few enough to go by
        quick, unknown = _by_log(sides, (before, after), cut, new.schema)
        enough = FEW if unknown or cut.width is not None else max(FEW, cut.slots // _SHARE)
        if unknown and not (look and size > MOST_OF_A_LOOK):
            quick, unknown = _joined(quick, moves_of(read(unknown, cut.columns, cut, False))), []
        if not unknown and (not can_tell or len({slot for slot, _ in quick}) <= enough):
            return Changed(frozenset(slot for slot, _ in quick), quick)
    if look and size > MOST_OF_A_LOOK and (cut is None or cut.width is None):
        return Changed(None, why=f"{new.name} changed: a run works out in which slots")
    if cut is None:
        if not can_tell:
            return Changed(None, why=f"{new.name} is given whole, and {rows:,} of its rows were read again")
        moves = moves_of(net(read(sides, new.schema.names, Cut(), True)))
        return Changed(None, moves, f"{new.name} is given whole, and changed") if moves else Changed()
    moves = moves_of(net(read(sides, new.schema.names, cut, True)))
    return Changed(frozenset(slot for slot, _ in moves), moves)


def _by_log(
    sides: Sequence[Side], changed: Sequence[Mapping[int, Source]], cut: Cut, schema: pa.Schema
) -> tuple[Moves, list[Side]]:
    """What the log says of the slots of changed sources, and the sides of which it says nothing. By bucket,
    what it says of the parts is enough."""
    if cut.width is not None:
        return _by_members(sides), []
    mark = cut.mark(schema)
    found: Moves = {}
    unknown = []
    for side, sources in zip(sides, changed, strict=True):
        noted = {
            one: slots for one, source in sources.items() for made, slots in source.slots if made == mark
        }
        moved = {(slot, one): rows for one, slots in noted.items() for slot, rows in slots}
        found = _joined(found, {at: (n, 0) if side.sign < 0 else (0, n) for at, n in moved.items()})
        others = side.sources - noted.keys()
        members = tuple(member for member in side.members if member.counts_any(others))
        if members:
            unknown.append(replace(side, members=members, sources=others))
    return found, unknown


def _by_members(sides: Sequence[Side]) -> Moves:
    found: Moves = {}
    for side in sides:
        for member in side.members:
            for source, rows in member.sources:
                if source in side.sources and source not in member.minus:
                    went, came = found.get((member.bucket, source), (0, 0))
                    moved = (went + rows, came) if side.sign < 0 else (went, came + rows)
                    found[member.bucket, source] = moved
    return found


def _joined(one: Moves, other: Moves) -> Moves:
    found = dict(one)
    for at, (went, came) in other.items():
        before = found.get(at, (0, 0))
        found[at] = (before[0] + went, before[1] + came)
    return found


def changed_sources(old: MemberStore, new: MemberStore) -> tuple[dict[int, Source], dict[int, Source]]:
    """The sources whose rows went, and those whose rows came; one that was read again is in both. Pages that
    both snapshots have are not opened."""
    before, after = _sources_apart(old, new), _sources_apart(new, old)
    same = {one for one, source in before.items() if one in after and _is_same(source, after[one])}
    went = {one: source for one, source in before.items() if one not in same}
    return went, {one: source for one, source in after.items() if one not in same}


def _sources_apart(one: MemberStore, other: MemberStore) -> dict[int, Source]:
    """Those in pages that only `one` has."""
    shared = {ref.name for ref in other.pages("sources")}
    pages = (ref for ref in one.pages("sources") if ref.name not in shared)
    return {source.id: source for ref in pages for source, _ in one.sources_in(ref)}


def _is_same(old: Source, new: Source) -> bool:
    """Reading a file again sets its time; noting a new fingerprint for the same bytes does not."""
    return (old.processed_at, old.sha256, old.rows) == (new.processed_at, new.sha256, new.rows)


def _has_strays(one: MemberStore, other: MemberStore) -> bool:
    """Whether a part that only `one` may have says nothing of where its rows come from: somebody put it
    there by hand."""
    shared = {ref.name for ref in other.pages()}
    pages = (ref for ref in one.pages() if ref.name not in shared)
    return any(member.rows and not member.sources for ref in pages for member in one.members_in(ref))


def side_of(one: OpenInput, sources: Collection[int], sign: int) -> Side:
    held = frozenset(sources)
    members = tuple(one.members.members_of(held)) if held else ()
    return Side(one.place, members, one.members.schema, held, sign)


def bare(member: Member) -> Member:
    """All of it that whoever reads its rows has to know."""
    return msgspec.structs.replace(member, sources=(), zones={})


def can_compare(schema: pa.Schema) -> bool:
    return not any(pa.types.is_nested(one.type) for one in schema)
