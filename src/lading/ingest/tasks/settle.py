"""The second wave of a run: what tasks have sorted, each by itself, becomes parts that are disjoint by their
keys, so that a lookup right after a run opens one file. In the same commit: nobody sees the first ones."""

from __future__ import annotations

from collections.abc import Sequence

from lading.ingest.table_run import TableRun
from lading.model import IngestJob, Member
from lading.parts.fold import FoldSpec, fold_parts
from lading.parts.footer import Origin
from lading.parts.ranges import plan_ranges

_HERE = 1 << 20  # bytes of parts that are folded sooner than a task is started


def settled(run: TableRun, job: IngestJob, members: Sequence[Member], schema: bytes) -> tuple[Member, ...]:
    """The parts that stay, for those that tasks wrote in passing."""
    assert job.order_by is not None
    run.watch.phase(run.name, "fold")
    origin = Origin(job.table_id, job.run_id, job.commit_id, job.order_by)
    spec = FoldSpec(job.table_dir, origin, schema)
    folds = plan_ranges(members, job.table_dir, job.order_by)
    if sum(member.bytes for member in members) <= _HERE:
        folded = [fold_parts(fold, spec) for fold in folds]
    else:
        from lading.spark.tasks import delete_on_spark, fold_on_spark  # pyspark: only where it is used

        folded = fold_on_spark(run.spark(), folds, spec)
        # As much as the rows are bytes, and in a bucket a request each: nothing for the driver.
        delete_on_spark(run.spark(), job.table_dir, [member.path for member in members])
    return tuple(member for several in folded for member in several)
