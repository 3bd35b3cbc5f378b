"""Quarantine: what a table has set aside, as `lading quarantine` lists and shows it, and replay."""

from __future__ import annotations

import ast
import json
import re
from itertools import islice
from typing import Any

import msgspec

from lading.config.project import Config
from lading.ingest.quarantine import list_aside, show_aside
from lading.log.table import Table
from lading.ui.page import Done, Page, PageValue, Query, command_line, number_of, table_of
from lading.ui.project import Project
from lading.ui.show import link

_FILES, _ROWS = 50, 50  # a page
_TEXT = 2_000  # characters of a row that are shown
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")  # a value, as reasons begin with it


class Marked(msgspec.Struct, frozen=True):
    """A row's text; `value` is the one to blame, if it can be told where that stands."""

    before: str
    value: str
    after: str


class QuarantinePage(PageValue, frozen=True, kw_only=True):
    table: str
    file: str | None  # whose rows are shown; None: of all files
    setting: str  # the table's `on_bad`
    quarantine: tuple[dict[str, Any], ...] = ()  # files, as `lading quarantine list TABLE --json` has them
    files: int = 0  # how many there are
    files_page: int = 1
    files_pages: int = 1
    rows_aside: int = 0  # of all of them
    rows: tuple[dict[str, Any], ...] = ()  # as `lading quarantine show TABLE --json` has them
    marked: tuple[Marked, ...] = ()  # of each row
    page: int = 1
    more: bool = False  # whether there are rows behind those


def quarantine(project: Project, query: Query) -> QuarantinePage:
    config = project.config()
    table = table_of(config, query)
    file = query.get("file") or None
    words = ["--file", file] if file else []
    page = QuarantinePage(
        command=command_line("lading", "quarantine", "show", table, *words),
        table=table,
        file=file,
        setting=config.table(table).on_bad,
        page=number_of(query, "page", 1, least=1, most=10_000),
        files_page=number_of(query, "files", 1, least=1),
    )
    return _filled(config, page) if Table.exists(config.place(table)) else page


def _filled(config: Config, page: QuarantinePage) -> QuarantinePage:
    aside = list_aside(config, page.table)
    if not aside:
        return page
    first, begin = (page.files_page - 1) * _FILES, (page.page - 1) * _ROWS
    found = show_aside(config, page.table, page.file, limit=begin + _ROWS + 1)
    rows = list(islice(found, begin, None))
    return msgspec.structs.replace(
        page,
        quarantine=tuple(one.as_json(page.table) for one in aside[first : first + _FILES]),
        files=len(aside),
        files_pages=max(1, -(-len(aside) // _FILES)),
        rows_aside=sum(one.rows for one in aside),
        rows=tuple(rows[:_ROWS]),
        marked=tuple(marked(row["text"] or "", row["reason"], row["column"]) for row in rows[:_ROWS]),
        more=len(rows) > _ROWS,
    )


def marked(text: str, reason: str, column: str | None = None) -> Marked:
    """The column's value in a row that is JSON; in any other, the value that the reason begins with, where
    the text has it once, or once by itself. Else nothing is marked."""
    shown = text[:_TEXT] + ("…" if len(text) > _TEXT else "")
    place = _place_in_json(shown, column) or _place_of_quoted(shown, reason)
    begin, end = place or (len(shown), len(shown))
    return Marked(shown[:begin], shown[begin:end], shown[end:])


def _place_in_json(text: str, column: str | None) -> tuple[int, int] | None:
    if column is None or not text.startswith("{"):
        return None
    found = list(re.finditer(rf"[{{,]\s*{re.escape(json.dumps(column, ensure_ascii=False))}\s*:\s*", text))
    if len(found) != 1:
        return None
    try:
        return found[0].end(), json.JSONDecoder().raw_decode(text, found[0].end())[1]
    except ValueError:
        return None  # it ends where the text is cut off


def _place_of_quoted(text: str, reason: str) -> tuple[int, int] | None:
    quoted = _QUOTED.match(reason)
    value = re.escape(ast.literal_eval(quoted[0])) if quoted is not None else ""
    if not value:
        return None
    anywhere = list(re.finditer(value, text))
    alone = [one for one in anywhere if not _goes_on(text, one)]
    found = anywhere if len(anywhere) == 1 else alone
    return found[0].span() if len(found) == 1 else None


def _goes_on(text: str, found: re.Match[str]) -> bool:
    """Whether it is a piece of a longer word or number."""
    begin, end = found.span()
    return text[begin - 1 : begin].isalnum() or text[end : end + 1].isalnum()


def replay(project: Project, fields: Query) -> Done:
    """A run that reads what was set aside again; it goes on when this returns."""
    config = project.config()
    table = table_of(config, fields)
    file = fields.get("file") or None
    project.live.start(config, [table], {"replay": (file,) if file else ()})
    command = command_line("lading", "quarantine", "replay", table, *(["--file", file] if file else []))
    return Done({"started": command}, f"Started: {command}", link("runs", table=table))


PAGE = Page("quarantine", "Quarantine", quarantine, actions={"replay": replay})
