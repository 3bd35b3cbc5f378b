"""lading merge: the same rows in fewer, larger parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from lading.cli.terminal.command import Context, Option
from lading.cli.terminal.invocation import Json, Table, config_of
from lading.words import byte_words, count_words

if TYPE_CHECKING:
    from lading.upkeep.merge import MergeReport

TargetSize = Annotated[
    str, Option("--target-size", metavar="SIZE", help="Size to aim for in each part: 64MB, 1GB.")
]
DryRun = Annotated[bool, Option("--dry-run", help="Show what would be merged, but change nothing.")]


def merge(
    ctx: Context,
    table: Table,
    target_size: TargetSize = "128MB",
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Fold a table's small parts into larger ones.

    Works bucket by bucket, keeps rows sorted, and drops the rows that a `minus` marked as removed.
    Readers are never blocked and see the result as one new snapshot. Replaced files stay until
    `lading clean`. Buckets with nothing to gain are left alone.

    \b
    Example:
      lading merge voyages --dry-run
      lading merge voyages --target-size 256MB --json
    """
    from lading.cli.terminal.screen import byte_count, print_json
    from lading.cli.terminal.watching import terminal_watch
    from lading.upkeep.merge import merge_table

    config = config_of(ctx, [table])
    size = byte_count(target_size, "--target-size")
    with terminal_watch() as watch:
        report = merge_table(config, table, target_size=size, dry_run=dry_run, watch=watch)
    if json:
        print_json(_report_object(report, dry_run))
    else:
        _show(report, dry_run)


def _report_object(report: MergeReport, dry_run: bool) -> dict[str, Any]:
    return {
        "table": report.table,
        "run_id": report.run_id,
        "dry_run": dry_run,
        "folds": [
            {"bucket": fold.bucket, "parts": len(fold.members), "rows": fold.rows, "bytes": fold.bytes}
            for fold in report.folds
        ],
        "skipped": report.skipped,
        "parts_removed": report.parts_removed,
        "parts_added": report.parts_added,
        "rows": report.rows,
        "sequence": report.sequence,
        "published": report.published,
        "manifest_ref": report.manifest_ref,
        "note": report.note,
        "spark_started": report.spark_started,
        "seconds": round(report.seconds, 3),
    }


def _show(report: MergeReport, dry_run: bool) -> None:
    from lading.cli.terminal.screen import say, show_table
    from lading.layout.table import bucket_key

    if not report.folds:
        say("Nothing to merge: no bucket would get fewer parts, and no part has removed rows to drop.")
        if report.note:
            say(report.note)
        return
    show_table(
        ("bucket", "parts", "rows", "size"),
        ((bucket_key(f.bucket), len(f.members), f.rows, byte_words(f.bytes)) for f in report.folds),
        right=("parts", "rows", "size"),
    )
    if dry_run:
        say("Dry run: nothing was changed.")
        return
    seen = (
        f"readers see sequence {report.sequence}"
        if report.published
        else "readers see the same snapshot as before"
    )
    say(f"{count_words(report.parts_removed, 'part')} became {report.parts_added:,}; {seen}.")
    if report.skipped:
        say(f"{count_words(report.skipped, 'fold')} skipped: a run changed the same parts meanwhile.")
    if report.note:
        say(report.note)
