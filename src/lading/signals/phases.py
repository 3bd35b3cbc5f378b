"""How long each phase of a run took."""

from __future__ import annotations

import threading

from lading import clock
from lading.watch import Watch


class Phases(Watch):
    """By table and phase, in seconds; one that comes twice is summed up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: dict[str, tuple[str, float]] = {}
        self._took: dict[str, dict[str, float]] = {}

    def phase(self, table: str, name: str) -> None:
        now = clock.monotonic()
        with self._lock:
            self._end(table, now)
            self._since[table] = (name, now)

    def take(self, table: str) -> dict[str, float]:
        """Those of the run that has ended; the next one begins anew."""
        with self._lock:
            self._end(table, clock.monotonic())
            took = self._took.pop(table, {})
        took.pop("done", None)
        return took

    def _end(self, table: str, now: float) -> None:
        before = self._since.pop(table, None)
        if before is not None:
            name, begun = before
            took = self._took.setdefault(table, {})
            took[name] = took.get(name, 0.0) + now - begun
