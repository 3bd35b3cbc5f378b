"""A table's state, read where it lies: the members that a checkpoint or a snapshot holds, and its sources.

Nothing is decoded as a whole. A question goes to the summaries of the pages first, and only the pages that
can't be ruled out are read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import msgspec

from lading.late import np
from lading.model import Bound, Member, Zone
from lading.state.edit import PageRef
from lading.state.key_index import may_hold
from lading.state.loaded import MemberPage
from lading.state.member_columns import LIVE_ROWS, ROWS, MemberRow, member_of, path_hash, storable
from lading.state.source_lists import SourceLists
from lading.state.source_pages import SourcePages
from lading.state.tables import KEYS, ZONE
from lading.where.prune import may_match
from lading.where.tree import Predicate, columns_of
from lading.zones.numbers import Mask, Numbers
from lading.zones.vector import ZoneVector, pack

_UNASKED = object()
_KEPT = 64  # vectors of zones that are kept for the next question
_TOGETHER = 16  # pages that take a step together
_FEW_QUESTIONS = 64  # for a path, before all hashes are put in one order for those that follow


class MemberStore(SourcePages):
    """A state as a root and its pages; a `MemberSet` for readers."""

    _asked = 0  # how often for a path

    @cached_property
    def _kept(self) -> dict[tuple[str, str], ZoneVector | None]:
        """Zones of columns, by page; None where they were asked for once."""
        return {}

    def members_in(self, ref: PageRef) -> list[Member]:
        """The members of one page in key order, zones included."""
        page = self.member_page(ref)
        vectors = {name: page.zones(name) for name in page.columns}
        return [
            msgspec.structs.replace(member, zones=_zones_at(vectors, at))
            for at, member in enumerate(page.members())
        ]

    def zones_in(self, ref: PageRef) -> Callable[[int], dict[str, Zone]]:
        """The zones of one member of a page, by its place there."""
        page = self.member_page(ref)
        vectors = {name: page.zones(name) for name in page.columns}
        return lambda at: _zones_at(vectors, at)

    @property
    def rows(self) -> Numbers:
        """Rows in each member's file."""
        return self._all(ROWS)

    @property
    def live_rows(self) -> Numbers:
        """Rows a member without those that a `minus` takes away."""
        return self._all(LIVE_ROWS)

    @property
    def source_lists(self) -> SourceLists:
        return SourceLists.concat(*(page.lists for page in self._member_pages()))

    @cached_property
    def columns_with_zones(self) -> list[str]:
        return sorted({name for page in self._member_pages() for name in page.columns})

    def zone(self, column: str) -> ZoneVector | None:
        """Of all members; None if nothing is known of any."""
        if column not in self.columns_with_zones:
            return None
        found = ((page.zones(column), page.page.entries) for page in self._member_pages())
        return ZoneVector.concat([pack([None] * n) if one is None else one for one, n in found])

    def candidates(self, where: Predicate | None, *, unknown: Container[str] = ()) -> list[Member]:
        """Found by a predicate, members are for reading: they have their source lists only where some of the
        rows don't count. Of the columns `unknown` no zone is believed: their types have changed since."""
        if where is None:
            return self.members(None)
        found = self._may_match(where, unknown)
        return [
            one for page, places in found for one in page.members(places, with_sources=False, in_passing=True)
        ]

    def holding(self, key: Bound) -> list[Member]:
        """The members whose key range contains `key`, in key order; one without a range may hold any."""
        found = []
        for number in self._pages_for(key):
            page = self._members_at(number)
            places = [*range(page.without_key), *(page.holding(key) if storable(key) else ())]
            if places:
                some = page.members(places, with_sources=False)
                found += [member for member in some if may_hold(member, key)]
        return found

    def _pages_for(self, key: Bound) -> Sequence[int]:
        """The pages with members that may hold `key`."""
        if self._key_ranges is None:
            return range(len(self.pages()))
        begins, reaches, without = self._key_ranges
        first = len(self.pages()) - len(begins)
        found: list[int] = []
        try:
            number = bisect_right(begins, key)
            while number and reaches[number - 1] >= key:
                number -= 1
                found.append(first + number)
        except TypeError:  # of another type than theirs: their ranges say nothing about it
            return range(len(self.pages()))
        return sorted({*found, *without}) if without else found[::-1]

    @cached_property
    def _key_ranges(self) -> tuple[list[Any], list[Any], list[int]] | None:
        """Where the pages that have keys begin, how far each and those before it reach, and the pages with
        members that have none. None if only the pages themselves can tell."""
        heads = self.summary(KEYS)
        if heads is None:
            return None
        zones = [heads.zone(number) for number in range(len(self.pages()))]
        without = [number for number, zone in enumerate(zones) if zone is None or zone.nulls]
        keyed = [zone for zone in zones if zone is not None and zone.min is not None]
        if zones[len(zones) - len(keyed) :] != keyed or len(without) + len(keyed) < len(zones):
            return None
        ends: list[Any] = [zone.max for zone in keyed]
        reaches = list(accumulate(ends, max))
        return [zone.min for zone in keyed], reaches, without

    def members_of(self, sources: Iterable[int]) -> list[Member]:
        """The members in which rows of any of `sources` count, found without opening a file."""
        wanted = frozenset(sources)
        found = []
        for page in self._member_pages():
            holders = page.lists.holders(wanted).tolist()
            found += [one for one in page.members(holders) if one.counts_any(wanted)] if holders else []
        return found

    def members(self, ids: np.ndarray | None) -> list[Member]:
        """Members by number (all of them for None), in key order, without their zones."""
        if ids is None:
            return [member for page in self._member_pages() for member in page.members()]
        found = []
        for number, places in self._by_page(np.unique(ids)):
            found += self._members_at(number).members(places.tolist())
        return found

    def by_path(self, path: str) -> tuple[Member, int] | None:
        """One member with its zones, and its serial."""
        place = self._place(path)
        if place is None:
            return None
        page, at = self._members_at(place[0]), place[1]
        [row] = page.rows([at])
        vectors = {name: self._zones_of(page, name) for name in page.columns}
        return member_of(row, page.lists.one(at), _zones_at(vectors, at)), row[0]

    def contains(self, path: str) -> bool:
        return self._place(path) is not None

    def present(self, paths: Iterable[str]) -> set[str]:
        """Those of the paths that are members."""
        told = list(paths)
        if len(told) < 4:
            return {path for path in told if self.contains(path)}
        hashes = np.fromiter(map(path_hash, told), np.int64, len(told))
        maybe: set[int] = set()
        for page in self._member_pages():
            known = page.by_hash[0]
            at = np.minimum(known.searchsorted(hashes), len(known) - 1)
            maybe.update(np.flatnonzero(known[at] == hashes).tolist())
        return {told[number] for number in maybe if self.contains(told[number])}

    def places(self, paths: Iterable[str]) -> dict[int, Numbers]:
        """Where the members with these paths are, each of which is here: by page, rising."""
        found: dict[int, list[int]] = {}
        for path in paths:
            place = self._place(path)
            if place is None:
                raise self.damaged(f"{path} was taken from it and is not in it")
            found.setdefault(place[0], []).append(place[1])
        return {page: np.sort(np.asarray(some, np.int64)) for page, some in found.items()}

    def live_rows_at(self, places: Mapping[int, Numbers]) -> int:
        """Rows that count, of some members."""
        return sum(
            int(np.asarray(self._members_at(page).packed(LIVE_ROWS))[some].sum())
            for page, some in places.items()
        )

    def member_rows(self) -> list[MemberRow]:
        return [row for page in self._member_pages() for row in page.rows()]

    def bucket_count(self) -> int:
        return len({bucket for page in self._member_pages() for bucket in np.unique(page.buckets()).tolist()})

    def member_page(self, ref: PageRef) -> MemberPage:
        return self.loaded(ref, MemberPage)

    def _member_pages(self) -> list[MemberPage]:
        self.fetch(self.pages())
        return [self.member_page(ref) for ref in self.pages()]

    def _members_at(self, number: int) -> MemberPage:
        return self.member_page(self.pages()[number])

    def _all(self, name: str) -> Numbers:
        found = (np.asarray(page.packed(name)) for page in self._member_pages())
        return np.concatenate([np.zeros(0, np.int64), *found])

    @cached_property
    def _starts(self) -> Numbers:
        """The number of each page's first member, and how many there are in all."""
        return np.cumsum([0, *(ref.entries for ref in self.pages())])

    def _by_page(self, numbers: Numbers) -> Iterator[tuple[int, Numbers]]:
        """Members, whose numbers rise, by page and place."""
        if len(numbers) and not (numbers[0] >= 0 and numbers[-1] < self._starts[-1]):
            raise self.damaged(f"there is no member {numbers[-1]}")
        of = self._starts.searchsorted(numbers, side="right") - 1
        for page in np.unique(of).tolist():
            yield page, numbers[of == page] - self._starts[page]

    def _place(self, path: str) -> tuple[int, int] | None:
        wanted = path_hash(path)
        if self._is_unknown(wanted):
            return None
        for number, ref in enumerate(self.pages()):
            page = self.member_page(ref)
            for at in page.maybe_at(wanted):
                if page.rows([at])[0][1] == path:
                    return number, at
        return None

    def _is_unknown(self, wanted: int) -> bool:
        """Whether it is plain that no path has this hash. Few questions go from page to page; who asks often,
        as one does who commits file by file, gets answers that don't take longer the more pages there are."""
        self._asked += 1
        if self._asked <= _FEW_QUESTIONS or len(self.pages()) < 2:
            return False
        at = int(self._hashes.searchsorted(wanted))
        return at == len(self._hashes) or self._hashes[at] != wanted

    @cached_property
    def _hashes(self) -> Numbers:
        """Of all paths, sorted: at a million members 8 MB, made in the time of some 100 questions."""
        return np.sort(np.concatenate([page.by_hash[0] for page in self._member_pages()]))

    def _may_match(
        self, where: Predicate, unknown: Container[str]
    ) -> Iterator[tuple[MemberPage, Sequence[int]]]:
        """The members that a predicate can't rule out, by page and place; zones of the columns `unknown` rule
        nothing out."""
        refs: Sequence[PageRef] = self.pages()
        known = [column for column in columns_of(where) if column not in unknown]
        if len(refs) > 1:
            sums = np.fromiter((ref.rows for ref in refs), np.int64, len(refs))
            heads = {column: self.summary(f"{ZONE}{column}") for column in known}
            refs = [refs[number] for number in np.flatnonzero(may_match(where, heads.get, sums)).tolist()]
        if not refs:
            return
        self.fetch(refs)
        # Several pages take a step, then all of them the next: what the processor learnt of a step serves
        # all. Zones are asked page by page: memory that one page took serves the next.
        for at in range(0, len(refs), _TOGETHER):
            pages = [self.member_page(ref) for ref in refs[at : at + _TOGETHER]]
            for page in pages:
                page.begin()
            masks = [self._may_match_in(page, where, known) for page in pages]
            found = [mask.nonzero()[0].tolist() for mask in masks]
            yield from ((page, places) for page, places in zip(pages, found, strict=True) if places)

    def _may_match_in(self, page: MemberPage, where: Predicate, known: Iterable[str]) -> Mask:
        zones = {column: self._zones_of(page, column) for column in known}
        return may_match(where, zones.get, page.packed(ROWS))

    def _zones_of(self, page: MemberPage, column: str) -> ZoneVector | None:
        """A column's, of one page. A few are kept from the second question on: questions about one member ask
        for the same ones, and who asks once takes the memory of one."""
        place = (page.page.name, column)
        known = self._kept.get(place, _UNASKED)
        if isinstance(known, ZoneVector):
            return known
        found = page.zones(column, as_packed=True)
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        self._kept[place] = None if known is _UNASKED else found
        return found


def _zones_at(vectors: Mapping[str, ZoneVector | None], at: int) -> dict[str, Any]:
    found = ((name, vector.zone(at)) for name, vector in vectors.items() if vector is not None)
    return {name: zone for name, zone in found if zone is not None}


def zone_loader(members: Sequence[Member]) -> Callable[[str], ZoneVector | None]:
    """Zones of members that aren't in a page yet, column by column."""
    return lambda column: pack([member.zones.get(column) for member in members])
