"""lading run: leave every table exactly as a rebuild from scratch would."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lading.cli.terminal.command import Context, Exit, Option
from lading.cli.terminal.invocation import Json, Tables, config_of
from lading.config.project import Config
from lading.errors import LadingError, Unexpected
from lading.words import count_words

if TYPE_CHECKING:
    from lading.run import RunReport, TableReport

Full = Annotated[bool, Option("--full", help="Read every file again and replace all rows.")]
AllowVanish = Annotated[
    bool, Option("--allow-vanish", help="Retract rows even if more than half the files are gone.")
]
Only = Annotated[bool, Option("--only", help="Run just these tables, not those that they are made of.")]
Jobs = Annotated[
    int,
    Option("--jobs", metavar="N", min=1, help="Run up to N tables at once, where none is made of another."),
]
SparkMaster = Annotated[
    str | None,
    Option("--spark-master", metavar="URL", help="Use this Spark master instead of the configured one."),
]

MetricsFile = Annotated[
    Path | None,
    Option("--metrics-file", metavar="FILE", help="Write metrics there, for Prometheus' textfile collector."),
]


def run(
    ctx: Context,
    tables: Tables = None,
    full: Full = False,
    allow_vanish: AllowVanish = False,
    only: Only = False,
    jobs: Jobs = 1,
    json: Json = False,
    spark_master: SparkMaster = None,
    metrics_file: MetricsFile = None,
) -> None:
    """Bring tables up to date with their files.

    Reads new and changed files, retracts the rows of vanished ones, and publishes. Then evaluates what
    changed in tables made of other tables, after those that they are made of. Starts Spark only if a file has
    to be read or a slot evaluated. If a run is interrupted, the next one completes it.

    \b
    Example:
      lading run
      lading run voyages --json
      lading run tonnage --only
      lading run --jobs 4
      lading run --spark-master spark://host:7077
    """
    config = config_of(ctx, tables)
    run_and_report(
        config,
        tables or [],
        json=json,
        spark_master=spark_master,
        full=full,
        allow_vanish=allow_vanish,
        only=only,
        jobs=jobs,
        metrics_file=metrics_file,
    )


def run_and_report(
    config: Config, tables: list[str], *, json: bool, spark_master: str | None, **options: Any
) -> None:
    """One run, its report printed; the exit code says whether all went well."""
    from lading.cli.terminal.failures import error_object
    from lading.cli.terminal.screen import print_json

    if spark_master is not None:
        config = dataclasses.replace(config, spark=dataclasses.replace(config.spark, master=spark_master))
    report = _logged_run(config, tables, options)
    errors = [table.error for table in report.tables if table.error is not None]
    if json:
        result = _report_object(report)
        print_json({**result, "error": error_object(errors[0])} if errors else result)
    else:
        _show(report)
    if errors:
        raise Exit(max(error.exit_code for error in errors))


def _logged_run(config: Config, tables: list[str], options: dict[str, Any]) -> RunReport:
    from lading.cli.terminal.failures import say_where
    from lading.cli.terminal.screen import note
    from lading.cli.terminal.watching import JsonLog, LogWatch, Watches, terminal_watch
    from lading.run import run as run_tables
    from lading.signals.after import Signals

    log = JsonLog(config.project)
    signals = Signals(config, lambda text: note(f"warning: {text}"), options.pop("metrics_file", None))
    log.write("run started", tables=tables or list(config.tables), **options)
    try:
        with terminal_watch() as screen:
            watch = Watches(screen, LogWatch(log), signals.phases)
            report = run_tables(config, tables, watch=watch, **options)
    except LadingError as error:
        log.write("run failed", level="error", kind=error.kind, message=error.message, table=error.table)
        raise
    except KeyboardInterrupt:
        log.write("run interrupted", level="warning")
        raise
    for table in report.tables:
        if isinstance(table.error, Unexpected):
            say_where(table.error, config.project)
    log.write("run finished", **_report_object(report))
    signals.finished(config, report)
    return report


def _report_object(report: RunReport) -> dict[str, Any]:
    return {
        "run_id": report.run_id,
        "spark_started": report.spark_started,
        "tables": [table_object(table) for table in report.tables],
    }


def table_object(table: TableReport) -> dict[str, Any]:
    from lading.checks.table import as_object
    from lading.cli.terminal.failures import error_object

    found = {
        "table": table.table,
        "verdicts": table.verdicts,
        "rows_added": table.rows_added,
        "rows_removed": table.rows_removed,
        "parts_added": table.parts_added,
        "parts_removed": table.parts_removed,
        "rows": table.rows,
        "sequence": table.sequence,
        "published": table.published,
        "manifest_ref": table.manifest_ref,
        "seconds": round(table.seconds, 3),
        "rows_rejected": table.rows_rejected,
        "files_rejected": table.files_rejected,
        "checks": [as_object(check) for check in table.checks],
        "notes": list(table.notes),
    }
    return {**found, "error": error_object(table.error)} if table.error is not None else found


def _show(report: RunReport) -> None:
    from lading.cli.terminal.failures import print_error
    from lading.cli.terminal.screen import say, show_table, verdict_words

    worked = [table for table in report.tables if table.error is None]
    if worked:
        show_table(
            ("table", "files", "rows added", "rows removed", "rows", "snapshot", "seconds"),
            (
                (
                    table.table,
                    verdict_words(table.verdicts),
                    table.rows_added,
                    table.rows_removed,
                    table.rows,
                    f"sequence {table.sequence}" if table.published else "unchanged",
                    f"{table.seconds:.1f}",
                )
                for table in worked
            ),
            right=("rows added", "rows removed", "rows", "seconds"),
        )
    for table in report.tables:
        _show_findings(table)
        if table.error is not None:
            print_error(table.error)
    if not report.spark_started and worked:
        from lading.ingest.verdict import READ_VERDICTS

        read = any(table.verdicts.get(one) for table in worked for one in READ_VERDICTS)
        say(f"{'Little' if read else 'Nothing'} to read, so Spark was not started.")


def _show_findings(table: TableReport) -> None:
    """What the checks found and what was set aside; nothing when all is well."""
    from lading.cli.terminal.screen import note

    for text in table.notes:
        note(f"{table.table}: {text}")
    for check in table.checks:
        if not check.passed:
            word = "warning" if check.severity == "warn" else "failed"
            note(f"{word}: {table.table}: check {check.name!r}: {check.message}")
            for one in check.sample[:1]:
                note(f"  for example {one[:200]}")
    if table.rows_rejected or table.files_rejected:
        rows, files = count_words(table.rows_rejected, "row"), count_words(table.files_rejected, "whole file")
        note(f"{table.table}: {rows} and {files} set aside; see `lading quarantine show {table.table}`")
