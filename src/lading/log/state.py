"""What a table holds at one sequence: a checkpoint, and the commits behind it laid over it.

The checkpoint is never decoded as a whole. A commit only adds to what is laid over it, so opening and
committing cost what came since the checkpoint, not what the table holds. Most of that is read by column where
somebody wrote it down so (state/overlay.py), and decoded when a question asks for all of it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from lading.errors import LogCorrupt
from lading.late import np
from lading.layout.table import CHECKPOINT
from lading.log.checkpoint import copy_of, damaged_checkpoint
from lading.model import Bound, Commit, Looked, Member, Place, Source
from lading.state.edit import PageRef
from lading.state.key_index import KeyIndex
from lading.state.members import MemberStore, zone_loader
from lading.state.overlay import Added, Covered, Overlay, Read
from lading.state.settle import Changes, settled
from lading.state.tables import StateMeta
from lading.where.prune import may_match
from lading.where.tree import Predicate
from lading.zones.terms import Terms, other_terms, rezoned


@dataclass(slots=True)
class TableState:
    """A `MemberSet` over a checkpoint and an overlay; `apply` moves it one commit on."""

    root: Place
    meta: StateMeta
    base: MemberStore | None = None
    removed: set[str] = field(default_factory=set)  # paths of the base that are no longer live
    gone: set[int] = field(default_factory=set)  # sources of the base that were retracted
    # Of the overlay what isn't decoded yet, and what comes behind it; replaced at once, so that two threads
    # may ask.
    _members: tuple[Overlay | None, Added] = field(default_factory=lambda: (None, {}))
    _sources: tuple[Overlay | None, Read] = field(default_factory=lambda: (None, {}))
    _looked: dict[int, Looked] = field(default_factory=dict)  # since the base
    _by_key: KeyIndex | None = None  # of `added`, from the first question on
    _terms: tuple[bytes, Terms] | None = None  # how the base's zones are turned, under which schema
    _settled: MemberStore | None = None  # all of it as pages, from the first question on

    @staticmethod
    def over(root: Place, base: MemberStore | None, overlay: Overlay) -> TableState:
        """The state that an overlay of this very base describes."""
        removed, gone = set(overlay.removed), set(overlay.gone)
        looked = {one.source: one for one in overlay.looked}
        return TableState(root, overlay.meta, base, removed, gone, (overlay, {}), (overlay, {}), looked)

    @property
    def added(self) -> Added:
        """Members that came since the base."""
        overlay, added = self._members
        if overlay is not None:
            added = overlay.added() | added
            self._members = (None, added)
        return added

    @property
    def read(self) -> Read:
        """Sources that were read since the base."""
        overlay, read = self._sources
        if overlay is not None:
            read = overlay.sources() | read
            self._sources = (None, read)
        return read

    @property
    def sequence(self) -> int:
        return self.meta.sequence

    @property
    def schema(self) -> bytes:
        return self.meta.schema

    @property
    def order_by(self) -> str | None:
        return self.meta.order_by

    def apply(self, commits: Sequence[Commit]) -> None:
        """Lay commits over the state, in their order."""
        self._by_key = self._settled = None
        serial = self.meta.next_serial
        for commit in commits:
            if commit.schema is not None:
                self._turn_to(commit.schema)
            if commit.remove or commit.tier or commit.minus:
                self._edit(commit)
            added = self._members[1]
            for member in commit.add:
                added[member.path] = (serial, member)
                serial += 1
            if commit.sources:
                self._sources[1].update((source.id, (source, commit.sequence)) for source in commit.sources)
            if commit.evidence:
                self._looked.update((one.source, one) for one in commit.evidence)
            if commit.gone:
                self.gone.update(commit.gone)
                for number in commit.gone:
                    self.read.pop(number, None)
                    self._looked.pop(number, None)
        if commits:
            self.meta = _meta_after(self.meta, commits, serial)

    def count(self) -> int:
        return (self.base.count() if self.base else 0) - len(self.removed) + self._added_count()

    def changes(self) -> int:
        """How many members and sources differ from the checkpoint; a source that was read twice may count
        twice."""
        return self._added_count() + len(self.removed) + self._read_count() + len(self.gone)

    def size(self) -> int:
        """How many members and sources there are, at most."""
        return self.count() + (self.base.source_count() if self.base else 0) + self._read_count()

    def overlay(self, covered: Covered) -> Overlay:
        """What is laid over the base, to be written."""
        looked, root = tuple(self._looked.values()), copy_of(self.root, self.base)
        return Overlay.of(covered, self.meta, self.added, self.removed, self.read, self.gone, looked, root)

    def candidates(self, where: Predicate | None) -> list[Member]:
        base = self.base.candidates(where, unknown=self._terms_of_base().keys()) if self.base else []
        if where is None:
            return self._merged(base, [member for _, member in self.added.values()])
        overlay, behind = self._members
        below = [] if overlay is None else overlay.candidates(where)
        added = [member for _, member in behind.values()]
        if added:
            rows = np.array([member.rows for member in added], np.int64)
            keep = may_match(where, zone_loader(added), rows)
            added = [member for member, kept in zip(added, keep.tolist(), strict=True) if kept]
        return self._merged(base, below + added)

    def holding(self, key: Bound) -> list[Member]:
        if self._by_key is None:
            self._by_key = KeyIndex(member for _, member in self.added.values())
        overlay = self._by_key.holding(key)
        return self._merged(self.base.holding(key) if self.base else [], overlay)

    def members_of(self, sources: Iterable[int]) -> list[Member]:
        """The live members that hold rows of any of `sources`."""
        wanted = frozenset(sources)
        overlay = [member for _, member in self.added.values() if member.counts_any(wanted)]
        return self._merged(self.base.members_of(wanted) if self.base else [], overlay)

    def find(self, path: str) -> tuple[Member, int] | None:
        """One live member with its zones, and its serial."""
        if path in self.added:
            serial, member = self.added[path]
            return member, serial
        if path in self.removed or self.base is None:
            return None
        found = self.base.by_path(path)
        if found is None or not self._terms_of_base():
            return found
        [member] = rezoned([found[0]], self._terms_of_base())
        return member, found[1]

    def contains(self, path: str) -> bool:
        if path in self.added:
            return True
        return path not in self.removed and self.base is not None and self.base.contains(path)

    def contained(self, paths: Sequence[str]) -> set[str]:
        """Those of the paths that are live members."""
        found = {path for path in paths if path in self.added}
        if self.base is not None:
            asked = [path for path in paths if path not in found and path not in self.removed]
            found |= self.base.present(asked)
        return found

    def in_order_added(self) -> list[Member]:
        rows = (
            []
            if self.base is None
            else list(zip(self.base.member_rows(), self.base.members(None), strict=True))
        )
        kept = [(row[0], member) for row, member in rows if member.path not in self.removed]
        return [member for _, member in sorted([*kept, *self.added.values()], key=lambda pair: pair[0])]

    def pages(self) -> tuple[PageRef, ...]:
        """The pages of live members, in key order: those of the checkpoint where nothing changed since."""
        return self.settled().pages()

    def members_in(self, page: PageRef) -> list[Member]:
        """The members of one page in key order, zones included."""
        return self.settled().members_in(page)

    def with_zones(self) -> list[Member]:
        """Every live member in key order, zones included: a whole listing, for people."""
        store = self.settled()
        return [member for page in store.pages() for member in store.members_in(page)]

    def row_count(self) -> int:
        """Rows that a reader gets, without opening anything."""
        rows = sum(member.live_rows for _, member in self.added.values())
        if self.base is not None:
            rows += self.base.row_count() - self.base.live_rows_at(self.base.places(self.removed))
        return rows

    def bucket_count(self) -> int:
        if self.base is not None and not self.added and not self.removed:
            return self.base.bucket_count()
        return len({member.bucket for member in self.candidates(None)})

    def sources_by_key(self) -> Iterator[tuple[Source, int]]:
        """Every live source in the order of the keys, with the sequence that recorded it: the checkpoint's
        one by one, merged with what lies over it, so that they are never all in memory."""
        read = self.read
        over = iter(sorted(read.values(), key=_key_of))
        if self.base is None:
            return over
        left = self.gone | read.keys()
        below = (pair for pair in self.base.sources_by_key() if pair[0].id not in left)
        return heapq.merge(below, over, key=_key_of)

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

    def evidence(self) -> dict[int, Looked]:
        """What is known of the sources' columns, by source."""
        base = self.base.evidence() if self.base is not None else []
        return {one.source: one for one in base if one.source not in self.gone} | self._looked

    def source_count(self) -> int:
        if self.base is None:
            return len(self.read)
        over = self.base.identified("sources", self.gone | self.read.keys())
        return self.base.source_count() - sum(map(len, over.values())) + len(self.read)

    def settled(self) -> MemberStore:
        """All of it as pages: those of the checkpoint where nothing changed, and new ones, in memory until
        somebody writes them."""
        if self._settled is None:
            changes = Changes(
                self.added.values(),
                self.removed,
                self.read.values(),
                self.gone,
                self._looked.values(),
                self._terms_of_base(),
            )
            damaged = (
                self.base.damaged
                if self.base is not None
                else damaged_checkpoint(f"{self.root}/{CHECKPOINT}")
            )
            self._settled = settled(self.root, self.meta, self.base, changes, damaged)
        return self._settled

    def save(self) -> MemberStore:
        """The same with its pages written; whoever asks again gets those."""
        self._settled = self.settled().save()
        return self._settled

    def _added_count(self) -> int:
        overlay, behind = self._members
        return len(behind) + (overlay.count() if overlay is not None else 0)

    def _read_count(self) -> int:
        overlay, behind = self._sources
        return len(behind) + (overlay.source_count() if overlay is not None else 0)

    def _edit(self, commit: Commit) -> None:
        for path in commit.remove:
            self._drop(path)
        for path, tier in commit.tier:
            self._change(path, tier=tier)
        for path, sources in commit.minus:
            self._change(path, minus=tuple(sorted({*self._live(path)[0].minus, *sources})))

    def _drop(self, path: str) -> None:
        if self.added.pop(path, None) is None:
            self.removed.add(path)

    def _change(self, path: str, **fields: object) -> None:
        """A changed member of the base moves to the overlay, under its old serial."""
        member, serial = self._live(path)
        if path not in self.added:
            self.removed.add(path)
        self.added[path] = (serial, msgspec.structs.replace(member, **fields))

    def _live(self, path: str) -> tuple[Member, int]:
        found = self.find(path)
        if found is None:
            raise LogCorrupt(
                f"a commit of {self.root} changes {path}, which is not a live member",
                hint="restore manifest.log and manifest.db from one backup, or `lading collection rebuild`",
            )
        return found

    def _terms_of_base(self) -> Terms:
        """The columns whose bounds mean something else in the checkpoint than they do now."""
        if self.base is None or self.base.schema == self.schema:
            return {}
        if self._terms is None or self._terms[0] != self.schema:
            self._terms = (self.schema, other_terms(self.base.schema, self.schema))
        return self._terms[1]

    def _turn_to(self, schema: bytes) -> None:
        """Zones are in terms of the schema. Those in the checkpoint stay as they are, and are turned when
        somebody asks for them."""
        terms = other_terms(self.schema, schema)
        if terms and self._added_count():
            serials, members = zip(*self.added.values(), strict=True)
            turned = rezoned(members, terms)
            self._members = (None, {one.path: (at, one) for at, one in zip(serials, turned, strict=True)})
        self.meta = msgspec.structs.replace(self.meta, schema=schema)

    def _merged(self, base: list[Member], overlay: list[Member]) -> list[Member]:
        live = [member for member in base if member.path not in self.removed]
        if not overlay:
            return live
        return sorted([*live, *overlay], key=_in_key_order)


