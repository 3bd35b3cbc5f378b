"""lading manifest: show or write down what was read, or ask to read it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from lading.cli.terminal.command import Context, Option
from lading.cli.terminal.invocation import Json, Table, Tables, config_of
from lading.config.project import Config
from lading.words import count_words

Status = Annotated[
    str | None,
    Option("--status", metavar="STATUS", help="Show only entries with this status: success, failed."),
]
File = Annotated[
    str | None,
    Option("--file", metavar="KEY", help="Only this file; for an archive, all its members."),
]

_SHOWN = 40  # entries listed for a person; a script asks for JSON and gets all


def manifest_show(ctx: Context, tables: Tables = None, json: Json = False) -> None:
    """Show the source manifests.

    Lists each file with its status, rows and time, and the archives that were extracted.

    \b
    Example:
      lading manifest show voyages
    """
    config = config_of(ctx, tables)
    from lading.cli.terminal.screen import print_json, say, show_table
    from lading.layout.project import GLOBAL_MANIFEST
    from lading.sources.global_manifest import load_extractions

    found = [_manifest_object(config, name) for name in tables or config.tables]
    extractions = load_extractions(config.project / GLOBAL_MANIFEST)
    if json:
        import msgspec

        print_json({"tables": found, "extractions": msgspec.to_builtins(extractions)})
        return
    for one in found:
        if not one["there"]:
            say(f"{one['table']}: no manifest; the next run reads everything")
            continue
        say(f"{one['table']}: {count_words(len(one['files']), 'file')}")
        _show_entries([{"table": one["table"], **entry} for entry in one["files"]])
        for key, entry in one["preprocessing"].items():
            say(f"  {key}: {entry.get('action')} to {entry.get('preprocessed_path')}")
    if extractions:
        show_table(
            ("archive", "extracted to", "used by"),
            (
                (key.removeprefix("archive:"), one.extracted_dir, ", ".join(one.used_by_tables))
                for key, one in extractions.items()
            ),
        )


def manifest_query(ctx: Context, tables: Tables = None, status: Status = None, json: Json = False) -> None:
    """Find entries in the source manifests.

    \b
    Example:
      lading manifest query --status failed
    """
    config = config_of(ctx, tables)
    from lading.cli.terminal.screen import print_json, say

    entries = [
        {"table": name, **entry}
        for name in tables or config.tables
        for entry in _manifest_object(config, name)["files"]
        if status is None or entry["status"] == status
    ]
    if json:
        print_json({"entries": entries})
    elif entries:
        _show_entries(entries)
    else:
        say(f"no entry has the status {status!r}" if status else "nothing has been read yet")


def manifest_reset(ctx: Context, table: Table, file: File = None, json: Json = False) -> None:
    """Ask the next run to read a table, or one of its files, again.

    The rows stay in place until that run replaces them.

    \b
    Example:
      lading manifest reset voyages
      lading manifest reset voyages --file rotterdam_20240301.csv
    """
    config = config_of(ctx, [table])
    from lading.cli.terminal.screen import print_json, say
    from lading.sources.manifest import forget_files, forget_table

    path = config.source_manifest(table)
    keys = forget_table(path) if file is None else forget_files(path, [file])
    if json:
        print_json({"table": table, "forgotten": keys})
    elif file is None and not keys:
        say(f"{table} has no manifest: the next run reads everything anyway")
    else:
        say(f"{table}: the next run reads {count_words(len(keys), 'file')} again")


def manifest_write(ctx: Context, tables: Tables = None, json: Json = False) -> None:
    """Write the manifests of large tables.

    A run does not write `manifest/<table>.json` of more than 100,000 files for a few that changed, nor
    `manifest.json` of more than 10,000 parts. This brings both up to the log.

    \b
    Example:
      lading manifest write voyages
    """
    config = config_of(ctx, tables)
    from lading.cli.terminal.screen import note, print_json, say
    from lading.cli.terminal.watching import terminal_watch
    from lading.upkeep.manifests import write_manifests

    with terminal_watch() as watch:
        done = [write_manifests(config, name, watch) for name in tables or config.tables]
    if json:
        shown = [
            {"table": one.table, "sequence": one.sequence, "written": list(one.files), "left": one.left}
            for one in done
        ]
        print_json({"tables": shown})
        return
    for one in done:
        say(f"{one.table}: {' and '.join(one.files)} now at sequence {one.sequence}")
        if one.left is not None:
            note(f"{one.table}: {one.left}")


def _manifest_object(config: Config, name: str) -> dict[str, Any]:
    import msgspec

    from lading.sources.manifest import load

    manifest = load(config.source_manifest(name))
    if manifest is None:
        return {"table": name, "there": False, "files": [], "preprocessing": {}, "schema": {}}
    files = [{"key": key, **msgspec.to_builtins(entry)} for key, entry in manifest.entries()]
    return {
        "table": name,
        "there": True,
        "files": files,
        "preprocessing": manifest.preprocessing,
        "schema": manifest.schema,
    }


def _show_entries(entries: Sequence[dict[str, Any]]) -> None:
    from lading.cli.terminal.screen import say, show_table

    show_table(
        ("table", "file", "status", "rows", "last read", "why"),
        (
            (
                one["table"],
                one["key"],
                one["status"],
                one["metadata"].get("row_count"),
                one["last_processed"],
                one.get("error"),
            )
            for one in entries[:_SHOWN]
        ),
        right=("rows",),
    )
    if len(entries) > _SHOWN:
        say(f"… and {len(entries) - _SHOWN:,} more; --json lists them all")
