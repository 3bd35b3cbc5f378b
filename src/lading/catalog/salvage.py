"""What is left of a table's state when its log can't simply be opened. Reads, decides, writes nothing.

A state is a base with commits laid over it. Bases are the checkpoint, the snapshot that `_CURRENT` names,
and, if the log still has its beginning, nothing at all; the commits are those of the log before the first
damage. The base that gets furthest wins. What lies behind the damage may have replaced what is in the
state, so it is always said how much that is.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lading.catalog.checkpoint import open_checkpoint
from lading.catalog.log import NAME as LOG_NAME
from lading.catalog.state import TableState
from lading.errors import LadingError
from lading.format.frame import Salvage, salvage
from lading.format.members import MemberStore
from lading.format.pointer import parse_pointer
from lading.format.snapshot_file import open_snapshot_file
from lading.format.state_file import StateMeta
from lading.model import SnapshotRef

_NOTHING = Salvage(None, [], 0)


@dataclass(frozen=True, slots=True)
class Salvaged:
    """The state that could be put together, from what, and what it lacks."""

    found_in: str  # checkpoint, snapshot or log
    state: TableState
    lost: tuple[str, ...]  # in words


def salvaged_state(folder: Path) -> Salvaged | None:
    """The furthest state that checkpoint, snapshot and log give; None if none of them can be read."""
    log = _log(folder)
    bases = [_checkpoint(folder), _snapshot(folder), _beginning(folder, log)]
    reached = [(_advanced(state, log), name) for name, state in filter(None, bases)]
    if not reached:
        return None
    state, name = max(reached, key=lambda pair: pair[0].sequence)
    return Salvaged(name, state, tuple(_lost(log, state)))


def current_of(folder: Path) -> SnapshotRef | None:
    """What the pointer in the table's own directory says, None when there is none or it can't be read."""
    try:
        return parse_pointer((folder / "_CURRENT").read_bytes())
    except (OSError, LadingError):
        return None


def _log(folder: Path) -> Salvage:
    try:
        return salvage((folder / LOG_NAME).read_bytes())
    except OSError:
        return _NOTHING


def _checkpoint(folder: Path) -> tuple[str, TableState] | None:
    try:
        store = open_checkpoint(folder)
    except LadingError:
        return None
    return _whole("checkpoint", folder, store)


def _snapshot(folder: Path) -> tuple[str, TableState] | None:
    current = current_of(folder)
    if current is None or ".." in current.ref.split("/") or current.ref.startswith("/"):
        return None
    try:
        store = MemberStore(open_snapshot_file(folder / current.ref), str(folder))
    except LadingError:
        return None
    return _whole("snapshot", folder, store)


def _beginning(folder: Path, log: Salvage) -> tuple[str, TableState] | None:
    if log.header is None or log.header.base > 0:
        return None
    return "log", TableState(str(folder), StateMeta.before_the_first_commit(log.header))


def _whole(name: str, folder: Path, store: MemberStore | None) -> tuple[str, TableState] | None:
    """A base that passes all of its checks, or none."""
    if store is None:
        return None
    try:
        state = TableState(str(folder), msgspec.structs.replace(store.meta, log_id="", log_offset=0), store)
        state.columns()
    except (LadingError, sqlite3.Error):
        store.close()
        return None
    return name, state


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
        lost.append(
            "manifest.log could not be read: commits after the restored state are lost, if there were any"
        )
    if log.behind:
        lost.append(
            f"{log.behind} commits lie behind the damage in manifest.log and were not applied: "
            "a part that they replaced may be listed again, and one that they added is not"
        )
    unapplied = [commit.sequence for commit in log.commits if commit.sequence > state.sequence]
    if unapplied:
        lost.append(
            f"the commits {unapplied[0]} to {unapplied[-1]} of manifest.log do not follow the restored state"
        )
    return lost
