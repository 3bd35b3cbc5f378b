"""lading sources: which file each row came from."""

from __future__ import annotations

from typing import Annotated

from lading.cli.terminal.command import Context, Option
from lading.cli.terminal.invocation import (
    AsOf,
    Json,
    Offset,
    Ref,
    Table,
    config_of,
    open_published,
    source_word,
)

Slot = Annotated[
    str | None, Option("--slot", metavar="SLOT", help="Of a table made of tables: files in this slot.")
]


def sources(
    ctx: Context,
    table: Table,
    json: Json = False,
    ref: Ref = None,
    offset: Offset = None,
    as_of: AsOf = None,
    slot: Slot = None,
) -> None:
    """List the files that rows came from.

    The `source` column matches `_source` in the rows. Of a table made of tables the sources are its slots;
    with --slot it lists the files whose rows are in one.

    \b
    Example:
      lading sources voyages
      lading sources voyages --json
      lading sources voyages --offset 1
      lading sources tonnage --slot 17
    """
    from lading.cli.terminal.screen import print_json, show_table

    config = config_of(ctx)
    with open_published(config, table, ref=ref, offset=offset, as_of=as_of) as reader:
        found = reader.sources()
        if slot is not None:
            from lading.cli.slots import slot_files

            slot_files(config, table, slot, reader.info(), json=json)
            return
    if json:
        rows = [
            {
                "source": one.id,
                "key": one.key,
                "fingerprint": one.hash,
                "rows": one.rows,
                "sha256": one.sha256,
                "bytes": one.size,
                "read_at": one.processed_at,
                "archive": one.archive,
            }
            for one in found
        ]
        print_json({"sources": rows})
    else:
        show_table(
            ("source", source_word(config, table), "fingerprint", "rows"),
            ((str(one.id), one.key, one.hash, one.rows) for one in found),
            right=("source", "rows"),
        )
