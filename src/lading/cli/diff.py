"""lading diff: what changed between two snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from lading.cli.terminal.command import Argument, Context
from lading.cli.terminal.invocation import Json, Table, known_table, source_word
from lading.words import byte_words

if TYPE_CHECKING:
    from lading.snapshots.diff import Diff
    from lading.snapshots.history import HistoryEntry

_HELP = "A run, a manifest reference, `current`, or ~N for N snapshots before the current one."
Before = Annotated[str, Argument(metavar="A", help=_HELP)]
After = Annotated[str, Argument(metavar="B", help="The later snapshot, in the same form.")]


def diff(
    ctx: Context, table: Table, before: Before = "~1", after: After = "current", json: Json = False
) -> None:
    """Show what changed between two snapshots: the current one and the one before it, if you name none.

    Shows rows added, removed and replaced by source file, and changes in parts and columns: when each column
    came, went or changed type, and because of which file if the run noted it. Reads no data.

    \b
    Example:
      lading diff voyages
      lading diff voyages ~3 current
      lading diff voyages 20240301-063000-1f2e3d4c 20240302-063000-5b6a7988 --json
    """
    from lading.cli.terminal.screen import print_json
    from lading.snapshots.between import between

    config = known_table(ctx, table)
    found = between(config, table, before, after)
    if json:
        print_json(found.as_json())
    else:
        _show(found.found, found.columns, source_word(config, table))


def _show(found: Diff, between: list[HistoryEntry], what: str) -> None:
    from lading.cli.terminal.screen import say, show_table

    change = found.rows_after - found.rows_before
    say(f"rows: {found.rows_before:,} -> {found.rows_after:,} ({change:+,})")
    if found.sources:
        show_table(
            (what, "change", "rows before", "rows after"),
            ((one.key, one.kind, one.rows_before, one.rows_after) for one in found.sources),
            right=("rows before", "rows after"),
        )
    parts = found.parts
    say(
        f"parts: {parts.added:,} added ({byte_words(parts.bytes_added)}), "
        f"{parts.removed:,} removed ({byte_words(parts.bytes_removed)}), "
        f"{parts.lessened:,} with fewer rows, {parts.kept:,} unchanged"
    )
    for name, old, new in found.inputs:
        say(f"input {name}: sequence {old} -> {new}")
    for one in found.columns:
        say(f"column {one.name}: {one.before or 'none'} -> {one.after or 'none'}")
    for entry in between:
        for text in entry.column_words:
            say(f"  {entry.at:%Y-%m-%d %H:%M:%S} UTC, run {entry.run_id}: {text}")
    if found.order_by is not None:
        say(f"order column: {found.order_by[0] or 'none'} -> {found.order_by[1] or 'none'}")
    if found.recipe_changed:
        say("the recipe changed (schema, transform, read options, order, bucket size or format)")
