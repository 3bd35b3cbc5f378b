"""lading quarantine: what was set aside, why, and what becomes of it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lading.cli.run import SparkMaster, run_and_report
from lading.cli.terminal.invocation import Json, Table, Tables, config_of

File = Annotated[str | None, typer.Option("--file", metavar="KEY", help="Only what is of this file.")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=0, help="At most so many rows.")]

_SHOWN = 40  # rows listed for a person unless --limit says otherwise


def quarantine_list(ctx: typer.Context, tables: Tables = None, json: Json = False) -> None:
    """List the files of which something is set aside.

    Rows that don't fit or fail a check, or whole files; tables with `on_bad: quarantine` keep them.

    \b
    Example:
      lading quarantine list
      lading quarantine list voyages --json
    """
    config = config_of(ctx, tables)
    from lading.cli.terminal.screen import print_json, say, show_table
    from lading.ingest.quarantine import list_aside
    from lading.log.table import Table as LogTable

    names = [name for name in tables or config.tables if LogTable.exists(config.place(name))]
    found = [(name, one) for name in names for one in list_aside(config, name)]
    if json:
        rows = [
            {
                "table": name,
                "file": one.file,
                "rows": one.rows,
                "whole": one.whole is not None,
                "reason": one.whole,
                "read_at": one.at,
                "kept": one.kept,
            }
            for name, one in found
        ]
        print_json({"quarantine": rows})
    elif not found:
        say("nothing is set aside")
    else:
        show_table(
            ("table", "file", "rows", "why", "read at"),
            (
                (
                    name,
                    one.file,
                    "all" if one.whole is not None else one.rows,
                    (one.whole or "") + ("" if one.kept else " (dropped)"),
                    one.at,
                )
                for name, one in found
            ),
            right=("rows",),
        )


def quarantine_show(
    ctx: typer.Context, table: Table, file: File = None, limit: Limit = None, json: Json = False
) -> None:
    """Show the rows that are set aside.

    Each with its file, line or record, column, the reason, and the text as it is in the file. Behind a
    transform a row has no line any more: then it is shown as it left the transform.

    \b
    Example:
      lading quarantine show voyages
      lading quarantine show voyages --file oslo_20240301.csv --json
    """
    config = config_of(ctx)
    from lading.cli.terminal.screen import print_json, say, show_table
    from lading.ingest.quarantine import show_aside

    most = limit if limit is not None or json else _SHOWN + 1
    rows = list(show_aside(config, table, file, limit=most))
    if json:
        print_json({"table": table, "rows": rows})
        return
    more = limit is None and len(rows) > _SHOWN
    shown = rows[:_SHOWN] if more else rows
    if not shown:
        say("nothing is set aside")
        return
    show_table(
        ("file", "line", "column", "reason", "text"),
        (
            (row["file"], _place(row), row["column"], row["reason"], (row["text"] or "")[:200])
            for row in shown
        ),
        right=("line",),
    )
    if more:
        say("… and more: --limit N or --json")


def quarantine_replay(
    ctx: typer.Context,
    table: Table,
    file: File = None,
    json: Json = False,
    spark_master: SparkMaster = None,
) -> None:
    """Read again what was set aside.

    A run that reads the files of which something is set aside, and no others but those that changed. What
    fits by now goes into the table, the rest is set aside again. A run does the same by itself when a
    check was loosened; when one was tightened it has to read everything.

    \b
    Example:
      lading quarantine replay voyages
      lading quarantine replay voyages --file oslo_20240301.csv
    """
    config = config_of(ctx, [table])
    replay = () if file is None else (file,)
    run_and_report(config, [table], json=json, spark_master=spark_master, replay=replay)


def quarantine_drop(ctx: typer.Context, table: Table, file: File = None, json: Json = False) -> None:
    """Forget the rows that are set aside.

    Their text is deleted; the source files are not touched, and stay as they are in the table. How many
    rows were set aside stays known, so a loosened check still brings them in.

    \b
    Example:
      lading quarantine drop voyages --file oslo_20240301.csv
    """
    config = config_of(ctx)
    from lading.cli.terminal.screen import count_words, print_json, say
    from lading.ingest.quarantine import drop_aside

    dropped = drop_aside(config, table, file)
    if json:
        print_json({"table": table, "dropped": [{"file": one.file, "rows": one.rows} for one in dropped]})
    elif dropped:
        rows = sum(one.rows for one in dropped)
        say(f"{table}: forgot {count_words(rows, 'row')} of {count_words(len(dropped), 'file')}")
    else:
        say("nothing is set aside")


def _place(row: dict[str, Any]) -> str:
    if row["line"] is not None:
        return f"{row['line']:,}"
    return f"record {row['record']:,}" if row["record"] is not None else ""
