"""The pages of a state's members, as Iceberg's manifests are made of them: one a page, reused with it.

The seam to how a state is kept (state/members.py): a page is named by all that it holds, so a manifest under
the same name says the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np

from lading.log.state import TableState
from lading.model import Member, Zone
from lading.state.edit import PageRef
from lading.state.members import MemberStore


@dataclass(slots=True)
class Page:
    """Of most pages only the name is asked for, and of a page that changed little but its keys. A large table
    has hundreds, so nothing is made ready beforehand."""

    _store: MemberStore
    _ref: PageRef
    _zones: Callable[[int], dict[str, Zone]] | None = None

    @property
    def name(self) -> str:
        return self._ref.name

    @property
    def rows(self) -> int:
        return self._ref.rows

    def keys(self) -> np.ndarray:
        """Hashes of its members' paths (avro.py: `keys_of`), in key order."""
        return self._store.member_page(self._ref).hashes.view(np.uint64)

    def with_minus(self) -> list[int]:
        """Which of them hold rows that no longer count."""
        return self._store.member_page(self._ref).with_minus()

    def one(self, at: int) -> Member:
        """Zones included."""
        [member] = self._store.member_page(self._ref).members([at])
        if self._zones is None:
            self._zones = self._store.zones_in(self._ref)
        return msgspec.structs.replace(member, zones=self._zones(at))


def pages_of(state: TableState | MemberStore) -> list[Page]:
    """All of them, in key order."""
    store = state.settled() if isinstance(state, TableState) else state
    return [Page(store, ref) for ref in store.pages()]
