"""What readers see of a table, for whoever has to build its log again from that."""

from __future__ import annotations

from collections.abc import Mapping

from lading.errors import ManifestParseError
from lading.read.opener import store_at
from lading.snapshots.history import history
from lading.snapshots.opening import open_members
from lading.snapshots.stores.protocol import ManifestStore
from lading.storage.place import Where, place_of
from lading.upkeep.salvage import Published


def published_at(where: Where, store: ManifestStore | str | None, s3: Mapping[str, str] | None) -> Published:
    """The snapshot of the table at `where` that `store` (or its own place) names as current, if it has one.
    A pointer that is damaged is no help; a store that doesn't answer is an error: there may be a snapshot."""
    opened = store_at(str(where), store, s3)
    try:
        current = opened.load_current()
    except ManifestParseError:
        current = None
    return Published(
        current,
        lambda ref: open_members(opened, ref.ref, place_of(where), check=True),
        highest=max((one.sequence or 0 for one in history(opened)), default=0),
    )
