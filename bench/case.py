"""One job at one size: who took part, what they came to, and what that means for the bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from bench.bars import Better, Clause, Figures, judge
from bench.harness import REPEATS, Contender, Measured, contest


class NoSuchSize(ValueError):
    """A size that the job doesn't have: the message has those that it has."""


Level = Literal["full", "quick", "tiny"]


@dataclass(frozen=True, slots=True)
class Case:
    """A row of a job's table. `x` and `panel` say where its points are in the picture."""

    size: str
    x: float
    unit: str
    better: Better
    measured: Mapping[str, Measured]
    clauses: Sequence[Clause] = ()
    panel: str = ""
    extra: Mapping[str, float] = field(default_factory=dict)  # figures beside the point, shown apart

    @property
    def lading(self) -> float | None:
        return self.measured["lading"].median if "lading" in self.measured else None

    @property
    def floor(self) -> float | None:
        """The hardest of the floors to reach."""
        floors = [m.median for m in self.measured.values() if m.role == "floor" and m.median is not None]
        if not floors:
            return None
        return min(floors) if self.better == "lower" else max(floors)

    def figures(self) -> Figures:
        peers = {name: m.median for name, m in self.measured.items() if m.role == "peer"}
        return Figures(self.better, self.lading, self.floor, peers)

    def as_json(self) -> dict[str, Any]:
        """The case in results.json; docs/bench.md says what each key is."""
        figures = self.figures()
        verdicts = judge(self.clauses, figures)
        return {
            "lading": self.measured["lading"].shown if "lading" in self.measured else None,
            "peers": {name: m.shown for name, m in self.measured.items() if m.role == "peer"},
            "floor": self.floor,
            "ratio_to_floor": figures.times_floor(),
            "bar": "; ".join(one.text for one in verdicts) or "shown, not promised",
            "met": self.lading is not None and all(one.met for one in verdicts),
            "unit": self.unit,
            "better": self.better,
            "clauses": [{"bar": one.text, "found": one.found, "met": one.met} for one in verdicts],
            "times_better_than": {name: figures.times_better(name) for name in figures.peers},
            "floors": {name: m.shown for name, m in self.measured.items() if m.role == "floor"},
            "spread": {n: [min(m.turns), max(m.turns), len(m.turns)] for n, m in self._with_turns()},
            "extra": dict(self.extra),
            "x": self.x,
            "panel": self.panel,
        }

    def _with_turns(self) -> Iterator[tuple[str, Measured]]:
        return ((name, one) for name, one in self.measured.items() if one.turns)


@dataclass(frozen=True, slots=True)
class Kit:
    """What a job gets to work with."""

    data: Path  # fixtures, kept between runs
    work: Path  # scratch, gone after the job
    level: Level = "full"
    only: str | None = None  # one size, as the job labels it
    with_peers: bool = True
    repeats: int = REPEATS
    tell: Callable[[str], None] = lambda text: None

    def sizes(self, full: Sequence[int], quick: Sequence[int], tiny: Sequence[int]) -> list[int]:
        """The sizes of this run."""
        chosen = {"full": full, "quick": quick, "tiny": tiny}[self.level]
        wanted = [size for size in chosen if self.only is None or self.only in (label(size), str(size))]
        if not wanted:
            raise NoSuchSize(
                f"there is no size {self.only!r}; the sizes are: {', '.join(map(label, chosen))}"
            )
        return wanted

    def pick(self, full: int, quick: int, tiny: int) -> int:
        """How much of something that isn't the job's size."""
        return {"full": full, "quick": quick, "tiny": tiny}[self.level]

    def contest(
        self, contenders: Sequence[Contender], *, what: str, warm_up: bool = True, limit: float = 300.0
    ) -> dict[str, Measured]:
        chosen = [one for one in contenders if self.with_peers or one.role != "peer"]
        return contest(
            chosen,
            repeats=self.repeats,
            warm_up=warm_up,
            limit=limit,
            tell=lambda text: self.tell(f"{what}: {text}"),
        )

    def contest_together(
        self, by_size: Mapping[int, Sequence[Contender]], *, what: str, warm_up: bool = True
    ) -> dict[int, dict[str, Measured]]:
        """All sizes in the same rounds, where what counts is how a figure grows from one to the next."""
        named = {
            f"{name}, {size}": (size, name, one)
            for size, contenders in by_size.items()
            for name, one in ((one.name, one) for one in contenders)
        }
        measured = self.contest(
            [replace(one, name=full) for full, (_, _, one) in named.items()], what=what, warm_up=warm_up
        )
        found: dict[int, dict[str, Measured]] = {size: {} for size in by_size}
        for full, one in measured.items():
            size, name, _ = named[full]
            found[size][name] = one
        return found


@dataclass(frozen=True, slots=True)
class Job:
    """What `make bench JOB=name` runs. `measure` gives a case at a time, so that what is done is kept."""

    name: str
    title: str
    about: str  # how it is measured, for RESULTS.md
    measure: Callable[[Kit], Iterator[Case]]
    budget: float = 900.0  # seconds after which the job is ended


def label(size: float) -> str:
    """1000 -> 1k, 2500000 -> 2.5M."""
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if size >= unit:
            return f"{size / unit:g}{name}"
    return f"{size:g}"
