"""What a state knows of all of its members at once, block by block: rows, zones, keys, sources, paths.

Each question is asked of the blocks' summaries first; only the blocks that can't be ruled out are read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any

import msgspec

from lading.late import np
from lading.model import Bound, Zone
from lading.state.blocks import SUMMARY, block_count, numbers_at, place_of, span, start_of
from lading.state.sealed import Sealed
from lading.state.source_lists import SourceLists
from lading.state.tables import path_hash
from lading.where.prune import may_match
from lading.where.tree import Predicate, columns_of
from lading.zones.numbers import Numbers, Packed, joined
from lading.zones.vector import ZoneVector

_KEPT = 64  # blocks of zones that are kept for the next question
_PATHS_KEPT = 256  # blocks of paths, which every commit asks for one of, by chance


class StateVectors:
    """The vectors of a state with `members` members."""

    def __init__(self, sealed: Sealed, members: int) -> None:
        self._sealed = sealed
        self._members = members
        self._blocks = block_count(members)
        self._kept: dict[tuple[str, int], ZoneVector] = {}
        self._path_block = lru_cache(_PATHS_KEPT)(self._paths_in)
        self._key_blocks: dict[int, ZoneVector] = {}
        self._source_blocks: dict[int, SourceLists] = {}

    @cached_property
    def columns(self) -> list[str]:
        """The columns that have zones."""
        vector = self._sealed.vector("columns")
        with self._sealed.sound("the list of columns"):
            return msgspec.msgpack.decode(vector, type=list[str])

    def row_count(self) -> int:
        return int(self._sealed.numbers("live_rows", SUMMARY, count=self._blocks).sum())

    def rows(self, name: str) -> Numbers:
        """`rows` or `live_rows` of each member."""
        return np.concatenate([np.zeros(0, np.int64), *self._rows_in(name, range(self._blocks))])

    def zones(self, column: str) -> ZoneVector | None:
        if column not in self.columns:
            return None
        return ZoneVector.concat([one.plain() for one in self._zones_in(column, range(self._blocks))])

    def may_match(self, where: Predicate, unknown: Container[str] = ()) -> Numbers:
        """The numbers of the members that a predicate can't rule out, which rise; zones of the columns
        `unknown` rule nothing out."""
        known = {column for column in columns_of(where) & set(self.columns) if column not in unknown}
        chosen: Sequence[int] = range(self._blocks)
        if len(chosen) > 1:
            heads = self._sealed.numbers("rows", SUMMARY, count=len(chosen))
            load = partial(self._zone_heads, known)
            chosen = np.flatnonzero(may_match(where, load, heads)).tolist()
        if not chosen:
            return np.zeros(0, np.int64)
        rows = self._rows_in("rows", chosen)
        zones = {column: self._zones_in(column, chosen) for column in known}
        whole = {column: ZoneVector.joined(vectors) for column, vectors in zones.items()}
        all_rows = joined(rows)
        if all_rows is not None and None not in whole.values():
            return numbers_at(chosen, np.flatnonzero(may_match(where, whole.get, all_rows)))
        # Block by block: what one comparison leaves is in the processor's cache for the next.
        found = []
        for at, block in enumerate(chosen):
            here = {column: vectors[at] for column, vectors in zones.items()}
            found.append(np.flatnonzero(may_match(where, here.get, rows[at])) + start_of(block))
        return np.concatenate(found)

    def zone(self, column: str, number: int) -> Zone | None:
        """One member's."""
        block, at = place_of(number)
        [found] = self._zones_in(column, [block])
        return found.zone(at)

    def source_lists(self) -> SourceLists:
        return SourceLists.concat(*map(self._sources_in, range(self._blocks)))

    def sources_of(self, number: int) -> tuple[tuple[int, int], ...]:
        """(source, rows) of one member."""
        block, at = place_of(number)
        return self._sources_in(block).one(at)

    @cached_property
    def without_key(self) -> int | None:
        """How many members, the first ones, have no key; None if keys can't be searched: there are none, or
        some of several types."""
        if self._key_heads.kind == "none":
            return None
        found = int(self._key_heads.nulls.sum())
        if not 0 <= found <= self._members:
            raise self._sealed.damaged("the vector keys doesn't fit the members")
        return found

    def reach(self, number: int) -> Any:
        """How far a member and those before it go."""
        block, at = place_of(number)
        return _plain(self._keys(block).maxs[at])

    def beginning_by(self, key: Bound) -> int:
        """How many members have no key or begin at or before `key`."""
        first = self.without_key or 0
        first_block, _ = place_of(first)
        block = _at_or_before(self._key_heads, key, first_block) - 1
        if block < first_block:
            return first
        start = int(span(block, self._members).start)
        return start + _at_or_before(self._keys(block), key, max(first - start, 0))

    def maybe_at(self, path: str) -> Iterator[int]:
        """The members whose path has the same hash."""
        wanted = path_hash(path)
        # Equal hashes may begin in the block before the one that begins with them.
        block = max(int(np.searchsorted(self._path_heads, wanted)) - 1, 0)
        while block < self._blocks and self._path_heads[block] <= wanted:
            hashes, numbers = self._path_block(block)
            for at in range(int(np.searchsorted(hashes, wanted)), len(hashes)):
                if hashes[at] != wanted:
                    return
                yield int(numbers[at])
            block += 1

    @cached_property
    def source_ids(self) -> np.ndarray:
        """Of all sources, sorted."""
        return self._sealed.numbers("sources")

    def _size(self, block: int) -> int:
        return len(range(self._members)[span(block, self._members)])

    def _zone_heads(self, known: Container[str], column: str) -> ZoneVector | None:
        return self._sealed.zones(column, SUMMARY, self._blocks) if column in known else None

    def _zones_in(self, column: str, chosen: Sequence[int]) -> list[ZoneVector]:
        """A column's, in some blocks. A few are kept: questions about one member ask for the same ones."""
        known = {block: self._kept[column, block] for block in chosen if (column, block) in self._kept}
        missing = {block: self._size(block) for block in chosen if block not in known}
        if missing:
            known.update(zip(missing, self._sealed.zones_of(column, missing, as_packed=True), strict=True))
        if 0 < len(missing) <= _KEPT:
            if len(self._kept) + len(missing) > _KEPT:
                self._kept.clear()
            self._kept.update({(column, block): known[block] for block in missing})
        return [known[block] for block in chosen]

    def _rows_in(self, name: str, chosen: Sequence[int]) -> list[Packed]:
        return self._sealed.packed_of(name, {block: self._size(block) for block in chosen})

    def _sources_in(self, block: int) -> SourceLists:
        if block not in self._source_blocks:
            size = self._size(block)
            offsets, ids, rows = self._sealed.arrays("source_lists", block, 3)
            fits = len(offsets) == size + 1 and len(ids) == len(rows) == int(offsets[-1])
            if not fits or offsets[0] != 0 or (np.diff(offsets) < 0).any():
                raise self._sealed.damaged("the lists of sources don't fit the members")
            self._source_blocks[block] = SourceLists(offsets, ids, rows)
        return self._source_blocks[block]

    @cached_property
    def _key_heads(self) -> ZoneVector:
        return self._sealed.zones("keys", SUMMARY, self._blocks, table="vectors")

    def _keys(self, block: int) -> ZoneVector:
        if block not in self._key_blocks:
            found = self._sealed.zones("keys", block, self._size(block), table="vectors")
            if found.kind != self._key_heads.kind:
                raise self._sealed.damaged("the keys of its blocks don't fit together")
            self._key_blocks[block] = found
        return self._key_blocks[block]

    def _paths_in(self, block: int) -> tuple[Numbers, Numbers]:
        """Hashes, and the members they are of."""
        hashes, numbers = self._sealed.arrays("paths", block, 2)
        if len(hashes) != self._size(block) or len(numbers) != len(hashes):
            raise self._sealed.damaged("the vector paths doesn't fit the members")
        return hashes, numbers

    @cached_property
    def _path_heads(self) -> np.ndarray:
        return self._sealed.numbers("paths", SUMMARY, count=self._blocks)


def _at_or_before(starts: ZoneVector, key: Bound, first: int) -> int:
    """How many of the sorted minima are at or before `key`; those before `first` aren't known and count."""
    if starts.kind == "int" and type(key) is int:
        return first + int(np.searchsorted(starts.mins[first:], key, side="right"))
    return bisect_right(range(len(starts)), key, lo=first, key=lambda at: _plain(starts.mins[at]))


def _plain(value: Any) -> Any:
    return value.as_py() if hasattr(value, "as_py") else value.item()
