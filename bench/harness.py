"""Turns: lading, the peers and the floor measured one after the other, round by round, in one process.

Whatever else the machine does then hits all of them alike, so their ratios hold where their times don't.
A figure is the median of its turns. A peer that fails is shown as failed, with the reason; it neither
stops the others nor vanishes from the table.
"""

from __future__ import annotations

import gc
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

REPEATS = 5
READY = 900.0  # seconds that making ready may take: some peers take a minute to be given 100,000 files

Role = Literal["lading", "peer", "floor"]
Turn = Callable[[], float]  # does the work once and says what it cost, or how fast it was


@dataclass(frozen=True, slots=True)
class Contender:
    """Somebody who does the job. `ready` makes everything up to the first turn, and clears up after the
    last; only turns count."""

    name: str
    role: Role
    ready: Callable[[], AbstractContextManager[Turn]]
    budget: float = float("inf")  # seconds of turns after which it gets no more


@dataclass(frozen=True, slots=True)
class Measured:
    """What one contender's turns came to."""

    role: Role
    turns: tuple[float, ...] = ()
    failed: str | None = None

    @property
    def median(self) -> float | None:
        return statistics.median(self.turns) if self.turns and self.failed is None else None

    @property
    def shown(self) -> float | str | None:
        """As results.json has it."""
        return f"failed: {self.failed}" if self.failed is not None else self.median


@dataclass(slots=True)
class _Running:
    contender: Contender
    turn: Turn
    turns: list[float] = field(default_factory=list)
    spent: float = 0.0


def contest(
    contenders: Sequence[Contender],
    *,
    repeats: int = REPEATS,
    warm_up: bool = True,
    limit: float = 300.0,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Measured]:
    """Everybody's turns, in rounds. `limit` seconds end a single turn, `warm_up` adds one that doesn't
    count."""
    failed: dict[str, str] = {}
    running: list[_Running] = []
    with ExitStack() as stack:
        for contender in contenders:
            tell(f"{contender.name}: making ready")
            try:
                with _at_most(READY):
                    turn = stack.enter_context(contender.ready())
            except Exception as error:
                failed[contender.name] = reason(error)
                continue
            running.append(_Running(contender, turn))
        for number in range(-1 if warm_up else 0, repeats):
            tell(f"round {number + 1} of {repeats}")
            for one in running:
                name = one.contender.name
                if name in failed or (one.spent >= one.contender.budget and one.turns):
                    continue
                try:
                    _take(one, limit, counts=number >= 0)
                except Exception as error:
                    failed[name] = reason(error)
    took = {one.contender.name: tuple(one.turns) for one in running}
    return {c.name: Measured(c.role, took.get(c.name, ()), failed.get(c.name)) for c in contenders}


def _take(one: _Running, limit: float, *, counts: bool) -> None:
    gc.collect()
    os.sync()  # whoever syncs its own files would wait for what the one before left to the system, too
    begun = time.perf_counter()
    with _at_most(limit):
        figure = one.turn()
    one.spent += time.perf_counter() - begun
    if counts:
        one.turns.append(figure)


def timed(work: Callable[[], object], at_least: float = 0.05) -> Turn:
    """A turn that does `work` for `at_least` so many seconds, and once in any case: seconds for one."""

    def turn() -> float:
        times, begun = 0, time.perf_counter()
        while True:
            work()
            times += 1
            spent = time.perf_counter() - begun
            if spent >= at_least:
                return spent / times

    return turn


@contextmanager
def always(turn: Turn) -> Iterator[Turn]:
    """For a contender that needs no preparation."""
    yield turn


def simply(name: str, role: Role, work: Callable[[], object], budget: float = float("inf")) -> Contender:
    """A contender whose work needs no preparation, in seconds."""
    return Contender(name, role, lambda: always(timed(work)), budget)


def reason(error: BaseException) -> str:
    """One line: the kind and what it says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """TimeoutError after so long; what hangs outside of Python is ended with the job."""

    def stop(number: int, frame: Any) -> None:
        raise TimeoutError(f"more than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
