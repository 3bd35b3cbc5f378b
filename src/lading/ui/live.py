"""Runs started from the page, and what they tell while they are at work, as server-sent events."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lading.config.project import Config
from lading.errors import Conflict, LadingError, Unexpected
from lading.layout.project import RUN_LOG
from lading.signals.read_log import parsed
from lading.watcher.events import Broadcast, Event, Telling

_KEPT = 500  # events of the run under way, for who comes later
_MOMENT = 0.25  # seconds
_BEATS = 60  # moments without an event: then a comment, so that nobody between takes the stream for dead


class Live:
    """At most one run at a time; any number of listeners."""

    def __init__(self, project: Path) -> None:
        self._log = project / RUN_LOG
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
            others = Others(self._log)
            async for told in _until(queue, self._closed.is_set):
                if told is not None:
                    yield _line(told)
                for event in others.new():
                    yield _line(event)
                if told is None and others.is_quiet():
                    yield b": still here\n\n"
        finally:
            end()


class Others:
    """Runs of other processes, `lading run` by hand and `lading watch`: heard of by what they log."""

    _TOLD = ("run started", "phase", "run finished", "run failed")

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read = self._size()
        self._beats = 0

    def new(self) -> list[Event]:
        """What was logged since the last time."""
        size = self._size()
        if size <= self._read:
            self._read = size  # cut off: somebody cleared it
            return []
        try:
            with open(self._log, "rb") as file:
                file.seek(self._read)
                text = file.read(size - self._read)
        except OSError:
            return []  # it is gone: the next look finds it, or not
        whole, _, _ = text.rpartition(b"\n")
        self._read += len(whole) + 1 if whole else 0
        return [event for line in whole.split(b"\n") if (event := self._event(line)) is not None]

    def is_quiet(self) -> bool:
        """Once in a while."""
        self._beats = (self._beats + 1) % _BEATS
        return self._beats == 0

    def _event(self, text: bytes) -> Event | None:
        line = parsed(text)
        if line is None or line.get("pid") == os.getpid():
            return None  # what runs here is told as it happens
        kind = str(line.pop("event", "")).removeprefix("watch: ")
        table = line.pop("table", None)
        return Event(kind, table, line) if kind in self._TOLD else None  # type: ignore[arg-type]

    def _size(self) -> int:
        try:
            return os.path.getsize(self._log)
        except OSError:
            return 0


async def _until(queue: asyncio.Queue[Event], ended: Callable[[], bool]) -> AsyncIterator[Event | None]:
    """Events as they come, and None when there was none for a moment."""
    while not ended():
        try:
            yield await asyncio.wait_for(queue.get(), _MOMENT)
        except TimeoutError:
            yield None


def _line(event: Event) -> bytes:
    """JSON has no line ends, so that nothing in it can end the event."""
    return b"data: " + msgspec.json.encode(event.as_object(), enc_hook=str) + b"\n\n"
