"""A checkpoint's root once more, in a form that is decoded at once.

What a question needs of a root takes a few queries, and SQLite takes longer to begin than to answer. So an
overlay (overlay.py) has a copy of the root that it lies over, with the hash of that root's file. Whoever
finds that very file takes the copy for it, and anybody else asks the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import xxhash

from lading.layout.table import PageKind
from lading.state.edit import PageRef
from lading.state.paged import PagedState
from lading.state.roots import KINDS, MadeRoot
from lading.state.tables import PageList, StateMeta
from lading.zones.vector import ZoneVector

_LARGEST = 256 << 10  # bytes of a file that is worth a copy: it is written and read with each overlay


class RootCopy(msgspec.Struct, frozen=True):
    """All that a root says."""

    hash: int  # xxh3_64 of the file
    meta: StateMeta
    pages: dict[PageKind, tuple[PageRef, ...]]
    summaries: dict[str, bytes]  # of members: name -> vector
    contents: dict[str, bytes]  # pages that lie in the root itself

    @staticmethod
    def of(state: PagedState, file: bytes) -> RootCopy | None:
        """`file` is what `state` was read from, or written to. None if it is too large."""
        if len(file) > _LARGEST:
            return None
        return RootCopy(
            _hash_of(file),
            state.meta,
            {kind: state.pages(kind) for kind in KINDS},
            {name: blob for name, blob, _ in state.page_list("members").summary_rows},
            state.contents(),
        )

    def is_of(self, file: bytes) -> bool:
        return _hash_of(file) == self.hash

    def root(self) -> MadeRoot:
        vectors = {"members": _Vectors(self.summaries)}
        lists = {kind: PageList(refs, vectors.get(kind, {})) for kind, refs in self.pages.items()}
        return MadeRoot(self.meta, lists, self.contents)


class _Vectors(Mapping[str, ZoneVector]):
    """Vectors that are decoded when somebody asks for them."""

    def __init__(self, blobs: Mapping[str, bytes]) -> None:
        self._blobs = blobs
        self._decoded: dict[str, ZoneVector] = {}

    def __getitem__(self, name: str) -> ZoneVector:
        if name not in self._decoded:
            self._decoded[name] = ZoneVector.from_blob(self._blobs[name])
        return self._decoded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._blobs)

    def __len__(self) -> int:
        return len(self._blobs)


def _hash_of(file: bytes) -> int:
    return xxhash.xxh3_64_intdigest(file)
