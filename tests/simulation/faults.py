"""Which faults a history has. Most have one or two kinds: many at once hide each other."""

from __future__ import annotations

import random

from simulation.kernel import Faults

_FOLDER = ("kill", "power", "freeze", "disk")
_BUCKET = ("kill", "freeze", "refused", "lost", "doubled", "late")
_POSTGRES = ("kill", "freeze", "refused", "lost", "late", "restart", "serial", "stall")
_KINDS = {"folder": _FOLDER, "bucket": _BUCKET, "postgres": _POSTGRES}
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
    "restart": 0.01,
    "serial": 0.03,
    "stall": 0.01,
}


def some_faults(
    chance: random.Random, storage: str, *, less: float = 1.0, also: tuple[str, ...] = ()
) -> Faults:
    """`less` is for histories with many steps."""
    kinds = (*_KINDS[storage], *also)
    some = chance.sample(kinds, chance.choice((0, 1, 1, 2)))
    rates = {name: _RATES[name] * less for name in some}
    return Faults(sticky=chance.choice((0, 0.5, 0.9, 0.97)), **rates)
