"""Putting back pages that are damaged or lost: their names say what they have to hold.

A page is its entries and nothing else, so whoever knows the entries can make it again: the log from its
beginning, or an earlier snapshot that is whole and the commits behind it, up to the very sequence of the root
that names the page. What is made so has the page's name or isn't used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from lading.errors import LadingError
from lading.layout.table import content_name, page_path
from lading.log.checkpoint import open_checkpoint
from lading.log.state import TableState
from lading.log.table import log_of
from lading.model import Place
from lading.snapshots.opening import open_members
from lading.snapshots.stores.protocol import ManifestStore
from lading.state.edit import MadePage, PageRef
from lading.state.log_frames import Salvage
from lading.state.member_columns import MemberColumns
from lading.state.members import MemberStore
from lading.state.roots import KINDS
from lading.state.source_columns import EvidenceColumns, SourceColumns
from lading.state.tables import StateMeta, lies_in_root


def mend(place: Place, broken: MemberStore, others: Iterable[MemberStore]) -> list[str]:
    """Write the pages that a state names and that aren't as they were, as far as that can be; their paths.
    `others` are earlier states of the same table, the likeliest first."""
    wanted = {ref.name: ref for ref in damaged_pages(broken)}
    if not wanted:
        return []
    mended: list[str] = []
    for state in _at(place, broken.meta, others):
        try:
            made = {name: _made(state, ref) for name, ref in wanted.items()}
        except LadingError:
            continue  # damaged itself
        found = {name: page.content for name, page in made.items() if page is not None}
        broken.shelf.put(found)
        mended += [page_path(name) for name in found]
        wanted = {name: ref for name, ref in wanted.items() if name not in found}
        if not wanted:
            break
    return mended


def mend_checkpoint(place: Place, others: Iterable[MemberStore]) -> list[str]:
    """The same of the newest checkpoint; nothing, if even its root can't be read."""
    try:
        checkpoint = open_checkpoint(place)
    except LadingError:
        return []
    if checkpoint is None:
        return []
    try:
        return mend(place, checkpoint, others)
    except LadingError:
        return []
    finally:
        checkpoint.close()


def snapshots_of(store: ManifestStore, place: Place) -> Iterator[MemberStore]:
    """Every snapshot that can be opened, the newest first."""
    for listed in store.list_manifests():
        try:
            members = open_members(store, listed.ref, place)
        except LadingError:
            continue
        try:
            yield members
        finally:
            members.close()


def damaged_pages(store: MemberStore) -> list[PageRef]:
    """The pages of a root that aren't what it says."""
    refs = (ref for kind in KINDS for ref in store.pages(kind) if not lies_in_root(ref.bytes))
    return [ref for ref in refs if not store.is_whole(ref)]


def _at(place: Place, meta: StateMeta, others: Iterable[MemberStore]) -> Iterator[TableState]:
    """The table at the sequence of `meta`, put together in every way that there is."""
    log = log_of(place).salvage()
    if log.header is None or log.header.table_id != meta.table_id:
        return
    if log.header.base == 0:
        beginning = TableState(place, StateMeta.before_the_first_commit(log.header))
        yield from _advanced(beginning, log, meta.sequence)
    for store in others:
        if store.meta.table_id == meta.table_id and store.meta.sequence <= meta.sequence:
            yield from _advanced(TableState(place, store.meta, store), log, meta.sequence)


def _advanced(state: TableState, log: Salvage, sequence: int) -> Iterator[TableState]:
    """The state at `sequence`, if the log still has all commits up to there."""
    following = [one for one in log.commits if state.sequence < one.sequence <= sequence]
    if [one.sequence for one in following] == list(range(state.sequence + 1, sequence + 1)):
        state.apply(following)
        yield state


def _made(state: TableState, ref: PageRef) -> MadePage | None:
    """The page again, from a state that has all of its entries; None if it has others."""
    store = state.settled()
    pages = [one for one in store.pages(ref.kind) if one.first <= ref.last and ref.first <= one.last]
    columns: MemberColumns | SourceColumns | EvidenceColumns
    if ref.kind == "members":
        rows = [row[0] for one in pages for row in store.member_page(one).rows()]
        members = [member for one in pages for member in store.members_in(one)]
        columns = MemberColumns.of(list(zip(rows, members, strict=True)))
    elif ref.kind == "sources":
        columns = SourceColumns.of(pair for one in pages for pair in store.sources_in(one))
    else:
        columns = EvidenceColumns.of(store.evidence())
    inside = [at for at in range(len(columns)) if ref.first <= columns.order(at) <= ref.last]
    if len(inside) != ref.entries:
        return None
    made = columns.take(np.asarray(inside, np.int64)).made()
    return made if made.ref.name == content_name(ref.name) else None
