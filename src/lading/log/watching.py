"""Whether a member is live at this very moment: the log is read again only when somebody wrote to it."""

from __future__ import annotations

import os
from pathlib import Path

from lading.layout.table import CHECKPOINT, LOG
from lading.log.objects import is_taken
from lading.log.table import Table
from lading.model import Place

_Signature = tuple[int, int, int] | None


class LogWatch:
    """One table, brought up to date and then asked again and again: on disk a question costs two stats, in a
    bucket one request."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._seen = self._signatures()  # before the log is read: what comes later is noticed
        table.refresh()

    def is_live(self, path: str) -> bool:
        if self._moved():
            self._table.refresh()
        return self._table.state.contains(path)

    def _moved(self) -> bool:
        place = self._table.place
        if isinstance(place, Place):
            return is_taken(place, self._table.state.sequence + 1)
        now = self._signatures()
        moved, self._seen = now != self._seen, now
        return moved

    def _signatures(self) -> tuple[_Signature, ...]:
        place = self._table.place
        if isinstance(place, Place):
            return ()
        return tuple(_signature(place / name) for name in (LOG, CHECKPOINT))


def _signature(path: Path) -> _Signature:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
