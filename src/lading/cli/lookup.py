"""lading lookup: the rows with one value of the order column."""

from __future__ import annotations

from typing import Annotated

import typer

from lading.cli.session import Json, Table, config_of, published_folder

Key = Annotated[str, typer.Argument(metavar="KEY", help="A value of the table's order column.")]


def lookup(ctx: typer.Context, table: Table, key: Key, json: Json = False) -> None:
    """Find rows by their order value.

    Opens as few files as possible. A key that isn't there is "not found", not an error.

    \b
    Example:
      lading lookup voyages "2024-03-01 06:30:00"
      lading lookup voyages 4711 --json
    """
    from lading.api import open as open_table
    from lading.cli.rows import as_is, row_json
    from lading.cli.screen import count_words, say, show_table

    with open_table(published_folder(config_of(ctx), table)) as reader:
        hit = reader.lookup(key)
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
