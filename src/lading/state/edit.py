"""Editing pages: some entries go, some come, and only the pages that they lie in are made anew.

Pages lie in the order of their entries. One that grows above double its size is split, one that shrinks below
a quarter is joined with its neighbour. Pure: what to edit comes in, what the pages are then goes out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import msgspec

from lading.late import np
from lading.layout.table import PageKind, content_name
from lading.model import Zone
from lading.zones.numbers import Numbers

PAGE = 8192  # entries of a page, if they are of usual size

Order = tuple[Any, ...]  # what entries are sorted by


class PageRef(msgspec.Struct, frozen=True, gc=False):
    """A page as a root names it."""

    kind: PageKind
    name: str
    entries: int
    first: Order  # of its entries
    last: Order
    rows: int  # of its members; 0 of pages of another kind
    live_rows: int  # those that count
    bytes: int  # of the page itself


@dataclass(frozen=True, slots=True)
class MadePage:
    """A page that isn't written yet, and what a root says of it."""

    ref: PageRef
    content: bytes
    keys: Zone | None = (
        None  # of members: where the first with a key begins, how far they reach, how many have none
    )
    zones: Mapping[str, Zone] | None = None  # of members: what holds for all of them together, by column


class Columns(Protocol):
    """Entries in order, column by column."""

    def __len__(self) -> int: ...

    def weights(self) -> Numbers:
        """How much of a page each takes; 1 of an entry of usual size."""
        ...

    def order(self, at: int) -> Order: ...

    def take(self, order: Numbers) -> Self: ...

    def followed_by(self, other: Self) -> Self: ...

    def made(self) -> MadePage:
        """All of them as one page."""
        ...


C = TypeVar("C", bound=Columns)


@dataclass(frozen=True, slots=True)
class Edit(Generic[C]):
    """What changes: entries that go, by page and place; entries that come; pages to make anew in any case."""

    drop: Mapping[int, Numbers]
    add: C  # in order
    also: frozenset[int] = frozenset()


def edited(refs: Sequence[PageRef], load: Callable[[int], C], edit: Edit[C]) -> list[int | MadePage]:
    """The pages after an edit: those that stay by their number, and new ones. `load` reads one."""
    add = edit.add
    coming = [add.order(at) for at in range(len(add))]
    if not refs:
        return [part.made() for part in _split(add)] if len(add) else []
    groups = _by_page([ref.first for ref in refs], coming)
    items: list[int | C] = list(range(len(refs)))
    for number in sorted({*edit.drop, *groups, *edit.also}):
        page = load(number)
        items[number] = _merged(page, edit.drop.get(number), add, groups.get(number, range(0)), coming)
    parts = _split_all(_joined([one for one in items if isinstance(one, int) or len(one)], load))
    made = [part if isinstance(part, int) else part.made() for part in parts]
    known = {content_name(ref.name): number for number, ref in enumerate(refs)}
    return [_as_it_was(one, known) for one in made]


def _as_it_was(page: int | MadePage, known: Mapping[str, int]) -> int | MadePage:
    """An edit may change nothing."""
    return page if isinstance(page, int) else known.get(page.ref.name, page)


def _by_page(firsts: Sequence[Order], coming: Sequence[Order]) -> dict[int, range]:
    """Which of the entries that come go into which page."""
    groups: dict[int, range] = {}
    at = 0
    while at < len(coming):
        page = max(bisect_right(firsts, coming[at]) - 1, 0)
        end = bisect_left(coming, firsts[page + 1], lo=at) if page + 1 < len(firsts) else len(coming)
        groups[page] = range(at, end)
        at = end
    return groups


def _merged(page: C, drop: Numbers | None, add: C, which: range, coming: Sequence[Order]) -> C:
    kept = np.arange(len(page)) if drop is None else np.delete(np.arange(len(page)), drop)
    if not len(which):
        return page.take(kept)
    whole = len(which) * 16 > len(page)  # then every entry would be looked at anyway
    orders: Sequence[Order] = [page.order(at) for at in range(len(page))] if whole else range(len(page))  # type: ignore[assignment]
    key = None if whole else page.order
    before = np.array([bisect_left(orders, coming[at], key=key) for at in which], np.int64)  # type: ignore[arg-type]
    places = np.insert(kept, np.searchsorted(kept, before), len(page) + np.arange(len(which)))
    return page.followed_by(add.take(np.arange(which.start, which.stop))).take(places)


def _joined(items: list[int | C], load: Callable[[int], C]) -> list[int | C]:
    """With pages that became too small joined to a neighbour."""
    at = 0
    while at < len(items):
        one = items[at]
        if isinstance(one, int) or len(items) == 1 or one.weights().sum() >= PAGE // 4:
            at += 1
            continue
        left = max(at - 1, 0)
        first, second = (load(side) if isinstance(side, int) else side for side in items[left : left + 2])
        items[left : left + 2] = [first.followed_by(second)]
        at = left
    return items


def _split_all(items: Iterable[int | C]) -> list[int | C]:
    found: list[int | C] = []
    for one in items:
        found += [one] if isinstance(one, int) else _split(one)
    return found


def _split(page: C) -> list[C]:
    sums = np.cumsum(page.weights())
    whole = int(sums[-1])
    if whole <= 2 * PAGE or len(page) == 1:
        return [page]
    wanted = max(round(whole / PAGE), 2)
    cuts = np.searchsorted(sums, np.arange(1, wanted) * whole / wanted)
    ends = np.unique(np.concatenate([[0], np.clip(cuts, 1, len(page)), [len(page)]]))
    return [page.take(np.arange(ends[at], ends[at + 1])) for at in range(len(ends) - 1)]
