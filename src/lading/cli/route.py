"""lading route: which shard a key is in."""

from __future__ import annotations

import typer

from lading.cli.keys import Context, Key, context_of, shown_key
from lading.cli.session import AsOf, Json, Offset, Ref, Table, config_of, open_published


def route(
    ctx: typer.Context,
    table: Table,
    key: Key,
    context: Context = None,
    json: Json = False,
    ref: Ref = None,
    offset: Offset = None,
    as_of: AsOf = None,
) -> None:
    """Show which shard a key is in.

    Told by the key alone, or with what the routing expression needs beside it. No shard is opened.

    \b
    Example:
      lading route ships 9074729
      lading route ports 17 --context region=eu --json
    """
    from lading.cli.screen import print_json, say

    with open_published(config_of(ctx), table, ref=ref, offset=offset, as_of=as_of) as reader:
        wanted = reader.parse_key(key)
        number = reader.route(wanted, context=context_of(reader, context))
        shard = next((one for one in reader.shards() if one.db_id == number), None)
        run_id = reader.snapshot.run_id
    url = None if shard is None else shard.db_url
    if json:
        print_json({"key": shown_key(wanted), "shard": number, "db_url": url, "run_id": run_id})
    else:
        say(f"shard {number}, {url or 'which has no rows'}")
