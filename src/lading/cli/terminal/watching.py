"""logs/lading.jsonl: what each run did and when, one JSON object a line, for machines and post-mortems.

A log that can't be written must not stop a run: that is said once on stderr, and the run goes on.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lading import clock
from lading.cli.terminal.screen import plain
from lading.layout.project import RUN_LOG
from lading.secrets import hide_within
from lading.watch import Watch

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class JsonLog:
    """Appends lines; each is one write, so that runs side by side never mix theirs."""

    def __init__(self, project: Path) -> None:
        self.path = project / RUN_LOG
        self._broken = False

    def write(self, event: str, *, level: str = "info", **fields: Any) -> bool:
        """Whether the line was written."""
        line = {
            "at": clock.now().isoformat(),
            "level": level,
            "event": event,
            "pid": os.getpid(),
        }
        data = (json.dumps(hide_within({**line, **fields}), default=str) + "\n").encode()
        try:
            self.path.parent.mkdir(exist_ok=True)
            with open(self.path, "ab", buffering=0) as file:
                file.write(data)
        except OSError as error:
            if not self._broken:
                print(f"warning: can't write {self.path}: {error.strerror}", file=sys.stderr)
            self._broken = True
            return False
        return True


class LogWatch(Watch):
    """Phases go to the log, with how long the one before took; counts inside them do not."""

    def __init__(self, log: JsonLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._since: dict[str, tuple[str, datetime]] = {}

    def phase(self, table: str, name: str) -> None:
        now = clock.now()
        with self._lock:
            before = self._since.get(table)
            self._since[table] = (name, now)
        past: dict[str, Any] = (
            {"after": before[0], "seconds": (now - before[1]).total_seconds()} if before else {}
        )
        self._log.write("phase", table=table, phase=name, **past)


def log_exception(project: Path, error: BaseException) -> Path | None:
    """Where the traceback was logged; None when it could not be."""
    log = JsonLog(project)
    text = "".join(traceback.format_exception(error))
    written = log.write(
        "exception", level="error", kind=type(error).__name__, message=str(error), traceback=text
    )
    return log.path if written else None


_PATIENCE = 2.0  # seconds: what is quicker needs no progress


class Watches(Watch):
    """Several watches as one."""

    def __init__(self, *watches: Watch) -> None:
        self._watches = watches

    def phase(self, table: str, name: str) -> None:
        for watch in self._watches:
            watch.phase(table, name)

    def progress(self, table: str, text: str, done: int | None = None, total: int | None = None) -> None:
        for watch in self._watches:
            watch.progress(table, text, done, total)

    def ended(self, table: str) -> None:
        for watch in self._watches:
            watch.ended(table)

    @property
    def counts(self) -> bool:
        return any(watch.counts for watch in self._watches)


class TerminalWatch(Watch):
    """A line for each table that is at work, which says what is being done; gone when it is done."""

    def __init__(self) -> None:
        self._phase: dict[str, str] = {}
        self._lock = threading.Lock()
        self.shown: Progress | None = None
        self._last: dict[str, dict[str, Any]] = {}  # by table: what its line says
        self._lines: dict[str, TaskID] = {}

    def phase(self, table: str, name: str) -> None:
        self._phase[table] = name
        self._update(table, plain(f"{table}: {name}"), None, 0)

    def progress(self, table: str, text: str, done: int | None = None, total: int | None = None) -> None:
        phase = self._phase.get(table)
        count = f" {done:,}" if done is not None and total is None else ""
        words = f"{table}: {phase} · {text}{count}" if phase else f"{table}: {text}{count}"
        self._update(table, plain(words), total, done or 0)

    def ended(self, table: str) -> None:
        with self._lock:
            self._phase.pop(table, None)
            self._last.pop(table, None)
            line = self._lines.pop(table, None)
            if self.shown is not None and line is not None:
                self.shown.remove_task(line)

    def _update(self, table: str, words: str, total: int | None, done: int) -> None:
        with self._lock:
            self._last[table] = {"description": words, "total": total, "completed": done}
            self._show(table)

    def _show(self, table: str) -> None:
        if self.shown is None:
            return
        if table in self._lines:
            self.shown.update(self._lines[table], **self._last[table])
        else:
            self._lines[table] = self.shown.add_task(**self._last[table])

    def show(self) -> None:
        """From now on; rich is loaded only for those who wait long enough to see it."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        # Text as it is: a file called `[red].csv` is not markup.
        console = Console(file=sys.stderr, markup=False, highlight=False, emoji=False)
        words = TextColumn("{task.description}", markup=False)
        shown = Progress(
            SpinnerColumn(), words, BarColumn(20), TimeElapsedColumn(), console=console, transient=True
        )
        with self._lock:
            self.shown = shown
            for table in self._last:
                self._show(table)
        shown.start()

    def hide(self) -> None:
        if self.shown is not None:
            self.shown.stop()


@contextmanager
def terminal_watch() -> Iterator[Watch]:
    """A watch that shows itself after two seconds; silent when stderr is no terminal."""
    if not sys.stderr.isatty():
        yield Watch()
        return
    watch = TerminalWatch()
    # A timer and not the next call: a long phase may have nothing to count.
    timer = threading.Timer(_PATIENCE, watch.show)
    timer.daemon = True
    timer.start()
    try:
        yield watch
    finally:
        timer.cancel()
        timer.join()
        watch.hide()
