"""What the property tests share: a seed, kills, and one way to run a state machine.

LADING_SEED=<n> repeats a run; LADING_SOAK=1 makes it a long one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import hypothesis
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from lading.watch import Watch

SOAK = bool(os.environ.get("LADING_SOAK"))
SEED = int(os.environ.get("LADING_SEED") or random.SystemRandom().randrange(2**32))


class Killed(BaseException):
    """Stands for a kill: nothing in the product may catch it."""


class KillAt(Watch):
    """Ends a run at the start of a phase."""

    def __init__(self, phase: str) -> None:
        self._phase = phase

    def phase(self, table: str, name: str) -> None:
        if name == self._phase:
            raise Killed(name)


def killing(real: Callable[..., Any], at: int) -> Callable[..., Any]:
    """`real`, whose n-th call is a kill."""
    calls = 0

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            raise Killed(f"call {at}")
        return real(*args, **kwargs)

    return call


def run_machine(
    machine: type[RuleBasedStateMachine],
    *,
    examples: int,
    steps: int,
    soak: tuple[int, int],
    shrink: bool = True,
) -> None:
    """`examples` sequences of `steps` rules; in a soak as many as `soak` says."""
    print(f"LADING_SEED={SEED}")
    examples, steps = soak if SOAK else (examples, steps)
    run_state_machine_as_test(
        hypothesis.seed(SEED)(machine),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            print_blob=True,
            database=None,
            phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
            suppress_health_check=list(hypothesis.HealthCheck),
        ),
    )
