"""Tables in the order in which they are made of each other: one by one, or several side by side.

Side by side, each table has a thread. Ctrl-C reaches the main thread alone: it tells the others, which stop
between two steps of theirs, and waits for them: each ends as a table does that is interrupted alone. A second
Ctrl-C waits for nobody; what that leaves is what any kill leaves, and the next run completes it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from queue import SimpleQueue
from typing import Generic, TypeVar

from lading.watch import Watch

_T = TypeVar("_T")


def each_after(
    needs: Mapping[str, Collection[str]],
    work: Callable[[str, Mapping[str, _T]], _T],
    jobs: int = 1,
    interrupt: Callable[[], None] = lambda: None,
) -> dict[str, _T]:
    """`work` of each name once it is done for all that the name needs, at most `jobs` at once; the answers in
    the order of the names, which has what is needed first. `work` is given the answers so far. What it raises
    is raised here, when those that are at work have ended: `interrupt` asks them to."""
    if jobs == 1 or len(needs) < 2:
        done: dict[str, _T] = {}
        for name in needs:
            done[name] = work(name, done)
        return done
    return _Threads(needs, work, jobs, interrupt).run()


class _Threads(Generic[_T]):
    def __init__(
        self,
        needs: Mapping[str, Collection[str]],
        work: Callable[[str, Mapping[str, _T]], _T],
        jobs: int,
        interrupt: Callable[[], None],
    ) -> None:
        self._needs, self._work, self._jobs, self._interrupt = needs, work, jobs, interrupt
        self._left = list(needs)
        self._done: dict[str, _T] = {}  # changed by the main thread alone
        self._at_work: dict[str, threading.Thread] = {}
        self._ended: SimpleQueue[tuple[str, _T | None, BaseException | None]] = SimpleQueue()

    def run(self) -> dict[str, _T]:
        try:
            while self._left or self._at_work:
                self._begin()
                self._take_one()
        except BaseException:
            self._interrupt()
            for thread in self._at_work.values():
                thread.join()
            raise
        return {name: self._done[name] for name in self._needs}

    def _begin(self) -> None:
        for name in self._left.copy():
            if len(self._at_work) == self._jobs:
                return
            if all(one in self._done for one in self._needs[name] if one in self._needs):
                self._left.remove(name)
                # A daemon: who presses Ctrl-C twice waits for nobody.
                thread = threading.Thread(target=self._run, args=(name,), name=f"lading-{name}", daemon=True)
                self._at_work[name] = thread
                thread.start()

    def _run(self, name: str) -> None:
        try:
            self._ended.put((name, self._work(name, self._done), None))
        except BaseException as error:
            self._ended.put((name, None, error))

    def _take_one(self) -> None:
        name, answer, error = self._ended.get()
        self._at_work.pop(name).join()
        if error is not None:
            raise error
        self._done[name] = answer  # type: ignore[assignment]  # without an error it is what `work` gave


class Interruptible(Watch):
    """Tells another watch, until it is told to stop: then whoever enters another phase is interrupted."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def phase(self, table: str, name: str) -> None:
        if self._stopped.is_set():
            raise KeyboardInterrupt
        self._watch.phase(table, name)

    def progress(self, table: str, text: str, done: int | None = None, total: int | None = None) -> None:
        self._watch.progress(table, text, done, total)

    def ended(self, table: str) -> None:
        self._watch.ended(table)

    @property
    def counts(self) -> bool:
        return self._watch.counts
