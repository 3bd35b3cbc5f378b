"""Members by column, as a page holds them: entries, and vectors of what is asked of all members at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import xxhash

from lading.late import np, pa
from lading.layout.table import page_name
from lading.model import Bound, Member, Zone
from lading.state.edit import MadePage, Order, PageRef
from lading.state.encoded import Encoded
from lading.state.page import Page, encode_page, numbers_blob
from lading.state.source_lists import SourceLists
from lading.state.summary import summary_of
from lading.zones.numbers import Numbers
from lading.zones.terms import Terms, in_terms_of
from lading.zones.vector import ZoneVector, pack, pack_bounds

ROWS, LIVE_ROWS, BUCKETS, KEYS, PATHS, SOURCES = (
    "rows", "live_rows", "buckets", "keys", "paths", "source_lists",
)  # fmt: skip
_ZONE = "zone:"
_SOURCES_OF_ONE = 8  # so many more sources, or columns, weigh as much as another member
_COLUMNS_OF_ONE = 16

# A member as its entry: serial, path, rows, bytes, bucket, tick_min, tick_max, key_min, key_max, created_at,
# tier, minus.
MemberRow = tuple[int, str, int, int, int, int, int, Any, Any, str, int, tuple[int, ...]]

_encode = msgspec.msgpack.Encoder().encode
decode_row: Callable[[bytes], MemberRow] = msgspec.msgpack.Decoder(MemberRow).decode


def row_of(member: Member, serial: int) -> MemberRow:
    """A key range that is open at one end, or beyond 64 bits, rules nothing out: no range."""
    low, high = member.key_min, member.key_max
    if not (storable(low) and storable(high)):
        low = high = None
    return (
        serial, member.path, member.rows, member.bytes, member.bucket, member.tick_min, member.tick_max,
        low, high, member.created_at, member.tier, member.minus,
    )  # fmt: skip


def member_of(
    row: MemberRow, sources: tuple[tuple[int, int], ...] = (), zones: Mapping[str, Zone] | None = None
) -> Member:
    _, path, rows, size, bucket, tick_min, tick_max, key_min, key_max, created_at, tier, minus = row
    return Member(
        path, rows, size, bucket, tick_min, tick_max, key_min, key_max, created_at,
        dict(zones) if zones else {}, sources, tier, minus,
    )  # fmt: skip


def storable(key: Bound | None) -> bool:
    """Whether a key bound can be kept, and so whether a search for it can find anything."""
    return key is not None and not (isinstance(key, int) and not -(2**63) <= key < 2**63)


def order_of(key: Bound | None, path: str) -> Order:
    """Members without a key come first, then by key, then by path; keys of several types don't mix."""
    if key is None:
        return (0, 0, path)
    return (2 if isinstance(key, str) else 3 if isinstance(key, bytes) else 1, key, path)


def path_hash(path: str) -> int:
    """What members are found by, given a path."""
    value: int = xxhash.xxh3_64_intdigest(path.encode("utf-8", "surrogateescape"))
    return value - (value >> 63 << 64)


def zone_section(column: str) -> str:
    return f"{_ZONE}{column}"


def columns_of(page: Page) -> list[str]:
    """The columns that have zones there."""
    return [name.removeprefix(_ZONE) for name in page.directory if name.startswith(_ZONE)]


def source_lists_of(page: Page) -> SourceLists:
    offsets, ids, rows = page.arrays(SOURCES, page.entries + 1, None, None)
    fits = len(ids) == len(rows) == int(offsets[-1])
    if not fits or offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise page.damaged("the lists of sources don't fit the members")
    return SourceLists(offsets, ids, rows)


def paths_of(page: Page) -> tuple[Numbers, Numbers]:
    """The hashes of the paths, sorted, and whose they are."""
    hashes, places = page.arrays(PATHS, page.entries, page.entries)
    if len(places) and not (int(places.min()) >= 0 and int(places.max()) < page.entries):
        raise page.damaged("its paths don't fit the members")
    return hashes, places


def hashes_of(page: Page) -> Numbers:
    """The same in the order of the members."""
    ordered, places = paths_of(page)
    hashes = np.empty(page.entries, np.int64)
    hashes[places] = ordered
    return hashes


