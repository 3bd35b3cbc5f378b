"""Runs: what was done to a table, as `lading runs` lists it; one run with phases and log; a new one."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from lading.config.project import Config
from lading.errors import NotFound
from lading.layout.project import RUN_LOG
from lading.signals.read_log import Line, newest, of_run, phases_in
from lading.snapshots.runs import Registered, newest_runs, run_named
from lading.ui.page import Done, Page, PageValue, Query, number_of, table_of
from lading.ui.project import Project
from lading.ui.show import link

_SHOWN = 50  # runs a page
_LINES = 30  # of the log


class RunError(msgspec.Struct, frozen=True):
    """What went wrong, in the words of the record."""

    kind: str
    message: str
    hint: str


class Phase(msgspec.Struct, frozen=True):
    name: str
    seconds: float
    share: float  # of the whole run


class RunStory(msgspec.Struct, frozen=True):
    """One run, from its record and the project's log."""

    record: dict[str, Any]
    phases: list[Phase]
    report: dict[str, Any] | None  # what it did to the table, as `lading run --json` has it
    error: RunError | None
    lines: list[Line]  # of the log


class RunsPage(PageValue, frozen=True, kw_only=True):
    table: str
    runs: list[dict[str, Any]]  # as `lading runs TABLE --json` has them
    total: int
    page: int  # from 1
    pages: int
    run: RunStory | None
    log: list[Line]  # the newest lines
    at_work: bool  # whether a run that was started from the page is


def runs(project: Project, query: Query) -> RunsPage:
    config = project.config()
    table = table_of(config, query)
    page = number_of(query, "page", 1, least=1)
    found, total = newest_runs(config.place(table), _SHOWN, (page - 1) * _SHOWN)
    run_id = query.get("run")
    return RunsPage(
        command=shlex.join(["lading", "runs", table]),
        table=table,
        runs=[one.record.as_json() for one in found],
        total=total,
        page=page,
        pages=max(1, -(-total // _SHOWN)),
        run=_story(config, table, _named(config, table, run_id)) if run_id else None,
        log=newest(config.project / RUN_LOG, _LINES),
        at_work=project.live.is_running,
    )


def _named(config: Config, table: str, run_id: str) -> Registered:
    one = run_named(config.place(table), run_id)
    if one is None:
        raise NotFound(
            f"{table} has no run {run_id!r}", hint=f"`lading runs {table}` lists them", table=table
        )
    return one


def _story(config: Config, table: str, one: Registered) -> RunStory:
    record, started = one.record, one.started_at
    path = config.project / RUN_LOG
    lines = of_run(path, record.pid, record.run_id, started, one.finished_at) if started else []
    took = phases_in(lines, table)
    whole = sum(took.values()) or 1.0
    return RunStory(
        record=record.as_json(),
        phases=[Phase(name, seconds, seconds / whole) for name, seconds in took.items()],
        report=_report(lines, record.run_id, table),
        error=_error(record.error) if record.error is not None else None,
        lines=[line for line in lines if line.get("table") in (table, None)][-200:],
    )


def _report(lines: list[Line], run_id: str, table: str) -> dict[str, Any] | None:
    for line in lines:
        if line.get("run_id") == run_id:
            told = line.get("tables") or [line]
            return next((one for one in told if isinstance(one, dict) and one.get("table") == table), None)
    return None


def _error(text: str) -> RunError:
    """A record has `Kind: what happened`, and the hint on a line of its own."""
    said, _, hint = text.partition("\n  hint: ")
    kind, _, message = said.partition(": ")
    return (
        RunError(kind, message, hint) if kind.isidentifier() and message else RunError("Failed", said, hint)
    )


def start(project: Project, fields: Query) -> Done:
    """A run, as `lading run` makes it; it goes on when this returns."""
    config = project.config()
    table = config.table(fields["table"]).name if fields.get("table") else None
    asked = {name: True for name in ("full", "allow_vanish") if fields.get(name)}
    project.live.start(config, [table] if table is not None else [], asked)
    options = [f"--{name.replace('_', '-')}" for name in asked]
    command = shlex.join(["lading", "run", *([table] if table is not None else []), *options])
    return Done({"started": command}, f"Started: {command}", link("runs", table=table))


PAGE = Page("runs", "Runs", runs, actions={"start": start})
