"""Whether integers of Parquet files may become doubles, from the footers: nothing else is read."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.parquet as pq

from lading.model import FoundFile

_EXACT_IN_DOUBLE = 10**15


def exact_as_double(files: Sequence[FoundFile], name: str) -> bool:
    """Whether the integers of a column are small enough, by the statistics in the footers of `files`."""
    for found in files:
        metadata = pq.read_metadata(found.path)
        for group in range(metadata.num_row_groups):
            for position in range(metadata.num_columns):
                column = metadata.row_group(group).column(position)
                if column.path_in_schema != name or column.num_values == 0:
                    continue
                known = column.statistics
                if known is None or not known.has_min_max:
                    return False
                if max(abs(known.min), abs(known.max)) >= _EXACT_IN_DOUBLE:
                    return False
    return True
