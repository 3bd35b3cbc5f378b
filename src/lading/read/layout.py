"""How a table lies on disk: its buckets and parts, how far parts overlap in the order column, and which of
them a predicate would open. Only what the snapshot says of its parts is looked at; no part is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from lading.model import Bound, Member
from lading.read.scan import table_schema
from lading.state.members import MemberStore
from lading.where.bind import bind, parse
from lading.where.tree import And, IsNull, Predicate, columns_of
from lading.zones.vector import ZoneVector

BINS = 200  # of the order column's range
_LONGEST = 60  # characters of a bound


class Bucket(msgspec.Struct, frozen=True):
    bucket: int
    parts: int
    rows: int
    bytes: int
    opened: int  # parts that the predicate can't rule out


class Part(msgspec.Struct, frozen=True):
    path: str
    bucket: int
    rows: int  # that count
    bytes: int
    low: str | None  # of the order column
    high: str | None
    opened: bool
    reason: str | None  # what rules it out
    span: tuple[float, float] | None  # in the order column's range, from 0 to 1


class Layout(msgspec.Struct, frozen=True):
    order_by: str | None
    rows: int
    bytes: int
    parts: int
    opened: int
    buckets: list[Bucket]
    low: str | None  # of the order column, of all parts
    high: str | None
    overlap: list[int]  # parts in each of the bins that the order column's range is cut into
    overlap_opened: list[int]
    deepest: int  # parts that one value of the order column may be in, at most


def layout(
    members: MemberStore, where: str | None, *, first: int = 0, limit: int | None = None
) -> tuple[Layout, list[Part]]:
    """All of it in figures, and `limit` parts in key order from the `first` on."""
    schema = table_schema(members)
    bound = None if where is None else bind(parse(where), schema)
    found = members.candidates(None)
    opened = {one.path for one in (found if bound is None else members.candidates(bound))}
    spans = _spans(found)
    shown = found[first : None if limit is None else first + limit]
    kind = schema.field(members.order_by).type if members.order_by in schema.names else None
    why = _Reasons(members, bound, schema)
    keyed = [one for one in found if one.key_min is not None and one.key_max is not None]
    told = Layout(
        members.order_by,
        sum(one.live_rows for one in found),
        sum(one.bytes for one in found),
        len(found),
        len(opened),
        _buckets(found, opened),
        bound_text(min((one.key_min for one in keyed), default=None), kind),  # type: ignore[type-var]
        bound_text(max((one.key_max for one in keyed), default=None), kind),  # type: ignore[type-var]
        _overlap(spans),
        _overlap({path: span for path, span in spans.items() if path in opened}),
        _deepest(spans),
    )
    parts = [
        Part(
            one.path,
            one.bucket,
            one.live_rows,
            one.bytes,
            bound_text(one.key_min, kind),
            bound_text(one.key_max, kind),
            one.path in opened,
            None if one.path in opened else why.of(first + at, one),
            spans.get(one.path),
        )
        for at, one in enumerate(shown)
    ]
    return told, parts


def bound_text(value: Bound | None, kind: pa.DataType | None) -> str | None:
    """A bound as people read values of the type."""
    if value is None:
        return None
    if kind is not None and pa.types.is_temporal(kind) and isinstance(value, int):
        plain = pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) else kind
        width = pa.int32() if pa.types.is_date32(kind) else pa.int64()
        text = str(pa.scalar(value, width).cast(plain).cast(pa.string()).as_py())
        return text.removesuffix(".000000")
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _buckets(found: Sequence[Member], opened: set[str]) -> list[Bucket]:
    sums: dict[int, list[int]] = {}
    for one in found:
        of = sums.setdefault(one.bucket, [0, 0, 0, 0])
        for at, value in enumerate((1, one.live_rows, one.bytes, one.path in opened)):
            of[at] += value
    return [Bucket(bucket, *sums[bucket]) for bucket in sorted(sums)]


def _spans(found: Sequence[Member]) -> dict[str, tuple[float, float]]:
    """Where each part's keys lie between the least and the greatest of all: by their ticks, or, for values
    that have none, by their order."""
    keyed = [one for one in found if one.key_min is not None and one.key_max is not None]
    if not keyed:
        return {}
    if any(one.tick_min or one.tick_max for one in keyed):
        lows = np.array([one.tick_min for one in keyed], np.float64)
        highs = np.array([one.tick_max for one in keyed], np.float64)
    else:
        keys: list[Any] = sorted({key for one in keyed for key in (one.key_min, one.key_max)})
        place = {key: at for at, key in enumerate(keys)}
        lows = np.array([place[one.key_min] for one in keyed], np.float64)
        highs = np.array([place[one.key_max] for one in keyed], np.float64)
    least = lows.min()
    width = (highs.max() - least) or 1.0
    low, high = ((ends - least) / width for ends in (lows, highs))
    return {one.path: (float(a), float(b)) for one, a, b in zip(keyed, low, high, strict=True)}


def _overlap(spans: dict[str, tuple[float, float]]) -> list[int]:
    if not spans:
        return []
    ends = np.array(list(spans.values()))
    low, high = (np.minimum((ends[:, side] * BINS).astype(np.int64), BINS - 1) for side in (0, 1))
    steps = np.zeros(BINS + 1, np.int64)
    np.add.at(steps, low, 1)
    np.add.at(steps, high + 1, -1)
    counts: list[int] = np.cumsum(steps)[:BINS].tolist()
    return counts


def _deepest(spans: dict[str, tuple[float, float]]) -> int:
    if not spans:
        return 0
    ends = np.array(list(spans.values()))
    lows, highs = np.sort(ends[:, 0]), np.sort(ends[:, 1])
    begun = np.arange(1, len(lows) + 1)
    return int((begun - highs.searchsorted(lows, side="left")).max())


class _Reasons:
    """Which part of a predicate rules a part of the table out."""

    def __init__(self, members: MemberStore, bound: Predicate | None, schema: pa.Schema) -> None:
        pieces = bound.parts if isinstance(bound, And) else () if bound is None else (bound,)
        self._pieces = [(piece, {one.path for one in members.candidates(piece)}) for piece in pieces]
        self._schema = schema
        self._members = members
        self._zones: dict[str, ZoneVector | None] = {}

    def of(self, at: int, member: Member) -> str:
        """Of the member at that place."""
        for piece, left in self._pieces:
            if member.path not in left and isinstance(piece, IsNull):
                return f"{piece.column} is never null"
            if member.path not in left:
                columns = sorted(columns_of(piece))
                return "; ".join(self._range(column, at) for column in columns)
        return "no row can satisfy all of it"

    def _range(self, column: str, at: int) -> str:
        if column not in self._zones:
            self._zones[column] = self._members.zone(column)
        vector = self._zones[column]
        zone = vector.zone(at) if vector is not None else None
        if zone is None or zone.min is None:
            return f"{column} is null in all rows"
        kind = self._schema.field(column).type
        low, high = bound_text(zone.min, kind), bound_text(zone.max, kind)
        return f"{column} is {low} in all rows" if low == high else f"{column} is {low} to {high}"