def _key_of(pair: tuple[Source, int]) -> str:
    return pair[0].key


def _in_key_order(member: Member) -> tuple[bool, object, str]:
    """As a checkpoint numbers them: members without a key first."""
    return (member.key_min is not None, member.key_min, member.path)


def _meta_after(meta: StateMeta, commits: Sequence[Commit], next_serial: int) -> StateMeta:
    last = commits[-1]
    changing = next((commit for commit in reversed(commits) if commit.changes_rows), None)
    pinning = next((commit for commit in reversed(commits) if commit.schema is not None), None)
    inputs = next((commit.inputs for commit in reversed(commits) if commit.inputs is not None), meta.inputs)
    return msgspec.structs.replace(
        meta,
        sequence=last.sequence,
        data_sequence=changing.sequence if changing else meta.data_sequence,
        at=changing.at if changing else meta.at,
        recipe=last.recipe,
        schema=meta.schema if pinning is None else pinning.schema,
        order_by=meta.order_by if pinning is None else pinning.order_by,
        facts=_facts_after(meta, commits),
        next_serial=next_serial,
        inputs=inputs,
    )


def _facts_after(meta: StateMeta, commits: Sequence[Commit]) -> bytes:
    """What the last recipe is the hash of. Whoever changed it without saying so was lading 0.1."""
    facts, recipe = meta.facts, meta.recipe
    for commit in commits:
        if commit.facts is not None:
            facts = commit.facts
        elif commit.recipe != recipe:
            facts = b""
        recipe = commit.recipe
    return facts
