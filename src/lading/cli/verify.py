"""lading verify and repair: find what is damaged, and fix what needs no decision."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

from lading.cli.terminal.command import Context, Exit, Option
from lading.cli.terminal.invocation import Json, Tables, config_of
from lading.words import count_words

if TYPE_CHECKING:
    from lading.config.project import Config
    from lading.upkeep.verify import Verified

Deep = Annotated[
    bool,
    Option("--deep", help="Also read every byte, and read some files again on Spark to compare rows."),
]


def verify(ctx: Context, tables: Tables = None, deep: Deep = False, json: Json = False) -> None:
    """Check tables from their files to their snapshots.

    Checks source fingerprints, the log, every part (size, rows, owner), the snapshot that readers see and
    its shards. Says what is wrong and which command fixes it. Exits with 1 if something is wrong.

    \b
    Example:
      lading verify
      lading verify voyages --deep --json
    """
    from lading.cli.terminal.screen import print_json
    from lading.cli.terminal.watching import terminal_watch
    from lading.upkeep.clean.apply import tables_to_clean

    config = config_of(ctx)
    with terminal_watch() as watch:
        found = [_verified(config, name, deep, watch) for name in tables_to_clean(config, tables or [])]
    whole = all(one.whole for one in found)
    if json:
        print_json({"ok": whole, "tables": [_verified_object(one) for one in found]})
    else:
        for one in found:
            _show(one)
    if not whole:
        raise Exit(1)


def _verified(config: Config, name: str, deep: bool, watch: Any) -> Verified:
    from lading.upkeep.verify import verify as verify_table

    found, seen = verify_table(config, name, watch=watch)
    if deep and seen is not None:
        from lading.spark.session import spark_session
        from lading.upkeep.verify_deep import verify_deep

        spark = config.spark
        verify_deep(seen, found, lambda: spark_session(spark.master, spark.conf, config.cache))
    return found


def _verified_object(one: Verified) -> dict[str, Any]:
    return {
        "table": one.table,
        "ok": one.whole,
        "checked": one.checked,
        "findings": [dataclasses.asdict(finding) for finding in one.findings],
    }


def _counted(number: int, what: str, done: str = "") -> str:
    """`1 source read again`."""
    return f"{count_words(number, what.removesuffix('s'))} {done}".rstrip()


def _show(one: Verified) -> None:
    from lading.cli.terminal.screen import say

    looked = ", ".join(_counted(number, *what.split(" ", 1)) for what, number in one.checked.items())
    say(f"{one.table}: {'intact' if one.whole else 'damaged'}{f' ({looked})' if looked else ''}")
    for finding in one.findings:
        say(f"  {finding.level}: {finding.message}")
        if finding.remedy:
            say(f"    {finding.remedy}")


def repair(ctx: Context, tables: Tables = None, json: Json = False) -> None:
    """Fix what can be fixed safely.

    Fixes a pointer that is malformed or names a damaged snapshot, a missing manifest.json, a source manifest
    behind the log and a damaged checkpoint, and removes leftovers of killed runs from the cache. If a part
    is lost, the next run reads the files its rows came from. What needs a decision is reported, not changed.

    \b
    Example:
      lading repair
      lading repair voyages --json
    """
    from lading.cli.terminal.screen import print_json, say
    from lading.cli.terminal.watching import terminal_watch
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
            say(f"{one.table}: nothing to repair.")
        for text in one.done:
            say(f"{one.table}: {text}")
        for text in one.left:
            say(f"{one.table}: still to do: {text}")
