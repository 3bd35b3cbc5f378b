"""Bars: what lading has to reach, as clauses that say what was found and whether that is enough.

A clause that can't be decided, because a peer failed or nothing was measured, is not met: nobody wins
against somebody who didn't turn up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Better = Literal["lower", "higher"]


@dataclass(frozen=True, slots=True)
class Figures:
    """The medians of one case."""

    better: Better
    lading: float | None
    floor: float | None
    peers: Mapping[str, float | None]

    def times_floor(self) -> float | None:
        """lading's figure as a multiple of the floor's."""
        return None if self.lading is None or not self.floor else self.lading / self.floor

    def times_better(self, peer: str) -> float | None:
        """How many times better than the peer lading is."""
        other = self.peers.get(peer)
        if not self.lading or not other:
            return None
        return other / self.lading if self.better == "lower" else self.lading / other


@dataclass(frozen=True, slots=True)
class Verdict:
    """A clause, decided."""

    text: str
    found: str
    met: bool


Clause = Callable[[Figures], Verdict]


def at_most(limit: float, text: str, scale: float = 1.0, unit: str = "") -> Clause:
    """lading's own figure; `scale` turns it into the unit that `text` speaks of."""
    return lambda f: _decided(text, f.lading, scale, unit, lambda v: v <= limit)


def at_least(limit: float, text: str, scale: float = 1.0, unit: str = "") -> Clause:
    return lambda f: _decided(text, f.lading, scale, unit, lambda v: v >= limit)


def at_most_floor(limit: float, of: str = "floor") -> Clause:
    return lambda f: _decided(f"≤ {limit:g}x {of}", f.times_floor(), 1, "x", lambda v: v <= limit)


def at_least_floor(limit: float, of: str = "floor") -> Clause:
    return lambda f: _decided(f"≥ {limit:g}x {of}", f.times_floor(), 1, "x", lambda v: v >= limit)


def better_than(peer: str, times: float) -> Clause:
    text = f"≥ {times:,g}x {peer}"
    return lambda f: _decided(text, f.times_better(peer), 1, "x", lambda v: v >= times)


def ratio(text: str, found: float | None, limit: float, unit: str = "x") -> Clause:
    """A figure that the job itself works out, mostly a ratio of figures of several cases."""
    return lambda f: _decided(text, found, 1, unit, lambda v: v <= limit)


def either(*clauses: Clause) -> Clause:
    def decide(figures: Figures) -> Verdict:
        all_of_them = [clause(figures) for clause in clauses]
        return Verdict(
            " or ".join(one.text for one in all_of_them),
            ", ".join(one.found for one in all_of_them),
            any(one.met for one in all_of_them),
        )

    return decide


def judge(clauses: Sequence[Clause], figures: Figures) -> list[Verdict]:
    return [clause(figures) for clause in clauses]


def _decided(
    text: str, found: float | None, scale: float, unit: str, enough: Callable[[float], bool]
) -> Verdict:
    if found is None:
        return Verdict(text, "not measured", False)
    value = found * scale
    return Verdict(text, f"{_short(value)}{unit}", enough(value))


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
