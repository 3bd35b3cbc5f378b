"""The pages of a state: runs of members in key order, each named by what it holds. Each has a manifest.

The seam to how a state is kept: whoever has pages of its own gives those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import xxhash

from lading.log.state import TableState
from lading.model import Member
from lading.state.members import MemberStore

ENTRIES = 8_192

_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Page:
    name: str
    members: Callable[[], Sequence[Member]]  # in key order; their zones may be missing
    whole: Callable[[int], Member]  # one of them, zones included


def pages_of(state: TableState | MemberStore) -> list[Page]:
    """All of them, in key order."""
    if isinstance(state, MemberStore):
        state = TableState(state.root, state.meta, state)
    members = state.with_zones()
    return [page_of(members[at : at + ENTRIES]) for at in range(0, len(members), ENTRIES)]


def page_of(members: list[Member]) -> Page:
    return Page(_name(members), partial(list, members), members.__getitem__)


def _name(members: list[Member]) -> str:
    """By all that a manifest says: a part never changes, so its path stands for the rest."""
    return xxhash.xxh3_128_hexdigest(_encode([(member.path, member.minus) for member in members]))
