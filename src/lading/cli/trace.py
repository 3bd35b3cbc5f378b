"""lading trace: from a row to its file and line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from lading.cli.terminal.command import Context, Option
from lading.cli.terminal.invocation import AsOf, Json, Offset, Ref, Table, config_of, open_published

if TYPE_CHECKING:
    from lading.ingest.trace import Line, Trace

_ROWS = 5

Where = Annotated[str | None, Option("--where", metavar="EXPR", help="Trace rows where EXPR is true.")]
Limit = Annotated[
    int, Option("--limit", metavar="N", min=0, help=f"Trace at most N rows; {_ROWS} by default.")
]
Around = Annotated[
    int,
    Option("--around", metavar="N", min=0, help="Show N records before and after; 3 by default."),
]


def trace(
    ctx: Context,
    table: Table,
    where: Where = None,
    limit: Limit = _ROWS,
    around: Around = 3,
    json: Json = False,
    ref: Ref = None,
    offset: Offset = None,
    as_of: AsOf = None,
) -> None:
    """Show where rows come from.

    Finds the file of each row, reads it again until a record has the row's values, and prints its line with
    those around it. EXPR is as for `lading scan`.

    \b
    Example:
      lading trace voyages --where "tonnes > 100000"
      lading trace voyages --where "voyage_id = 'ROT-20240301-0004'" --offset 1 --json
    """
    from lading.cli.terminal.screen import say
    from lading.ingest.trace import trace as trace_rows
    from lading.read.text import row_json

    config = config_of(ctx, [table])
    with open_published(config, table, ref=ref, offset=offset, as_of=as_of) as reader:
        rows = reader.scan(where=where, limit=limit).to_table()
        found = trace_rows(config, table, rows, reader.source, neighbours=around)
    if json:
        import msgspec

        print(row_json({"table": table, "rows": msgspec.to_builtins(found)}).decode())
        return
    if not found:
        say("no row matches")
    for number, one in enumerate(found):
        if number:
            say("")
        _show(one)


def _show(one: Trace) -> None:
    from lading.cli.terminal.screen import say
    from lading.layout.table import SOURCE

    values = (f"{name}={value}" for name, value in one.row.items() if name != SOURCE)
    say(" ".join(values))
    at = one.found
    where = "" if at is None else f", line {at.line:,}" if at.line is not None else f", record {at.record:,}"
    archive = f" from {one.archive}" if one.archive is not None else ""
    say(f"  {one.file}{archive}{where}")
    if at is not None:
        for line in (*one.before, at, *one.after):
            say(f"  {'>' if line is at else ' '} {_numbered(line)}")
    if one.differs:
        say(f"  a transform changed: {', '.join(one.differs)}")
    if one.note is not None:
        say(f"  {one.note}")


def _numbered(line: Line) -> str:
    number = line.line if line.line is not None else line.record
    reason = f"   (not a row: {line.reason})" if line.reason is not None else ""
    return f"{number:>6}  {line.text}{reason}"
