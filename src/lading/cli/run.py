"""lading run: leave every table exactly as a rebuild from scratch would."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lading.cli.terminal.command import Context, Exit, Option
from lading.cli.terminal.invocation import Json, Tables, config_of, sources_word
from lading.config.project import Config
from lading.words import count_words, verdict_words

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
    from lading.cli.terminal.failures import say_where
    from lading.cli.terminal.screen import note, print_json
    from lading.cli.terminal.watching import terminal_watch
    from lading.signals.after import Signals
    from lading.signals.logged_run import logged_run

    if spark_master is not None:
        config = dataclasses.replace(config, spark=dataclasses.replace(config.spark, master=spark_master))
    signals = Signals(config, lambda text: note(f"warning: {text}"), options.pop("metrics_file", None))
    with terminal_watch() as screen:
        report = logged_run(config, tables, options, signals, screen, say_where)
    errors = [table.error for table in report.tables if table.error is not None]
    if json:
        result = report.as_json()
        print_json({**result, "error": errors[0].as_json()} if errors else result)
    else:
        _show(report, config)
    if errors:
        raise Exit(max(error.exit_code for error in errors))


def _show(report: RunReport, config: Config) -> None:
    from lading.cli.terminal.failures import print_error
    from lading.cli.terminal.screen import say, show_table

    worked = [table for table in report.tables if table.error is None]
    if worked:
        sources = sources_word(config, (table.table for table in worked))
        show_table(
            ("table", sources, "rows added", "rows removed", "rows", "snapshot", "seconds"),
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
