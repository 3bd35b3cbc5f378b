"""A state and what is laid over it, as pages: those where nothing changed stay, the others are made anew."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from lading.errors import LadingError
from lading.layout.table import PageKind
from lading.model import Looked, Member, Place, Source
from lading.state.edit import Columns, Edit, MadePage, edited
from lading.state.member_columns import MemberColumns
from lading.state.members import MemberStore
from lading.state.page import Page
from lading.state.roots import KINDS, MadeRoot
from lading.state.source_columns import EvidenceColumns, SourceColumns
from lading.state.tables import PageList, StateMeta
from lading.zones.numbers import Numbers
from lading.zones.terms import Terms

C = TypeVar("C", bound=Columns)


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs from a state."""

    added: Collection[tuple[int, Member]] = ()  # with their serials
    removed: Collection[str] = ()  # paths of members
    read: Collection[tuple[Source, int]] = ()  # with the sequence that recorded them
    gone: Collection[int] = ()  # sources
    looked: Collection[Looked] = ()
    terms: Terms | None = None  # columns whose bounds mean something else by now


def settled(
    place: Place,
    meta: StateMeta,
    base: MemberStore | None,
    changes: Changes,
    damaged: Callable[[str], LadingError],
) -> MemberStore:
    """The state after the changes. Its new pages are in memory until somebody writes them; `damaged` is for
    those that are read again afterwards."""
    lists: dict[PageKind, PageList] = {
        kind: base.page_list(kind) if base is not None else PageList() for kind in KINDS
    }
    contents = dict(base.contents()) if base is not None else {}
    for kind, pages in _edits(base, changes):
        made = [page for page in pages if isinstance(page, MadePage)]
        contents |= {page.ref.name: page.content for page in made}
        lists[kind] = lists[kind].after(pages)
    names = {ref.name for one in lists.values() for ref in one.refs}
    meta = msgspec.structs.replace(meta, members=lists["members"].entries)
    root = MadeRoot(meta, lists, {name: one for name, one in contents.items() if name in names})
    return MemberStore(root, place, damaged, like=base)


def _edits(base: MemberStore | None, changes: Changes) -> Iterable[tuple[PageKind, list[int | MadePage]]]:
    terms = changes.terms or {}
    if changes.added or changes.removed or terms:
        add = MemberColumns.of(list(changes.added))
        drop = base.places(changes.removed) if base is not None else {}
        turned = frozenset(_with_columns(base, terms)) if base is not None and terms else frozenset()
        edit = Edit(drop, add, turned)
        yield "members", _edited(base, "members", lambda page: MemberColumns.read(page, terms), edit)
    if changes.read or changes.gone:
        touched = {source.id for source, _ in changes.read} | set(changes.gone)
        yield (
            "sources",
            _edited(
                base,
                "sources",
                SourceColumns.read,
                _by_id(base, "sources", touched, SourceColumns.of(changes.read)),
            ),
        )
    if changes.looked or changes.gone:
        touched = {one.source for one in changes.looked} | set(changes.gone)
        found = _by_id(base, "evidence", touched, EvidenceColumns.of(changes.looked))
        yield "evidence", _edited(base, "evidence", EvidenceColumns.read, found)


def _by_id(base: MemberStore | None, kind: PageKind, touched: Iterable[int], add: C) -> Edit[C]:
    drop: Mapping[int, Numbers] = base.identified(kind, touched) if base is not None else {}
    return Edit(drop, add)


def _edited(
    base: MemberStore | None, kind: PageKind, read: Callable[[Page], C], edit: Edit[C]
) -> list[int | MadePage]:
    if base is None:
        return edited((), _nothing, edit)
    return edited(base.pages(kind), lambda number: read(base.load(kind, number)), edit)


def _nothing(number: int) -> Any:
    raise AssertionError(f"there is no page {number}")


def _with_columns(base: MemberStore, terms: Terms) -> Iterable[int]:
    """The pages that have zones of any of these columns."""
    for number, ref in enumerate(base.pages()):
        if not terms.keys().isdisjoint(base.member_page(ref).columns):
            yield number
