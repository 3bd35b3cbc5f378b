"""Looking at a table before it is cleaned: its log, its manifests, its runs, its files. Touches nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import get_args

from lading import clock
from lading.config.clean import GRACE, KEEP_RUNS
from lading.errors import ConfigError, ManifestParseError
from lading.iceberg.check import needed, shown_lists
from lading.iceberg.followed import Followed, followed_since
from lading.iceberg.snapshot import record_in
from lading.layout.table import is_part_of, version_of
from lading.log.checkpoint import each_checkpoint
from lading.log.table import Table
from lading.model import Place, SnapshotRef
from lading.snapshots.history import gate_failures
from lading.snapshots.opening import Mentioned, References, references
from lading.snapshots.runs import list_runs
from lading.snapshots.stores.protocol import ManifestStore
from lading.storage.place import Where
from lading.upkeep.clean.files import TableFile, files_of, is_shard_file, part_origin
from lading.upkeep.clean.rules import (
    Garbage,
    Kind,
    ListedManifest,
    LogReach,
    Reach,
    Runs,
    garbage,
    split_manifests,
)

_LOST = (
    "nothing in this table is cleaned until it is clear what this snapshot needs. If readers see it: lading "
    "repair. Otherwise restore the manifest from a copy, or delete it and do without that snapshot"
)
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Rules:
    """What is kept, and which kinds are looked for."""

    keep_runs: int = KEEP_RUNS
    grace: timedelta = GRACE
    kinds: tuple[Kind, ...] = KINDS
    now: datetime | None = None  # the clock's, if None

    def __post_init__(self) -> None:
        if self.keep_runs < 1 or self.grace < timedelta(0):
            raise ConfigError(
                "cleaning keeps at least one run", hint="give --keep-runs 1 or more, --older-than 0s or more"
            )


class Manifests:
    """A store's manifests. They never change, so each is fetched and checked once, however often a cleaning
    asks."""

    def __init__(self, store: ManifestStore, root: Place) -> None:
        self.store = store
        self._root = root
        self._known: dict[str, References | ManifestParseError] = {}
        self.mentioned: dict[str, Mentioned] = {}  # by page, of all manifests

    def references(self, ref: str) -> References:
        """What a manifest that stays refers to; ManifestParseError, which stops all cleaning, if that can't
        be told."""
        if ref not in self._known:
            try:
                self._known[ref] = references(self.store, ref, self._root, self.mentioned)
            except ManifestParseError as error:
                error.hint = _LOST
                self._known[ref] = error
        found = self._known[ref]
        if isinstance(found, ManifestParseError):
            raise found
        return found

    def refused(self, ref: str) -> bool:
        """Whether its gate refused it. One that can't be read counts as shown: it is kept for longer."""
        found = self._told(ref)
        return found is not None and bool(gate_failures(found.custom))

    def pages(self, ref: str) -> frozenset[str]:
        """Of a manifest that goes: only to say what a part was, so a damaged one may say nothing."""
        found = self._told(ref)
        return found.pages if found is not None else frozenset()

    def members(self, pages: Iterable[frozenset[str]]) -> frozenset[str]:
        """That these pages name."""
        every = frozenset().union(*pages)
        return frozenset().union(*(self.mentioned[page].members for page in every if page in self.mentioned))

    def aside(self, pages: Iterable[frozenset[str]]) -> frozenset[str]:
        every = frozenset().union(*pages)
        return frozenset().union(*(self.mentioned[page].aside for page in every if page in self.mentioned))

    def size(self, ref: str) -> int:
        """0 if it can't be read."""
        found = self._told(ref)
        return found.bytes if found is not None else 0

    def _told(self, ref: str) -> References | None:
        try:
            return self.references(ref)
        except ManifestParseError:
            return None


@dataclass(frozen=True, slots=True)
class Around:
    """A table, where its manifests are, and by which rules it is cleaned."""

    table: Table
    manifests: Manifests
    beside: Where | None  # where manifests, and shards maybe, lie apart from the data
    rules: Rules
    follow: Callable[..., str | None] | None = None  # Iceberg's metadata says what is left, or a note why not
    pinned: frozenset[str] = frozenset()  # manifests that other tables were made from

    def runs(self) -> Runs:
        return Runs(list_runs(self.table.place)[0], (self.rules.now or clock.now()).astimezone(UTC))


