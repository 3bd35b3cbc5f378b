"""lading rollback: readers see an older snapshot, until it is released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lading.cli.session import Json, Table, known_table
from lading.errors import ConfigError

if TYPE_CHECKING:
    from lading.upkeep.pointer import Moved

Offset = Annotated[
    int | None,
    typer.Option("--offset", metavar="N", min=1, help="Go N snapshots back from what readers see."),
]
RunId = Annotated[str | None, typer.Option("--run-id", metavar="RUN", help="Go to the snapshot of this run.")]
Ref = Annotated[str | None, typer.Option("--ref", metavar="REF", help="Go to this snapshot.")]


def rollback(
    ctx: typer.Context,
    table: Table,
    offset: Offset = None,
    run_id: RunId = None,
    ref: Ref = None,
    json: Json = False,
) -> None:
    """Show readers an older snapshot.

    Exactly one of --offset, --run-id and --ref says which. No data is touched. It holds: runs go on
    committing but publish nothing until `lading publish TABLE --release`.

    \b
    Example:
      lading rollback voyages --offset 1
      lading rollback voyages --run-id 20240301-063000-1f2e3d4c
    """
    from lading.snapshots.history import Wanted
    from lading.upkeep.pointer import roll_back

    if sum(one is not None for one in (offset, run_id, ref)) != 1:
        raise ConfigError(
            "rollback needs exactly one of --offset, --run-id and --ref",
            hint=f"the one before: lading rollback {table} --offset 1; lading history {table} lists all",
        )
    config = known_table(ctx, table)
    moved = roll_back(config, table, Wanted(ref=ref, offset=offset, run_id=run_id))
    show_move(moved, json, f"It holds: runs publish nothing until `lading publish {table} --release`.")


def show_move(moved: Moved, json: bool, then: str) -> None:
    """Also what `lading publish` prints."""
    from lading.cli.screen import print_json, say

    if json:
        print_json(_move_object(moved))
        return
    before = moved.before.run_id if moved.before is not None else None
    if before == moved.now.run_id:
        say(f"Readers of {moved.table} see run {before}, as before.")
    else:
        then_saw = f"; until now it was run {before}" if before is not None else ""
        say(f"Readers of {moved.table} see run {moved.now.run_id}{then_saw}.")
    if then:
        say(then)


def _move_object(moved: Moved) -> dict[str, Any]:
    return {
        "table": moved.table,
        "run_id": moved.now.run_id,
        "manifest_ref": moved.now.ref,
        "sequence": moved.now.sequence,
        "held": moved.now.held,
        "before": moved.before.run_id if moved.before is not None else None,
    }
