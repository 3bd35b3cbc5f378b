"""lading status: each table at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lading.cli.terminal.command import Context
from lading.cli.terminal.invocation import Json, Tables, config_of, sources_word
from lading.words import count_words, verdict_words

if TYPE_CHECKING:
    from lading.config.project import Config
    from lading.upkeep.status import TableStatus


def status(ctx: Context, tables: Tables = None, json: Json = False) -> None:
    """Show each table at a glance.

    Shows files, rows, parts, buckets, what readers see, the last run and pending work.

    \b
    Example:
      lading status
      lading status voyages --json
    """
    config = config_of(ctx)
    from lading.cli.terminal.screen import print_json
    from lading.upkeep.status import status as table_status

    found = table_status(config, tables or ())
    if json:
        print_json({"tables": [one.as_json() for one in found]})
    else:
        _show(found, config)


def _show(found: list[TableStatus], config: Config) -> None:
    from lading.cli.terminal.screen import show_table

    numbers = (sources_word(config, (one.table for one in found)), "rows", "parts", "buckets")
    show_table(
        ("table", *numbers, "readers see", "last run", "pending", "note"),
        (
            (
                one.table,
                one.sources,
                one.rows,
                one.parts,
                one.buckets,
                _published(one),
                (one.last_run or {}).get("state"),
                _pending(one),
                _notes(one),
            )
            for one in found
        ),
        right=numbers,
    )


def _notes(one: TableStatus) -> str:
    failed = [str(check.get("name")) for check in one.checks if not check.get("passed")]
    notes = [one.note] if one.note else []
    notes += [f"failed checks: {', '.join(failed)}"] if failed and not one.refused else []
    behind = [
        f"{of.name} (at {of.sequence}, readers see {of.current})"
        for of in one.inputs
        if of.behind and of.sequence is not None
    ]
    notes += [f"behind {', '.join(behind)}"] if behind else []
    notes += [f"waits for {of.name}, which {of.stopped}" for of in one.inputs if of.stopped]
    notes += [f"{of.name} has work to do first" for of in one.inputs if of.has_work]
    if one.rows_rejected or one.files_rejected:
        rows, files = count_words(one.rows_rejected, "row"), count_words(one.files_rejected, "file")
        notes.append(f"set aside: {rows}, {files}")
    return "; ".join(notes)


def _published(one: TableStatus) -> str:
    if one.current is None:
        return "nothing yet"
    held = ", held" if one.current.held else ""
    return f"sequence {one.current.sequence} of {one.current.published_at:%Y-%m-%d %H:%M:%S} UTC{held}"


def _pending(one: TableStatus) -> str:

    if one.pending is None:
        return "unknown" if one.note else ""
    return verdict_words(one.pending) if any(one.pending.values()) else "nothing"
