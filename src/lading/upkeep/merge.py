"""Folding a table's small parts into larger ones: rows stay, files become fewer, `minus` goes for good.

Each bucket is swapped in one commit, planned from what the log holds at that moment, so that a merge and
a run may go on side by side: whoever comes second on the same part gives way, and nothing is lost. A
kill leaves whole commits and some files that nobody refers to. Readers go on with their snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from lading.config.project import Config
from lading.errors import CommitUnknown, Conflict, NotFound, PartError
from lading.ingest.ledger import Ledger
from lading.ingest.look import Look
from lading.ingest.plan import TablePlan
from lading.ingest.record import write_table_manifest
from lading.ingest.release import release
from lading.ingest.shard import output_of
from lading.ingest.work import Work, new_id, new_run_id, now_text
from lading.log.table import Table
from lading.model import Commit, Member
from lading.parts.fold import TARGET_SIZE, Fold, FoldSpec, fold_parts, plan_folds
from lading.parts.write import Origin
from lading.snapshots.runs import RunHandle
from lading.snapshots.runs import start as start_record
from lading.spark.session import spark_session
from lading.upkeep.tidy import tidy
from lading.watch import Watch

ON_SPARK = 1 << 30  # bytes to read from which on Spark is worth its start

SILENT = Watch()


@dataclass(slots=True)
class MergeReport:
    """What a merge did, or would do."""

    table: str
    run_id: str
    folds: list[Fold] = field(default_factory=list)
    skipped: int = 0  # folds that gave way to a run that changed one of their parts meanwhile
    parts_removed: int = 0
    parts_added: int = 0
    rows: int = 0  # in the table: the same before and after
    sequence: int = 0
    published: bool = False
    manifest_ref: str | None = None
    spark_started: bool = False
    seconds: float = 0.0


def merge_table(
    config: Config,
    name: str,
    *,
    target_size: int = TARGET_SIZE,
    dry_run: bool = False,
    watch: Watch = SILENT,
) -> MergeReport:
    """Fold the small parts of a table, bucket by bucket, and publish the result."""
    started = time.monotonic()
    work = _work(config, name, watch)
    watch.phase(name, "plan")
    state = work.table.state
    folds = plan_folds(state.candidates(None), target_size)
    report = MergeReport(name, work.run_id, folds, rows=state.row_count(), sequence=state.sequence)
    if folds and not dry_run:
        with start_record(work.table.place, work.run_id, tables=[name], output=output_of(work)) as record:
            _fold_all(work, report, target_size)
            _publish(work, report, record)
            record.finish("succeeded", manifest_ref=report.manifest_ref)
        work.table.checkpoint_if_due()
    elif not dry_run:
        _publish(work, report, None)  # what an earlier merge committed and was killed before publishing
    watch.phase(name, "done")
    report.seconds = time.monotonic() - started
    return report


def _work(config: Config, name: str, watch: Watch) -> Work:
    cfg = config.table(name)
    folder = config.place(cfg.name)
    if not Table.exists(folder):
        raise NotFound(f"{name} has no parts yet", hint=f"build it first: lading run {name}", table=name)
    table = Table.open(folder)
    seen = Look(
        config=cfg,
        table=table,
        manifest=None,
        ledger=Ledger(),
        found=[],
        columns=None,
        recipe=table.state.meta.recipe,
        plan=TablePlan(cfg.name, ()),
    )
    return Work(config, seen, table, new_run_id(), new_id(), watch)


def _fold_all(work: Work, report: MergeReport, target: int) -> None:
    work.watch.phase(work.name, "merge")
    try:
        if sum(fold.bytes for fold in report.folds) >= ON_SPARK:
            _fold_on_spark(work, report, target)
        else:
            _fold_here(work, report, target)
    except CommitUnknown:
        raise  # the commit may have been made: nothing that it refers to may go
    except BaseException:
        _drop_orphans(work, report)
        raise
    _drop_orphans(work, report)
    report.rows, report.sequence = work.table.state.row_count(), work.table.state.sequence


def _drop_orphans(work: Work, report: MergeReport) -> None:
    """What a fold wrote and no commit took up: it gave way, or failed half-way."""
    tidy(work, {fold.bucket for fold in report.folds})


def _fold_here(work: Work, report: MergeReport, target: int) -> None:
    for number, planned in enumerate(report.folds):
        work.watch.progress(work.name, "buckets merged", number, len(report.folds))
        fold = _as_of_now(work.table, planned)
        if fold is None:
            report.skipped += 1
            continue
        try:
            folded = fold_parts(fold, _spec(work, target))
        except PartError:
            if work.table.holds(fold.paths):
                raise
            report.skipped += 1  # a run replaced one of them meanwhile, and it was cleaned
            continue
        _swap(work, report, [fold], folded)


def _fold_on_spark(work: Work, report: MergeReport, target: int) -> None:
    config = work.config.spark
    spark = spark_session(config.master, config.conf, work.config.cache)
    report.spark_started = True
    from lading.spark.folds import fold_on_spark  # pyspark: only where it is used

    folded = fold_on_spark(spark, report.folds, _spec(work, target))
    _swap(work, report, report.folds, [member for members in folded for member in members])


def _as_of_now(table: Table, planned: Fold) -> Fold | None:
    """The fold's parts as the log has them now, None if one is gone: a commit takes in what others
    committed, so what was planned before it may be old, and a `minus` in between must not be lost."""
    found = [table.state.find(path) for path in planned.paths]
    members = tuple(one[0] for one in found if one is not None)
    return Fold(planned.bucket, members) if len(members) == len(planned.members) else None


def _swap(work: Work, report: MergeReport, folds: Sequence[Fold], new: list[Member]) -> None:
    old = tuple(path for fold in folds for path in fold.paths)
    recipe = work.table.state.meta.recipe
    commit = Commit(new_id(), work.run_id, now_text(), recipe, add=tuple(new), remove=old)
    try:
        work.commit(commit)
    except Conflict:
        report.skipped += len(folds)
        return
    report.parts_removed += len(old)
    report.parts_added += len(new)


def _spec(work: Work, target: int) -> FoldSpec:
    state = work.table.state
    origin = Origin(work.table.table_id, work.run_id, work.commit_id, state.order_by)
    return FoldSpec(work.table.place, origin, state.schema, target)


def _publish(work: Work, report: MergeReport, record: RunHandle | None) -> None:
    if report.parts_removed:
        work.watch.phase(work.name, "record")
        write_table_manifest(work)
    config = work.config.spark
    released = release(work, lambda: spark_session(config.master, config.conf, work.config.cache), record)
    report.manifest_ref = released.ref
    report.published = released.is_current
    if released.refused is not None:
        raise released.refused