@dataclass(frozen=True, slots=True)
class MemberColumns:
    """Members in their order."""

    encoded: Encoded
    rows: Numbers
    live_rows: Numbers
    buckets: Numbers
    keys: ZoneVector
    lists: SourceLists
    hashes: Numbers  # of the paths
    zones: Mapping[str, ZoneVector]

    @staticmethod
    def of(members: Sequence[tuple[int, Member]]) -> MemberColumns:
        """Of members with their serials, in any order."""
        rows = sorted(
            ((row_of(member, serial), member) for serial, member in members),
            key=lambda pair: order_of(pair[0][7], pair[0][1]),
        )
        count, told = len(rows), [member for _, member in rows]
        names = {name for member in told for name in member.zones}
        return MemberColumns(
            Encoded.of([_encode(row) for row, _ in rows]),
            np.fromiter((member.rows for member in told), np.int64, count),
            np.fromiter((member.live_rows for member in told), np.int64, count),
            np.fromiter((member.bucket for member in told), np.int64, count),
            pack_bounds([row[7] for row, _ in rows], [row[8] for row, _ in rows], [None] * count),
            SourceLists.of([member.sources for member in told]),
            np.fromiter((path_hash(member.path) for member in told), np.int64, count),
            {name: pack([member.zones.get(name) for member in told]) for name in names},
        )

    @staticmethod
    def read(page: Page, terms: Terms | None = None) -> MemberColumns:
        """All of a page; zones in other `terms` where columns have others by now."""
        count = page.entries
        [rows] = page.arrays(ROWS, count)
        [live] = page.arrays(LIVE_ROWS, count)
        [buckets] = page.arrays(BUCKETS, count)
        zones = {name: page.zones(zone_section(name)) for name in columns_of(page)}
        for name, (old, new) in (terms or {}).items():
            known = zones.pop(name, None)
            if known is not None and new is not None:
                zones[name] = in_terms_of(new, old, known, rows)
        lists = source_lists_of(page)
        return MemberColumns(
            Encoded.read(page), rows, live, buckets, page.zones(KEYS), lists, hashes_of(page), zones
        )

    def __len__(self) -> int:
        return len(self.rows)

    def weights(self) -> Numbers:
        sizes = np.diff(self.lists.offsets)
        return 1 + len(self.zones) // _COLUMNS_OF_ONE + sizes // _SOURCES_OF_ONE

    def order(self, at: int) -> Order:
        row = decode_row(self.encoded.one(at))
        return order_of(row[7], row[1])

    def take(self, order: Numbers) -> MemberColumns:
        return MemberColumns(
            self.encoded.take(order),
            self.rows[order],
            self.live_rows[order],
            self.buckets[order],
            self.keys.take(order),
            self.lists.take(order),
            self.hashes[order],
            {name: vector.take(order) for name, vector in self.zones.items()},
        )

    def followed_by(self, other: MemberColumns) -> MemberColumns:
        def both(name: str) -> ZoneVector:
            sides = ((one.zones.get(name), len(one)) for one in (self, other))
            return ZoneVector.concat([pack([None] * n) if zone is None else zone for zone, n in sides])

        return MemberColumns(
            self.encoded.followed_by(other.encoded),
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.live_rows, other.live_rows]),
            np.concatenate([self.buckets, other.buckets]),
            ZoneVector.concat([self.keys, other.keys]),
            SourceLists.concat(self.lists, other.lists),
            np.concatenate([self.hashes, other.hashes]),
            {name: both(name) for name in self.zones.keys() | other.zones.keys()},
        )

    def made(self) -> MadePage:
        one = replace(self, keys=self.keys.normal(), zones=_normal(self.zones))
        order = np.argsort(one.hashes, kind="stable")
        sections = {
            ROWS: numbers_blob(one.rows),
            LIVE_ROWS: numbers_blob(one.live_rows),
            BUCKETS: numbers_blob(one.buckets),
            **{zone_section(name): vector.to_blob() for name, vector in one.zones.items()},
            KEYS: one.keys.to_blob(),
            SOURCES: numbers_blob(one.lists.offsets, one.lists.ids, one.lists.rows),
            PATHS: numbers_blob(one.hashes[order], order),
        }
        # The smallest first: then one read has many of them.
        ordered = dict(sorted(sections.items(), key=lambda pair: (len(pair[1]), pair[0])))
        content = encode_page("members", len(one), ordered | one.encoded.sections())
        first, last = one.order(0), one.order(len(one) - 1)
        rows, live = int(one.rows.sum()), int(one.live_rows.sum())
        name = page_name("members", content)
        ref = PageRef("members", name, len(one), first, last, rows, live, len(content))
        zones = {column: summary_of(vector, one.rows) for column, vector in one.zones.items()}
        return MadePage(ref, content, one._key_range(), zones)

    def _key_range(self) -> Zone:
        keys = self.keys
        if keys.kind == "none":
            return Zone(None, None, len(self))
        known = np.ones(len(self), np.bool_) if keys.has_min is None else keys.has_min
        without = int(len(self) - known.sum())
        if isinstance(keys.maxs, np.ndarray):
            reach = keys.maxs[known].max().item()
        else:
            reach = max(keys.maxs.filter(pa.array(known)).to_pylist())
        return Zone(keys.zone(without).min, reach, without)  # type: ignore[union-attr]


def _normal(zones: Mapping[str, ZoneVector]) -> dict[str, ZoneVector]:
    """By name, so that equal members make equal pages; without columns of which nothing is known."""
    found = {name: zones[name].normal() for name in sorted(zones)}
    return {name: one for name, one in found.items() if one.kind != "none" or (one.nulls >= 0).any()}
