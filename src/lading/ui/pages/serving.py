"""Serving: the shards of a table as `lading shards` lists them, and a key looked up as `lading get` does."""

from __future__ import annotations

from typing import Any

import msgspec

from lading.api import Reader, open_in
from lading.config.project import Config
from lading.errors import LadingError
from lading.read.text import row_json
from lading.serve.decode import shown_key, shown_value
from lading.serve.keys import Key
from lading.serve.routing import Router, shard_hash
from lading.snapshots.opening import build_meta
from lading.snapshots.stores.by_url import store_of
from lading.ui.page import Page, PageValue, Query, command_line, number_of, table_of
from lading.ui.project import Project
from lading.ui.reading import Snapshot, snapshots

_SHOWN = 100  # shards a page of the list
_BARS = 256  # of the picture
_CONTEXT = "context."  # what the query's names of a context begin with


class Bar(msgspec.Struct, frozen=True):
    """One shard in the picture, or the largest of some that lie beside each other."""

    first: int
    last: int
    keys: int
    height: float  # 0 to 1
    found: bool  # whether the key that was looked up belongs here


class Found(msgspec.Struct, frozen=True):
    """A key that was looked up; `told` is what `lading get --json` says."""

    command: str
    told: dict[str, Any]
    value: str | None  # as text
    routing: str  # how the shard was found
    shard: dict[str, Any] | None  # None: it is empty


class ServingPage(PageValue, frozen=True, kw_only=True):
    table: str
    shown: Snapshot | None
    served: bool = False
    serve: dict[str, Any] | None = None  # in figures, as `lading shards --json` has them
    shards: tuple[dict[str, Any], ...] = ()  # of this page
    page: int = 1
    pages: int = 1
    bars: tuple[Bar, ...] = ()
    key: str = ""
    # What routing needs beside the key, as it was given.
    context: dict[str, str] = msgspec.field(default_factory=dict)
    found: Found | None = None
    problem: dict[str, Any] | None = None  # why the key can't be looked up


def serving(project: Project, query: Query) -> ServingPage:
    config = project.config()
    table = table_of(config, query)
    page = ServingPage(
        command=command_line("lading", "shards", table),
        table=table,
        shown=None,
        key=query.get("key") or "",
        page=number_of(query, "page", 1, least=1),
    )
    current = next((one for one in snapshots(config, table) if one.current), None)
    if current is None:
        return page
    with open_in(config, table) as reader:
        return _filled(config, msgspec.structs.replace(page, shown=current), reader, query)


def _filled(config: Config, page: ServingPage, reader: Reader, query: Query) -> ServingPage:
    info = reader.info()
    if not info["served"]:
        return page
    names = info["serve"]["context"]
    context = {name: query.get(f"{_CONTEXT}{name}") or "" for name in names}
    found, problem = None, None
    if page.key:
        try:
            found = _found(config, page, reader, {name: text for name, text in context.items() if text})
        except LadingError as error:  # no key of this table, or a shard that can't be opened
            problem = error.as_json()
    shards = reader.shards()
    first = (page.page - 1) * _SHOWN
    return msgspec.structs.replace(
        page,
        served=True,
        serve=info["serve"],
        shards=tuple(one.as_json() for one in shards[first : first + _SHOWN]),
        pages=max(1, -(-len(shards) // _SHOWN)),
        bars=_bars({one.db_id: one.row_count for one in shards}, info["serve"]["num_dbs"], found),
        context=context,
        found=found,
        problem=problem,
    )


def _found(config: Config, page: ServingPage, reader: Reader, context: dict[str, str]) -> Found:
    key = reader.parse_key(page.key)
    beside = reader.parse_context(context) if context else None
    decode = reader.encoding() is not None
    value = reader.get(key, context=beside, decode=decode)
    number = reader.route(key, context=beside)
    told = {
        "key": shown_key(key),
        "found": value is not None,
        "value": shown_value(value),
        "shard": number,
        "run_id": reader.snapshot.run_id,
    }
    given = [word for name, text in context.items() for word in ("--context", f"{name}={text}")]
    meta = build_meta(store_of(config, page.table), reader.snapshot.ref)
    return Found(
        command_line("lading", "get", page.table, page.key, *given),
        msgspec.json.decode(row_json(told)),
        None if value is None else _text(shown_value(value)),
        _routing(Router.of_manifest(meta), key, beside, number),
        next((one.as_json() for one in reader.shards() if one.db_id == number), None),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else row_json(value).decode()


def _routing(router: Router, key: Key, context: dict[str, Any] | None, number: int) -> str:
    """In words a person can check."""
    if router.by_hash:
        code = shard_hash(router.key.canonical(key))
        return f"xxh3_64 of the key is {code}; modulo {router.num_dbs:,} that is {number}"
    said = ", ".join(f"{name} = {value!r}" for name, value in router.variables(key, context).items())
    tokens = router.sharding.routing_values
    token = f", the place of {tokens[number]!r} among the routing values" if tokens is not None else ""
    return f"{router.sharding.cel_expr} with {said} gives {number}{token}"


def _bars(keys: dict[int, int], count: int, found: Found | None) -> tuple[Bar, ...]:
    """At most so many: where there are more shards, each bar is the largest of its neighbours."""
    width = -(-count // _BARS)
    most = max(keys.values(), default=0) or 1
    sought = found.told["shard"] if found is not None else -1
    bars = []
    for first in range(0, count, width):
        last = min(first + width, count) - 1
        largest = max(keys.get(number, 0) for number in range(first, last + 1))
        bars.append(Bar(first, last, largest, round(largest / most, 4), first <= sought <= last))
    return tuple(bars)


PAGE = Page("serving", "Serving", serving)
