"""Entries of a page as they lie there: msgpack, one after the other, each with a checksum of its own.

So one entry is read and checked without the others, and an edit copies the bytes of what it doesn't touch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import google_crc32c

from lading.late import np
from lading.state.page import Page, numbers_blob
from lading.zones.numbers import Numbers, Packed

ENTRIES = "entries"
OFFSETS = "offsets"

_crc32c = google_crc32c.value


@dataclass(frozen=True, slots=True)
class Encoded:
    """Entry i lies before ends[i], behind the one before it."""

    data: bytes
    ends: Numbers
    crcs: Numbers

    @staticmethod
    def of(entries: Sequence[bytes]) -> Encoded:
        ends = np.cumsum(np.fromiter(map(len, entries), np.int64, len(entries)))
        return Encoded(b"".join(entries), ends, np.fromiter(map(_crc32c, entries), np.int64, len(entries)))

    @staticmethod
    def read(page: Page) -> Encoded:
        """All entries of a page."""
        ends, crcs = map(np.asarray, offsets_of(page))
        data = page.section(ENTRIES)
        if (np.diff(ends, prepend=0) < 0).any() or len(data) != (int(ends[-1]) if len(ends) else 0):
            raise page.damaged("its entries don't fit their offsets")
        return Encoded(data, ends, crcs)

    def sections(self) -> dict[str, bytes]:
        return {OFFSETS: numbers_blob(self.ends, self.crcs), ENTRIES: self.data}

    def __len__(self) -> int:
        return len(self.ends)

    def one(self, at: int) -> bytes:
        return self.data[int(self.ends[at - 1]) if at else 0 : int(self.ends[at])]

    def sizes(self) -> Numbers:
        return np.diff(self.ends, prepend=0)

    def all(self) -> Iterable[bytes]:
        start = 0
        for end in self.ends.tolist():
            yield self.data[start:end]
            start = end

    def take(self, order: Numbers) -> Encoded:
        """The entries at `order`, in that order; neighbours that stay so are copied together."""
        if not len(order):
            return Encoded(b"", np.zeros(0, np.int64), np.zeros(0, np.int64))
        starts = self.ends - self.sizes()
        breaks = np.flatnonzero(np.diff(order) != 1) + 1
        first = order[np.concatenate([[0], breaks])]
        last = order[np.concatenate([breaks - 1, [len(order) - 1]])]
        view = memoryview(self.data)
        runs = zip(starts[first].tolist(), self.ends[last].tolist(), strict=True)
        data = b"".join(view[start:end] for start, end in runs)
        return Encoded(data, np.cumsum(self.sizes()[order]), self.crcs[order])

    def followed_by(self, other: Encoded) -> Encoded:
        end = int(self.ends[-1]) if len(self) else 0
        return Encoded(
            self.data + other.data,
            np.concatenate([self.ends, other.ends + end]),
            np.concatenate([self.crcs, other.crcs]),
        )


def offsets_of(page: Page, *, checked: bool = True) -> tuple[Packed, Packed]:
    """Where each entry of a page ends, and its checksum. Whoever reads single entries need not have all of
    this checked: an offset or a checksum that isn't right makes the entry wrong."""
    ends, crcs = page.packed(OFFSETS, page.entries, page.entries, checked=checked)
    return ends, crcs


def read_some(page: Page, offsets: tuple[Packed, Packed], wanted: Sequence[int]) -> list[bytes]:
    """Some entries, checked, without the others."""
    ends, crcs = offsets
    starts = ends.some([at - 1 for at in wanted])  # of the first one: the last one's end
    if 0 in wanted:
        starts = [start if at else 0 for at, start in zip(wanted, starts, strict=True)]
    found = page.pieces(ENTRIES, starts, ends.some(wanted))
    told = crcs.some(wanted)
    if list(map(_crc32c, found)) != told:
        wrong = next(at for at, entry, crc in zip(wanted, found, told, strict=True) if _crc32c(entry) != crc)
        raise page.damaged(f"its entry {wrong} fails its checksum")
    return found
