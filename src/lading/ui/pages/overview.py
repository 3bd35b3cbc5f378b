"""Overview: each table as `lading status` tells it, how its rows grew, and which is made of which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from lading.config.derived import Derived
from lading.config.project import Config
from lading.errors import LadingError
from lading.snapshots.history import history
from lading.snapshots.stores.by_url import store_of
from lading.ui.looks import Look
from lading.ui.page import Page, PageValue, Query
from lading.ui.project import Project
from lading.upkeep.status import TableStatus

_POINTS = 60  # snapshots in the picture of a table's rows
_WIDE, _HIGH, _ACROSS, _DOWN = 168, 44, 72, 20  # of a table in the graph, and the room between two


class Point(msgspec.Struct, frozen=True):
    """How many rows readers saw from then on."""

    at: float  # seconds since 1970
    rows: int


class Node(msgspec.Struct, frozen=True):
    """A table in the graph; `x` and `y` are its upper left corner."""

    name: str
    x: int
    y: int
    state: str  # of `state_of`, or "elsewhere" for an input that is no table of this project


class Edge(msgspec.Struct, frozen=True):
    """One table is made of another; `behind` if it doesn't show yet what readers of that one see."""

    made_of: str
    made: str
    behind: bool
    line: str  # the path in the picture


class Graph(msgspec.Struct, frozen=True):
    nodes: list[Node]
    edges: list[Edge]
    width: int
    height: int


class Overview(PageValue, frozen=True, kw_only=True):
    tables: list[dict[str, Any]]  # as `lading status --json` has them
    states: dict[str, str]  # in one word: see `state_of`
    rows_over_time: dict[str, list[Point]]  # oldest first
    graph: Graph | None  # None without tables made of tables
    looked_at: str | None  # when the files were looked at; None: they weren't, so what is pending isn't told
    is_last: bool  # whether that was an earlier look


def overview(project: Project, query: Query) -> Overview:
    config = project.config()
    return _shown(config, project.looks.new(config), is_last=False)


def at_once(project: Project, query: Query) -> Overview:
    config = project.config()
    return _shown(config, project.looks.last(config), is_last=True)


def _shown(config: Config, look: Look, *, is_last: bool) -> Overview:
    found = list(look.tables)
    looked = look.at is not None
    states = {one.table: state_of(one, looked=looked or one.table not in config.tables) for one in found}
    return Overview(
        command="lading status",
        tables=[one.as_json() for one in found],
        states=states,
        rows_over_time={one.table: _rows_over_time(config, one.table) for one in found},
        graph=graph(config.graph, found, states),
        looked_at=look.at.isoformat() if look.at is not None else None,
        is_last=is_last,
    )


def state_of(one: TableStatus, *, looked: bool = True) -> str:
    """The worst that can be said: `failed`, `refused`, `held`, `unknown`, `pending`, `empty` or `fresh`; as
    long as nobody has looked at the files, `looking` instead of the last four."""
    last = (one.last_run or {}).get("state")
    told = {
        "refused": bool(one.refused),
        "failed": last in ("failed", "dead"),
        "held": one.current is not None and one.current.held,
        "looking": not looked,
        "unknown": one.pending is None,
        "pending": one.has_work,
        "empty": one.current is None,
    }
    return next((state for state, is_so in told.items() if is_so), "fresh")


def _rows_over_time(config: Config, name: str) -> list[Point]:
    try:
        found = history(store_of(config, name), limit=_POINTS)
    except LadingError:
        return []  # the table's own line says what is wrong with its store
    return [
        Point(one.at.timestamp(), one.rows)
        for one in reversed(found)
        if one.rows is not None and not one.failed
    ]


def graph(
    tables: Mapping[str, Derived | None], found: list[TableStatus], states: Mapping[str, str]
) -> Graph | None:
    """Tables in columns: each right of all those that it is made of."""
    if not any(tables.values()):
        return None
    inputs = {name: [one.name for one in of.inputs] if of else [] for name, of in tables.items()}
    for name in [one for of in inputs.values() for one in of]:
        inputs.setdefault(name, [])  # a table elsewhere
    column = {name: _depth(name, inputs) for name in inputs}
    places: dict[str, tuple[int, int]] = {}
    for name in sorted(inputs, key=lambda one: (column[one], _middle(inputs[one], places))):
        row = sum(1 for other in places if column[other] == column[name])
        places[name] = column[name] * (_WIDE + _ACROSS), row * (_HIGH + _DOWN)
    behind = {(of.name, one.table) for one in found for of in one.inputs if of.behind}
    edges = [
        Edge(source, name, (source, name) in behind, _curve(places[source], places[name]))
        for name, of in inputs.items()
        for source in of
    ]
    nodes = [Node(name, *places[name], states.get(name, "elsewhere")) for name in places]
    right, bottom = (max(place[side] for place in places.values()) for side in (0, 1))
    return Graph(nodes, edges, right + _WIDE, bottom + _HIGH)


def _depth(name: str, inputs: Mapping[str, list[str]]) -> int:
    return 1 + max((_depth(one, inputs) for one in inputs[name]), default=-1)


def _middle(of: list[str], places: Mapping[str, tuple[int, int]]) -> float:
    """Where its inputs are, so that few lines cross."""
    heights = [places[one][1] for one in of if one in places]
    return sum(heights) / len(heights) if heights else 0.0


def _curve(start: tuple[int, int], end: tuple[int, int]) -> str:
    x1, y1 = start[0] + _WIDE, start[1] + _HIGH // 2
    x2, y2 = end[0], end[1] + _HIGH // 2
    bend = (x2 - x1) // 2
    return f"M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"


PAGE = Page("overview", "Overview", overview, of_table=False, at_once=at_once)
