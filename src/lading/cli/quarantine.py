"""lading quarantine: what was set aside and why, with replay and drop."""

from __future__ import annotations

from typing import Annotated, Any

from lading.cli.run import SparkMaster, run_and_report
from lading.cli.terminal.command import Context, Option
from lading.cli.terminal.invocation import Json, Table, Tables, config_of
from lading.words import count_words

File = Annotated[str | None, Option("--file", metavar="KEY", help="Only rows of this file.")]
Limit = Annotated[int | None, Option("--limit", metavar="N", min=0, help="Show at most N rows.")]

_SHOWN = 40  # rows listed for a person unless --limit says otherwise


def quarantine_list(ctx: Context, tables: Tables = None, json: Json = False) -> None:
    """List the files that have rows set aside.

    Tables with `on_bad: quarantine` set aside rows that don't fit or fail a check, and whole files that
    can't be read; tables with `types: quarantine` set aside rows with a value that isn't of its type.

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
        rows = [one.as_json(name) for name, one in found]
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
    ctx: Context, table: Table, file: File = None, limit: Limit = None, json: Json = False
) -> None:
    """Show the rows that are set aside.

    Each row comes with its file, line or record, column, reason and original text. A row that failed after
    a transform has no line: it is shown as the transform returned it.

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
        say("… and more; use --limit N or --json")


def quarantine_replay(
    ctx: Context,
    table: Table,
    file: File = None,
    json: Json = False,
    spark_master: SparkMaster = None,
) -> None:
    """Read what was set aside again.

    Runs the table, reading only files that have rows set aside and files that changed. Rows that fit now
    go into the table; the rest are set aside again. You don't need this after loosening a check: any run
    notices. Tightening a check makes a run read everything.

    \b
    Example:
      lading quarantine replay voyages
      lading quarantine replay voyages --file oslo_20240301.csv
    """
    config = config_of(ctx, [table])
    replay = () if file is None else (file,)
    run_and_report(config, [table], json=json, spark_master=spark_master, replay=replay)


def quarantine_drop(ctx: Context, table: Table, file: File = None, json: Json = False) -> None:
    """Forget the rows that are set aside.

    Deletes their text. The source files and the table don't change. lading still knows how many rows were
    set aside, so loosening a check still brings them in.

    \b
    Example:
      lading quarantine drop voyages --file oslo_20240301.csv
    """
    config = config_of(ctx)
    from lading.cli.terminal.screen import print_json, say
    from lading.ingest.quarantine import drop_aside

    dropped = drop_aside(config, table, file)
    if json:
        print_json({"table": table, "dropped": [{"file": one.file, "rows": one.rows} for one in dropped]})
    elif dropped:
        rows = sum(one.rows for one in dropped)
        say(f"{table}: dropped {count_words(rows, 'row')} from {count_words(len(dropped), 'file')}")
    else:
        say("nothing is set aside")


def _place(row: dict[str, Any]) -> str:
    if row["line"] is not None:
        return f"{row['line']:,}"
    return f"record {row['record']:,}" if row["record"] is not None else ""
