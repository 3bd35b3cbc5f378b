"""How far Spark is, for somebody who waits. Where Spark can't be asked (Spark Connect) nothing is said."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_INTERVAL = 1.0  # seconds


@contextmanager
def reported(spark: SparkSession, tick: Callable[[str], None] | None) -> Iterator[None]:
    """Call `tick` about once a second with the state of Spark's stages while the block runs."""
    if tick is None:
        yield
        return
    done = threading.Event()
    reporter = threading.Thread(target=_report, args=(spark, tick, done), daemon=True)
    reporter.start()
    try:
        yield
    finally:
        done.set()
        reporter.join()


def _report(spark: SparkSession, tick: Callable[[str], None], done: threading.Event) -> None:
    try:
        tracker = spark.sparkContext.statusTracker()
    except PySparkException:
        return
    while not done.wait(_INTERVAL):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        for stage in stages:
            if stage is not None:
                tick(f"stage {stage.stageId}: {stage.numCompletedTasks} of {stage.numTasks} tasks")
