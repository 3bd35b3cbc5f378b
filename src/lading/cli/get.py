"""lading get: the value of one key, from its shard."""

from __future__ import annotations

import typer

from lading.cli.keys import Context, Key, context_of, decodes, shown_key, shown_value, value_text
from lading.cli.session import AsOf, Json, Offset, Ref, Table, config_of, open_published


def get(
    ctx: typer.Context,
    table: Table,
    key: Key,
    context: Context = None,
    json: Json = False,
    ref: Ref = None,
    offset: Offset = None,
    as_of: AsOf = None,
) -> None:
    """Print the value of a key.

    Of a table that is served by key. A key that isn't there is "not found", not an error.

    \b
    Example:
      lading get ships 9074729
      lading get ships 9074729 --offset 1 --json
      lading get ports '["DE", "hamburg"]' --context region=eu
    """
    from lading.cli.rows import row_json
    from lading.cli.screen import say

    with open_published(config_of(ctx), table, ref=ref, offset=offset, as_of=as_of) as reader:
        wanted = reader.parse_key(key)
        beside = context_of(reader, context)
        value = reader.get(wanted, context=beside, decode=decodes(reader))
        shard = reader.route(wanted, context=beside)
        run_id = reader.snapshot.run_id
    found = value is not None
    if json:
        said = {"key": shown_key(wanted), "found": found, "value": shown_value(value)}
        print(row_json({**said, "shard": shard, "run_id": run_id}).decode())
    else:
        say(value_text(value) if found else f"not found (shard {shard})")
