"""Members in pages: what a summary rules out no member of the page could have been, and every question to a
state of many pages has the answer that looking at each member has."""

from __future__ import annotations

import gc
import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.log.state import TableState
from lading.model import Commit, Member, Place, Zone
from lading.state import edit, tables
from lading.state.key_index import KeyIndex, may_hold
from lading.state.loaded import MemberPage
from lading.state.log_frames import LogHeader
from lading.state.members import MemberStore, zone_loader
from lading.state.summary import summary_of
from lading.state.tables import StateMeta
from lading.storage.place import place_of
from lading.where.bind import bind, parse
from lading.where.prune import may_match
from lading.zones.vector import pack

PAGE = 500  # here: so that few members make several


@pytest.fixture(autouse=True, scope="module")
def small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edit, "PAGE", PAGE)
        patch.setattr(tables, "INLINE", 10_000)
        yield


WHERE = [
    "x = 5", "x != 5", "x < 3", "x >= 7", "x is null", "x is not null", "not x = 5", "x in (1, 9)",
    "x between 2 and 4 and not x = 3", "not (x < 3 or x is null)",
]  # fmt: skip
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int64(), st.integers(0, 9)),
    "float": (pa.float64(), st.integers(0, 9).map(float)),
    "text": (pa.string(), st.integers(0, 9).map(str)),
    "bytes": (pa.binary(), st.integers(0, 9).map(lambda n: b"%d" % n)),
}
LITERALS = {"text": "'{}'", "bytes": "x'3{}'"}


def literal(where: str, kind: str) -> str:
    form = LITERALS.get(kind, "{}")
    return "".join(form.format(c) if c.isdigit() else c for c in where)


@st.composite
def zones(draw: st.DrawFn, bounds: st.SearchStrategy[Any]) -> tuple[Zone | None, int]:
    """A member's zone and its rows."""
    rows = draw(st.integers(0, 4))
    if draw(st.booleans()) and draw(st.booleans()):
        return None, rows
    low, high = sorted([draw(bounds), draw(bounds)])
    nulls = draw(st.one_of(st.none(), st.integers(0, rows)))
    if nulls == rows:
        return Zone(None, None, rows), rows
    return Zone(
        draw(st.sampled_from([low, low, low, None])), draw(st.sampled_from([high, high, None])), nulls
    ), rows


@pytest.mark.parametrize("kind", TYPES)
def test_a_page_is_ruled_out_only_if_all_of_its_members_are(kind: str) -> None:
    type, bounds = TYPES[kind]
    schema = pa.schema([("x", type)])

    @settings(max_examples=150, deadline=None)
    @given(st.lists(zones(bounds), min_size=1, max_size=10), st.sampled_from(WHERE))
    def check(members: list[tuple[Zone | None, int]], text: str) -> None:
        where = bind(parse(literal(text, kind)), schema)
        vector = pack([zone for zone, _ in members])
        rows = np.array([count for _, count in members], np.int64)
        heads = pack([summary_of(vector, rows)])
        if may_match(where, lambda column: vector, rows).any():
            assert may_match(where, lambda column: heads, np.array([rows.sum()])).all()

    check()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.tuples(st.integers(0, 30), st.integers(0, 30))), max_size=12),
    st.integers(-1, 31),
)
def test_a_key_is_looked_for_where_it_may_be_and_nowhere_else(ranges: list[Any], key: int) -> None:
    members = [
        Member(f"m{n}", 1, 1, 0, 0, 0, *(sorted(one) if one else (None, None)), "2024", {})
        for n, one in enumerate(ranges)
    ]
    found = KeyIndex(members).holding(key)
    assert sorted(m.path for m in found) == sorted(m.path for m in members if may_hold(m, key))


def test_keys_of_several_types_rule_nothing_out() -> None:
    members = [
        Member("a", 1, 1, 0, 0, 0, 1, 5, "2024", {}),
        Member("b", 1, 1, 0, 0, 0, "x", "y", "2024", {}),
    ]
    assert {m.path for m in KeyIndex(members).holding(3)} == {"a", "b"}
    assert {m.path for m in KeyIndex(members[1:]).holding(3)} == {"b"}


def made(number: int, key: Any) -> Member:
    chance = random.Random(number)
    low = key(number * 3)
    high = key(number * 3 + chance.choice([0, 1, 2, 2, 40]))
    keyed = number % 97 != 0
    rare = int(number % 5 == 0 and not PAGE - 400 < number < 2 * PAGE + 400)  # not in the second page
    found = {
        "key": Zone(low, high, 0),
        "x": Zone(number % 10, number % 10 + chance.randrange(3), chance.randrange(2)),
        "y": Zone(rare, rare, 0),
    }
    if number % 50 == 0:
        del found["x"]
    sources = ((number, 2), (-number - 1, 1))
    minus = (number,) if number % 500 == 3 else ()
    ends = (low, high) if keyed else (None, None)
    return Member(f"p/{number}", 3, 10, 0, 0, 0, *ends, "2024", found, sources, number % 3, minus)


