"""The same histories against real things: each actor is a thread, the clock is the machine's, and nothing
stands in for a store. No faults but those that come by themselves; what is checked is the same.

`machine.install` must not have been called in this process.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from simulation.case import Case, Op, Story, Wrong
from simulation.kernel import Faults
from simulation.linear import Operation


class Reality:
    """What a story asks of its world."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.cuts: list[int] = []
        self.calm = False
        self.count: dict[str, int] = {}  # of faults: there are none
        self._ticks = itertools.count(1)

    @property
    def steps(self) -> int:
        """Grows with every question: an order that agrees with the order of events."""
        return next(self._ticks)

    @property
    def now(self) -> int:
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.05))

    def spawn(self, process: object, name: str, work: Callable[[], None]) -> None:
        work()

    def run(self) -> None: ...

    def tell(self, *words: object) -> None: ...


@dataclass
class Hand:
    """One who does its operations, one after the other."""

    name: str
    ops: tuple[Op, ...]
    held: dict[str, Any] = field(default_factory=dict)


def play_for_real(case: Case, story: Story, world: Reality) -> None:
    """Raises Wrong if something is. The story was made with this world."""
    history: list[Operation] = []
    wrong: list[BaseException] = []
    story.prepare()
    hands = [Hand(f"actor{number}", ops) for number, ops in enumerate(case.actors)]
    begin = threading.Barrier(len(hands))

    def work(hand: Hand) -> None:
        begin.wait()
        try:
            for op in hand.ops:
                note = Operation(hand.name, op[0], op[1:], world.steps)
                history.append(note)
                try:
                    note.answer, note.known = story.do(hand, op, note), True
                except Exception as error:
                    note.answer = story.answer_to(error)
                    note.known = note.answer is not None
                note.answered = world.steps
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(hand,)) for hand in hands]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]
    story.check(history)


def without_faults(case: Case) -> Case:
    return replace(case, faults=Faults())


__all__ = ["Reality", "Wrong", "play_for_real", "without_faults"]
