"""lading run: make every table what a rebuild from nothing would give."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lading.cli.session import Json, Tables, config_of
from lading.config import Config
from lading.errors import LadingError

if TYPE_CHECKING:
    from lading.run import RunReport, TableReport

Full = Annotated[bool, typer.Option("--full", help="Read every file again and replace what the table holds.")]
AllowVanish = Annotated[
    bool, typer.Option("--allow-vanish", help="Retract rows even if more than half of the files are gone.")
]
SparkMaster = Annotated[
    str | None,
    typer.Option("--spark-master", metavar="URL", help="Run on this Spark instead of the configured one."),
]


def run(
    ctx: typer.Context,
    tables: Tables = None,
    full: Full = False,
    allow_vanish: AllowVanish = False,
    json: Json = False,
    spark_master: SparkMaster = None,
) -> None:
    """Make tables true to their files.

    Reads new and changed files, retracts the rows of vanished ones, and publishes.
    Starts Spark only when a file has to be read. Interrupted anywhere, the next run completes it.

    \b
    Example:
      lading run
      lading run voyages --json
      lading run --spark-master spark://host:7077
    """
    from lading.cli.failures import error_object
    from lading.cli.screen import print_json

    config = config_of(ctx, tables)
    if spark_master is not None:
        config = dataclasses.replace(config, spark=dataclasses.replace(config.spark, master=spark_master))
    report = _logged_run(config, tables or [], full=full, allow_vanish=allow_vanish)
    errors = [table.error for table in report.tables if table.error is not None]
    if json:
        result = _report_object(report)
        print_json({**result, "error": error_object(errors[0])} if errors else result)
    else:
        _show(report)
    if errors:
        raise typer.Exit(max(error.exit_code for error in errors))


def _logged_run(config: Config, tables: list[str], *, full: bool, allow_vanish: bool) -> RunReport:
    from lading.cli.logfile import LogFile, LogWatch
    from lading.cli.progress import Watches, terminal_watch
    from lading.run import run as run_tables

    log = LogFile(config.project)
    log.write("run started", tables=tables or list(config.tables), full=full, allow_vanish=allow_vanish)
    try:
        with terminal_watch() as screen:
            watch = Watches(screen, LogWatch(log))
            report = run_tables(config, tables, full=full, allow_vanish=allow_vanish, watch=watch)
    except LadingError as error:
        log.write("run failed", level="error", kind=error.kind, message=error.message, table=error.table)
        raise
    except KeyboardInterrupt:
        log.write("run interrupted", level="warning")
        raise
    log.write("run finished", **_report_object(report))
    return report


def _report_object(report: RunReport) -> dict[str, Any]:
    return {
        "run_id": report.run_id,
        "spark_started": report.spark_started,
        "tables": [_table_object(table) for table in report.tables],
    }


def _table_object(table: TableReport) -> dict[str, Any]:
    from lading.cli.failures import error_object

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
    }
    return {**found, "error": error_object(table.error)} if table.error is not None else found


def _show(report: RunReport) -> None:
    from lading.cli.failures import print_error
    from lading.cli.screen import say, show_table, verdict_words

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
                    f"sequence {table.sequence}" if table.published else "as before",
                    f"{table.seconds:.1f}",
                )
                for table in worked
            ),
            right=("rows added", "rows removed", "rows", "seconds"),
        )
    for table in report.tables:
        if table.error is not None:
            print_error(table.error)
    if not report.spark_started and worked:
        say("No file had to be read: Spark was not started.")
