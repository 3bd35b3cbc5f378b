"""Tasks as Spark's Python workers run them."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

from lading.spark.tasks import spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def frozen(number: int) -> bytes:
    return f"{os.getpid()} {gc.get_freeze_count()} {len(gc.get_objects())}".encode()


def test_workers_go_through_what_they_imported_once_and_keep_nothing_of_tasks(spark: SparkSession) -> None:
    def told() -> dict[int, tuple[int, int]]:
        answers = (tuple(map(int, one.split())) for one in spread(spark, frozen, 4, "look"))
        return {worker: (kept, left) for worker, kept, left in answers}

    for _ in range(3):
        told()
    before = told()
    assert all(kept > 10_000 > left for kept, left in before.values())
    for _ in range(3):
        after = told()
    both = before.keys() & after.keys()
    assert both and all(after[worker][0] <= before[worker][0] for worker in both)
