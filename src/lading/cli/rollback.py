"""lading rollback and publish: choose by hand which snapshot readers see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from lading.cli.terminal.command import Context, Option
from lading.cli.terminal.invocation import Json, Table, known_table
from lading.errors import ConfigError

if TYPE_CHECKING:
    from lading.upkeep.rollback import Moved

Offset = Annotated[
    int | None,
    Option("--offset", metavar="N", min=1, help="Go back N snapshots from the current one."),
]
RunId = Annotated[str | None, Option("--run-id", metavar="RUN", help="Go to the snapshot of this run.")]
Ref = Annotated[str | None, Option("--ref", metavar="REF", help="Go to this snapshot.")]


def rollback(
    ctx: Context,
    table: Table,
    offset: Offset = None,
    run_id: RunId = None,
    ref: Ref = None,
    json: Json = False,
) -> None:
    """Show readers an older snapshot.

    Choose it with exactly one of --offset, --run-id and --ref. No data changes. The table is then held:
    runs still commit, but publish nothing until `lading publish TABLE --release`.

    \b
    Example:
      lading rollback voyages --offset 1
      lading rollback voyages --run-id 20240301-063000-1f2e3d4c
    """
    from lading.snapshots.history import Wanted
    from lading.upkeep.rollback import roll_back

    if sum(one is not None for one in (offset, run_id, ref)) != 1:
        raise ConfigError(
            "rollback needs exactly one of --offset, --run-id and --ref",
            hint=f"to go back one: lading rollback {table} --offset 1; to list all: lading history {table}",
        )
    config = known_table(ctx, table)
    moved = roll_back(config, table, Wanted(ref=ref, offset=offset, run_id=run_id))
    show_move(
        moved, json, f"The table is held: runs publish nothing until `lading publish {table} --release`."
    )


def show_move(moved: Moved, json: bool, then: str) -> None:
    """Also what `lading publish` prints."""
    from lading.cli.terminal.screen import print_json, say

    if json:
        print_json(moved.as_json())
        return
    before = moved.before.run_id if moved.before is not None else None
    if before == moved.now.run_id:
        say(f"Readers of {moved.table} still see run {before}.")
    else:
        then_saw = f"; before, they saw run {before}" if before is not None else ""
        say(f"Readers of {moved.table} now see run {moved.now.run_id}{then_saw}.")
    if then:
        say(then)
    if moved.note is not None:
        say(f"Note: {moved.note}.")


Run = Annotated[str | None, Option("--run", metavar="RUN", help="Publish the snapshot of this run.")]
Force = Annotated[bool, Option("--force", help="Publish it even if the gate refused it.")]
Release = Annotated[bool, Option("--release", help="End a rollback and publish the newest good snapshot.")]


def publish(
    ctx: Context,
    table: Table,
    run: Run = None,
    force: Force = False,
    release: Release = False,
    json: Json = False,
) -> None:
    """Publish a snapshot by hand.

    `--run` publishes the snapshot of one run; add `--force` if the gate refused it. `--release` ends a
    rollback. Normally `lading run` publishes for you; use this when something kept it from doing so.

    \b
    Example:
      lading publish voyages --run 20240301-063000-1f2e3d4c --force
      lading publish voyages --release
    """
    from lading.upkeep.rollback import publish_run, release_hold

    if (run is None) == (not release) or (force and run is None):
        raise ConfigError(
            "publish needs either --run RUN (optionally with --force) or --release",
            hint=f"lading history {table} lists the runs",
        )
    config = known_table(ctx, table)
    moved = release_hold(config, table) if run is None else publish_run(config, table, run, force=force)
    show_move(moved, json, "")
