"""Folding a table's small parts into larger ones: rows stay, files become fewer, `minus` goes for good.

Each bucket is swapped in one commit, planned from what the log holds at that moment, so that a merge and
a run may go on side by side: whoever comes second on the same part gives way, and nothing is lost. A
kill leaves whole commits and some files that nobody refers to. Readers go on with their snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lading import clock
from lading.config.project import Config, TableConfig
from lading.errors import CommitUnknown, Conflict, NotFound, PartError
from lading.ingest.behind import moved_by_others
from lading.ingest.commit import commit_keeping
from lading.ingest.record import write_table_manifest
from lading.ingest.release import release
from lading.ingest.table_run import new_id, new_run_id, now_text
from lading.log.table import Table
from lading.model import Commit, Member
from lading.parts.fold import TARGET_SIZE, Fold, FoldSpec, fold_parts, plan_folds
from lading.parts.footer import Origin
from lading.serve.shard import output_of
from lading.snapshots.runs import RunHandle
from lading.snapshots.runs import start as start_record
from lading.snapshots.stores.by_url import store_of
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
    note: str | None = None  # for people: whose snapshot readers saw before
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
    started = clock.monotonic()
    merge = _begun(config, name, watch)
    watch.phase(name, "plan")
    state = merge.table.state
    folds = plan_folds(state.candidates(None), target_size)
    report = MergeReport(name, merge.run_id, folds, rows=state.row_count(), sequence=state.sequence)
    if not dry_run:
        with merge.table.not_expired(merge.run_id):
            if folds:
                _fold_and_publish(merge, report, target_size)
            else:
                _publish(merge, report, None)  # what an earlier merge committed, killed before publishing
    watch.phase(name, "done")
    report.seconds = clock.monotonic() - started
    return report


def _fold_and_publish(merge: _Merge, report: MergeReport, target: int) -> None:
    moved = _moved_by_others(merge)
    output = output_of(merge.config, merge.cfg, merge.table)
    with start_record(merge.table.place, merge.run_id, tables=[merge.name], output=output) as record:
        _fold_all(merge, report, target)
        try:
            _publish(merge, report, record)
        finally:
            _drop_orphans(merge, report)
        record.finish("succeeded", manifest_ref=report.manifest_ref)
    merge.table.checkpoint_if_due()
    report.note = moved if report.published else None


@dataclass(frozen=True, slots=True)
class _Merge:
    """One table, one merge."""

    config: Config
    cfg: TableConfig
    table: Table
    watch: Watch
    run_id: str = field(default_factory=new_run_id)
    commit_id: str = field(default_factory=new_id)  # that parts are written for
    kept: set[str] = field(default_factory=set)  # files of its own that stay

    @property
    def name(self) -> str:
        return self.cfg.name

    def spark(self) -> Any:
        return spark_session(self.config.spark.master, self.config.spark.conf, self.config.cache)


def _begun(config: Config, name: str, watch: Watch) -> _Merge:
    cfg = config.table(name)
    folder = config.place(cfg.name)
    if not Table.exists(folder):
        raise NotFound(f"{name} has no parts yet", hint=f"build it first: lading run {name}", table=name)
    return _Merge(config, cfg, Table.open(folder), watch)


def _moved_by_others(merge: _Merge) -> str | None:
    """What to say when readers see what somebody else pointed at: a merge is a new snapshot, so they won't
    for much longer."""
    current = store_of(merge.config, merge.name).load_current()
    if current is None or moved_by_others(merge.config, merge.name, merge.table, current) is None:
        return None
    return (
        f"someone else had moved the pointer to run {current.run_id}; readers see the merged table now. "
        f"To go back, and stay there: lading rollback {merge.name} --run-id {current.run_id}"
    )


def _fold_all(merge: _Merge, report: MergeReport, target: int) -> None:
    merge.watch.phase(merge.name, "merge")
    try:
        if sum(fold.bytes for fold in report.folds) >= ON_SPARK:
            _fold_on_spark(merge, report, target)
        else:
            _fold_here(merge, report, target)
    except CommitUnknown:
        raise  # the commit may have been made: nothing that it refers to may go
    except BaseException:
        _drop_orphans(merge, report)
        raise
    report.rows, report.sequence = merge.table.state.row_count(), merge.table.state.sequence


def _drop_orphans(merge: _Merge, report: MergeReport) -> None:
    """What a fold wrote and no commit took up: it gave way, or failed half-way."""
    tidy(merge.table, merge.run_id, merge.kept, {fold.bucket for fold in report.folds})


def _fold_here(merge: _Merge, report: MergeReport, target: int) -> None:
    for number, planned in enumerate(report.folds):
        merge.watch.progress(merge.name, "buckets merged", number, len(report.folds))
        fold = _as_of_now(merge.table, planned)
        if fold is None:
            report.skipped += 1
            continue
        try:
            folded = fold_parts(fold, _spec(merge, target))
        except PartError:
            if merge.table.holds(fold.paths):
                raise
            report.skipped += 1  # a run replaced one of them meanwhile, and it was cleaned
            continue
        _swap(merge, report, [fold], folded)


def _fold_on_spark(merge: _Merge, report: MergeReport, target: int) -> None:
    spark = merge.spark()
    report.spark_started = True
    from lading.spark.tasks import fold_on_spark  # pyspark: only where it is used

    folded = fold_on_spark(spark, report.folds, _spec(merge, target))
    _swap(merge, report, report.folds, [member for members in folded for member in members])


def _as_of_now(table: Table, planned: Fold) -> Fold | None:
    """The fold's parts as the log has them now, None if one is gone: a commit takes in what others
    committed, so what was planned before it may be old, and a `minus` in between must not be lost."""
    found = [table.state.find(path) for path in planned.paths]
    members = tuple(one[0] for one in found if one is not None)
    return Fold(planned.bucket, members) if len(members) == len(planned.members) else None


def _swap(merge: _Merge, report: MergeReport, folds: Sequence[Fold], new: list[Member]) -> None:
    old = tuple(path for fold in folds for path in fold.paths)
    recipe = merge.table.state.meta.recipe
    commit = Commit(new_id(), merge.run_id, now_text(), recipe, add=tuple(new), remove=old)
    try:
        commit_keeping(merge.table, commit, merge.kept)
    except Conflict:
        report.skipped += len(folds)
        return
    report.parts_removed += len(old)
    report.parts_added += len(new)


def _spec(merge: _Merge, target: int) -> FoldSpec:
    state = merge.table.state
    origin = Origin(merge.table.table_id, merge.run_id, merge.commit_id, state.order_by)
    return FoldSpec(merge.table.place, origin, state.schema, target)


def _publish(merge: _Merge, report: MergeReport, record: RunHandle | None) -> None:
    unrecorded = _record(merge) if report.parts_removed else None
    released = release(
        merge.config,
        merge.cfg,
        merge.table,
        merge.run_id,
        session=merge.spark,
        watch=merge.watch,
        kept=merge.kept,
        record=record,
    )
    report.manifest_ref = released.ref
    report.published = released.is_current
    if released.note is not None:
        report.note = released.note
    if released.refused is not None:
        raise released.refused
    if unrecorded is not None:
        raise unrecorded


def _record(merge: _Merge) -> Exception | None:
    """The people's copy must not come between a commit and its publish: what goes wrong with it is for the
    end, and the next run writes it anew from the log."""
    merge.watch.phase(merge.name, "record")
    try:
        write_table_manifest(merge.table)
    except Exception as error:
        return error
    return None
