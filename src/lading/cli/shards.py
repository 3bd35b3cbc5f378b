"""lading shards: the files that a table is served from."""

from __future__ import annotations

from lading.cli.terminal.command import Context
from lading.cli.terminal.invocation import AsOf, Json, Offset, Ref, Table, config_of, open_published
from lading.words import byte_words


def shards(
    ctx: Context,
    table: Table,
    json: Json = False,
    ref: Ref = None,
    offset: Offset = None,
    as_of: AsOf = None,
) -> None:
    """List the shards of a table.

    Shows the number of keys, key range, size and location of each shard that has rows.

    \b
    Example:
      lading shards ships
      lading shards ships --offset 1 --json
    """
    from lading.cli.terminal.screen import print_json, say, show_table

    with open_published(config_of(ctx), table, ref=ref, offset=offset, as_of=as_of) as reader:
        found, info = reader.shards(), reader.info()
    if json:
        serve = info.get("serve", {})
        listed = [one.as_json() for one in found]
        print_json(
            {"table": table, "run_id": info["run_id"], "served": info["served"], **serve, "shards": listed}
        )
    elif not info["served"]:
        say(f"{table} is not served by key. To serve it, add `serve:` in lading.yaml.")
    else:
        show_table(
            ("shard", "keys", "from", "to", "size", "where"),
            (
                (one.db_id, one.row_count, _as_is(one.min_key), _as_is(one.max_key),
                 "" if one.db_bytes is None else byte_words(one.db_bytes), one.db_url)
                for one in found
            ),
            right=("shard", "keys", "size"),
        )  # fmt: skip
        say(f"Shards with rows: {len(found):,} of {info['serve']['num_dbs']:,}.")


def _as_is(key: int | str | None) -> str | None:
    return None if key is None else str(key)