class Survey:
    """One look at a table: its log, its manifests, its runs, its files."""

    def __init__(self, around: Around) -> None:
        self._around = around
        self._table = around.table
        self._manifests = around.manifests
        self._store = around.manifests.store
        self._rules = around.rules
        self.runs = around.runs()

    def garbage(self) -> list[Garbage]:
        """What the rules let go, old manifests included."""
        return [one for one in self._found(*self._split()) if one.kind in self._rules.kinds]

    def unreachable(self) -> set[TableFile]:
        """The files that nothing refers to now, counting every manifest that is there."""
        return {one.file for one in self._found(self._store.list_manifests(), []) if one.file is not None}

    def _found(self, kept: list[SnapshotRef], old: list[SnapshotRef]) -> list[Garbage]:
        staying = [self._manifests.references(one.ref) for one in kept]
        files = list(files_of(self._table.place))
        if self._around.beside is not None:
            there = files_of(self._around.beside)
            files += [one for one in there if one.kind in ("shard", "temporary")]
        found = [
            Garbage(one.ref, "old run", self._manifests.size(one.ref), f"run {one.run_id} is past keep_runs")
            for one in old
        ]
        return found + garbage(
            files,
            self._reach(kept, old, staying, files),
            self.runs,
            keep_runs=self._rules.keep_runs,
            grace=self._rules.grace,
            written_by=self._written_by,
            is_part_of=is_part_of,
        )

    def _split(self) -> tuple[list[SnapshotRef], list[SnapshotRef]]:
        manifests = self._store.list_manifests()
        if "old run" not in self._rules.kinds:
            return manifests, []
        listed = [ListedManifest(one, self._manifests.refused(one.ref)) for one in manifests]
        current = self._store.load_current()
        rules = self._rules
        kept, old = split_manifests(listed, current, self.runs, keep_runs=rules.keep_runs, grace=rules.grace)
        pinned = self._around.pinned | (self._followed.refs if self._followed is not None else frozenset())
        return kept + [one for one in old if one.ref in pinned], [one for one in old if one.ref not in pinned]

    def _reach(
        self,
        kept: Sequence[SnapshotRef],
        old: Sequence[SnapshotRef],
        staying: Sequence[References],
        files: Sequence[TableFile],
    ) -> Reach:
        state, manifests = self._table.state, self._manifests
        aside = {source.quarantine for source, _ in state.sources_by_key() if source.quarantine}
        pages = [one.pages for one in staying]
        return Reach(
            is_live=state.contains,
            removed=_removed(self._table),
            members=manifests.members(pages),
            old_members=manifests.members(manifests.pages(one.ref) for one in old),
            shards=frozenset().union(*(one.shards for one in staying)),
            aside=manifests.aside(pages) | aside,
            pages=frozenset().union(*pages, *(named_pages(self._table))),
            runs_kept={one.run_id for one in kept},
            refs_kept={one.ref for one in kept},
            log=LogReach.of(files, self.runs.horizon(self._rules.grace)),
            is_shown=self._is_shown({one.ref for one in kept}, staying),
        )

    def _is_shown(self, refs: Collection[str], staying: Sequence[References]) -> Callable[[str], bool]:
        """Of the files for Iceberg readers: what the snapshots that stay lead to, and the metadata from the
        version on that somebody may follow. If that can't be told, all of them stay."""
        place = self._table.place
        told = (record_in(one.custom) for one in staying)
        lists = {record.list for record in told if record is not None}
        wanted = needed(place, sorted(lists | set(shown_lists(place, refs))))
        followed = self._followed

        def is_shown(path: str) -> bool:
            version = version_of(path)
            if version is not None:
                return followed is not None and version >= followed.version
            return wanted is None or path in wanted

        return is_shown

    @cached_property
    def _followed(self) -> Followed | None:
        return followed_since(self._table.place, self.runs.horizon(self._rules.grace))

    def _written_by(self, file: TableFile) -> str | None:
        if file.kind == "shard":
            return file.run_id if is_shard_file(file) else None
        origin = part_origin(file)
        return origin[1] if origin is not None and origin[0] == self._table.table_id else None


def named_pages(table: Table) -> list[set[str]]:
    """The pages that the table's checkpoints name, and the one that `table` was opened with. LogCorrupt if
    one of them doesn't say: then nothing may go."""
    found = [] if table.state.base is None else [table.state.base.page_names()]
    for checkpoint in each_checkpoint(table.place, whole=True):
        try:
            found.append(checkpoint.page_names())
        finally:
            checkpoint.close()
    return found


def _removed(table: Table) -> dict[str, datetime]:
    found = {}
    for commit in table.history():
        at = datetime.fromisoformat(commit.at)
        found.update(dict.fromkeys(commit.remove, at if at.tzinfo is not None else at.replace(tzinfo=UTC)))
    return found
