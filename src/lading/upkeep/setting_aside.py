"""Putting a damaged checkpoint out of the way, and back: the log may do without it, or may not."""

from __future__ import annotations

from dataclasses import dataclass

from lading.log.checkpoint import newest_name
from lading.model import Place
from lading.storage.place import storage_of


@dataclass(frozen=True, slots=True)
class CheckpointAside:
    """The newest checkpoint of a table, under a name that nobody opens."""

    place: Place
    name: str
    kept_as: str

    def put_back(self) -> None:
        storage_of(self.place).rename(self.kept_as, self.name)


def put_aside(place: Place, mark: str) -> CheckpointAside | None:
    """None if the table has no checkpoint."""
    name = newest_name(place)
    if name is None:
        return None
    aside = CheckpointAside(place, name, f"{name}.{mark}")
    storage_of(place).rename(aside.name, aside.kept_as)
    return aside
