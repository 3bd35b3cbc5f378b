"""What pyarrow says that a Parquet file's footer says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def statistics_of(file: Path) -> dict[str, dict[str, Any]]:
    """By column: least, greatest and number of nulls, over all row groups."""
    footer = pq.read_metadata(file)
    found: dict[str, dict[str, Any]] = {}
    for at in range(footer.num_columns):
        groups = [footer.row_group(group).column(at).statistics for group in range(footer.num_row_groups)]
        known = [one for one in groups if one.has_min_max]
        found[footer.schema.column(at).path] = {
            "min": min((one.min for one in known), default=None),
            "max": max((one.max for one in known), default=None),
            "nulls": sum(one.null_count for one in groups),
        }
    return found
