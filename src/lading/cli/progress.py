"""Progress on a terminal, for anything that takes longer than two seconds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from lading.cli.screen import console, plain
from lading.watch import Watch

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


class TerminalWatch(Watch):
    """One line that says what is being done; gone when it is done."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=None)
        self._phase: dict[str, str] = {}

    def phase(self, table: str, name: str) -> None:
        self._phase[table] = name
        self._progress.update(self._task, description=plain(f"{table}: {name}"), total=None, completed=0)

    def progress(self, table: str, text: str, done: int | None = None, total: int | None = None) -> None:
        phase = self._phase.get(table)
        count = f" {done:,}" if done is not None and total is None else ""
        words = f"{table}: {phase} · {text}{count}" if phase else f"{table}: {text}{count}"
        self._progress.update(self._task, description=plain(words), total=total, completed=done or 0)


@contextmanager
def terminal_watch() -> Iterator[Watch]:
    """A watch that shows itself after two seconds; silent when stderr is no terminal."""
    if not sys.stderr.isatty():
        yield Watch()
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(20),
        TimeElapsedColumn(),
    )
    progress = Progress(*columns, console=console(sys.stderr), transient=True)
    watch = TerminalWatch(progress)
    # A timer and not the next call: a long phase may have nothing to count.
    timer = threading.Timer(_PATIENCE, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield watch
    finally:
        timer.cancel()
        timer.join()
        progress.stop()
