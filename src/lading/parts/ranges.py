"""How a run's passing parts become those that stay: which rows one fold takes.

Tasks know nothing of each other, so the ranges of their parts overlap. Folds make them disjoint: one for a
bucket that is small, and for more several that take a range of keys each, so that all cores have something to
do. Where ranges begin is told by the parts' row groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from lading.layout.table import is_passing
from lading.model import Bound, Member, Place
from lading.parts.fold import Fold
from lading.parts.footer_zones import FooterZones
from lading.parts.intake import in_parallel
from lading.parts.open import open_parquet
from lading.parts.passing import passing_marks

_AT_ONCE = 128 << 20  # bytes of parts that one fold reads: of rows, where they lie as in memory


def plan_ranges(members: Iterable[Member], table_dir: Place, key: str, most: int = _AT_ONCE) -> list[Fold]:
    """Folds of at most about `most` bytes that take every row once, disjoint by their keys in each bucket."""
    buckets: defaultdict[int, list[Member]] = defaultdict(list)
    for member in members:
        buckets[member.bucket].append(member)
    found: list[Fold] = []
    for bucket, several in sorted(buckets.items()):
        found += _folds(bucket, tuple(several), table_dir, key, most)
    return found


def _folds(bucket: int, members: tuple[Member, ...], table_dir: Place, key: str, most: int) -> list[Fold]:
    size = sum(member.bytes for member in members)
    if size <= most:
        return [Fold(bucket, members)]
    marks = in_parallel(lambda member: _marks(member, table_dir, key), members)
    cuts = even_cuts([mark for several in marks for mark in several], -(-size // most))
    return [Fold(bucket, members, low, high) for low, high in pairwise([None, *cuts, None])]


def _marks(member: Member, table_dir: Place, key: str) -> list[tuple[Bound, int]]:
    """The first key of each row group, and its rows."""
    if is_passing(member.path):
        return passing_marks(table_dir, member.path, key)
    with open_parquet(table_dir, member.path, member.bytes) as file:
        zones = FooterZones(file.metadata, file.schema_arrow)
        groups = zip(zones.groups(key), zones.rows.tolist(), strict=True)
        return [(zone.min, rows) for zone, rows in groups if zone is not None and zone.min is not None]


def even_cuts(marks: Sequence[tuple[Bound, int]], ranges: int) -> list[Bound]:
    """Keys that cut the rows into about so many equal ranges, ascending and all different."""
    ordered: list[tuple[Any, int]] = sorted(marks, key=lambda mark: mark[0])
    total = sum(rows for _, rows in ordered)
    cuts: list[Bound] = []
    seen = 0
    for least, rows in ordered:
        if seen * ranges >= total * (len(cuts) + 1) and (not cuts or least > cuts[-1]) and seen:
            cuts.append(least)
        seen += rows
    return cuts
