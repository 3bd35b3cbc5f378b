"""What a table holds at one sequence: a checkpoint, and the commits behind it laid over it.

The checkpoint is never decoded as a whole. A commit only adds to the overlay, so opening and
committing cost what came since the checkpoint, not what the table holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
import numpy as np

from lading.format.expression import Predicate
from lading.format.members import MemberStore, StateColumns, StateMeta, row_of, zone_loader
from lading.format.prune import may_match
from lading.format.source_lists import SourceLists
from lading.format.zones import ZoneVector, pack
from lading.model import Bound, Commit, Member, Source


@dataclass(slots=True)
class TableState:
    """A `MemberSet` over a checkpoint and an overlay; `apply` moves it one commit on."""

    root: str
    meta: StateMeta
    base: MemberStore | None = None
    added: dict[str, tuple[int, Member]] = field(default_factory=dict)  # path -> (serial, member)
    removed: set[str] = field(default_factory=set)  # paths of the base that are no longer live
    read: dict[int, tuple[Source, int]] = field(default_factory=dict)  # source -> (record, sequence)
    gone: set[int] = field(default_factory=set)  # sources of the base that were retracted

    @property
    def sequence(self) -> int:
        return self.meta.sequence

    @property
    def schema(self) -> bytes:
        return self.meta.schema

    @property
    def order_by(self) -> str | None:
        return self.meta.order_by

    def apply(self, commit: Commit) -> None:
        serial = self.meta.next_serial
        for path in commit.remove:
            self._drop(path)
        for path, tier in commit.tier:
            self._change(path, tier=tier)
        for path, sources in commit.minus:
            self._subtract(path, sources)
        for member in commit.add:
            self.added[member.path] = (serial, member)
            serial += 1
        for source in commit.sources:
            self.read[source.id] = (source, commit.sequence)
            self.gone.discard(source.id)
        for number in commit.gone:
            self.read.pop(number, None)
            self.gone.add(number)
        self.meta = self._meta_after(commit, serial)

    def count(self) -> int:
        return (self.base.count() if self.base else 0) - len(self.removed) + len(self.added)

    def candidates(self, where: Predicate | None) -> list[Member]:
        overlay = [member for _, member in self.added.values()]
        if where is not None and overlay:
            rows = np.fromiter((member.rows for member in overlay), np.int64, len(overlay))
            keep = may_match(where, zone_loader(overlay), rows)
            overlay = [member for member, kept in zip(overlay, keep.tolist(), strict=True) if kept]
        return self._merged(self.base.candidates(where) if self.base else [], overlay)

    def holding(self, key: Bound) -> list[Member]:
        overlay = [
            member
            for _, member in self.added.values()
            if member.key_min is None or member.key_max is None or member.key_min <= key <= member.key_max  # type: ignore[operator]
        ]
        return self._merged(self.base.holding(key) if self.base else [], overlay)

    def members_of(self, sources: Iterable[int]) -> list[Member]:
        """The live members that hold rows of any of `sources`."""
        wanted = frozenset(sources)
        overlay = [
            member
            for _, member in self.added.values()
            if any(number in wanted and number not in member.minus for number, _ in member.sources)
        ]
        old = self.base.members_of(wanted) if self.base else []
        return self._merged([m for m in old if wanted.difference(m.minus)], overlay)

    def find(self, path: str) -> tuple[Member, int] | None:
        """One live member with its zones, and its serial."""
        if path in self.added:
            serial, member = self.added[path]
            return member, serial
        if path in self.removed or self.base is None:
            return None
        return self.base.by_path(path)

    def contains(self, path: str) -> bool:
        if path in self.added:
            return True
        return path not in self.removed and self.base is not None and self.base.contains(path)

    def in_order_added(self) -> list[Member]:
        rows = (
            []
            if self.base is None
            else list(zip(self.base.member_rows(), self.base.members(None), strict=True))
        )
        kept = [(row[0], member) for row, member in rows if member.path not in self.removed]
        return [member for _, member in sorted([*kept, *self.added.values()], key=lambda pair: pair[0])]

    def row_count(self) -> int:
        """Rows that a reader gets, without opening anything."""
        rows = sum(member.live_rows for _, member in self.added.values())
        if self.base is not None:
            rows += int(self.base.live_rows.sum()) - int(self.base.live_rows[self._removed_numbers()].sum())
        return rows

    def bucket_count(self) -> int:
        if self.base is not None and not self.added and not self.removed:
            return self.base.bucket_count()
        return len({member.bucket for member in self.candidates(None)})

    def sources(self) -> dict[str, tuple[Source, int]]:
        """Every live source by key, with the sequence that recorded it."""
        known = {} if self.base is None else {s.key: (s, sequence) for s, sequence in self.base.sources()}
        if self.gone or self.read:
            over = self.gone | self.read.keys()
            known = {key: pair for key, pair in known.items() if pair[0].id not in over}
            known.update((pair[0].key, pair) for pair in self.read.values())
        return known

    def source(self, number: int) -> Source | None:
        if number in self.read:
            return self.read[number][0]
        found = None if self.base is None or number in self.gone else self.base.source(number)
        return None if found is None else found[0]

    def source_count(self) -> int:
        if self.base is None:
            return len(self.read)
        if not self.read and not self.gone:
            return self.base.source_count()
        return len(self.sources())

    def columns(self) -> StateColumns:
        """The whole state, to be written as a checkpoint or a snapshot; vector by vector, not row by row."""
        members = [member for _, member in self.added.values()]
        rows = [row_of(member, serial) for serial, member in self.added.values()]
        names = {name for member in members for name in member.zones}
        lists = SourceLists.of([member.sources for member in members])
        if self.base is None:
            zones = {name: pack([m.zones.get(name) for m in members]) for name in names}
            return StateColumns(rows, zones, lists, list(self.sources().values()))
        keep = np.ones(self.base.count(), bool)
        keep[self._removed_numbers()] = False
        at = np.flatnonzero(keep)
        old = self.base.member_rows()
        return StateColumns(
            [old[number] for number in at.tolist()] + rows,
            {
                name: ZoneVector.concat(
                    [self._old_zones(name, at), pack([m.zones.get(name) for m in members])]
                )
                for name in names | set(self.base.columns_with_zones())
            },
            SourceLists.concat(self.base.source_lists.take(at), lists),
            list(self.sources().values()),
        )

    def _meta_after(self, commit: Commit, next_serial: int) -> StateMeta:
        changes = commit.changes_rows
        return msgspec.structs.replace(
            self.meta,
            sequence=commit.sequence,
            data_sequence=commit.sequence if changes else self.meta.data_sequence,
            at=commit.at if changes else self.meta.at,
            recipe=commit.recipe,
            schema=self.meta.schema if commit.schema is None else commit.schema,
            order_by=self.meta.order_by if commit.schema is None else commit.order_by,
            next_serial=next_serial,
        )

    def _drop(self, path: str) -> None:
        if self.added.pop(path, None) is None:
            self.removed.add(path)

    def _change(self, path: str, **fields: object) -> None:
        """A changed member of the base moves to the overlay, under its old serial."""
        found = self.find(path)
        if found is None:
            return
        member, serial = found
        if path not in self.added:
            self.removed.add(path)
        self.added[path] = (serial, msgspec.structs.replace(member, **fields))

    def _subtract(self, path: str, sources: tuple[int, ...]) -> None:
        found = self.find(path)
        if found is not None:
            self._change(path, minus=tuple(sorted({*found[0].minus, *sources})))

    def _removed_numbers(self) -> np.ndarray:
        return np.zeros(0, np.int64) if self.base is None else self.base.numbers(self.removed)

    def _old_zones(self, name: str, at: np.ndarray) -> ZoneVector:
        vector = self.base.zone(name) if self.base is not None else None
        return pack([None] * len(at)) if vector is None else vector.take(at)

    def _merged(self, base: list[Member], overlay: list[Member]) -> list[Member]:
        live = [member for member in base if member.path not in self.removed]
        if not overlay:
            return live
        return sorted([*live, *overlay], key=lambda m: (m.key_min is not None, m.key_min, m.path))
