"""Whether answers can be explained by operations that happened one after the other, each at some moment
between its call and its answer (Wing and Gong's search, with the states that were tried remembered).

An operation whose outcome nobody learnt may have happened or not; one whose process died can't happen later.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

FOREVER = 1 << 62


@dataclass
class Operation:
    """What somebody asked for, and what was answered."""

    who: str
    kind: str
    asked: Any
    called: int  # steps of the world
    answered: int = FOREVER
    answer: Any = None
    known: bool = False  # False: there was no answer, and it may or may not have happened

    def __str__(self) -> str:
        end = str(self.answered) if self.answered != FOREVER else "…"
        said = self.answer if self.known else "no answer"
        return f"[{self.called}, {end}] {self.who}: {self.kind} {self.asked} -> {said}"


Step = Callable[
    [Any, Operation], Iterable[Hashable]
]  # the states that an operation may lead to; none: impossible


def without_dirty(
    history: list[Operation], cuts: list[int], changes: Callable[[Operation], bool]
) -> list[Operation]:
    """Leaves out who saw, before a power cut, what nobody had been told was done yet: the cut may have undone
    it. Who changed something and was told so counts always."""

    def dirty(op: Operation) -> bool:
        return any(
            op.answered <= cut and any(_undone(one) and one.called <= op.answered <= cut for one in history)
            for cut in cuts
        )

    return [op for op in history if not op.known or changes(op) or not dirty(op)]


def _undone(op: Operation) -> bool:
    return not op.known or op.answer == ("failed",)


def explained(history: list[Operation], first: Hashable, step: Step, *, most: int = 300_000) -> bool:
    """Whether there is an order. A search that takes too long counts as one: it proves nothing."""
    ops = sorted(history, key=lambda one: one.called)
    certain = sum(1 << number for number, one in enumerate(ops) if one.known)
    seen: set[tuple[int, Hashable]] = set()
    stack: list[tuple[int, Any]] = [(0, first)]
    while stack:
        done, state = stack.pop()
        if done & certain == certain:
            return True
        if (done, state) in seen:
            continue
        seen.add((done, state))
        if len(seen) > most:
            return True
        left = [number for number in range(len(ops)) if not done >> number & 1]
        first_answer = min(ops[number].answered for number in left if ops[number].known)
        for number in left:
            if ops[number].called > first_answer:
                break
            for after in step(state, ops[number]):
                stack.append((done | 1 << number, after))
    return False
