"""What lading notes in the footer of a part, besides Parquet's own: whose it is, and what it replaced.

Without the log, these notes are all that tells a table's parts from strangers, and new ones from old.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_PREFIX = "lading."


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose part it is: written into its footer, so that a table can be told together from its files."""

    table_id: str
    run_id: str
    commit_id: str
    order_by: str | None

    def notes(self, replaces: Sequence[str] = ()) -> dict[str, str]:
        """For a footer; `replaces` are the paths of members whose rows the part holds."""
        noted = {
            "table_id": self.table_id,
            "run_id": self.run_id,
            "commit_id": self.commit_id,
            "order_by": self.order_by or "",  # an empty text says that there is none
        }
        if replaces:
            noted = {"replaces": json.dumps(list(replaces))} | noted
        return {f"{_PREFIX}{name}": value for name, value in noted.items()}


def noted(metadata: Any, name: str) -> str | None:
    """What lading's writer noted under `name` in a Parquet footer, None if nothing."""
    value = (metadata.metadata or {}).get(f"{_PREFIX}{name}".encode())
    return None if value is None else value.decode("utf-8", "replace")
