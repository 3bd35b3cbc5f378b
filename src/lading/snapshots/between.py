"""Two snapshots that somebody names, and what differs between them: what `lading diff` and the page show."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from lading.config.project import Config
from lading.model import SnapshotRef
from lading.snapshots.diff import Diff, diff
from lading.snapshots.history import HistoryEntry, Wanted, column_history, find
from lading.snapshots.opening import open_members
from lading.snapshots.stores.by_url import store_of


@dataclass(frozen=True, slots=True)
class Between:
    table: str
    before: SnapshotRef
    after: SnapshotRef
    found: Diff
    columns: list[HistoryEntry]  # the snapshots between them whose columns changed, oldest first

    def as_json(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        changes = [
            {
                "run_id": one.run_id,
                "published_at": one.at.isoformat(),
                "changes": list(one.column_words),
            }
            for one in self.columns
        ]
        runs = {"table": self.table, "before": self.before.run_id, "after": self.after.run_id}
        return {**runs, **self.found.as_json(), "schema_changes": changes}


def between(config: Config, table: str, before: str, after: str) -> Between:
    """`before` and `after` are each a run, a manifest reference, `current`, or ~N. Reads no data."""
    store, folder = store_of(config, table), config.place(table)
    one, other = (find(store, wanted(text), folder) for text in (before, after))
    old = open_members(store, one.ref, folder)
    try:
        new = open_members(store, other.ref, folder)
        try:
            found = diff(old, new)
        finally:
            new.close()
    finally:
        old.close()
    columns = column_history(store, one, other) if found.columns else []
    return Between(table, one, other, found, columns)


def wanted(text: str) -> Wanted:
    """What somebody means by `current`, `~2`, a run or a reference."""
    if text == "current":
        return Wanted()
    match = re.fullmatch(r"~([0-9]+)", text)
    return Wanted(offset=int(match[1])) if match else Wanted(ref=text)
