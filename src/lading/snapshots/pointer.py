"""The pointer `_CURRENT`: small JSON that names the snapshot readers see.

Its first five keys are those that shardyfusion readers know. lading adds three: `sequence` (the log
sequence of the snapshot, so that the older of two publishers can tell that it lost), `held` (somebody
rolled back: runs must not move it) and `swap_id` (fresh for every move, so that a compare-and-swap
tells "still the one I read" from "moved away and back"). A pointer without them is read as well.

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
    retired: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET  # written only where there are any

    def snapshot(self) -> SnapshotRef:
        return SnapshotRef(
            ref=self.manifest_ref,
            run_id=self.run_id,
            published_at=self.updated_at,
            sequence=self.sequence,
            held=self.held,
            swap_id=self.swap_id,
            retired=self.retired or (),
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
