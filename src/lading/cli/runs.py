"""lading runs: what was done to a table, and what is still running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from lading.cli.terminal.command import Context, Option
from lading.cli.terminal.invocation import Json, Table, known_table

if TYPE_CHECKING:
    from lading.snapshots.runs import RunRecord

Limit = Annotated[int, Option("--limit", metavar="N", min=1, help="Show at most N runs; 20 by default.")]


def runs(ctx: Context, table: Table, limit: Limit = 20, json: Json = False) -> None:
    """List the runs of a table.

    Newest first, rollbacks and manual publishes included. A run keeps renewing its five-minute lease, so
    a slow run stays `running`; a run that was killed shows as `dead` once its lease expires.

    \b
    Example:
      lading runs voyages
      lading runs voyages --json
    """
    from lading.cli.terminal.screen import print_json, show_table
    from lading.snapshots.runs import newest_runs

    config = known_table(ctx, table)
    records = [one.record for one in newest_runs(config.place(table), limit)[0]]
    if json:
        print_json({"table": table, "runs": [one.as_json() for one in records]})
        return
    show_table(
        ("run", "started (UTC)", "what", "state", "host", "error"),
        (
            (one.run_id, one.started_at[:19], one.action or "run", _state(one), one.host, one.error)
            for one in records
        ),
    )


def _state(one: RunRecord) -> str:
    state = one.state()
    return f"{state}, lease to {one.lease_until[11:19]}" if state == "running" and one.lease_until else state
