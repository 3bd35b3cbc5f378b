"""A page that questions are asked of: what has been read and decoded of it, as far as it's worth keeping."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

from lading.late import np
from lading.model import Bound, Member
from lading.state.encoded import Encoded, offsets_of, read_some
from lading.state.member_columns import (
    BUCKETS,
    KEYS,
    LIVE_ROWS,
    ROWS,
    MemberRow,
    columns_of,
    decode_row,
    hashes_of,
    member_of,
    paths_of,
    source_lists_of,
    zone_section,
)
from lading.state.page import Page
from lading.state.sound import UNSOUND, unsound
from lading.state.source_columns import ids_of
from lading.state.source_lists import SourceLists
from lading.zones.numbers import Numbers, Packed
from lading.zones.vector import ZoneVector

_FEW = 64  # entries that are read one by one; more of them come with all others


class LoadedPage:
    """What members, sources and evidence have in common: entries that are read one by one or all at once."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._asked = False
        self._kept: tuple[Packed, Packed] | None = None

    def begin(self) -> None:
        """Read where everything lies in it, if nobody did."""
        _ = self.page.directory

    def _offsets(self, in_passing: bool) -> tuple[Packed, Packed]:
        """Of the entries. They take eight bytes an entry: a question that goes through many pages in passing
        takes the memory of one, as long as it is the first."""
        found = self._kept or offsets_of(self.page, checked=False)
        if self._asked or not in_passing:
            self._kept = found
        self._asked = True
        return found

    def entries(self, wanted: Sequence[int] | None = None, *, in_passing: bool = False) -> list[bytes]:
        """Some entries, or all of them, checked."""
        if wanted is None or len(wanted) > _FEW:
            whole = list(Encoded.read(self.page).all())
            return whole if wanted is None else [whole[at] for at in wanted]
        return read_some(self.page, self._offsets(in_passing), wanted)

    @cached_property
    def by_hash(self) -> tuple[Numbers, Numbers]:
        """Of members the hashes of their paths, else ids; sorted, and whose they are."""
        return paths_of(self.page) if self.page.kind == "members" else ids_of(self.page)

    def maybe_at(self, wanted: int) -> Iterator[int]:
        """The places of the entries with this hash or id."""
        hashes, places = self.by_hash
        at = int(hashes.searchsorted(wanted))
        while at < len(hashes) and hashes[at] == wanted:
            yield int(places[at])
            at += 1


class MemberPage(LoadedPage):
    """A page of members."""

    @cached_property
    def keys(self) -> ZoneVector:
        return self.page.zones(KEYS)

    @cached_property
    def without_key(self) -> int:
        """How many members, the first ones, have no key, or none that can be searched."""
        keys = self.keys
        if keys.kind == "none":
            return self.page.entries
        return 0 if keys.has_min is None else int(len(keys) - keys.has_min.sum())

    @cached_property
    def _reach(self) -> Any:
        """How far each member and those before it go, of those that have a key."""
        maxs = self.keys.maxs[self.without_key :]
        if isinstance(maxs, np.ndarray):
            return np.maximum.accumulate(maxs)
        return list(accumulate(maxs.to_pylist(), max))

    def holding(self, key: Bound) -> list[int]:
        """Members, among those that have a key, whose range may contain `key`."""
        first, keys = self.without_key, self.keys
        if first == len(keys):
            return []
        try:
            if keys.kind == "int" and type(key) is int:
                end = first + int(keys.mins[first:].searchsorted(key, side="right"))
            else:
                end = bisect_right(range(len(keys)), key, lo=first, key=lambda at: _plain(keys.mins[at]))
            at, reach = end, self._reach
            while at > first and reach[at - 1 - first] >= key:
                at -= 1
        except TypeError:  # of another type than theirs: the ranges say nothing about it
            return list(range(first, len(keys)))
        return list(range(at, end))

    @property
    def hashes(self) -> Numbers:
        """Of the paths, in the order of the members."""
        return hashes_of(self.page)

    @cached_property
    def lists(self) -> SourceLists:
        return source_lists_of(self.page)

    @cached_property
    def columns(self) -> list[str]:
        return columns_of(self.page)

    def packed(self, name: str) -> Packed:
        """A vector of integers, one a member."""
        [found] = self.page.packed(name, self.page.entries)
        return found

    def zones(self, column: str, *, as_packed: bool = False) -> ZoneVector | None:
        section = zone_section(column)
        return self.page.zones(section, as_packed=as_packed) if self.page.has(section) else None

    def buckets(self) -> Numbers:
        return np.asarray(self.packed(BUCKETS))

    def with_minus(self) -> list[int]:
        """The members some of whose rows no longer count."""
        return np.flatnonzero(np.asarray(self.packed(ROWS)) != np.asarray(self.packed(LIVE_ROWS))).tolist()

    def rows(self, wanted: Sequence[int] | None = None, *, in_passing: bool = False) -> list[MemberRow]:
        entries = self.entries(wanted, in_passing=in_passing)
        try:
            return list(map(decode_row, entries))
        except UNSOUND as error:
            raise unsound(self.page.damaged, "a member", error) from error

    def members(
        self, wanted: Sequence[int] | None = None, *, with_sources: bool = True, in_passing: bool = False
    ) -> list[Member]:
        """Without their zones."""
        numbers = range(self.page.entries) if wanted is None else wanted
        rows = self.rows(wanted, in_passing=in_passing)
        return [
            member_of(row, self.lists.one(at) if with_sources or row[11] else ())
            for at, row in zip(numbers, rows, strict=True)
        ]


def _plain(value: Any) -> Any:
    return value.as_py() if hasattr(value, "as_py") else value.item()
