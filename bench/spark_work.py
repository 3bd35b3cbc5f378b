"""What Spark did, from its own status store through the gateway: the bench may use it, lading may not.

The run time of tasks, not CPU time, which leaves the Python workers out; a task waits for them. Spark's
summary by executor is of no use on one machine: the driver's total there follows the clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SparkWork:
    """What some stages came to."""

    tasks: int
    seconds: float
    input_bytes: int  # read from files by Spark itself
    shuffle_bytes: int  # written


Stages = dict[tuple[int, int], SparkWork]


def stages() -> Stages:
    """Every stage so far, by its number and attempt; Spark keeps the latest thousand."""
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context
    java, gateway = context._jsc.sc(), context._gateway
    java.listenerBus().waitUntilEmpty()
    quantiles = gateway.new_array(gateway.jvm.double, 0)
    listed = java.statusStore().stageList(None, False, False, quantiles, None)
    found = (listed.apply(at) for at in range(listed.size()))
    return {
        (one.stageId(), one.attemptId()): SparkWork(
            one.numCompleteTasks(),
            one.executorRunTime() / 1_000,
            one.inputBytes(),
            one.shuffleWriteBytes(),
        )
        for one in found
    }


def since(before: Iterable[tuple[int, int]]) -> SparkWork:
    """What was done beyond the stages `before`."""
    known = set(before)
    fresh = [work for stage, work in stages().items() if stage not in known]
    return SparkWork(
        sum(work.tasks for work in fresh),
        sum(work.seconds for work in fresh),
        sum(work.input_bytes for work in fresh),
        sum(work.shuffle_bytes for work in fresh),
    )
