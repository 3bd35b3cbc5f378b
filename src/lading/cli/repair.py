"""lading repair: what can be mended without a decision."""

from __future__ import annotations

import dataclasses

import typer

from lading.cli.session import Json, Tables, config_of


def repair(ctx: typer.Context, tables: Tables = None, json: Json = False) -> None:
    """Mend what can be mended safely.

    A pointer that is malformed or names a damaged snapshot, a missing manifest.json, a source manifest
    behind the log, a damaged checkpoint, what killed runs left in the cache. Files whose rows were lost
    with a part are asked to be read again by the next run. What needs a decision is said and left alone.

    \b
    Example:
      lading repair
      lading repair voyages --json
    """
    from lading.cli.progress import terminal_watch
    from lading.cli.screen import print_json, say
    from lading.upkeep.clean.apply import tables_to_clean
    from lading.upkeep.repair import repair as repair_table

    config = config_of(ctx)
    with terminal_watch() as watch:
        found = [repair_table(config, name, watch=watch) for name in tables_to_clean(config, tables or [])]
    if json:
        print_json({"tables": [dataclasses.asdict(one) for one in found]})
        return
    for one in found:
        if not one.done and not one.left:
            say(f"{one.table}: nothing to mend.")
        for text in one.done:
            say(f"{one.table}: {text}")
        for text in one.left:
            say(f"{one.table}: left to do: {text}")
