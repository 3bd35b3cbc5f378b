"""Which sources each member holds rows of, as three vectors for all members together.

So the members that a changed or vanished file touches are found by one comparison over an array,
without opening a file and without decoding a member.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lading.late import np


@dataclass(frozen=True, slots=True)
class SourceLists:
    """(source, rows) of every member, end to end: those of member i lie at offsets[i]:offsets[i+1]."""

    offsets: np.ndarray
    ids: np.ndarray
    rows: np.ndarray

    @staticmethod
    def of(lists: Sequence[tuple[tuple[int, int], ...]]) -> SourceLists:
        sizes = np.fromiter((len(pairs) for pairs in lists), np.int64, len(lists))
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        flat = [pair for pairs in lists for pair in pairs]
        return SourceLists(
            offsets,
            np.fromiter((source for source, _ in flat), np.int64, len(flat)),
            np.fromiter((rows for _, rows in flat), np.int64, len(flat)),
        )

    def one(self, member: int) -> tuple[tuple[int, int], ...]:
        start, end = int(self.offsets[member]), int(self.offsets[member + 1])
        return tuple(zip(self.ids[start:end].tolist(), self.rows[start:end].tolist(), strict=True))

    def holders(self, sources: Iterable[int]) -> np.ndarray:
        """The members that hold rows of any of `sources`."""
        wanted = np.fromiter(sources, np.int64)
        at = np.flatnonzero(np.isin(self.ids, wanted))
        return np.unique(np.searchsorted(self.offsets, at, side="right") - 1)

    def part(self, which: slice) -> SourceLists:
        """The lists of some neighbours."""
        offsets = self.offsets[which.start : which.stop + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        return SourceLists(offsets - first, self.ids[first:last], self.rows[first:last])

    def take(self, order: np.ndarray) -> SourceLists:
        sizes = (self.offsets[1:] - self.offsets[:-1])[order]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        within = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], sizes)
        flat = np.repeat(self.offsets[:-1][order], sizes) + within
        return SourceLists(offsets, self.ids[flat], self.rows[flat])

    @staticmethod
    def concat(*several: SourceLists) -> SourceLists:
        ends = np.cumsum([0, *(int(one.offsets[-1]) for one in several)])
        offsets = [one.offsets[1:] + end for one, end in zip(several, ends.tolist(), strict=False)]
        return SourceLists(
            np.concatenate([np.zeros(1, np.int64), *offsets]),
            np.concatenate([np.zeros(0, np.int64), *(one.ids for one in several)]),
            np.concatenate([np.zeros(0, np.int64), *(one.rows for one in several)]),
        )
