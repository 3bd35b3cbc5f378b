"""key → file: which file holds a key, of a table that is open already.

Keys are drawn at random, a new one each time. lading's table has nothing behind its checkpoint, like a
published snapshot; the panel `1,000 frames behind` shows a table with as many commits since. The floor
bisects a list of where the files begin.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle

from bench import fixtures
from bench.bars import at_most, ratio
from bench.case import Case, Job, Kit, label
from bench.fixtures import ROWS
from bench.harness import Contender, Turn, timed
from lading.log.table import Table
from lading.model import Member


def measure(kit: Kit) -> Iterator[Case]:
    sizes = kit.sizes([1_000, 10_000, 100_000], [1_000, 10_000], [1_000])
    for behind, panel in ((0, ""), (fixtures.BEHIND, "1,000 frames behind")):
        together = kit.contest_together(
            {size: _contenders(kit, size, behind) for size in sizes}, what=panel or "all sizes"
        )
        first: float | None = None
        for size, measured in together.items():
            name = f"{label(size)}, {panel}" if panel else label(size)
            case = Case(name, size, "s", "lower", measured, panel=panel)
            bar = [at_most(50, "≤ 50 µs", 1e6, " µs")]
            if first and case.lading:
                bar.append(ratio("flat: ≤ 1.5x of the smallest", case.lading / first, 1.5))
            first = first or case.lading
            yield replace(case, clauses=bar)


def _contenders(kit: Kit, size: int, behind: int) -> list[Contender]:
    draw = random.Random(size)
    keys = [draw.randrange(size * ROWS) for _ in range(10_000)]

    @contextmanager
    def lading() -> Iterator[Turn]:
        table = Table.open(fixtures.collection(kit.data, size, behind))
        holding, following = table.state.holding, cycle(keys)
        assert all(_holds(holding(key), key) for key in keys[:100])
        yield timed(lambda: holding(next(following)))
        table.close()

    @contextmanager
    def bisecting() -> Iterator[Turn]:
        begins = [number * ROWS for number in range(size)]
        paths = [one.path for one in fixtures.made_up(0, size)]
        following = cycle(keys)
        yield timed(lambda: paths[bisect_right(begins, next(following)) - 1])

    return [Contender("lading", "lading", lading), Contender("bisect", "floor", bisecting)]


def _holds(members: list[Member], key: int) -> bool:
    return [one.key_min for one in members] == [key // ROWS * ROWS]


JOB = Job("key_to_file", "From a key to its file, warm", __doc__ or "", measure, budget=600)
