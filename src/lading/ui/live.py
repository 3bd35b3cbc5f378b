"""Runs started from the page, and what they tell while they are at work, as server-sent events."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec

from lading.config.project import Config
from lading.errors import Conflict, LadingError, Unexpected
from lading.watcher.events import Broadcast, Event, Telling

_KEPT = 500  # events of the run under way, for who comes later
_BEAT = 15.0  # seconds: a comment now and then, so that nobody between takes the stream for dead


class Live:
    """At most one run at a time; any number of listeners."""

    def __init__(self) -> None:
        self._tell = Broadcast()
        self._lock = threading.Lock()
        self._past: deque[Event] = deque(maxlen=_KEPT)
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, config: Config, tables: Sequence[str], options: dict[str, Any]) -> None:
        """Run in a thread; Conflict while another run that was started here is at work."""
        with self._lock:
            if self.is_running:
                raise Conflict(
                    "a run that was started from this page is still at work",
                    hint="wait until it is done; it can be watched under Runs",
                )
            self._past.clear()
            work = (config, tuple(tables), options)
            self._thread = threading.Thread(target=self._run, args=work, name="lading-run", daemon=True)
            self._say(Event("run started", None, {"tables": list(tables) or list(config.tables)}))
            self._thread.start()

    def wait(self, seconds: float | None = None) -> None:
        """For the run under way."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def close(self) -> None:
        """End the streams, so that the server can."""
        self._closed.set()

    def _say(self, event: Event) -> None:
        self._past.append(event)
        self._tell(event)

    def _run(self, config: Config, tables: tuple[str, ...], options: dict[str, Any]) -> None:
        from lading.signals.after import Signals
        from lading.signals.log import log_unexpected
        from lading.signals.logged_run import logged_run

        def complain(text: str) -> None:
            self._say(Event("progress", None, {"text": f"warning: {text}"}))

        try:
            signals = Signals(config, complain)
            watch = Telling(self._say)
            report = logged_run(
                config, tables, options, signals, watch, lambda error, at: log_unexpected(at, error)
            )
        except LadingError as error:
            self._say(Event("run failed", error.table, {"error": error.as_json()}))
        except Exception as error:  # a bug: told where it can be found again
            told = Unexpected.of(error)
            log_unexpected(config.project, told)
            self._say(Event("run failed", None, {"error": told.as_json()}))
        else:
            self._say(Event("run finished", None, report.as_json()))

    async def stream(self) -> AsyncIterator[bytes]:
        """What was told of the run under way, then everything as it comes."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[Event] = asyncio.Queue()

        def heard(event: Event) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, event)

        with self._lock:
            past = list(self._past) if self.is_running else []
            end = self._tell.listen(heard)
        try:
            yield b"retry: 2000\n\n"
            for event in past:
                yield _line(event)
            async for told in _until(queue, self._closed.is_set):
                yield _line(told) if told is not None else b": still here\n\n"
        finally:
            end()


async def _until(queue: asyncio.Queue[Event], ended: Callable[[], bool]) -> AsyncIterator[Event | None]:
    """Events as they come, and None when there was none for a while."""
    quiet = 0.0
    while not ended():
        try:
            yield await asyncio.wait_for(queue.get(), 0.25)
            quiet = 0.0
        except TimeoutError:
            quiet += 0.25
            if quiet >= _BEAT:
                yield None
                quiet = 0.0


def _line(event: Event) -> bytes:
    """JSON has no line ends, so that nothing in it can end the event."""
    return b"data: " + msgspec.json.encode(event.as_object(), enc_hook=str) + b"\n\n"
