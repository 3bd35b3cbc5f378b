"""Plan: what a run would do with each file, and why, as `lading plan` tells it; and one file's story."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from lading.config.project import Config
from lading.explain import explain_key, explain_slot
from lading.ingest.plan import TablePlan
from lading.ingest.verdict import VERDICTS, FileVerdict
from lading.ui.page import Page, PageValue, Query, number_of, table_of
from lading.ui.project import Project

_SHOWN = 100  # files a page
WORK = "work"  # every verdict that a run does something about
ALL = "all"


class Story(msgspec.Struct, frozen=True):
    """What `lading explain` says of one file or slot."""

    key: str
    consequence: str
    told: dict[str, Any]  # as `lading explain --json` has it
    command: str


class PlanPage(PageValue, frozen=True, kw_only=True):
    plan: dict[str, Any]  # as `lading plan TABLE --json` has it, with the files of this page
    what: Literal["file", "slot"]
    inputs: list[str]  # tables that it is made of and that have work to do first
    stamp: str  # of the plan: `?plan=` shows more of the same one
    planned_at: str
    verdict: str  # which files are shown: a verdict, `work` or `all`
    search: str  # what is in their names or reasons
    matching: int  # how many there are of them
    page: int  # from 1
    pages: int
    story: Story | None


def plan(project: Project, query: Query) -> PlanPage:
    config = project.config()
    table = table_of(config, query)
    planned = project.plans.of(config, table, query)
    mine = planned.mine
    verdict, search = query.get("verdict") or WORK, (query.get("q") or "").strip()
    wanted = number_of(query, "page", 1, least=1)
    files, matching = _page_of(_matching(mine.files, verdict, search), wanted)
    key = query.get("file")
    return PlanPage(
        command=shlex.join(["lading", "plan", table]),
        plan=mine.as_json(files),
        what="slot" if config.table(table).derived is not None else "file",
        inputs=[one.table for one in planned.inputs if not one.idle],
        stamp=planned.stamp,
        planned_at=planned.at.isoformat(),
        verdict=verdict,
        search=search,
        matching=matching,
        page=wanted,
        pages=max(1, -(-matching // _SHOWN)),
        story=_story(config, mine, key) if key else None,
    )


def _matching(files: Iterable[FileVerdict], verdict: str, search: str) -> Iterator[FileVerdict]:
    wanted = {WORK: {*VERDICTS} - {"unchanged"}, ALL: {*VERDICTS}}.get(verdict, {verdict})
    sought = search.casefold()
    for one in files:
        if one.verdict in wanted and (
            not sought or sought in one.key.casefold() or sought in one.reason.casefold()
        ):
            yield one


def _page_of(files: Iterable[FileVerdict], page: int) -> tuple[list[FileVerdict], int]:
    """Those of that page, and how many there are on all of them."""
    first, shown, count = (page - 1) * _SHOWN, [], 0
    for count, one in enumerate(files, 1):
        if first < count <= first + _SHOWN:
            shown.append(one)
    return shown, count


def _story(config: Config, mine: TablePlan, key: str) -> Story:
    if config.table(mine.table).derived is not None:
        slot = explain_slot(config, mine.table, key)
        command = shlex.join(["lading", "explain", mine.table, slot.slot])
        return Story(slot.slot, slot.consequence, slot.as_json(), command)
    answer = explain_key(config, mine, key)
    return Story(
        answer.key, answer.consequence, answer.as_json(), shlex.join(["lading", "explain", answer.key])
    )


PAGE = Page("plan", "Plan", plan)
