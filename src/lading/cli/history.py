"""lading history: the snapshots of a table, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from lading.cli.terminal.command import Context, Option
from lading.cli.terminal.invocation import Json, Table, known_table

if TYPE_CHECKING:
    from lading.snapshots.history import HistoryEntry

_SHOWN = 20

Limit = Annotated[
    int, Option("--limit", metavar="N", min=1, help=f"Show at most N snapshots; {_SHOWN} by default.")
]


def history(ctx: Context, table: Table, limit: Limit = _SHOWN, json: Json = False) -> None:
    """List the snapshots of a table.

    Newest first, with run, time, rows, and the change from the previous snapshot. `current` marks what
    readers see, `held` a snapshot that was rolled back to, `failed` one that the gate refused. Columns that
    came, went or changed type are listed below, with the file that was the reason if the run noted it.

    \b
    Example:
      lading history voyages
      lading history voyages --limit 100 --json
    """
    from lading.cli.terminal.screen import note, print_json, say, show_table
    from lading.snapshots.history import history as snapshots_of
    from lading.snapshots.stores.by_url import store_of

    config = known_table(ctx, table)
    found = snapshots_of(store_of(config, table), limit=limit)
    if json:
        print_json({"table": table, "snapshots": [one.as_json() for one in found]})
        return
    if not found:
        say(f"{table} has no snapshots yet.")
        return
    show_table(
        ("run", "published (UTC)", "rows", "change", "parts", ""),
        (
            (
                one.run_id,
                f"{one.at:%Y-%m-%d %H:%M:%S}",
                one.rows,
                _change(one),
                one.parts,
                ", ".join(one.marks),
            )
            for one in found
        ),
        right=("rows", "change", "parts"),
    )
    for one in found:
        if one.inputs:
            made_of = ", ".join(f"{name} at sequence {sequence}" for name, sequence in one.inputs)
            say(f"{one.run_id}: made of {made_of}")
        for text in one.column_words:
            say(f"{one.run_id}: {text}")
    for one in found:
        for reason in (*one.failed, *([one.problem] if one.problem else [])):
            note(f"{one.run_id}: {reason}")


def _change(one: HistoryEntry) -> str:
    return "" if one.change is None else f"{one.change:+,}"
