"""Parts under a later schema than they were written under: a reader sees what reading the files again would
give, and pruning never loses a row, whatever the columns were in between.

The oracle keeps each file as texts and reads them with Python, by the column's type of now; it shares no code
with the product. Which files are read again it decides as a run does: those whose stored values can't be
converted (`lossless`), or that a new column has values in.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from support.aging import Aging

from lading.formats.arrow_types import arrow_type
from lading.log import table as log
from lading.parts.schema import lossless
from lading.read.scan import scan
from lading.state import edit
from lading.state.members import MemberStore
from lading.state.memberset import MemberSet

# Texts by kind; those of a pair's second list are not as lading writes such a value.
POOLS: dict[str, tuple[list[str], list[str]]] = {
    "bigint": (["0", "5", "9", "10", "-3", "123456789012345"], ["05", "007"]),
    "long": (["5", "9007199254740993"], []),
    "double": (["0.1", "5", "12.25", "-0.5", "12345678901.25"], ["5.0", "1e1", ".5"]),
    "boolean": (["true", "false"], ["True"]),
    "date": (["2024-01-02", "1969-12-31", "2024-02-01"], []),
    "timestamp_ntz": (["2024-01-02 03:04:05", "2024-01-02"], []),
    "string": (["a", "10x", "zz"], []),
}
TYPES = ["bigint", "int", "double", "boolean", "date", "timestamp_ntz", "string"]


def read(text: str | None, type: str) -> Any:
    """What a file's text is in a column of this type; ValueError if it is none of it."""
    if text is None or type == "string":
        return text
    if type in ("bigint", "int"):
        if not re.fullmatch(r"-?[0-9]+", text) or (type == "int" and abs(int(text)) >= 2**31):
            raise ValueError(text)
        return int(text)
    if type == "double":
        if len(re.sub(r"\D", "", text)) > 15:
            raise ValueError(text)
        return float(text)
    if type == "boolean":
        return {"true": True, "false": False}[text.lower()]
    if type == "date":
        return date.fromisoformat(text)
    return datetime.fromisoformat(text)


@dataclass
class File:
    texts: list[str | None]
    plain: bool


@dataclass
class Model:
    """The table as its files are, beside the table itself."""

    table: Aging
    kind: str | None = None  # of the column x; None: it isn't there
    files: dict[int, File] = field(default_factory=dict)

    def rows(self) -> list[dict[str, Any]]:
        found = []
        for number, file in self.files.items():
            for at, text in enumerate(file.texts):
                row = {"k": number * 10 + at, "_source": number}
                found.append(row if self.kind is None else row | {"x": read(text, self.kind)})
        return found

    def fits(self, kind: str) -> bool:
        try:
            return all(read(text, kind) is text or True for f in self.files.values() for text in f.texts)
        except (ValueError, KeyError):
            return False

    def write(self, numbers: list[int]) -> list[Any]:
        """The rows of these files in one part."""
        if not numbers:
            return []
        pairs = [(number, text) for number in numbers for text in self.files[number].texts]
        keys = [number * 10 + at for number in numbers for at in range(len(self.files[number].texts))]
        values = {} if self.kind is None else {"x": [read(text, self.kind) for _, text in pairs]}
        return [self.table.part([number for number, _ in pairs], keys, **values)]

    def add(self, *files: File) -> None:
        """What the type of now has no room for makes it text."""
        first = len(self.files) + 1
        fresh = {first + at: file for at, file in enumerate(files)}
        before, self.files = self.files, self.files | fresh
        if self.kind is not None and not self.fits(self.kind):
            self.files = before
            self.turn("string")
            self.files = before | fresh
        self.table.add(*self.write(list(fresh)))

    def turn(self, kind: str | None) -> None:
        """Another type, or no such column at all."""
        again = [] if kind is None else [n for n, file in self.files.items() if not self._keeps(file, kind)]
        holding = self.table.table.state.members_of(again)
        minus = [(one.path, [n for n in again if one.counts_any(frozenset([n]))]) for one in holding]
        self.kind = kind
        self.table.schema = schema(kind)
        self.table.turn(*self.write(again), minus=minus, **columns(kind))

    def _keeps(self, file: File, kind: str) -> bool:
        if not any(file.texts):
            return True
        return self.kind is not None and lossless(self.kind, kind, plain=file.plain)


def columns(kind: str | None) -> dict[str, pa.DataType]:
    return {} if kind is None else {"x": arrow_type(kind)}


def schema(kind: str | None) -> pa.Schema:
    return pa.schema([("k", pa.int64()), *columns(kind).items(), ("_source", pa.int64())])


@st.composite
def files(draw: st.DrawFn, kinds: list[str]) -> File:
    good, odd = POOLS[draw(st.sampled_from(kinds))]
    plain = not odd or draw(st.booleans()) or draw(st.booleans())
    texts = draw(st.lists(st.sampled_from(good if plain else good + odd) | st.none(), min_size=1, max_size=4))
    return File(texts, plain)


