"""What tasks do with archives and scripts, and whether they share nothing with this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from lading.errors import LadingError
from lading.ingest.table_run import TableRun
from lading.sources.archives.scratch import Apart, Looked, looked_at
from lading.spark.session import runs_here


def is_apart(run: TableRun) -> bool:
    """Whether tasks make what they need of archives and scripts by themselves. Where source files lie in a
    folder, all machines share it anyway."""
    return run.objects is not None and not runs_here(run.config.spark.master)


def in_spark(run: TableRun, work: Callable[[Any], str], tasks: Sequence[Any]) -> list[str | LadingError]:
    if not tasks:
        return []
    spark = run.spark()
    from lading.spark.tasks import on_cluster  # here: driver-side work needs no pyspark

    return on_cluster(spark, work, tasks)


def look_at(run: TableRun, apart: Sequence[Apart]) -> list[Looked]:
    """What tasks make of each input."""
    makings = [one.making() for one in apart]
    size = sum(file.size for making in makings for file in making.inputs)
    if size < run.config.spark.in_process_below:
        answers = [looked_at(making) for making in makings]
    else:
        answers = [unless_error(answer) for answer in in_spark(run, looked_at, makings)]
    return [msgspec.json.decode(answer, type=Looked) for answer in answers]


def unless_error(answer: str | LadingError) -> str:
    if isinstance(answer, LadingError):
        raise answer
    return answer
