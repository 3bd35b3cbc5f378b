"""Which versions of the metadata somebody may still be following, and which snapshots those show.

Whoever read `version-hint.text` a moment ago goes by the version that it named then, however long ago that
was written, and by the snapshot that the version shows, however long ago the pointer left it: the hint may
have been brought up to date only now. So it is known of every version what the hint named before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lading.iceberg.follow import where
from lading.iceberg.metadata import hint_in, twins_in
from lading.layout.table import METADATA, VERSION_HINT, version_of, version_path
from lading.model import Place
from lading.storage.place import storage_of


@dataclass(frozen=True, slots=True)
class Followed:
    version: int  # the oldest that the hint may have named since
    refs: frozenset[str] = (
        frozenset()
    )  # manifests whose snapshots were shown since, whatever the pointer said


def followed_since(place: Place, horizon: datetime) -> Followed | None:
    """What readers of the hint may have been led to since `horizon`; None if there is no hint."""
    storage = storage_of(place)
    at = where(place)
    if at is None:
        return None
    try:
        moved = storage.head(VERSION_HINT).modified  # read behind it: it is no younger than this
    except FileNotFoundError:
        return None
    found = ((version_of(one.name), one.modified) for one in storage.list(METADATA))
    old = sorted(number for number, written in found if number is not None and written < horizon)
    before = hint_in(_content(place, old[-1])) if old else 0
    since = at.version if moved < horizon else before
    return Followed(
        since, frozenset(ref for number in old if number >= since for ref in _shown(place, number))
    )


def _shown(place: Place, version: int) -> list[str]:
    told = twins_in(_content(place, version), None)
    return [] if told is None else [one.ref for one in told[0] if one.number == told[1]]


def _content(place: Place, version: int) -> bytes:
    try:
        return storage_of(place).get(version_path(version))
    except FileNotFoundError:
        return b""  # deleted by somebody else: nobody follows it
