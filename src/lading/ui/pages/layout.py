"""Layout: buckets and parts as a picture, and what a predicate would open, as `lading layout` tells it."""

from __future__ import annotations

from typing import Any

import msgspec

from lading.api import open_in
from lading.errors import PredicateError
from lading.read.layout import BINS, Bucket, Layout, Part
from lading.ui.page import Page, PageValue, Query, command_line, number_of, table_of
from lading.ui.project import Project
from lading.ui.reading import Snapshot, snapshots

_SHOWN = 100  # parts a page of the list
_DRAWN = 400  # parts that are drawn one by one
_COLUMNS = 120  # of the picture of buckets
LANE = 9  # units of the picture that a lane of parts is high


class Column(msgspec.Struct, frozen=True):
    """A bucket in the picture, or some that lie beside each other."""

    first: int
    last: int
    parts: int
    rows: int
    bytes: int
    height: float  # by its bytes: 0 to 1
    opened: float  # which share of its parts


class Bar(msgspec.Struct, frozen=True):
    """A part in the picture, which is 1,000 wide."""

    part: Part
    x: float
    width: float
    lane: int


class LayoutPage(PageValue, frozen=True, kw_only=True):
    table: str
    shown: Snapshot | None
    where: str
    told: Layout | None = None  # as `lading layout --json` has it
    parts: tuple[Part, ...] = ()  # of this page of the list
    page: int = 1
    pages: int = 1
    columns: tuple[Column, ...] = ()
    bars: tuple[Bar, ...] = ()  # empty if there are too many parts to draw each
    lanes: int = 0
    area: str = ""  # the outline of how many parts overlap, where there are too many
    area_opened: str = ""
    problem: dict[str, Any] | None = None


def layout(project: Project, query: Query) -> LayoutPage:
    config = project.config()
    table = table_of(config, query)
    where = (query.get("where") or "").strip()
    words = ["--where", where] if where else []
    page = LayoutPage(
        command=command_line("lading", "layout", table, *words),
        table=table,
        shown=next((one for one in snapshots(config, table) if one.current), None),
        where=where,
        page=number_of(query, "page", 1, least=1),
    )
    if page.shown is None:
        return page
    first = (page.page - 1) * _SHOWN
    with open_in(config, table) as reader:
        try:
            few = reader.info()["parts"] <= _DRAWN
            if few:
                told, drawn = reader.layout(where or None)
                listed = drawn[first : first + _SHOWN]
            else:
                told, listed = reader.layout(where or None, first=first, limit=_SHOWN)
                drawn = []
        except PredicateError as error:
            return msgspec.structs.replace(page, problem=error.as_json())
    bars = _bars(drawn)
    most = max(told.overlap, default=0)
    return msgspec.structs.replace(
        page,
        told=told,
        parts=tuple(listed),
        pages=max(1, -(-told.parts // _SHOWN)),
        columns=_columns(told.buckets),
        bars=bars,
        lanes=max((bar.lane for bar in bars), default=-1) + 1,
        area="" if few else _area(told.overlap, most),
        area_opened="" if few else _area(told.overlap_opened, most),
    )


def _columns(buckets: list[Bucket]) -> tuple[Column, ...]:
    """At most so many: where there are more buckets, neighbours are put together."""
    width = max(1, -(-len(buckets) // _COLUMNS))
    groups = [buckets[at : at + width] for at in range(0, len(buckets), width)]
    sums = [sum(one.bytes for one in group) for group in groups]
    most = max(sums, default=0) or 1
    return tuple(
        Column(
            group[0].bucket,
            group[-1].bucket,
            sum(one.parts for one in group),
            sum(one.rows for one in group),
            size,
            round(size / most, 4),
            round(sum(one.opened for one in group) / sum(one.parts for one in group), 4),
        )
        for group, size in zip(groups, sums, strict=True)
    )


def _bars(parts: list[Part]) -> tuple[Bar, ...]:
    """Each in the first lane that is free, so that as many lie above each other as overlap."""
    ends: list[float] = []
    bars = []
    for part in sorted((one for one in parts if one.span is not None), key=lambda one: one.span or (0, 0)):
        low, high = part.span or (0.0, 0.0)
        lane = next((number for number, end in enumerate(ends) if end < low), len(ends))
        ends[lane : lane + 1] = [high]
        bars.append(Bar(part, round(low * 1000, 2), round(max((high - low) * 1000, 2.0), 2), lane))
    return tuple(bars)


def _area(counts: list[int], most: int) -> str:
    """A path, 1,000 wide and 100 high."""
    if not counts or not most:
        return ""
    step = 1000 / BINS
    steps = (f"V{100 - 100 * count / most:.1f}H{(at + 1) * step:.0f}" for at, count in enumerate(counts))
    return f"M0 100{''.join(steps)}V100Z"


PAGE = Page("layout", "Layout", layout)
