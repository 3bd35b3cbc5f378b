"""Columns of Parquet files, from their footers: nothing else is read."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow.parquet as pq

from lading.errors import SchemaDrift
from lading.formats.heads import parquet_columns
from lading.formats.types import joined, widens
from lading.model import FoundFile

_THREADS = 4
_EXACT_IN_DOUBLE = 10**15


@dataclass(slots=True)
class ParquetSeen:
    types: dict[str, str] = field(default_factory=dict)
    because: dict[str, str] = field(default_factory=dict)
    rows: int = 0


def parquet_look(files: Sequence[FoundFile], *, join_types: bool = False) -> ParquetSeen:
    """Types over all files; those that differ are an error unless `join_types`."""
    seen = ParquetSeen()
    first: dict[str, str] = {}
    longs: dict[str, list[FoundFile]] = {}
    with ThreadPoolExecutor(_THREADS) as pool:
        for found, columns in zip(files, pool.map(lambda f: parquet_columns(f.path), files), strict=True):
            seen.rows += pq.read_metadata(found.path).num_rows
            for name, kind in columns.items():
                known = seen.types.setdefault(name, kind)
                first.setdefault(name, found.key)
                if kind == "bigint":
                    longs.setdefault(name, []).append(found)
                wider = _wider(known, kind, join_types)
                if wider is None:
                    raise SchemaDrift(
                        f"column {name!r} is {known} in {first[name]} and {kind} in {found.key}",
                        hint="rewrite one of the two files with the other's type",
                        file=found.key,
                    )
                if wider != known or name not in seen.because:
                    seen.because[name] = f"{wider}: the footer of {found.key}"
                seen.types[name] = wider
    for name, holding in longs.items():
        if seen.types[name] == "double" and not exact_as_double(holding, name):
            seen.types[name] = "string"
            seen.because[name] = "string: some integers have more digits than a double can hold"
    return seen


def _wider(known: str, kind: str, join_types: bool) -> str | None:
    if widens(known, kind):
        return kind
    if widens(kind, known):
        return known
    return joined(known, kind) if join_types else None


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
