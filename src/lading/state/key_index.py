"""Which members may hold a key, by binary search, however their ranges overlap.

Members are taken in the order of their least key. Each has a *reach*: how far it and those before it go.
Walking back from the last one that begins at or before the key, the first whose reach is below the key ends
the search. One without a range may hold any key.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from lading.model import Bound, Member


def may_hold(member: Member, key: Bound) -> bool:
    low, high = member.key_min, member.key_max
    if low is None or high is None:
        return True
    try:
        return bool(low <= key <= high)  # type: ignore[operator]
    except TypeError:  # of another type: the range says nothing about it
        return True


def reaches(ranges: Iterable[tuple[Any, Any]]) -> list[Any]:
    """How far each (least, greatest) and those before it go."""
    reach: Any = None
    found = []
    for _, greatest in ranges:
        if greatest is not None and (reach is None or greatest > reach):
            reach = greatest
        found.append(reach)
    return found


class KeyIndex:
    """Members that aren't in a database."""

    def __init__(self, members: Iterable[Member]) -> None:
        self._without: list[Member] = []
        self._ranged: list[Member] = []
        for member in members:
            ranged = member.key_min is not None and member.key_max is not None
            (self._ranged if ranged else self._without).append(member)
        try:
            self._ranged.sort(key=_least)
            self._reach = reaches((member.key_min, member.key_max) for member in self._ranged)
        except TypeError:  # keys of several types: every range is looked at
            self._without += self._ranged
            self._ranged, self._reach = [], []

    def holding(self, key: Bound) -> list[Member]:
        """In no particular order."""
        found = [member for member in self._without if may_hold(member, key)]
        try:
            last = bisect_right(self._ranged, key, key=_least)
            for number in range(last - 1, -1, -1):
                if self._reach[number] < key:
                    break
                if may_hold(self._ranged[number], key):
                    found.append(self._ranged[number])
        except TypeError:  # a key of another type than theirs
            found += self._ranged
        return found


def _least(member: Member) -> Any:
    return member.key_min
