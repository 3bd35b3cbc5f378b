"""Changes of a collection: planned from what it holds, committed at once, planned anew after a lost race."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from lading.errors import ConfigError, Conflict
from lading.log.table import Table
from lading.model import Commit

ATTEMPTS = 100  # each lost race means that somebody else's commit got through


def change(
    table: Table,
    plan: Callable[[Table], Commit | None],
    *,
    attempts: int = ATTEMPTS,
    of_tables_too: bool = False,
) -> int:
    """Plan and commit, again from the new state when somebody was quicker; the sequence. What `plan` finds
    done already needs no commit, so it never goes by what this handle remembers: the log is caught up with
    first."""
    for attempt in range(attempts):
        table.catch_up()
        if table.state.meta.recipe and not of_tables_too:
            raise ConfigError(
                f"{table.place} is a table that `lading run` keeps true to its sources",
                hint="change its source files or lading.yaml instead; `lading merge` folds its parts",
                table=table.state.meta.table,
            )
        commit = plan(table)
        try:
            if commit is not None:
                table.commit(commit)
            break
        except Conflict:
            if attempt == attempts - 1:
                raise
    table.checkpoint_if_due()
    return table.state.sequence


def new_commit(table: Table, **edits: Any) -> Commit:
    """A commit by hand, outside of any run."""
    now = datetime.now(UTC).isoformat()
    return Commit(uuid.uuid4().hex, uuid.uuid4().hex, now, table.state.meta.recipe, **edits)
