"""lading collection scan and lookup: as for tables, on what the log holds."""

from __future__ import annotations

from typing import Annotated

import typer

from lading.cli.collection_place import Dir, collection_at
from lading.cli.lookup import print_hit
from lading.cli.scan import As, Columns, Format, Limit, Stats, Where, print_scan
from lading.cli.session import Json

Key = Annotated[str, typer.Argument(metavar="KEY", help="A value of the collection's key column.")]


def collection_scan(
    ctx: typer.Context,
    dir: Dir,
    where: Where = None,
    columns: Columns = None,
    limit: Limit = None,
    format: As = Format.table,
    stats: Stats = False,
    json: Json = False,
) -> None:
    """Print rows of a collection.

    Files that EXPR rules out are not opened. EXPR, formats and --stats are those of `lading scan`;
    --json is --format jsonl.

    \b
    Example:
      lading collection scan ./corpus --where "status = 404" --columns url,status --stats
    """
    with collection_at(ctx, dir) as collection:
        print_scan(collection.scan, where, columns, limit, Format.jsonl if json else format, stats)


def collection_lookup(ctx: typer.Context, dir: Dir, key: Key, json: Json = False) -> None:
    """Find rows by the collection's key.

    On members with disjoint ranges that opens one file. A key that isn't there is "not found", not an
    error.

    \b
    Example:
      lading collection lookup ./corpus https://example.com/page --json
    """
    with collection_at(ctx, dir) as collection:
        hit = collection.lookup(key)
    print_hit(hit, json)
