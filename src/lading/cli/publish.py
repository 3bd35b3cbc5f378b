"""lading publish: show readers a snapshot that they don't see."""

from __future__ import annotations

from typing import Annotated

import typer

from lading.cli.rollback import show_move
from lading.cli.session import Json, Table, known_table
from lading.errors import ConfigError

Run = Annotated[str | None, typer.Option("--run", metavar="RUN", help="The run whose snapshot is shown.")]
Force = Annotated[bool, typer.Option("--force", help="Even if the gate refused it.")]
Release = Annotated[bool, typer.Option("--release", help="End a rollback: show the newest good snapshot.")]


def publish(
    ctx: typer.Context,
    table: Table,
    run: Run = None,
    force: Force = False,
    release: Release = False,
    json: Json = False,
) -> None:
    """Publish a snapshot by hand.

    `--run` shows the snapshot of a run, with `--force` one that the gate refused. `--release` ends a
    rollback. `lading run` publishes by itself; this is for when it was kept from doing so.

    \b
    Example:
      lading publish voyages --run 20240301-063000-1f2e3d4c --force
      lading publish voyages --release
    """
    from lading.upkeep.pointer import publish_run, release_hold

    if (run is None) == (not release) or (force and run is None):
        raise ConfigError(
            "publish needs either --run RUN (with --force, if need be) or --release",
            hint=f"lading history {table} lists the runs",
        )
    config = known_table(ctx, table)
    moved = release_hold(config, table) if run is None else publish_run(config, table, run, force=force)
    show_move(moved, json, "")
