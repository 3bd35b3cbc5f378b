"""Runs started from the page, and what they tell while they are at work, as server-sent events."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from lading.config.project import Config
from lading.errors import Conflict, LadingError, Unexpected
from lading.layout.project import RUN_LOG
from lading.signals.read_log import parsed
from lading.watcher.events import Event, Telling

_KEPT = 500  # events of the run under way, for who comes later
_MOMENT = 0.25  # seconds
_BEATS = 60  # moments without an event: then a comment, so that nobody between takes the stream for dead

_Told = tuple[int, Event]


class Live:
    """At most one run at a time; any number of listeners."""

    def __init__(self, project: Path) -> None:
        self._log = project / RUN_LOG
        self._listeners: list[Callable[[_Told], None]] = []
        self._lock = threading.Lock()
        self._past: deque[_Told] = deque(maxlen=_KEPT)
        self._told = 0  # how many events there were: each is named by its number
        self._begun = 0  # how many before the last run
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
            self._begun = self._told
            work = (config, tuple(tables), options)
            self._thread = threading.Thread(target=self._run, args=work, name="lading-run", daemon=True)
            self._thread.start()

    def wait(self, seconds: float | None = None) -> None:
        """For the run under way."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def close(self) -> None:
        """End the streams, so that the server can."""
        self._closed.set()

    @property
    def seen(self) -> int:
        """The number that a page which is made now goes on from: a run under way is told from its start."""
        return self._begun if self.is_running else self._told

    def _say(self, event: Event) -> None:
        with self._lock:
            self._told += 1
            told = (self._told, event)
            self._past.append(told)
            for hear in self._listeners:
                hear(told)

    def _run(self, config: Config, tables: tuple[str, ...], options: dict[str, Any]) -> None:
        from lading.signals.after import Signals
        from lading.signals.log import log_unexpected
        from lading.signals.logged_run import logged_run

        def complain(text: str) -> None:
            self._say(Event("progress", None, {"text": f"warning: {text}"}))

        self._say(Event("run started", None, {"tables": list(tables) or list(config.tables)}))
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

    async def stream(self, seen: int | None = None) -> AsyncIterator[bytes]:
        """What was told since the event of that number, then everything as it comes."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[_Told] = asyncio.Queue()

        def hear(told: _Told) -> None:
            with suppress(RuntimeError):  # the server has ended, and the run goes on
                loop.call_soon_threadsafe(queue.put_nowait, told)

        with self._lock:
            first = min(self.seen if seen is None else seen, self._told)
            past = [told for told in self._past if told[0] > first]
            self._listeners.append(hear)
        others = Others(self._log)
        try:
            yield b"retry: 2000\n\n"
            for number, event in past:
                yield _line(event, number)
            async for told in _until(queue, self._closed.is_set):
                if told is not None:
                    yield _line(told[1], told[0])
                for event in others.new():
                    yield _line(event)
                if told is None and others.is_quiet():
                    yield b": still here\n\n"
        finally:
            with self._lock:
                self._listeners.remove(hear)


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


async def _until(queue: asyncio.Queue[_Told], ended: Callable[[], bool]) -> AsyncIterator[_Told | None]:
    """Events as they come, and None when there was none for a moment."""
    while not ended():
        try:
            yield await asyncio.wait_for(queue.get(), _MOMENT)
        except TimeoutError:
            yield None


def _line(event: Event, number: int | None = None) -> bytes:
    """JSON has no line ends, so that nothing in it can end the event. A browser that lost the connection says
    the number of the last one that it heard."""
    name = b"id: %d\n" % number if number is not None else b""
    return name + b"data: " + msgspec.json.encode(event.as_object(), enc_hook=str) + b"\n\n"
