"""Putting a damaged checkpoint out of the way, and back: the log may do without it, or may not."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from lading.layout.table import CHECKPOINT
from lading.log.object_checkpoint import newest_checkpoint
from lading.model import Place
from lading.storage.place import Where, storage_of


@dataclass(frozen=True, slots=True)
class CheckpointAside:
    """The newest checkpoint of a table, under a name that nobody opens."""

    where: Where
    name: str
    kept_as: str

    def put_back(self) -> None:
        _move(self.where, self.kept_as, self.name)


def put_aside(where: Where, mark: str) -> CheckpointAside | None:
    """None if the table has no checkpoint."""
    name = _newest(where)
    if name is None:
        return None
    aside = CheckpointAside(where, name, f"{name}.{mark}")
    _move(where, aside.name, aside.kept_as)
    return aside


def _newest(where: Where) -> str | None:
    if isinstance(where, Place):
        return newest_checkpoint(where)
    return CHECKPOINT if (where / CHECKPOINT).exists() else None


def _move(where: Where, name: str, to: str) -> None:
    if not isinstance(where, Place):
        (where / name).rename(where / to)
        return
    storage = storage_of(where)
    with suppress(FileExistsError):  # moved before, and the deletion failed
        storage.put_new(to, storage.get(name))
    storage.delete(name)
