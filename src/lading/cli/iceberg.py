"""lading iceberg: where a table's Iceberg metadata is, and how each engine reads it."""

from __future__ import annotations

from typing import Annotated

from lading.cli.terminal.command import Context, Option
from lading.cli.terminal.invocation import Json, Table, config_of
from lading.errors import NotFound

Rewrite = Annotated[
    bool,
    Option(
        "--rewrite",
        help="Write all Iceberg files of what readers see again, and damaged ones of kept snapshots: after "
        "damage, or after a move.",
    ),
]


def iceberg(ctx: Context, table: Table, rewrite: Rewrite = False, json: Json = False) -> None:
    """Show where other engines find a table.

    Every published snapshot is an Iceberg table too. Prints where its metadata is and a line of code for
    each engine. Writes nothing without `--rewrite`.

    \b
    Example:
      lading iceberg voyages
      lading iceberg voyages --rewrite
    """
    from lading.cli.terminal.screen import note, print_json, say
    from lading.iceberg.check import shown_schemas
    from lading.iceberg.engines import ambiguous, lines, unreadable
    from lading.iceberg.follow import follow, where
    from lading.iceberg.snapshot import location_of
    from lading.snapshots.stores.by_url import store_of

    config = config_of(ctx, [table])
    place, is_on = config.place(table), config.table(table).iceberg
    if rewrite and is_on:
        follow(store_of(config, table), place, keep=config.clean.keep_runs, anew=True)
    at = where(place) if is_on else None
    if at is None:
        hint = f"lading run {table} publishes it" if is_on else "remove `iceberg: false` from lading.yaml"
        raise NotFound(f"{table} has no Iceberg metadata", hint=hint, table=table)
    location = location_of(place).removeprefix("file://")
    metadata = f"{location}/{at.path}"
    found = lines(table, location, metadata)
    for why in (unreadable(location), ambiguous(shown_schemas(place))):
        if why is not None:
            note(why)
    if json:
        engines = {one.engine: one.code for one in found}
        print_json({"table": table, "location": location, "metadata": metadata, "engines": engines})
        return
    say(f"location: {location}")
    say(f"metadata: {metadata}")
    for one in found:
        say("")
        say(f"{one.engine}:")
        say(f"  {one.code}")
