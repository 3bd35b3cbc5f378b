"""Rows: a snapshot as `lading scan` gives it, some rows at a time, and from a row back to its line."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import msgspec
import pyarrow as pa

from lading.config.project import Config
from lading.errors import ConfigError, LadingError, NotFound, PredicateError
from lading.ingest.trace import Trace, since, trace
from lading.layout.table import SOURCE
from lading.model import SnapshotRef
from lading.read.browse import Leaf, Spot, browse, browse_sorted
from lading.read.scan import table_schema
from lading.read.text import plain_rows
from lading.snapshots.stores.by_url import store_of
from lading.state.members import MemberStore
from lading.ui.page import Page, PageValue, Query, command_line, number_of, table_of
from lading.ui.project import Project
from lading.ui.reading import Snapshot, reading, snapshots
from lading.where.of_row import of_row

_SHOWN = 50  # rows a page


class Column(msgspec.Struct, frozen=True):
    name: str
    type: str
    number: bool  # whether its values are right-aligned


class Traced(msgspec.Struct, frozen=True):
    """The row that was chosen, traced as `lading trace --json` has it."""

    row: int  # on this page, from 0
    told: Trace
    command: str
    since: str  # the run that brought this row in as it is
    before: str | None  # the run whose snapshot is without it, if there is one


class RowsPage(PageValue, frozen=True, kw_only=True):
    table: str
    snapshots: list[Snapshot]
    shown: Snapshot | None  # None: nothing was published yet
    ref: str | None  # that was asked for
    where: str
    sort: str
    descending: bool
    columns: tuple[Column, ...] = ()
    rows: tuple[dict[str, Any], ...] = ()  # as `lading scan --format jsonl` has them
    total: int = 0  # rows of the snapshot
    skip: int = 0  # rows on the pages before
    following: str | None = None  # where the next page begins
    at: str | None = None
    cut: bool = False  # whether the page ended before it was full
    whole: bool = True  # whether all matching rows were sorted
    files_total: int = 0
    files_scanned: int = 0
    traced: Traced | None = None
    problem: dict[str, Any] | None = None  # what is wrong with `where` or `sort`


def rows(project: Project, query: Query) -> RowsPage:
    config = project.config()
    table = table_of(config, query)
    listed = snapshots(config, table)
    asked = RowsPage(
        command=command_line("lading", "scan", table),
        table=table,
        snapshots=listed,
        shown=None,
        ref=query.get("ref") or None,
        where=(query.get("where") or "").strip(),
        sort=query.get("sort") or "",
        descending=query.get("down") == "1",
        at=query.get("at") or None,
        skip=number_of(query, "skip", 0),
    )
    if not listed:
        return asked
    with reading(config, table, asked.ref) as (seen, members):
        return _filled(config, asked, seen, members, query)


def _filled(
    config: Config, asked: RowsPage, seen: SnapshotRef, members: MemberStore, query: Query
) -> RowsPage:
    current = any(one.current and one.ref == seen.ref for one in asked.snapshots)
    told = msgspec.structs.replace(
        asked,
        command=_command(asked, _SHOWN + asked.skip),
        shown=Snapshot(seen.run_id, seen.ref, seen.published_at.isoformat(), current),
        columns=tuple(_column(one) for one in table_schema(members) if one.name != SOURCE),
        total=members.row_count(),
        files_total=members.count(),
    )
    try:
        leaf, whole = _leaf(asked, members)
    except (PredicateError, ConfigError, NotFound) as error:
        return msgspec.structs.replace(told, problem=error.as_json())
    row = query.get("row") or ""
    chosen = int(row) if row.isascii() and row.isdecimal() and len(row) < 6 else None
    traced = None
    if chosen is not None and chosen < leaf.rows.num_rows:
        traced = _traced(config, asked, seen, members, leaf.rows.slice(chosen, 1), chosen)
    following = leaf.following
    return msgspec.structs.replace(
        told,
        rows=tuple(one for batch in leaf.rows.to_batches() for one in plain_rows(batch)),
        following=None if following is None else f"{following.part}.{following.rows}",
        cut=leaf.cut,
        whole=whole,
        files_scanned=leaf.files_scanned,
        traced=traced,
    )


def _leaf(asked: RowsPage, members: MemberStore) -> tuple[Leaf, bool]:
    where = asked.where or None
    if asked.sort:
        return browse_sorted(
            members, where, asked.sort, descending=asked.descending, skip=asked.skip, limit=_SHOWN
        )
    return browse(members, where, _spot(asked.at), _SHOWN), True


def _spot(text: str | None) -> Spot:
    found = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,12})", text or "0.0")
    if found is None:
        raise ConfigError(f"at={text!r} is no place in a table", hint="begin with the first page")
    return Spot(int(found[1]), int(found[2]))


def _traced(
    config: Config, asked: RowsPage, seen: SnapshotRef, members: MemberStore, row: pa.Table, chosen: int
) -> Traced:
    def source_of(number: int) -> Any:
        found = members.source(number)
        return found[0] if found is not None else None

    [told] = trace(config, asked.table, row, source_of)
    command = ["lading", "trace", asked.table, "--where", of_row(row), *_ref(asked)]
    first, before = seen.run_id, None
    source = source_of(row.column(SOURCE)[0].as_py())
    if source is not None:
        with suppress(LadingError):  # its line is what was asked for, even if its history can't be told now
            first, before = since(store_of(config, asked.table), config.place(asked.table), seen, source)
    return Traced(chosen, told, command_line(*command), first, before)


def _column(field: pa.Field) -> Column:
    kind = field.type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return Column(field.name, str(kind), number)


def _command(asked: RowsPage, limit: int) -> str:
    where = ["--where", asked.where] if asked.where else []
    return command_line("lading", "scan", asked.table, *where, "--limit", str(limit), *_ref(asked))


def _ref(asked: RowsPage) -> list[str]:
    return ["--ref", asked.ref] if asked.ref else []


PAGE = Page("rows", "Rows", rows)
