"""Settings of Spark for one job, which are back as they were when it is done.

Spark 4.3 asks for the size of the batch that it makes for Python after every row, so that none grows beyond
all bounds, which takes more time than making it. Where all rows together are no more than a task may hold, no
batch can grow too great, and the question is left out.

For a few rows of many columns Spark spends most of its time on compiling programs that then hardly run:
they are worked out without, as Spark itself does where it fails to compile one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pyspark import StatusTracker
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lading.model import IngestJob
from lading.spark.failures import hides_interrupt
from lading.spark.session import JOB_GROUP

BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
COMPILING = "spark.sql.codegen.factoryMode"

_NO_LIMIT = str(2**31 - 1)  # of a batch, in Spark's words
_FEW_ROWS = 64 << 20  # bytes of input that no batch can outgrow, unless a transform makes more of them
_MANY_COLUMNS = 100  # beyond which Spark makes no program of a whole stage anyway
_FEW_BYTES = 8 << 20  # of input


def ingest_settings(job: IngestJob) -> dict[str, str]:
    """What suits the job; a user's own settings win."""
    settings = {}
    if job.transform is None and job.input_bytes <= _FEW_ROWS:
        settings[BATCH_BYTES] = _NO_LIMIT
    if len(job.columns) > _MANY_COLUMNS and job.input_bytes < _FEW_BYTES:
        settings[COMPILING] = "NO_CODEGEN"
    return {name: value for name, value in settings.items() if name not in job.spark}


@contextmanager
def held_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Jobs that start meanwhile have these settings. They stay after Ctrl-C: the JVM is in the middle of a
    call then, and would answer another one when that has come to its end."""
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    except BaseException as error:
        if hides_interrupt(error):
            before.clear()
        raise
    finally:
        for name, old in before.items():
            spark.conf.set(name, old) if old is not None else spark.conf.unset(name)


_INTERVAL = 1.0  # seconds


@contextmanager
def reported(spark: SparkSession, tick: Callable[[str], None] | None) -> Iterator[None]:
    """Call `tick` about once a second with the state of Spark's stages while the block runs."""
    if tick is None:
        yield
        return
    done = threading.Event()
    reporter = threading.Thread(target=_report, args=(spark, _group(spark), tick, done), daemon=True)
    reporter.start()
    try:
        yield
    finally:
        done.set()
        reporter.join()


def _group(spark: SparkSession) -> str | None:
    """What the jobs of this thread are known as, if it is not all the same."""
    context = getattr(spark, "_sc", None)  # a Spark Connect client has none
    return None if context is None else context.getLocalProperty(JOB_GROUP)


def _report(
    spark: SparkSession, group: str | None, tick: Callable[[str], None], done: threading.Event
) -> None:
    try:
        tracker = spark.sparkContext.statusTracker()
    except PySparkException:
        return
    while not done.wait(_INTERVAL):
        for number in _stages(tracker, group):
            stage = tracker.getStageInfo(number)
            if stage is not None:
                tick(f"stage {stage.stageId}: {stage.numCompletedTasks} of {stage.numTasks} tasks")


def _stages(tracker: StatusTracker, group: str | None) -> list[int]:
    """Those that run now; of `group` alone, if there is one."""
    active = list(tracker.getActiveStageIds())
    if group is None:
        return active
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    own = {stage for job in jobs if job is not None for stage in job.stageIds}
    return [stage for stage in active if stage in own]
