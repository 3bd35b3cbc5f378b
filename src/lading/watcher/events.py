"""What a watcher tells: one value an event, the same for a terminal, a log, a page and `--json`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from lading import clock
from lading.secrets import hide
from lading.watch import Watch

Kind = Literal[
    "started",  # the watcher, with the tables and how it hears of their files
    "run started",  # of one table; `files`: how many it was told of, None for all
    "phase",  # of that run
    "progress",  # inside the phase
    "run finished",  # with the report
    "run failed",  # with the error and the pause before the next try
    "config",  # lading.yaml changed and was read again, or could not be
    "spark",  # started anew, or let go
    "warning",  # something beside the runs went wrong; they go on
    "stopping",  # as soon as the run under way is done
    "stopped",
]


@dataclass(frozen=True, slots=True)
class Event:
    kind: Kind
    table: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    at: datetime = field(default_factory=lambda: clock.now())

    def as_object(self) -> dict[str, Any]:
        named = {"table": self.table} if self.table is not None else {}
        return {"at": self.at.isoformat(), "event": self.kind, **named, **self.fields}


Listener = Callable[[Event], None]


class Broadcast:
    """To everybody who listens, from any thread. One who raises hears no more, and the others are told so."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._lock = threading.Lock()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """From now on; call what is returned to end it."""
        with self._lock:
            self._listeners.append(listener)

        def end() -> None:
            with self._lock, suppress(ValueError):
                self._listeners.remove(listener)

        return end

    def __call__(self, event: Event) -> None:
        with self._lock:
            listeners = list(self._listeners)
        failed = [said for listener in listeners if (said := self._told(listener, event)) is not None]
        for said in failed:
            self(Event("warning", None, {"said": said}))

    def _told(self, listener: Listener, event: Event) -> str | None:
        """What went wrong, if something did: then the listener is gone."""
        try:
            listener(event)
        except Exception as error:
            with self._lock, suppress(ValueError):
                self._listeners.remove(listener)
            name = getattr(listener, "__qualname__", type(listener).__qualname__)
            return hide(f"a listener, {name}, failed and is told no more: {type(error).__name__}: {error}")
        return None


class Telling(Watch):
    """A run's phases and progress as events."""

    def __init__(self, tell: Listener, *, counts: bool = True) -> None:
        self._tell = tell
        self._counts = counts

    def phase(self, table: str, name: str) -> None:
        self._tell(Event("phase", table, {"phase": name}))

    def progress(self, table: str, text: str, done: int | None = None, total: int | None = None) -> None:
        if self._counts:
            self._tell(Event("progress", table, {"text": text, "done": done, "total": total}))

    @property
    def counts(self) -> bool:
        return self._counts
