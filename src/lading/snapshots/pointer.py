"""The pointer `_CURRENT`: small JSON that names the snapshot readers see.

Its first five keys are those that shardyfusion readers know. lading adds three: `sequence` (the log
sequence of the snapshot, so that the older of two publishers can tell that it lost), `held` (somebody
rolled back: runs must not move it) and `swap_id` (fresh for every move, so that a compare-and-swap
tells "still the one I read" from "moved away and back"). A pointer without them is read as well. `before`
and `retired` are for stores without a lock, where answers get lost and deletions arrive late.

This is only what it says. It moves elsewhere: publish.py decides whether, stores/files.py swaps it, and
storage/ makes the swap atomic.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec

from lading import ids
from lading.errors import ManifestParseError
from lading.layout.table import POINTER
from lading.model import SnapshotRef

CONTENT_TYPE = "application/x-sqlite3"
POINTER_CONTENT_TYPE = "application/json"  # of the pointer itself
POINTER_FORMAT = 1
POINTER_LIMIT = 64 * 1024  # bytes; a real one has about 350

_MOVES = 16  # that a pointer remembers: nobody waits for an answer while others move it as often as that

MALFORMED = "lading repair puts the pointer back; or roll back to a snapshot that lading history lists"


class Pointer(msgspec.Struct, frozen=True, kw_only=True):
    """The pointer as it is stored."""

    manifest_ref: Annotated[str, msgspec.Meta(min_length=1)]
    manifest_content_type: str
    run_id: Annotated[str, msgspec.Meta(min_length=1)]
    updated_at: datetime
    format_version: int = POINTER_FORMAT
    sequence: Annotated[int, msgspec.Meta(ge=0)] = 0
    held: bool = False
    swap_id: str = ""
    # Both are written only where there are any.
    retired: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    before: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET

    def snapshot(self) -> SnapshotRef:
        return SnapshotRef(
            ref=self.manifest_ref,
            run_id=self.run_id,
            published_at=self.updated_at,
            sequence=self.sequence,
            held=self.held,
            swap_id=self.swap_id,
            retired=self.retired or (),
            before=self.before or (),
        )


def encode_pointer(to: SnapshotRef) -> bytes:
    """The bytes of a pointer to `to`."""
    pointer = Pointer(
        manifest_ref=to.ref,
        manifest_content_type=CONTENT_TYPE,
        run_id=to.run_id,
        updated_at=to.published_at.astimezone(UTC),
        sequence=to.sequence,
        held=to.held,
        swap_id=to.swap_id,
        retired=to.retired or msgspec.UNSET,
        before=to.before or msgspec.UNSET,
    )
    return msgspec.json.encode(pointer)


def decode_pointer(data: bytes) -> Pointer:
    """The pointer in `data`, every field checked. A time without a zone is UTC."""
    if len(data) > POINTER_LIMIT:
        raise ManifestParseError(
            f"{POINTER} has {len(data)} bytes, more than {POINTER_LIMIT}", hint=MALFORMED
        )
    try:
        pointer = msgspec.json.decode(data, type=Pointer)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
        raise ManifestParseError(f"{POINTER} is malformed: {error}", hint=MALFORMED) from error
    if pointer.format_version != POINTER_FORMAT:
        raise ManifestParseError(
            f"{POINTER} has format_version {pointer.format_version}, not {POINTER_FORMAT}",
            hint="a newer lading wrote it: upgrade this one",
        )
    if pointer.manifest_content_type != CONTENT_TYPE:
        raise ManifestParseError(
            f"{POINTER} names a manifest of type {pointer.manifest_content_type!r}, not {CONTENT_TYPE!r}",
            hint=MALFORMED,
        )
    return msgspec.structs.replace(pointer, updated_at=_utc(pointer.updated_at))


def parse_pointer(data: bytes) -> SnapshotRef:
    """The immutable reference that the pointer in `data` holds."""
    return decode_pointer(data).snapshot()


def moves_before(current: SnapshotRef | None) -> tuple[str, ...]:
    """What the move after `current` says of those before it."""
    if current is None or not current.swap_id:
        return ()
    return (current.swap_id, *current.before)[:_MOVES]


def moved_by(current: SnapshotRef | None, move: SnapshotRef) -> bool:
    """Whether the pointer was moved by `move`, now or some moves ago."""
    return current is not None and move.swap_id in (current.swap_id, *current.before)


def new_swap_id() -> str:
    """A name for one move of the pointer."""
    return ids.fresh()


def _utc(time: datetime) -> datetime:
    if time.tzinfo is None:
        return time.replace(tzinfo=UTC)
    try:
        return time.astimezone(UTC)
    except OverflowError as error:
        raise ManifestParseError(f"{POINTER} has an impossible time: {time}", hint=MALFORMED) from error
