"""A table in memory over real Parquet files: the smallest thing that scan and lookup can read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lading.model import Bound, Member, Zone
from lading.parts.footer_zones import zones_of_footer
from lading.where.bind import Predicate
from lading.where.prune import may_match
from lading.zones.bounds import zone_of
from lading.zones.vector import ZoneVector, pack


@dataclass
class MemoryTable:
    """A MemberSet that keeps its members in a list, and their zones as the blobs that a checkpoint has."""

    root: str
    schema: bytes
    order_by: str | None
    members: list[Member]

    def count(self) -> int:
        return len(self.members)

    def candidates(self, where: Predicate | None) -> list[Member]:
        if where is None:
            return self.members
        rows = np.array([member.rows for member in self.members], np.int64)
        mask = may_match(where, self._zones, rows)
        return [self.members[at] for at in np.flatnonzero(mask)]

    def holding(self, key: Bound) -> list[Member]:
        def holds(member: Member) -> bool:
            low: Any = member.key_min
            high: Any = member.key_max
            return (low is None or low <= key) and (high is None or key <= high)

        return [member for member in self.members if holds(member)]

    def _zones(self, column: str) -> ZoneVector | None:
        if not any(column in member.zones for member in self.members):
            return None
        vector = pack([member.zones.get(column) for member in self.members])
        return ZoneVector.from_blob(vector.to_blob())


@pytest.fixture(scope="session")
def make_table(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., MemoryTable]:
    """make_table(schema, [pa.Table, …], order_by=…, zones="exact"|"footer"|"none", minus=…, **parquet)."""
    numbers = itertools.count()

    def make(
        schema: pa.Schema,
        parts: Sequence[pa.Table],
        *,
        order_by: str | None = None,
        zones: str = "exact",
        minus: Sequence[tuple[int, ...]] = (),
        **parquet: Any,
    ) -> MemoryTable:
        root = tmp_path_factory.mktemp("table")
        members = []
        for at, part in enumerate(parts):
            path = f"part-{next(numbers):05}.parquet"
            pq.write_table(part, root / path, **parquet)
            found = _zones_of(root / path, part, schema, zones)
            key = None if order_by is None else zone_of(part[order_by])
            members.append(
                Member(
                    path=path,
                    rows=part.num_rows,
                    bytes=(root / path).stat().st_size,
                    bucket=0,
                    tick_min=0,
                    tick_max=0,
                    key_min=None if key is None else key.min,
                    key_max=None if key is None else key.max,
                    created_at="2024-01-01T00:00:00Z",
                    zones=found,
                    minus=minus[at] if minus else (),
                )
            )
        return MemoryTable(str(root), schema.serialize().to_pybytes(), order_by, members)

    return make


def _zones_of(path: Path, part: pa.Table, schema: pa.Schema, how: str) -> dict[str, Zone]:
    if how == "none":
        return {}
    if how == "footer":
        return zones_of_footer(pq.read_metadata(path), schema)
    zones = {name: zone_of(part[name]) for name in part.schema.names}
    return {name: zone for name, zone in zones.items() if zone is not None}
