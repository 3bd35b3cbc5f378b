"""lading scan and lookup: print rows as readers see them, for people or for the next program."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from lading.cli.terminal.command import Argument, Context, Option
from lading.cli.terminal.invocation import AsOf, Json, Offset, Ref, Table, config_of, open_published
from lading.words import count_words

if TYPE_CHECKING:
    from lading.read.lookup import Hit
    from lading.read.scan import Scan

_TABLE_ROWS = 50  # a person's screenful; the other formats give every row


class Format(StrEnum):
    table = "table"
    jsonl = "jsonl"
    csv = "csv"
    arrow = "arrow"


Where = Annotated[str | None, Option("--where", metavar="EXPR", help="Print only rows where EXPR is true.")]
Columns = Annotated[str | None, Option("--columns", metavar="A,B", help="Print only these columns.")]
Limit = Annotated[
    int | None,
    Option(
        "--limit",
        metavar="N",
        min=0,
        help=f"Print at most N rows; {_TABLE_ROWS} by default for a table.",
    ),
]
As = Annotated[Format, Option("--format", help="Output format; arrow is an IPC stream.")]
Stats = Annotated[bool, Option("--stats", help="Also print file and row counts to stderr, as one JSON line.")]


def scan(
    ctx: Context,
    table: Table,
    where: Where = None,
    columns: Columns = None,
    limit: Limit = None,
    fmt: As = Format.table,
    stats: Stats = False,
    ref: Ref = None,
    offset: Offset = None,
    as_of: AsOf = None,
) -> None:
    """Print rows of a table.

    Reads the published snapshot and skips files that EXPR rules out. EXPR is SQL-like:
    = != < <= > >= in between like 'abc%' is null and or not.

    \b
    Example:
      lading scan voyages --where "tonnes > 900 and port = 'hamburg'" --limit 20
      lading scan voyages --columns ship,tonnes --format csv > ships.csv
      lading scan voyages --format arrow --stats > voyages.arrows
      lading scan voyages --as-of 2024-03-01 --limit 5
    """
    with open_published(config_of(ctx), table, ref=ref, offset=offset, as_of=as_of) as reader:
        print_scan(reader.scan, where, columns, limit, fmt, stats)


def print_scan(
    scan: Callable[..., Scan],
    where: str | None,
    columns: str | None,
    limit: int | None,
    fmt: Format,
    stats: bool,
) -> None:
    """Print what `scan` finds: `Reader.scan` or `Collection.scan`."""
    from lading.cli.terminal.rows import print_table
    from lading.cli.terminal.screen import note
    from lading.read.text import write_arrow, write_csv, write_jsonl

    names = [name.strip() for name in columns.split(",")] if columns is not None else None
    shown = _TABLE_ROWS if limit is None and fmt is Format.table else limit
    # One row more than is shown tells whether there is more.
    asked = shown + 1 if shown is not None and limit is None else shown
    found = scan(where=where, columns=names, limit=asked)
    if fmt is Format.table:
        rows = print_table(found, shown)
        if limit is None and rows < found.rows:
            note(f"showing the first {_TABLE_ROWS} rows; for more, use --limit N or --format jsonl")
    else:
        sys.stdout.flush()
        write = {Format.jsonl: write_jsonl, Format.csv: write_csv, Format.arrow: write_arrow}[fmt]
        rows = write(found, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    if stats:
        figures = {"files_total": found.files_total, "files_scanned": found.files_scanned, "rows": rows}
        groups = {"row_groups_total": found.row_groups_total, "row_groups_scanned": found.row_groups_scanned}
        print(json.dumps({**figures, **groups}), file=sys.stderr)


Key = Annotated[str, Argument(metavar="KEY", help="A value in the table's order column.")]


def lookup(
    ctx: Context,
    table: Table,
    key: Key,
    json: Json = False,
    ref: Ref = None,
    offset: Offset = None,
    as_of: AsOf = None,
) -> None:
    """Find rows by the order column.

    Opens as few files as possible. A missing key prints "not found" and is not an error.

    \b
    Example:
      lading lookup voyages "2024-03-01 06:30:00"
      lading lookup voyages 4711 --json
      lading lookup voyages 4711 --offset 1
    """
    with open_published(config_of(ctx), table, ref=ref, offset=offset, as_of=as_of) as reader:
        hit = reader.lookup(key)
    print_hit(hit, json)


def print_hit(hit: Hit, json: bool) -> None:
    from lading.cli.terminal.rows import as_is
    from lading.cli.terminal.screen import say, show_table
    from lading.read.text import row_json

    if json:
        found = {
            "found": hit.found,
            "member": hit.member,
            "row": hit.row,
            "opened": hit.opened,
            "rows": hit.rows,
        }
        print(row_json(found).decode())
    elif not hit.found:
        say(f"not found ({count_words(hit.opened, 'file')} opened)")
    else:
        show_table(list(hit.rows[0]), ([as_is(value) for value in row.values()] for row in hit.rows))
        say(f"in {hit.member} ({count_words(hit.opened, 'file')} opened)")
