"""Rows that came and went, read by Spark's tasks. The driver reads them itself only where the parts that hold
them are no more than it also folds itself, or than `in_process_below` leaves to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from lading.ingest.derived.changed import Reading, bare
from lading.ingest.derived.signed import Side, Signed, compared, signed_rows, told
from lading.ingest.derived.slots import Cut
from lading.ingest.table_run import TableRun

HERE = 1 << 20  # bytes of parts that are read in this process sooner than a task is started
_PER_TASK = 32 << 20  # bytes of parts that a task reads whole
_PER_TASK_BY_COLUMNS = 128 << 20  # and that it reads for the columns that rows are cut by


def reading(run: TableRun) -> Reading:
    """How a run reads them; a look starts no Spark."""
    return partial(_read, run)


def _read(run: TableRun, sides: Sequence[Side], columns: Sequence[str], cut: Cut, exact: bool) -> Signed:
    size = sum(side.bytes for side in sides)
    if run.start_spark is None or size <= max(HERE, run.config.spark.in_process_below):
        return signed_rows(sides, columns, cut, exact)
    from lading.spark.tasks import spread

    plain = [replace(side, members=tuple(map(bare, side.members))) for side in sides]
    most = _PER_TASK if exact else _PER_TASK_BY_COLUMNS
    tasks = [tuple(plain)] if size <= most else [(one,) for side in plain for one in _shares(side, most)]
    what = f"compare the inputs of {run.name}"
    work = partial(compared, tasks, tuple(columns), cut, exact)
    answers = spread(run.spark(), work, len(tasks), what, table=run.name)
    return Signed.of([told(answer) for answer in answers])


def _shares(side: Side, most: int) -> list[Side]:
    shares: list[list[int]] = [[]]
    held = 0
    for number, member in enumerate(side.members):
        if shares[-1] and held + member.bytes > most:
            shares.append([])
            held = 0
        shares[-1].append(number)
        held += member.bytes
    return [replace(side, members=tuple(side.members[at] for at in share)) for share in shares if share]
