"""History: a table's snapshots on a time line, what differs between two of them, rollback and release."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

import msgspec

from lading.config.project import Config
from lading.errors import ConfigError, NotFound
from lading.snapshots.between import Between, between
from lading.snapshots.history import HistoryEntry, Wanted
from lading.snapshots.history import history as snapshots_of
from lading.snapshots.stores.by_url import store_of
from lading.ui.page import Done, Page, PageValue, Query, number_of, table_of
from lading.ui.project import Project
from lading.ui.show import link
from lading.upkeep.rollback import Moved, newest_good, release_hold, roll_back
from lading.words import count_words

_SHOWN = 50  # snapshots
_FILES = 200  # of a diff


class Difference(msgspec.Struct, frozen=True):
    """What `lading diff` says of two snapshots, with the files of this page."""

    command: str
    told: dict[str, Any]
    files: int  # how many differ
    page: int
    pages: int


class Confirm(msgspec.Struct, frozen=True):
    """What readers will see, before anything is moved."""

    action: Literal["rollback", "release"]
    run_id: str  # that they will see
    command: str
    words: list[str]
    change: Difference | None  # None while they see nothing


class Mark(msgspec.Struct, frozen=True):
    """A snapshot on the time line, which is 1,000 wide."""

    run_id: str
    at: str
    x: float
    height: float  # by its rows: 0 to 1
    marks: list[str]


class HistoryPage(PageValue, frozen=True, kw_only=True):
    table: str
    snapshots: list[dict[str, Any]]  # as `lading history TABLE --json` has them
    marks: dict[str, list[str]]  # by run: `current`, `held`, `failed`, `unreadable`
    line: list[Mark]  # oldest first
    limit: int
    held: bool
    before: str | None  # the two that are compared
    after: str | None
    difference: Difference | None
    confirm: Confirm | None


def history(project: Project, query: Query) -> HistoryPage:
    config = project.config()
    table = table_of(config, query)
    limit = number_of(query, "limit", _SHOWN, least=1, most=10_000)
    found = snapshots_of(store_of(config, table), limit=limit)
    before, after = query.get("before"), query.get("after")
    compared = between(config, table, before, after) if before and after else None
    options = ["--limit", str(limit)] if limit != _SHOWN else []
    return HistoryPage(
        command=shlex.join(["lading", "history", table, *options]),
        table=table,
        snapshots=[one.as_json() for one in found],
        marks={one.run_id: one.marks for one in found},
        line=time_line(found),
        limit=limit,
        held=any(one.held for one in found),
        before=compared.before.run_id if compared is not None else None,
        after=compared.after.run_id if compared is not None else None,
        difference=_difference(compared, query) if compared is not None else None,
        confirm=_confirm(config, table, query, found),
    )


def time_line(found: list[HistoryEntry]) -> list[Mark]:
    """Where each stands between the oldest and the newest, but never closer than can be told apart."""
    told = found[::-1]
    if not told:
        return []
    first, last = told[0].at, told[-1].at
    most = max((one.rows or 0 for one in told), default=0) or 1
    places = _apart([_share(one.at, first, last) for one in told])
    return [
        Mark(one.run_id, one.at.isoformat(), round(x * 1000, 1), round((one.rows or 0) / most, 3), one.marks)
        for one, x in zip(told, places, strict=True)
    ]


def _share(at: datetime, first: datetime, last: datetime) -> float:
    whole = (last - first).total_seconds()
    return (at - first).total_seconds() / whole if whole > 0 else 1.0


def _apart(places: list[float]) -> list[float]:
    """From the newest on, each at least a step before the next one; all between 0 and 1."""
    step = 0.8 / max(len(places), 1)
    found: list[float] = []
    limit = 1.0
    for number, place in enumerate(reversed(places), 1):
        room = step * (len(places) - number)  # that those before it need
        limit = max(min(place, limit), room)
        found.append(limit)
        limit -= step
    return found[::-1]


def _difference(found: Between, query: Query) -> Difference:
    told = found.as_json()
    files, page = told["sources"], number_of(query, "page", 1, least=1)
    told["sources"] = files[(page - 1) * _FILES : page * _FILES]
    command = shlex.join(["lading", "diff", found.table, found.before.run_id, found.after.run_id])
    return Difference(command, told, len(files), page, max(1, -(-len(files) // _FILES)))


def _confirm(config: Config, table: str, query: Query, found: list[HistoryEntry]) -> Confirm | None:
    """What is asked about, if something is: `?rollback=RUN` or `?release=1`."""
    current = next((one for one in found if one.current), None)
    if query.get("rollback"):
        run_id = query["rollback"]
        command = shlex.join(["lading", "rollback", table, "--run-id", run_id])
        after = "The table is then held: runs go on committing, and publish nothing until it is released."
    elif query.get("release"):
        if current is None or not current.held:
            raise NotFound(f"{table} is not held: there is nothing to release", hint="", table=table)
        run_id = newest_good(config, table).run_id
        command = shlex.join(["lading", "publish", table, "--release"])
        after = "The table is then no longer held: each run publishes what it commits."
    else:
        return None
    action: Literal["rollback", "release"] = "rollback" if query.get("rollback") else "release"
    target = next((one for one in found if one.run_id == run_id), None)
    words = [_sees("Readers now see", current), _sees("They will see", target, run_id)]
    now = current.run_id if current is not None else None
    moves = now is not None and now != run_id
    change = _difference(between(config, table, now, run_id), query) if moves and now is not None else None
    if change is not None:
        words.append(_gain(change.told["rows_after"] - change.told["rows_before"], change.files))
    return Confirm(action, run_id, command, [*words, "No data is changed.", after], change)


def _sees(who: str, one: HistoryEntry | None, run_id: str | None = None) -> str:
    if one is None:
        return f"{who} the snapshot of run {run_id}." if run_id else f"{who} nothing."
    rows = f", {count_words(one.rows, 'row')}" if one.rows is not None else ""
    return (
        f"{who} sequence {one.sequence}{rows}, published {one.at:%Y-%m-%d %H:%M:%S} UTC by run {one.run_id}."
    )


def _gain(rows: int, files: int) -> str:
    which = "more" if rows > 0 else "fewer"
    said = f"That is {count_words(abs(rows), 'row')} {which}" if rows else "That is as many rows"
    return f"{said}; the rows of {count_words(files, 'file')} differ."


def _moving(move: Callable[[Config, str, Query], Moved]) -> Callable[[Project, Query], Done]:
    def action(project: Project, fields: Query) -> Done:
        config = project.config()
        table = table_of(config, fields)
        moved = move(config, table, fields)
        held = " The table is held." if moved.now.held else ""
        said = f"Readers of {table} now see run {moved.now.run_id}, sequence {moved.now.sequence}.{held}"
        note = f" Note: {moved.note}." if moved.note is not None else ""
        return Done(moved.as_json(), said + note, link("history", table=table))

    return action


def _rolled_back(config: Config, table: str, fields: Query) -> Moved:
    if not fields.get("run_id"):
        raise ConfigError("a rollback needs run_id", hint="which run's snapshot shall readers see?")
    return roll_back(config, table, Wanted(run_id=fields["run_id"]))


def _released(config: Config, table: str, _fields: Query) -> Moved:
    return release_hold(config, table)


PAGE = Page(
    "history",
    "History",
    history,
    actions={"rollback": _moving(_rolled_back), "release": _moving(_released)},
)
