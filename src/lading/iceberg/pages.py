"""The pages of a state's members, as Iceberg's manifests are made of them: one a page, reused with it.

The seam to how a state is kept (state/members.py): a page is named by all that it holds, so a manifest under
the same name says the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import msgspec
import numpy as np

from lading.log.state import TableState
from lading.model import Member
from lading.state.edit import PageRef
from lading.state.members import MemberStore


@dataclass(frozen=True, slots=True)
class Page:
    """Of most pages only the name is asked for, and of a page that changed little but its keys."""

    name: str
    rows: int
    keys: Callable[[], np.ndarray]  # hashes of its members' paths (avro.py: `keys_of`), in key order
    with_minus: Callable[[], list[int]]  # which of them hold rows that no longer count
    one: Callable[[int], Member]  # zones included


def pages_of(state: TableState | MemberStore) -> list[Page]:
    """All of them, in key order."""
    store = state.settled() if isinstance(state, TableState) else state
    return [_page(store, ref) for ref in store.pages()]


def _page(store: MemberStore, ref: PageRef) -> Page:
    zones = cache(partial(store.zones_in, ref))

    def one(at: int) -> Member:
        [member] = store.member_page(ref).members([at])
        return msgspec.structs.replace(member, zones=zones()(at))

    return Page(
        ref.name,
        ref.rows,
        lambda: store.member_page(ref).hashes.view(np.uint64),
        lambda: store.member_page(ref).with_minus(),
        one,
    )
