"""What the commits behind a checkpoint did, by column: so that opening a table doesn't mean decoding each.

An overlay says nothing that checkpoint and log don't say. It names the very bytes of the log that it stands
for, with their hash: whoever opens a table and finds that anything is not so passes it over and reads the
commits themselves. So it need not be durable, it may be deleted, and no reader ever depends on it.

    overlay = a frame (log_frames.py) whose magic is "LDGO" and whose payload is msgpack of an Overlay

Zones lie as vectors, as in a checkpoint; a member is decoded when it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

import msgspec

from lading.errors import LogCorrupt
from lading.late import np
from lading.model import Looked, Member, Source
from lading.state.log_frames import framed, read_payload
from lading.state.root_copy import RootCopy
from lading.state.sound import Sound
from lading.state.tables import StateMeta
from lading.where.prune import may_match
from lading.where.tree import Predicate
from lading.zones.numbers import packed, packed_at, unpacked
from lading.zones.vector import ZoneVector, pack

VERSION = 3  # another one whenever a field is appended to what it holds: it would come without that
_MAGIC = b"LDGO"

Added = dict[str, tuple[int, Member]]  # path -> (serial, member)
Read = dict[int, tuple[Source, int]]  # source -> (record, sequence)

_encode = msgspec.msgpack.Encoder().encode
_decode_member = msgspec.msgpack.Decoder(tuple[int, Member]).decode
_decode_sources = msgspec.msgpack.Decoder(list[tuple[Source, int]]).decode
_split_sources = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


class Covered(msgspec.Struct, frozen=True):
    """Which commits: those of one log behind one checkpoint, by their place in the log."""

    log_id: str
    base: int  # the checkpoint's sequence, 0 without one
    start: int  # offsets
    end: int
    hash: int  # xxh3_64 of the log's bytes in between. Not a CRC: frames end with theirs, so that the CRC of
    # a whole frame says nothing but how long it is.


class Overlay(msgspec.Struct, frozen=True):
    """The state behind a checkpoint after the commits that it covers."""

    version: int
    covered: Covered
    meta: StateMeta
    removed: tuple[str, ...]  # members of the checkpoint that are no longer live
    gone: tuple[int, ...]  # sources of the checkpoint that were retracted
    read: bytes  # msgpack of [source, sequence] pairs
    members: memoryview  # msgpack of [serial, member], one after the other; a part of what was read
    ends: bytes  # where each of them ends: packed numbers
    rows: bytes  # of each: packed numbers
    zones: dict[str, bytes]  # column -> zone vector
    looked: tuple[Looked, ...] = ()  # evidence of sources
    root: RootCopy | None = None  # of the checkpoint

    @staticmethod
    def of(
        covered: Covered,
        meta: StateMeta,
        added: Added,
        removed: set[str],
        read: Read,
        gone: set[int],
        looked: tuple[Looked, ...] = (),
        root: RootCopy | None = None,
    ) -> Overlay:
        members = [member for _, member in added.values()]
        entries = [_encode(entry) for entry in added.values()]
        columns = sorted({name for member in members for name in member.zones})
        return Overlay(
            VERSION,
            covered,
            meta,
            tuple(sorted(removed)),
            tuple(sorted(gone)),
            _encode(list(read.values())),
            memoryview(b"".join(entries)),
            packed(np.cumsum([len(entry) for entry in entries], dtype=np.int64)),
            packed(np.array([member.rows for member in members], np.int64)),
            {name: pack([member.zones.get(name) for member in members]).to_blob() for name in columns},
            looked,
            root,
        )

    def to_bytes(self) -> bytes:
        return framed(_MAGIC, _encode(self))

    def count(self) -> int:
        """How many members were added."""
        with _SOUND:
            return len(packed_at(self.ends)[0])

    def added(self) -> Added:
        """Every one of them, decoded."""
        return {entry[1].path: entry for entry in self._entries(range(self.count()))}

    def sources(self) -> Read:
        """Every source that was read, decoded."""
        with _SOUND:
            return {pair[0].id: pair for pair in _decode_sources(self.read)}

    def source_count(self) -> int:
        """How many sources were read."""
        with _SOUND:
            return len(_split_sources(self.read))

    def candidates(self, where: Predicate) -> list[Member]:
        """Of the members added, those that a predicate can't rule out."""
        with _SOUND:
            keep = may_match(where, self._zones, packed_at(self.rows)[0])
        return [member for _, member in self._entries(np.flatnonzero(keep).tolist())]

    def _zones(self, column: str) -> ZoneVector | None:
        blob = self.zones.get(column)
        return None if blob is None else ZoneVector.from_blob(blob, as_packed=True)

    def _entries(self, numbers: Sequence[int]) -> list[tuple[int, Member]]:
        if not numbers:
            return []
        with _SOUND:
            ends = [0, *unpacked(self.ends)[0].tolist()]
            return [_decode_member(self.members[ends[at] : ends[at + 1]]) for at in numbers]


_decode_overlay = msgspec.msgpack.Decoder(Overlay).decode


def read_overlay(file: BinaryIO) -> Overlay | None:
    """The overlay that a file is; None if it is anything else, a later version's or a torn one. Nothing is
    copied, for it may be long."""
    payload = read_payload(file, _MAGIC)
    if payload is None:
        return None
    try:
        found = _decode_overlay(payload)
    except msgspec.MsgspecError:
        return None
    return found if found.version == VERSION else None


def _damaged(what: str) -> LogCorrupt:
    return LogCorrupt(what, hint="delete it (manifest.overlay): the log has all of it")


_SOUND = Sound(_damaged, "the overlay")
