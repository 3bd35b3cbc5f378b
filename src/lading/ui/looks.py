"""How each table is, with the last look at its files.

A look lists all files: at 100,000 of them it takes a second. So a page first shows what takes no time, with
what the last look saw if nothing was run or set otherwise since, and asks for a new look when it is there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lading import clock
from lading.config.project import Config
from lading.layout.project import CONFIG
from lading.upkeep.status import TableStatus, status


@dataclass(frozen=True, slots=True)
class Look:
    """`at` is when the files were looked at; None if they weren't."""

    tables: Sequence[TableStatus]
    at: datetime | None


@dataclass(frozen=True, slots=True)
class _Kept:
    look: Look
    begun: float
    facts: Sequence[TableStatus]  # what was known without the files, before they were looked at
    stamp: tuple[int, int] | None


class Looks:
    def __init__(self) -> None:
        self._kept: _Kept | None = None
        self._looking = threading.Lock()

    def last(self, config: Config) -> Look:
        """What takes no time: with the last look at the files, if nothing moved since but they."""
        facts, kept = status(config, files=False), self._kept
        if kept is not None and kept.facts == facts and kept.stamp == _stamp(config):
            return kept.look
        return Look(facts, None)

    def new(self, config: Config) -> Look:
        """One that begins now; who comes while another waits to begin gets the same."""
        came = clock.monotonic()
        with self._looking:
            kept = self._kept
            if kept is None or kept.begun < came:
                begun, at, stamp = clock.monotonic(), clock.now(), _stamp(config)
                facts = status(config, files=False)
                kept = self._kept = _Kept(Look(status(config), at), begun, facts, stamp)
        return kept.look


def _stamp(config: Config) -> tuple[int, int] | None:
    try:
        stat = os.stat(config.project / CONFIG)
    except OSError:
        return None  # being replaced
    return stat.st_mtime_ns, stat.st_size
