"""The second wave of a run: tasks sorted what they read, each by itself; here their parts are folded where
they overlap, so that a lookup right after a run opens one file. In the same commit: nobody sees the first."""

from __future__ import annotations

from collections.abc import Sequence

from lading.ingest.table_run import TableRun
from lading.model import IngestJob, Member
from lading.parts.fold import FoldSpec, fold_parts
from lading.parts.footer import Origin
from lading.parts.overlap import plan_overlaps

_HERE = 8 << 20  # bytes of parts that are folded sooner than a task is started


def settled(run: TableRun, job: IngestJob, members: Sequence[Member], schema: bytes) -> tuple[Member, ...]:
    """The parts of a run, disjoint by their keys within each bucket."""
    folds = plan_overlaps(members, job.table_dir, job.order_by) if job.order_by is not None else []
    if not folds:
        return tuple(members)
    run.watch.phase(run.name, "fold")
    origin = Origin(job.table_id, job.run_id, job.commit_id, job.order_by)
    spec = FoldSpec(job.table_dir, origin, schema)
    if sum(fold.bytes for fold in folds) <= _HERE:
        folded = [fold_parts(fold, spec) for fold in folds]
    else:
        from lading.spark.tasks import fold_on_spark  # pyspark: only where it is used

        folded = fold_on_spark(run.spark(), folds, spec)
    gone = {path for fold in folds for path in fold.paths}
    kept = [member for member in members if member.path not in gone]
    return (*kept, *(member for several in folded for member in several))
