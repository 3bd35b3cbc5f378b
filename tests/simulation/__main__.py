"""`make simulate`: histories by the thousand, one by its seed, or every mutant.

    python -m simulation --minutes 10            as many as fit, on all cores
    python -m simulation --story pointing --seed 42 [--steps 500]    one, told step by step
    python -m simulation --case FILE             one that was written down
    python -m simulation --regressions           each that ever failed
    python -m simulation --mutants               each deliberate defect, and how soon it is found

Run with `tests` on the path. A history is the same in every process that hashes text in the same way, so this
one starts itself again with PYTHONHASHSEED=0.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from pathlib import Path

from simulation.minutes import Tally, many
from simulation.stories import STORIES_BY_NAME, story_case


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "simulation", *sys.argv[1:]])
    asked = _asked()
    if asked.mutants:
        from simulation.mutants import table_of_mutants

        return table_of_mutants(asked.only, seconds=asked.seconds)
    if asked.regressions or asked.record:
        from simulation import machine, regressions

        machine.install()
        if asked.record:
            given = story_case(asked.story, asked.seed) if asked.seed is not None else None
            return regressions.record(*asked.record, given)
        return regressions.hold_all()
    if asked.case is not None or asked.seed is not None:
        return _one(asked)
    return _many(asked)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simulate", description="Histories of lading, each from a seed.")
    parser.add_argument(
        "--story", choices=sorted(STORIES_BY_NAME), help="which kind of world; all by default"
    )
    parser.add_argument("--seed", type=int, help="play this one and tell it")
    parser.add_argument("--steps", type=int, help="stop after so many")
    parser.add_argument("--case", type=Path, help="play the case in this file and tell it")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--from-seed", type=int, default=None, help="of the first history; by default a random one"
    )
    parser.add_argument("--keep", type=Path, help="write failing cases, made smaller, to this folder")
    parser.add_argument(
        "--smaller", action="store_true", help="make a failing case smaller before it is told"
    )
    parser.add_argument("--histories", type=int, help="so many by each worker, instead of minutes")
    parser.add_argument("--regressions", action="store_true", help="every history that ever failed")
    parser.add_argument(
        "--record",
        nargs=2,
        metavar=("MUTANT", "FOUND"),
        help="write a regression, of the seed if there is one",
    )
    parser.add_argument("--mutants", action="store_true")
    parser.add_argument("--only", help="the mutants whose names have this in them")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each mutant")
    return parser.parse_args()


def _one(asked: argparse.Namespace) -> int:
    from simulation import machine
    from simulation.case import Case, play, smaller

    machine.install()
    case = (
        Case.of_json(asked.case.read_bytes())
        if asked.case
        else story_case(asked.story or "collecting", asked.seed)
    )
    if asked.steps:
        case.setting["limit"] = asked.steps
    outcome = play(case, trace=True)
    if asked.smaller and outcome.wrong is not None:
        case = smaller(case, outcome.wrong.kind)
        outcome = play(case, trace=True)
    print(case)
    print("\n".join(outcome.trace))
    print(f"{outcome.steps} steps; faults: {outcome.faults or 'none'}")
    print(outcome.wrong or "nothing is wrong")
    return 1 if outcome.wrong else 0


def _many(asked: argparse.Namespace) -> int:
    first = asked.from_seed if asked.from_seed is not None else random.SystemRandom().randrange(1 << 40)
    stories = [asked.story] if asked.story else list(STORIES_BY_NAME)
    began = time.monotonic()
    tally = many(stories, first, asked.minutes * 60, asked.workers, keep=asked.keep, most=asked.histories)
    _tell(tally, time.monotonic() - began)
    return 1 if tally.failed else 0


def _tell(tally: Tally, seconds: float) -> None:
    whole = max(sum(busy for _, _, busy in tally.by_story.values()), 1e-9)
    for name, (histories, steps, busy) in sorted(tally.by_story.items()):
        rate = 60 / max(busy, 1e-9)
        told = f"{rate * histories:,.0f} histories and {rate * steps:,.0f} steps a minute of one core"
        share = f"{busy / whole:.0%} of the time"
        print(f"{name:<12} {histories:>8,} histories, {steps:>11,} steps, {share}; {told}")
    rate = 60 / whole
    told = f"{rate * tally.histories:,.0f} histories and {rate * tally.steps:,.0f} steps a minute of one core"
    print(f"{tally.histories:,} histories, {tally.steps:,} steps in {seconds:.0f} s, {told}")
    print(f"faults: {tally.faults}")
    for story, seed, wrong in tally.failed:
        print(f"\n{story} seed {seed}: {wrong}\n  make simulate STORY={story} SEED={seed}")


if __name__ == "__main__":
    sys.exit(main())
