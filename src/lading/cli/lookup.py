"""lading lookup: the rows with one value of the order column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lading.cli.session import AsOf, Json, Offset, Ref, Table, config_of, open_published

if TYPE_CHECKING:
    from lading.read.lookup import Hit

Key = Annotated[str, typer.Argument(metavar="KEY", help="A value of the table's order column.")]


def lookup(
    ctx: typer.Context,
    table: Table,
    key: Key,
    json: Json = False,
    ref: Ref = None,
    offset: Offset = None,
    as_of: AsOf = None,
) -> None:
    """Find rows by their order value.

    Opens as few files as possible. A key that isn't there is "not found", not an error.

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
    from lading.cli.rows import as_is, row_json
    from lading.cli.screen import count_words, say, show_table

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
