"""Which faults a history has. Most have one or two kinds: many at once hide each other."""

from __future__ import annotations

import random

from simulation.kernel import Faults

_FOLDER = ("kill", "power", "freeze", "disk")
_BUCKET = ("kill", "freeze", "refused", "lost", "doubled", "late")
_RATES = {
    "kill": 0.006,
    "power": 0.006,
    "freeze": 0.006,
    "jump": 0.004,
    "disk": 0.02,
    "refused": 0.03,
    "lost": 0.06,
    "doubled": 0.06,
    "late": 0.03,
}


def some_faults(
    chance: random.Random, storage: str, *, less: float = 1.0, also: tuple[str, ...] = ()
) -> Faults:
    """`less` is for histories with many steps."""
    kinds = (*(_FOLDER if storage == "folder" else _BUCKET), *also)
    some = chance.sample(kinds, chance.choice((0, 1, 1, 2)))
    rates = {name: _RATES[name] * less for name in some}
    return Faults(sticky=chance.choice((0, 0.5, 0.9, 0.97)), **rates)