# Kinds of files that make types come and go together.
FAMILIES = [
    ["bigint", "double"],
    ["bigint", "string"],
    # Most often: whose bounds are both whole numbers, so that nothing but the schema tells them apart.
    *[["date", "timestamp_ntz"]] * 4,
    ["date", "string"],
    ["boolean", "string"],
    ["bigint", "long", "double"],
    list(POOLS),
]


@st.composite
def histories(draw: st.DrawFn) -> tuple[str, list[tuple[str, Any]]]:
    """A first type and what happens then; `turn` counts through the types that are possible by then."""
    family = draw(st.sampled_from(FAMILIES))
    steps = st.one_of(
        st.tuples(st.just("add"), st.lists(files(family), min_size=1, max_size=3)),
        st.tuples(st.just("turn"), st.integers(0, 11)),
        st.tuples(st.just("turn"), st.integers(0, 11)),
        st.tuples(st.sampled_from(["checkpoint", "checkpoint", "merge", "reopen"]), st.none()),
    )
    first = [("add", [draw(files(family[:1]))])]
    return family[0].replace("long", "bigint"), first + draw(st.lists(steps, min_size=2, max_size=9))


LITERALS = {
    "bigint": ["5", "10", "9.5", "123456789012345"],
    "int": ["5", "10", "9.5", "123456789012345"],
    "double": ["5", "0.1", "12.25", "-1"],
    "boolean": ["true", "false"],
    "date": ["'2024-01-02'", "'1970-01-01'"],
    "timestamp_ntz": ["'2024-01-02'", "'2024-01-02 03:04:05'", "'1969-12-31 12:00'"],
    "string": ["'5'", "'10'", "'a'", "'2024-01-02'", "'true'", "''"],
}
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def questions(kind: str) -> Iterator[tuple[str, Callable[[Any], bool]]]:
    """Predicates, and what they are of a value, told by Python."""
    yield "x is null", lambda x: x is None
    yield "x is not null", lambda x: x is not None
    for literal in LITERALS[kind]:
        value = meaning(literal, kind)
        for op, holds in OPERATORS.items():
            yield f"x {op} {literal}", lambda x, h=holds, v=value: x is not None and h(comparable(x), v)
            yield (
                f"not x {op} {literal}",
                lambda x, h=holds, v=value: x is not None and not h(comparable(x), v),
            )
        yield f"x in ({literal})", lambda x, v=value: x is not None and comparable(x) == v
    if kind == "string":
        yield "x like '1%'", lambda x: x is not None and x.startswith("1")


def meaning(literal: str, kind: str) -> Any:
    bare = literal.strip("'")
    if kind == "string":
        return bare
    if kind == "boolean":
        return bare == "true"
    return datetime.fromisoformat(bare) if kind in ("date", "timestamp_ntz") else float(bare)


def comparable(value: Any) -> Any:
    return datetime(value.year, value.month, value.day) if type(value) is date else value


def by_key(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["k"])


def check(model: Model, members: MemberSet, some: int = 0) -> None:
    """All rows, and those that predicates find: one of seven of them, from the `some`th on."""
    expected = by_key(model.rows())
    found = by_key(scan(members).to_table().to_pylist())
    assert [{**row} for row in found] == expected
    assert [type(row.get("x")) for row in found] == [type(row.get("x")) for row in expected]
    if model.kind is None:
        return
    for where, holds in list(questions(model.kind))[some % 7 :: 7]:
        kept = [row["k"] for row in expected if holds(row["x"])]
        assert sorted(scan(members, where=where).to_table()["k"].to_pylist()) == kept, where


def snapshot_of(model: Model) -> MemberStore:
    con = sqlite3.connect(":memory:", isolation_level=None)
    state = model.table.table.state
    state.settled().write_root(con, state.meta)
    return MemberStore(con, state.root)


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    """Several pages of members, and an overlay after a few commits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edit, "PAGE", 2)
        patch.setattr(log, "OVERLAY_EVERY", 3)
        yield


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(histories())
def test_whatever_the_columns_were_every_row_is_what_its_file_says(
    tmp_path_factory: pytest.TempPathFactory, history: tuple[str, list[tuple[str, Any]]]
) -> None:
    kind, steps = history
    model = Model(Aging(tmp_path_factory.mktemp("aging"), **columns(kind)), kind)
    turns = 0
    for number, (step, what) in enumerate(steps):
        if step == "add":
            model.add(*what)
        elif step == "turn":
            possible = [one for one in TYPES if one != model.kind and model.fits(one)]
            model.turn([*possible, *possible, None][what % (2 * len(possible) + 1)])
            turns += 1
        elif step == "checkpoint":
            model.table.table.checkpoint()
        elif step == "merge" and model.table.table.state.count():
            model.table.merge()
        elif step == "reopen":
            model.table.table = model.table.opened()
        if step != "add":
            check(model, model.table.table.state, number)
    event(f"{min(turns, 3)} changes of type or more")
    snapshot = snapshot_of(model)
    for number in range(7):
        check(model, snapshot, number)
    check(model, model.table.opened().state, len(steps))
