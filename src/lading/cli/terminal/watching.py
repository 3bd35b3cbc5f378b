"""One line on a terminal that says what a run is doing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lading.cli.terminal.screen import plain
from lading.watch import Watch

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_PATIENCE = 2.0  # seconds: what is quicker needs no progress


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
