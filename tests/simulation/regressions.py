"""Histories that failed once, made smaller, with what they found. Each holds now, and fails again with the
defect put back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import msgspec

from simulation.case import Case, Wrong, play, smaller
from simulation.mutant import Mutant, mutated
from simulation.mutants import MUTANTS, hunt
from simulation.stories import story_case

FOLDER = Path(__file__).parent / "regressions"


class Regression(msgspec.Struct):
    found: str  # what was wrong with the product
    defect: str  # the mutant that puts it back
    kind: str  # the promise that was broken
    case: msgspec.Raw


def regressions() -> Iterator[tuple[Path, Regression, Case]]:
    for file in sorted(FOLDER.glob("*.json")):
        told = msgspec.json.decode(file.read_bytes(), type=Regression)
        importing(msgspec.json.decode(told.case)["story"])
        yield file, told, Case.of_json(bytes(told.case))


def importing(story: str) -> None:
    """A story is known once its module is loaded."""
    story_case(story, 0)


def defect(name: str) -> Mutant:
    return next(one for one in MUTANTS if one.name == name)


def hold_all() -> int:
    """Plays each with and without its defect; 1 if one isn't as it should be. Code that makes one request
    more turns a seed into another schedule, so with the defect many are tried, and without it all those that
    it took, and some more."""
    failed = 0
    for file, told, case in regressions():
        with mutated(defect(told.defect)):
            tried, then = _first_wrong(case, 1_000)
        _, now = _first_wrong(case, tried + 4)
        good = now is None and then is not None
        failed += not good
        print(f"{file.stem:<44} {'holds' if good else f'now: {now}; with the defect: {then}'}", flush=True)
    return 1 if failed else 0


def _first_wrong(case: Case, schedules: int) -> tuple[int, Wrong | None]:
    """In how many schedules it was played, and what was wrong in the last of them."""
    for number in range(schedules):
        wrong = play(replace(case, seed=case.seed + number)).wrong
        if wrong is not None:
            return number + 1, wrong
    return schedules, None


def record(name: str, found: str, case: Case | None = None) -> int:
    """Makes a history that the defect breaks smaller and writes it down; looks for one unless it is given."""
    mutant = defect(name)
    if case is None:
        caught = hunt(mutant, 300)
        if not caught.kind:
            return 1
        case = story_case(caught.story, caught.seed)
    with mutated(mutant):
        wrong = play(case).wrong
        if wrong is None:
            return 1
        case = smaller(case, wrong.kind, budget=150)
    told = Regression(found, name, wrong.kind, msgspec.Raw(msgspec.json.encode(asdict(case))))
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{name.replace(' ', '_')}.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n")
    print(f"{file.name}: {case}")
    return 0
