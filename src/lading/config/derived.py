"""`from:` of a table that is made of other tables: its inputs, how they are cut, and the query.

Which table is made of which is settled here too, before anything runs: an input that isn't there and a table
that is made of itself are errors of lading.yaml.
"""

from __future__ import annotations

import difflib
import os
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lading.config.section import Section
from lading.config.sql import moment_in, with_quoted
from lading.config.stores import scheme_of
from lading.model import Place

SLOTS = 256
MOST_SLOTS = 65_536
BUCKET: Literal["bucket"] = "bucket"

INPUT_KEYS = ("by", "path")
# What a table has only because it is read from files.
FILE_KEYS = (
    "root", "path", "inside", "password_file", "preprocess", "format", "spec", "read_options",
    "columns_from_name", "fingerprint", "per", "drift", "columns", "types", "names",
)  # fmt: skip
QUERY_KEYS = ("sql", "slots")  # what only a table made of tables has, besides `from`

_QUERIES = ("select", "with", "from", "table", "values")
_WRITES = re.compile(r"\binsert\s+(?:into|overwrite)\b", re.IGNORECASE)
_FILES = re.compile(r"\b(csv|json|parquet|orc|text|avro|xml|binaryfile)\s*\.\s*`", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Input:
    """One table that another one is made of, as its query calls it."""

    name: str
    by: tuple[str, ...] = ()  # columns; empty: given whole, or cut by bucket
    by_bucket: bool = False
    path: str | None = None  # of a published table that is no table of this project: a folder or a URL
    line: int = field(default=0, compare=False)  # of lading.yaml, for messages

    @property
    def is_cut(self) -> bool:
        return bool(self.by) or self.by_bucket


@dataclass(frozen=True, slots=True)
class Derived:
    """How a table is made of tables."""

    inputs: tuple[Input, ...]
    sql: str | None = None  # Spark SQL; None: the table's `transform` is called with the inputs
    slots: int = SLOTS  # into which inputs with `by` columns are cut
    line: int = field(default=0, compare=False)  # of the query

    @property
    def cut(self) -> tuple[Input, ...]:
        return tuple(one for one in self.inputs if one.is_cut)

    @property
    def by_bucket(self) -> bool:
        return any(one.by_bucket for one in self.inputs)

    @property
    def tables(self) -> tuple[str, ...]:
        """Its inputs that are tables of the project."""
        return tuple(one.name for one in self.inputs if one.path is None)


def derived_of(section: Section) -> Derived | None:
    """What a table's section says of it; None for a table of files."""
    if "from" not in section.lines:
        for key in QUERY_KEYS:
            if key in section.lines:
                section.complain(key, "needs `from`: it is for tables made of other tables")
        return None
    for key in FILE_KEYS:
        if key in section.lines:
            section.complain(key, f"and `from` exclude each other: a table made of tables has no {key}")
    inputs = tuple(_inputs(section))
    queries = [key for key in ("sql", "transform") if key in section.lines]
    if not queries:
        section.complain("from", "needs one of `sql` and `transform`, which say what is made of the inputs")
    elif len(queries) == 2:
        section.complain("from", "takes `sql` or `transform`, not both")
    sql = section.checked("sql", _query_problem)
    _refuse_mixed(section, inputs)
    query = section.lines.get("sql") or section.lines.get("transform") or section.lines["from"]
    return Derived(inputs, sql, _slots(section, inputs), query.line)


def _inputs(section: Section) -> Iterable[Input]:
    given = section.section("from", None)
    if not given.lines and section.lines["from"].value in (None, {}):
        section.complain("from", "names no table; write from: {voyages: {by: port}}")
    known: dict[str, str] = {}
    for name, line in given.lines.items():
        like = known.setdefault(name.lower(), name)
        if like != name:
            given.complain(name, f"differs from {like} only in case, and Spark SQL ignores case")
            continue
        if not _NAME.fullmatch(name):
            given.complain(name, "an input's name must be letters, digits and '_': the query calls it so")
            continue
        one = given.section(name, INPUT_KEYS)
        by, by_bucket = _by(one)
        yield Input(name, by, by_bucket, one.checked("path", _path_problem), line.line)


def _by(section: Section) -> tuple[tuple[str, ...], bool]:
    line = section.lines.get("by")
    if line is None or line.value is None:
        return (), False
    if isinstance(line.value, list):
        names = [one.text for one in line.value]
        if names and all(isinstance(one.value, str) for one in line.value):
            if len(set(names)) != len(names):
                section.complain("by", "names a column twice")
            return tuple(str(name) for name in names), False
        section.complain("by", "must be a column, a list of columns, or bucket")
        return (), False
    text = section.text("by")
    if text == BUCKET:
        return (), True
    return ((text,) if text else ()), False


def _query_problem(text: str) -> str | None:
    """Why this is no query. Whether Spark understands it shows when it is asked; by then it must do nothing
    but read, and only what is named in `from`."""
    plain = with_quoted(text, lambda _: "''")
    first = re.match(r"[\s(]*(\w*)", plain)
    if not plain.strip():
        return "is empty; write a query"
    if first is None or first[1].lower() not in _QUERIES or _WRITES.search(plain):
        return "is no query; begin with select or with"
    files = _FILES.search(text)
    if files is not None:
        return f"reads files by {files[1]}.`…`; make them a table, and name it in `from`"
    moment = moment_in(with_quoted(text, str))
    return f"uses {moment}, so each evaluation would differ; compute it from columns" if moment else None


def _path_problem(text: str) -> str | None:
    return None if text.strip("/ ") else "is empty; give the folder or URL of a published table"


def _slots(section: Section, inputs: Sequence[Input]) -> int:
    line = section.lines.get("slots")
    if not any(one.by for one in inputs):
        if line is not None:
            section.complain("slots", "needs an input with `by` columns, which are cut into slots")
        return 1
    if line is None:
        return SLOTS
    number = line.value
    if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= MOST_SLOTS:
        return number
    section.complain("slots", f"must be a number from 1 to {MOST_SLOTS:,}")
    return SLOTS


def _refuse_mixed(section: Section, inputs: Sequence[Input]) -> None:
    """All inputs that are cut have to be cut alike, or a slot of one would not be a slot of the other."""
    cut = [one for one in inputs if one.is_cut]
    for one in cut[1:]:
        if one.by_bucket != cut[0].by_bucket:
            section.complain(
                "from", f"{cut[0].name} and {one.name} are cut differently: by columns, or both by bucket"
            )
        elif len(one.by) != len(cut[0].by):
            section.complain(
                "from",
                f"{cut[0].name} is cut by {len(cut[0].by)} columns and {one.name} by {len(one.by)}: "
                "rows that belong together would be in different slots",
            )


def check_graph(
    tables: Mapping[str, Derived | None], section: Section, project: Path, warehouse: Place
) -> None:
    """Complains about inputs that aren't there, and about tables that are made of themselves."""
    _refuse_own_paths(tables, section, project, warehouse)
    for name, derived in tables.items():
        if derived is None:
            continue
        given = section.section(name, None).section("from", None)
        for one in derived.inputs:
            if one.path is None and one.name not in tables:
                near = difflib.get_close_matches(one.name, tables, n=1)
                more = f"did you mean {near[0]!r}?" if near else f"the tables are: {', '.join(tables)}"
                given.complain(one.name, f"there is no such table; {more}")
    for name, derived in tables.items():
        cycle = _cycle(name, tables) if derived is not None else None
        if cycle is not None and min(cycle) == name:  # each is told once
            given = section.section(name, None).section("from", None)
            given.complain(cycle[1], f"is made of itself: {' → '.join(cycle)}")


def _refuse_own_paths(
    tables: Mapping[str, Derived | None], section: Section, project: Path, warehouse: Place
) -> None:
    """A table of the project that is named by its path would be missed in the order, and in a cycle."""
    made = [(name, derived) for name, derived in tables.items() if derived is not None]
    by_path = [(name, one.name, one.path) for name, of in made for one in of.inputs if one.path is not None]
    lying = {_lies_at(project, warehouse.below(name).url): name for name in tables if by_path}
    for name, input_name, path in by_path:
        own = lying.get(_lies_at(project, path))
        if own is not None:
            at = section.section(name, None).section("from", None).section(input_name, None)
            at.complain("path", f"is {own}, a table of this project: name it without `path`")


def _lies_at(project: Path, path: str) -> str:
    """A folder or URL, in one spelling."""
    if not scheme_of(path):
        return os.path.realpath(project / path)
    scheme, _, rest = path.partition("://")
    return f"{scheme.lower()}://{posixpath.normpath(rest)}"


def _cycle(name: str, tables: Mapping[str, Derived | None]) -> list[str] | None:
    """The way from a table through its inputs back to it; None if there is none."""
    ways = [[name]]
    seen = set()
    while ways:
        way = ways.pop()
        derived = tables.get(way[-1])
        for one in derived.tables if derived is not None else ():
            if one == name:
                return [*way, one]
            if one not in seen:
                seen.add(one)
                ways.append([*way, one])
    return None


def in_order(tables: Mapping[str, Derived | None], names: Iterable[str], *, only: bool = False) -> list[str]:
    """`names` and what they are made of (`only`: not that), inputs first; else in the order given."""
    wanted = list(names)
    found: dict[str, None] = {}

    def add(name: str) -> None:
        if name in found:
            return
        derived = tables.get(name)
        for one in derived.tables if derived is not None else ():
            add(one)
        found[name] = None

    for name in wanted:
        add(name)
    return [name for name in found if not only or name in wanted]
