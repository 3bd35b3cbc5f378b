"""Pages under random edits: they hold what a plain list would, their sizes stay in bounds, pages that an edit
doesn't touch keep their names, and equal entries make equal pages however they got there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lading.log.table import Table
from lading.model import Commit, Looked, Member, Source, Zone
from lading.state import edit, tables
from lading.state.edit import PAGE as USUAL
from lading.state.member_columns import MemberColumns
from lading.state.members import MemberStore

SMALL = 8


@pytest.fixture(autouse=True, scope="module")
def small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edit, "PAGE", SMALL)
        patch.setattr(tables, "INLINE", 0)
        yield


def member(number: int, draw: random.Random) -> Member:
    low = draw.choice([draw.randrange(40), draw.randrange(40), None])
    zones = {"x": Zone(draw.randrange(9), 9, 0), "t": Zone(f"a{number % 3}", f"z{number}", None)}
    if number % 4 == 0:
        del zones["t"]
    ends = (None, None) if low is None else (low, low + draw.randrange(5))
    sources = tuple((source, 1) for source in range(draw.randrange(3)))
    return Member(f"m{number}", 3, 9, number % 2, 0, 0, *ends, "2024", zones, sources)


def commit(**edits: Any) -> Commit:
    return Commit("c", "r", "2024", "recipe", **edits)


def source(number: int, version: int) -> Source:
    return Source(number, f"k{number:03}.csv", f"h{version}", "s", 1, 1, 1, False, "2024")


def check_sizes(store: MemberStore) -> None:
    for kind in ("members", "sources", "evidence"):
        sizes = [ref.entries for ref in store.pages(kind)]
        assert all(size <= 2 * SMALL for size in sizes)
        assert len(sizes) < 2 or all(size >= SMALL // 4 for size in sizes), sizes


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(1, 12))
def test_pages_hold_what_a_plain_list_would(
    tmp_path_factory: pytest.TempPathFactory, seed: int, steps: int
) -> None:
    draw = random.Random(seed)
    table = Table.create(tmp_path_factory.mktemp("t") / "t", "t")
    members: dict[str, Member] = {}
    sources: dict[int, Source] = {}
    looked: dict[int, Looked] = {}
    number = 0
    for step in range(steps):
        coming = [member(number + at, draw) for at in range(draw.choice([0, 1, 3, 40]))]
        number += len(coming)
        leaving = draw.sample(sorted(members), min(len(members), draw.choice([0, 1, 5, 60])))
        read = [source(one, step) for one in draw.sample(range(100), draw.choice([0, 1, 30]))]
        known = {one.id for one in read}
        gone = [one for one in draw.sample(sorted(sources), len(sources) // 3) if one not in known]
        found = [Looked(one, step, b"e%d" % step) for one in known]
        table.commit(
            commit(
                add=tuple(coming),
                remove=tuple(leaving),
                sources=tuple(read),
                gone=tuple(gone),
                evidence=tuple(found),
            )
        )
        for path in leaving:
            del members[path]
        members |= {one.path: one for one in coming}
        for one in gone:
            sources.pop(one)
            looked.pop(one, None)
        sources |= {one.id: one for one in read}
        looked |= {one.source: one for one in found}
        if draw.random() < 0.6:
            table.checkpoint()
        store = table.state.settled()
        check_sizes(store)
        told = [one for page in store.pages() for one in store.members_in(page)]
        assert sorted(told, key=lambda one: one.path) == sorted(members.values(), key=lambda one: one.path)
        keys = [(one.key_min is not None, one.key_min or 0, one.path) for one in told]
        assert keys == sorted(keys)
        assert [one for one, _ in store.sources_by_key()] == sorted(sources.values(), key=lambda one: one.key)
        assert store.evidence() == [looked[one] for one in sorted(looked)]
        assert table.state.source_count() == len(sources)
        assert table.state.row_count() == 3 * len(members)
    table.checkpoint()
    again = Table.open(table.folder)
    assert again.state.base is not None
    again.state.base.check()
    for ref in again.state.base.pages():
        # As if its members had been written there at once.
        page = again.state.base.member_page(ref)
        serials = [row[0] for row in page.rows()]
        whole = again.state.base.members_in(ref)
        assert MemberColumns.of(list(zip(serials, whole, strict=True))).made().ref == ref


def test_pages_that_an_edit_does_not_touch_are_shared(tmp_path: Path) -> None:
    draw = random.Random(3)
    table = Table.create(tmp_path / "t", "t")
    table.commit(commit(add=tuple(member(number, draw) for number in range(200))))
    table.checkpoint()
    assert table.state.base is not None
    before = table.state.base.page_names()
    assert len(before) >= 200 // (2 * SMALL)
    written = {path.name: path.stat().st_ino for path in (tmp_path / "t" / "pages").iterdir()}
    table.commit(commit(tier=(("m17", 3),)))
    table.checkpoint()
    after = table.state.base.page_names()
    assert len(before - after) == len(after - before) == 1
    now = {path.name: path.stat().st_ino for path in (tmp_path / "t" / "pages").iterdir()}
    assert {name: now[name] for name in written} == written, "nothing is written twice"


def test_an_edit_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "t")
    one = member(1, random.Random(0))
    table.commit(commit(add=(one,), sources=(source(1, 1),)))
    table.checkpoint()
    assert table.state.base is not None
    before = table.state.base.page_names()
    table.commit(commit(tier=(("m1", 0),)))
    table.checkpoint()
    assert table.state.base.page_names() == before


def test_members_of_many_sources_make_pages_of_few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By weight: or one page would be as large as all pages of another table together."""
    monkeypatch.setattr(edit, "PAGE", USUAL)
    lists = tuple((number, 1) for number in range(4096))
    many = [Member(f"m{n}", 4096, 9, 0, 0, 0, n, n, "2024", {}, lists) for n in range(100)]
    table = Table.create(tmp_path / "t", "t")
    table.commit(commit(add=tuple(many)))
    pages = table.state.pages()
    assert len(pages) > 3 and max(page.bytes for page in pages) < 4 << 20
