"""A deliberate defect, and how it is put in place of the real thing for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulation.case import Case


@dataclass(frozen=True)
class Mutant:
    name: str
    stories: tuple[str, ...]
    put: Callable[[Swap], None]  # puts the defect in place
    storage: str | None = None  # the only one where it shows
    needs: str | None = None  # a fault, or a word in an operation, without which it doesn't show

    def may_show_in(self, case: Case) -> bool:
        if self.storage not in (None, case.storage):
            return False
        if self.needs is None or hasattr(case.faults, self.needs):
            return self.needs is None or bool(getattr(case.faults, self.needs))
        return any(self.needs in op for ops in case.actors for op in ops)


class Swap:
    """Attributes that are others for a while."""

    def __init__(self) -> None:
        self._old: list[tuple[Any, str, Any]] = []

    def __call__(self, owner: Any, name: str, value: Any) -> Any:
        old = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
        self._old.append((owner, name, old))
        setattr(owner, name, value)
        return old.__func__ if isinstance(old, (staticmethod, classmethod)) else old

    def back(self) -> None:
        for owner, name, old in reversed(self._old):
            setattr(owner, name, old)


@contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
    swap = Swap()
    try:
        mutant.put(swap)
        yield
    finally:
        swap.back()
