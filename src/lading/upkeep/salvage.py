"""What is left of a table's state when its log can't simply be opened. Reads, decides, writes nothing.

A state is a base with commits laid over it. Bases are the checkpoint, the snapshot that `_CURRENT` names,
and, if the log still has its beginning, nothing at all; the commits are those of the log before the first
damage. The base that gets furthest wins. What lies behind the damage may have replaced what is in the
state, so it is always said how much that is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from lading.errors import LadingError, ManifestParseError, StorageError, StoreUnreachable
from lading.layout.table import POINTER
from lading.log.checkpoint import each_checkpoint
from lading.log.state import TableState
from lading.log.table import log_of
from lading.model import Place, SnapshotRef
from lading.read.opener import store_at
from lading.snapshots.history import history
from lading.snapshots.opening import open_members
from lading.snapshots.pointer import parse_pointer
from lading.snapshots.stores.protocol import ManifestStore
from lading.state.log_frames import LogHeader, Salvage
from lading.state.members import MemberStore
from lading.state.sqlite import open_snapshot_file
from lading.state.tables import StateMeta
from lading.storage.place import Where, place_of, storage_of
from lading.words import count_words


@dataclass(frozen=True, slots=True)
class PublishedState:
    """The snapshot that readers see, wherever its manifest is kept."""

    current: SnapshotRef | None
    members: Callable[[SnapshotRef], MemberStore]
    highest: int = 0  # of all sequences that a snapshot has, whether readers see it or not

    @property
    def given_out(self) -> int:
        return max(self.highest, self.current.sequence if self.current is not None else 0)


@dataclass(frozen=True, slots=True)
class Salvaged:
    """The state that could be put together, from what, and what it lacks."""

    found_in: str  # checkpoint, snapshot or log
    state: TableState
    lost: tuple[str, ...]  # in words


def salvaged_state(where: Where, published: PublishedState | None = None) -> Salvaged | None:
    """The furthest state that checkpoint, snapshot and log give; None if none of them can be read. Without
    `published` it is what the pointer in the table's own directory names."""
    where = place_of(where)
    log = log_of(where).salvage()
    bases = [_checkpoint(where), _snapshot(where, published or own_pointer(where)), _beginning(where, log)]
    reached = [(_advanced(state, log), name) for name, state in filter(None, bases)]
    if not reached:
        return None
    state, name = max(reached, key=lambda pair: pair[0].sequence)
    return Salvaged(name, state, tuple(_lost(log, state)))


def own_pointer(where: Where) -> PublishedState:
    """What the pointer in a table's own directory says, nothing when there is none or it can't be read."""

    place = place_of(where)
    folder = storage_of(place).folder

    def members(ref: SnapshotRef) -> MemberStore:
        assert folder is not None
        return MemberStore(open_snapshot_file(folder / ref.ref), place)

    try:
        if folder is None:
            return PublishedState(None, members)
        current = parse_pointer((folder / POINTER).read_bytes())
    except (OSError, LadingError):
        return PublishedState(None, members)
    leads_out = ".." in current.ref.split("/") or current.ref.startswith("/")
    return PublishedState(None if leads_out else current, members)


def header_of(where: Where) -> LogHeader | None:
    """What is left of the log's header: it names the table."""
    return log_of(where).salvage().header


def _checkpoint(where: Place) -> tuple[str, TableState] | None:
    found = (_whole("checkpoint", where, store) for store in each_checkpoint(where))
    return next((one for one in found if one is not None), None)


def _snapshot(where: Place, published: PublishedState) -> tuple[str, TableState] | None:
    if published.current is None:
        return None
    try:
        store = published.members(published.current)
    except (StorageError, StoreUnreachable):
        raise  # no answer says nothing about the snapshot
    except LadingError:
        return None
    return _whole("snapshot", where, store)


def _beginning(where: Place, log: Salvage) -> tuple[str, TableState] | None:
    cleaned = bool(log.commits) and log.commits[0].sequence > 1
    if log.header is None or log.header.base > 0 or cleaned:
        return None
    return "log", TableState(where, StateMeta.before_the_first_commit(log.header))


def _whole(name: str, where: Place, store: MemberStore | None) -> tuple[str, TableState] | None:
    """A base that passes all of its checks, or none."""
    if store is None:
        return None
    try:
        meta = msgspec.structs.replace(store.meta, log_id="", log_offset=0)
        store.check()
    except (LadingError, sqlite3.Error):
        store.close()
        return None
    return name, TableState(where, meta, store)


def _advanced(state: TableState, log: Salvage) -> TableState:
    """The state with those commits of the log that follow it without a gap."""
    if log.header is None or log.header.table_id != state.meta.table_id:
        return state
    following = [commit for commit in log.commits if commit.sequence > state.sequence]
    whole = [c for expected, c in enumerate(following, state.sequence + 1) if c.sequence == expected]
    state.apply(whole)
    return state


def _lost(log: Salvage, state: TableState) -> list[str]:
    lost = []
    if log.header is None:
        lost.append("the log could not be read: any commits after the restored state are lost")
    if log.behind:
        lost.append(
            f"{count_words(log.behind, 'commit')} after the damage in the log could not be applied: "
            "parts replaced there may be listed again, and parts added there are not"
        )
    unapplied = [commit.sequence for commit in log.commits if commit.sequence > state.sequence]
    if unapplied:
        lost.append(
            f"the commits {unapplied[0]} to {unapplied[-1]} of the log do not follow the restored state"
        )
    return lost


def published_at(
    where: Where, store: ManifestStore | str | None, s3: Mapping[str, str] | None
) -> PublishedState:
    """The snapshot of the table at `where` that `store` (or its own place) names as current, if it has one.
    A pointer that is damaged is no help; a store that doesn't answer is an error: there may be a snapshot."""
    opened = store_at(str(where), store, s3)
    try:
        current = opened.load_current()
    except ManifestParseError:
        current = None
    return PublishedState(
        current,
        lambda ref: open_members(opened, ref.ref, place_of(where), check=True),
        highest=max((one.sequence or 0 for one in history(opened)), default=0),
    )
