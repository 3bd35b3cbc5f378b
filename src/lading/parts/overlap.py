"""Parts of one commit whose ranges of keys overlap, since the tasks that wrote them knew nothing of each
other.

They become disjoint by folds: one for parts that are small together, and for more several that take a range
of keys each, so that all cores have something to do. Where ranges begin is told by the parts' row groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from lading.model import Bound, Member, Place
from lading.parts.fold import Fold
from lading.parts.footer_zones import FooterZones
from lading.parts.intake import in_parallel
from lading.parts.open import open_parquet

_AT_ONCE = 64 << 20  # bytes of parts that one fold reads


def plan_overlaps(members: Iterable[Member], table_dir: Place, key: str, most: int = _AT_ONCE) -> list[Fold]:
    """Folds of at most about `most` bytes, after which no two parts of a bucket overlap."""
    buckets: defaultdict[int, list[Member]] = defaultdict(list)
    for member in members:
        if member.key_min is not None:
            buckets[member.bucket].append(member)
    found: list[Fold] = []
    for bucket, several in sorted(buckets.items()):
        for cluster in overlapping(several):
            if len(cluster) > 1:
                found += _folds(bucket, tuple(cluster), table_dir, key, most)
    return found


def overlapping(members: Iterable[Member]) -> Iterator[list[Member]]:
    """Members by chains of ranges that overlap; two that share a key do."""
    cluster: list[Member] = []
    end: Any = None
    for member in sorted(members, key=_by_key):
        least: Any = member.key_min
        if cluster and least > end:
            yield cluster
            cluster = []
        end = member.key_max if not cluster else max(end, member.key_max)
        cluster.append(member)
    if cluster:
        yield cluster


def _folds(bucket: int, cluster: tuple[Member, ...], table_dir: Place, key: str, most: int) -> list[Fold]:
    size = sum(member.bytes for member in cluster)
    if size <= most:
        return [Fold(bucket, cluster)]
    marks = in_parallel(lambda member: _marks(member, table_dir, key), cluster)
    cuts = even_cuts([mark for several in marks for mark in several], -(-size // most))
    return [Fold(bucket, cluster, low, high) for low, high in pairwise([None, *cuts, None])]


def _marks(member: Member, table_dir: Place, key: str) -> list[tuple[Bound, int]]:
    """The first key of each row group, and its rows."""
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


def _by_key(member: Member) -> tuple[Any, str]:
    return (member.key_min, member.path)
