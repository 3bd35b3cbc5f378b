"""lading discover-schema: infer a table's columns from its files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from lading.cli.terminal.command import Context, Exit, Option
from lading.cli.terminal.invocation import Json, Tables, config_of

if TYPE_CHECKING:
    from lading.ingest.discover_schema import SchemaReport

STALE_EXIT = 2

FullScan = Annotated[bool, Option("--full-scan", help="Read every row, even if the schema is fresh.")]
Check = Annotated[bool, Option("--check", help="Write nothing; exit with code 2 if a schema is stale.")]


def discover_schema(
    ctx: Context,
    tables: Tables = None,
    full_scan: FullScan = False,
    check: Check = False,
    json: Json = False,
) -> None:
    """Infer columns and types from the files.

    Writes schema/<table>.yaml if it is missing or the files have changed since, and says what each type
    was inferred from. Types that you changed in the file are kept.

    \b
    Example:
      lading discover-schema
      lading discover-schema voyages --full-scan
      lading discover-schema --check
    """
    config = config_of(ctx, tables)
    from lading.cli.terminal.failures import print_error
    from lading.cli.terminal.screen import print_json
    from lading.cli.terminal.watching import terminal_watch
    from lading.ingest.discover_schema import discover_schemas
    from lading.spark.session import spark_session

    with terminal_watch() as watch:
        reports = discover_schemas(
            config,
            tables or (),
            full_scan=full_scan,
            check=check,
            watch=watch,
            session=lambda: spark_session(config.spark.master, config.spark.conf, config.cache),
        )
    errors = [report.error for report in reports if report.error is not None]
    if json:
        found: dict[str, Any] = {"tables": [_object(report) for report in reports]}
        print_json({**found, "error": errors[0].as_json()} if errors else found)
    else:
        for report in reports:
            _show(report)
        for error in errors:
            print_error(error)
    if errors:
        raise Exit(max(error.exit_code for error in errors))
    if any(report.state == "stale" for report in reports):
        raise Exit(STALE_EXIT)


def _object(report: SchemaReport) -> dict[str, Any]:
    because = report.because or {}
    return {
        "table": report.table,
        "path": str(report.path),
        "state": report.state,
        "looked_at": report.looked_at or None,
        "columns": [{"name": c.name, "type": c.type, "because": because.get(c.name)} for c in report.columns],
        "changes": list(report.changes),
        "notes": list(report.notes),
        "error": report.error.as_json() if report.error is not None else None,
    }


def _show(report: SchemaReport) -> None:
    from lading.cli.terminal.screen import note, say, show_table

    if report.state == "failed":
        return
    looked = f", from {report.looked_at}" if report.looked_at else ""
    say(f"{report.table}: {report.state}{looked} ({report.path})")
    if report.state != "generated":
        return
    because = report.because or {}
    show_table(
        ("  column", "type", "why"),
        ((f"  {c.name}", c.type, because.get(c.name) or "as you wrote it") for c in report.columns),
    )
    for text in report.notes:
        note(f"{report.table}: {text}")
    for change in report.changes:
        say(f"  {change}")
    if report.changes:
        say("  The next run reads the table again with these columns.")