@pytest.fixture(scope="module", params=["int", "text"])
def many(request: Any, tmp_path_factory: Any) -> tuple[list[Member], MemberStore, Any]:
    """Three pages."""
    key = (lambda n: n) if request.param == "int" else (lambda n: f"k{n:08}")
    members = [made(number, key) for number in range(3 * PAGE + 100)]
    random.Random(1).shuffle(members)
    state = state_of(members, place_of(tmp_path_factory.mktemp("t")))
    store = state.settled()
    con = sqlite3.connect(":memory:", isolation_level=None)
    store.save().write_root(con, state.meta)
    found = MemberStore(con, state.root)
    assert len(found.pages()) == 3 and not found.unsaved()
    return members, found, key


def state_of(members: list[Member], place: Place) -> TableState:
    state = TableState(place, StateMeta.before_the_first_commit(LogHeader(1, "t", "", "", "", 0)))
    state.apply([Commit("c", "r", "2024", "", add=tuple(members), sequence=1)])
    return state


def test_who_asks_for_paths_often_gets_the_same_answers_whatever_the_number_of_pages(
    many: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    members, store, _ = many
    asked = MemberStore(store._root, store.root)
    paths = [one.path for one in members[::7]] + [f"q/{number}" for number in range(200)]
    assert [asked.contains(path) for path in paths] == [path.startswith("p/") for path in paths]
    looks = []
    monkeypatch.setattr(MemberPage, "maybe_at", lambda self, wanted: looks.append(wanted) or iter(()))
    assert not any(asked.contains(f"r/{number}") for number in range(1_000))
    assert looks == []


@pytest.mark.parametrize(
    "where",
    [
        "key = 4",
        "key = 3000 and x = 6",
        "x = 11",
        "not x < 9",
        "key > 4000 or x is null",
        "y = 1",
        "y = 1 and x = 6",
    ],
)
def test_pruning_many_pages_equals_looking_at_every_member(many: Any, where: str) -> None:
    members, store, key = many
    type = pa.int64() if key(1) == 1 else pa.string()
    if type == pa.string():
        where = "key > 'k00004000' or x is null" if ">" in where else where
        for number in ("4", "3000"):
            where = where.replace(f"key = {number}", f"key = 'k{int(number):08}'")
    bound = bind(parse(where), pa.schema([("key", type), ("x", pa.int64()), ("y", pa.int64())]))
    rows = np.array([member.rows for member in members], np.int64)
    wanted = {
        m.path for m, kept in zip(members, may_match(bound, zone_loader(members), rows), strict=True) if kept
    }
    found = [member.path for member in store.candidates(bound)]
    assert len(found) == len(set(found)) and set(found) == wanted


def test_a_key_is_found_in_every_page_and_across_their_edges(many: Any) -> None:
    members, store, key = many
    ranged = sorted(m.key_min for m in members if m.key_min is not None)
    edges = [ranged[n] for n in (0, PAGE - 130, PAGE - 1, PAGE, 2 * PAGE, 3 * PAGE - 200, len(ranged) - 1)]
    for wanted in [*edges, key(-5), key(10**7), key(1), key(3 * PAGE * 3 + 41)]:
        found = [member.path for member in store.holding(wanted)]
        assert sorted(found) == sorted(m.path for m in members if may_hold(m, wanted)), wanted


def test_a_member_is_found_by_path_with_all_that_it_has(many: Any) -> None:
    members, store, _ = many
    for member in random.Random(2).sample(members, 60):
        found = store.by_path(member.path)
        assert found is not None and found[0] == member
        assert members[found[1]] == member, "the serial is the order they were added in"
    assert store.by_path("p/none") is None and not store.contains("")


def test_counts_and_lists_of_many_pages_add_up(many: Any) -> None:
    members, store, _ = many
    assert store.count() == len(members) == len(store.members(None))
    assert store.row_count() == int(store.live_rows.sum()) == sum(member.live_rows for member in members)
    assert [m.path for m in store.members_of([700])] == ["p/700"]
    assert [m.path for m in store.members_of([-701])] == ["p/700"]
    some = np.arange(100, 3 * PAGE, 2)
    assert [m.path for m in store.members(some)] == [
        store.members(np.array([n]))[0].path for n in some.tolist()
    ]
    store.check()


def test_a_state_that_is_closed_has_no_file_open(tmp_path: Path) -> None:
    """Not only once the garbage collector comes by: thousands of tables may be opened before it does."""
    state = state_of([made(number, lambda n: n) for number in range(3 * PAGE)], place_of(tmp_path))
    con = sqlite3.connect(":memory:", isolation_level=None)
    state.settled().save().write_root(con, state.meta)
    gc.disable()
    try:
        store = MemberStore(con, state.root)
        assert store.contains("p/7") and open_below(tmp_path)
        store.close()
        assert not open_below(tmp_path)
    finally:
        gc.enable()


def open_below(folder: Path) -> list[str]:
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one of the listing itself
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [path for path in found if path.startswith(str(folder))]
