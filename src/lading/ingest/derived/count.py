"""Rows that came and went, counted by Spark's tasks where there are too many for the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import msgspec

from lading.ingest.derived.changed import Counting, Moves, Side, added, count_moves
from lading.ingest.derived.slots import Cut
from lading.ingest.table_run import TableRun

_HERE = 64 << 20  # bytes of parts that are read sooner than tasks are started
_PER_TASK = 32 << 20


def counting(run: TableRun) -> Counting | None:
    """How a run counts them; None for a look, which starts no Spark."""
    return None if run.start_spark is None else partial(_counted, run)


def _counted(run: TableRun, sides: Sequence[Side], cut: Cut) -> Moves:
    if sum(side.bytes for side in sides) <= _HERE:
        return count_moves(sides, cut)
    from lading.spark.tasks import spread

    tasks = [one for side in sides for one in _shares(side)]
    answers = spread(
        run.spark(),
        partial(_count, tasks, cut),
        len(tasks),
        f"compare the inputs of {run.name}",
        table=run.name,
    )
    found: Moves = {}
    for answer in answers:
        found = added(found, {(slot, source): (went, came) for slot, source, went, came in _told(answer)})
    return found


def _shares(side: Side) -> list[Side]:
    shares: list[list[int]] = [[]]
    held = 0
    for number, member in enumerate(side.members):
        if shares[-1] and held + member.bytes > _PER_TASK:
            shares.append([])
            held = 0
        shares[-1].append(number)
        held += member.bytes
    return [replace(side, members=tuple(side.members[at] for at in share)) for share in shares if share]


def _count(tasks: Sequence[Side], cut: Cut, number: int) -> bytes:
    moves = count_moves([tasks[number]], cut)
    return msgspec.msgpack.encode([(*key, *counts) for key, counts in moves.items()])


def _told(answer: bytes) -> list[tuple[int, int, int, int]]:
    return msgspec.msgpack.decode(answer, type=list[tuple[int, int, int, int]])
