"""As many histories as fit into some minutes, in as many processes as there are cores."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulation.stories import STORIES_BY_NAME, story_case

_ROUND = 2_000_003  # seeds between the first ones of two workers


@dataclass
class Tally:
    by_story: dict[str, tuple[int, int, float]] = field(
        default_factory=dict
    )  # histories, steps, seconds of CPU
    faults: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[str, int, str]] = field(default_factory=list)  # story, seed, what is wrong

    @property
    def histories(self) -> int:
        return sum(one[0] for one in self.by_story.values())

    @property
    def steps(self) -> int:
        return sum(one[1] for one in self.by_story.values())

    def add(self, other: Tally) -> None:
        for name, more in other.by_story.items():
            old = self.by_story.get(name, (0, 0, 0.0))
            self.by_story[name] = (old[0] + more[0], old[1] + more[1], old[2] + more[2])
        self.faults.update(other.faults)
        self.failed += other.failed


def many(
    stories: list[str],
    first: int,
    seconds: float,
    workers: int,
    *,
    keep: Path | None = None,
    most: int | None = None,
) -> Tally:
    """`most` is how many each worker plays, however long that takes."""
    jobs = [(stories, first + number * _ROUND, seconds, keep, most) for number in range(workers)]
    if workers == 1:
        return _work(jobs[0])
    tally = Tally()
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for one in pool.imap_unordered(_work, jobs):
            tally.add(one)
    return tally


def _work(job: tuple[list[str], int, float, Path | None, int | None]) -> Tally:
    stories, seed, seconds, keep, most = job
    from simulation import machine

    machine.install()
    tally = Tally()
    end = time.monotonic() + seconds
    order = [name for name in stories for _ in range(STORIES_BY_NAME[name])]
    number = 0
    while (time.monotonic() < end if most is None else number < most) and len(tally.failed) < 5:
        _play_one(order[number % len(order)], seed + number, tally, keep)
        number += 1
    return tally


def _play_one(name: str, seed: int, tally: Tally, keep: Path | None) -> None:
    from simulation.case import play, smaller

    began = time.process_time()
    case = story_case(name, seed)
    outcome = play(case)
    spent = time.process_time() - began
    tally.faults.update(outcome.faults)
    one: Any = {name: (1, outcome.steps, spent)}
    tally.add(Tally(by_story=one))
    if outcome.wrong is None:
        return
    tally.failed.append((name, seed, str(outcome.wrong)[:2000]))
    if keep is not None:
        found = smaller(case, outcome.wrong.kind)
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{name}-{seed}-{os.getpid()}.json").write_bytes(found.to_json())
