"""Tasks that Spark would run, in processes of the world: retried when they fail, started twice now and then,
and at work for longer than the driver that asked for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa

from simulation.kernel import Process, World, current_task

_TRIES = 4  # as Spark's spark.task.maxFailures
_TWICE = 0.15  # of the tasks are started a second time while the first is at work


class Context:
    """What a task asks of `pyspark.TaskContext`."""

    @staticmethod
    def get() -> Context | None:
        task = current_task()
        return task.process.local.get("context") if task is not None else None

    def __init__(self, attempt: int, number: int) -> None:
        self._attempt, self._number = attempt, number

    def attemptNumber(self) -> int:  # noqa: N802, Spark's name
        return self._attempt

    def taskAttemptId(self) -> int:  # noqa: N802
        return self._number

    def stageId(self) -> int:  # noqa: N802
        return 1


def install() -> None:
    """Once a process, beside `machine.install`."""
    import lading.run
    import lading.serve.build.on_spark as on_spark
    import lading.serve.build.task as task
    import lading.upkeep.merge

    on_spark.build_on_spark = build  # type: ignore[assignment]
    task.TaskContext = Context
    lading.run.spark_session = lambda *_: None  # type: ignore[assignment]
    lading.upkeep.merge.spark_session = lambda *_: None  # type: ignore[assignment]


def build(spark: object, job: Any, tick: object = None) -> Any:
    """In place of `build_on_spark`: the same tasks, and the same choice among their attempts."""
    from lading.serve.build.on_spark import BuiltShards, select_winners
    from lading.serve.build.task import BuiltShard, build_shards

    building = replace(job, parts=())
    pieces = dict(_routed(job))

    def work(slot: int) -> list[BuiltShard]:
        done = build_shards(iter([pieces[slot]]), building)
        return [msgspec.msgpack.decode(one.column(0)[0].as_py(), type=BuiltShard) for one in done]

    built = [one for answers in _spread(work, sorted(pieces)) for one in answers]
    winners = select_winners((one.meta for one in built), job.shards)
    counted = [next(one for one in built if one.meta is winner) for winner in winners]
    named = tuple(key for one in counted for key in one.named)
    return BuiltShards(winners, sum(one.rows for one in counted), sum(one.twice for one in counted), named)


def _routed(job: Any) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The packets of each building task, by shard."""
    from lading.serve.build.task import route_parts

    numbers = pa.RecordBatch.from_arrays([pa.array(range(max(1, len(job.parts))))], ["id"])
    packets = pa.Table.from_batches(list(route_parts(iter([numbers]), job))).sort_by("db").combine_chunks()
    for slot in sorted(set(packets.column("slot").to_pylist())):
        [rows] = packets.filter(pa.compute.equal(packets.column("slot"), slot)).combine_chunks().to_batches()
        yield slot, rows


def _spread(work: Any, slots: list[int]) -> list[Any]:
    driver = current_task()
    if driver is None:
        return [work(slot) for slot in slots]
    world: World = driver.world
    answers: list[Any] = []
    runs = [_Run(world, work, slot, answers) for slot in slots]
    for run in runs:
        run.start()
        if not world.calm and world.chance.random() < _TWICE:
            run.start()
    for run in runs:
        while not run.done:
            world.wait(lambda run=run: run.done or not run.at_work)  # type: ignore[misc]
            if not run.done and run.tries >= _TRIES:
                raise run.error or OSError("the executor is gone")
            if not run.done:
                run.start()
    return answers


class _Run:
    """One task in all its attempts."""

    def __init__(self, world: World, work: Any, slot: int, answers: list[Any]) -> None:
        self._world, self._work, self._slot, self._answers = world, work, slot, answers
        self.tries = 0
        self.at_work = 0
        self.done = False
        self.error: Exception | None = None

    def start(self) -> None:
        process = Process(f"executor{self._slot}.{self.tries}")
        process.local["context"] = Context(self.tries, self._world.steps * 10 + self.tries)
        process.on_death.append(self._ended)
        self.tries += 1
        self.at_work += 1
        self._world.spawn(process, process.name, self._run)

    def _run(self) -> None:
        try:
            answer = self._work(self._slot)
        except Exception as error:
            self.error = error
        else:
            self._answers.append(answer)
            self.done = True
        self._ended()

    def _ended(self) -> None:
        self.at_work -= 1
