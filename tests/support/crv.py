"""What a reader of crv.io's own has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class SeedPartMeta:
    """The seed's record: it is built from a part object's keys, whatever they are."""

    path: str
    rows: int
    bytes: int
    tick_min: int
    tick_max: int
    created_at: str
