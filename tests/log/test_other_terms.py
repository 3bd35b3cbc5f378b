"""Zones are in terms of the schema, wherever they lie (in the checkpoint, in the overlay or behind it) and
whenever it changed."""

from __future__ import annotations

import sqlite3
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from support.aging import Aging

from lading.log import table as log
from lading.log.table import Table
from lading.model import Zone
from lading.state.members import MemberStore
from lading.where.bind import bind, parse

DAY = 86_400_000_000
FIRST, SECOND = date(1970, 1, 3), date(1970, 1, 5)  # days 2 and 4
AFTER = {"d": pa.timestamp("us"), "n": pa.float64(), "s": pa.string(), "t": pa.int64(), "more": pa.int64()}


@pytest.fixture(params=["log", "overlay", "checkpoint", "checkpoint, overlay"])
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Aging:
    """Two parts before the columns change, and one after."""
    if "overlay" in request.param:
        monkeypatch.setattr(log, "OVERLAY_EVERY", 1)
    found = Aging(
        tmp_path, d=pa.date32(), n=pa.int64(), s=pa.int64(), t=pa.string(), gone=pa.int64(), same=pa.int64()
    )
    for number, day in ((1, FIRST), (2, SECOND)):
        values = {"d": [day, None], "n": [number, None], "s": [9, 10], "t": ["5", ""]}
        found.add(found.part(number, [number * 10, number * 10 + 1], gone=[1, 1], same=[7, 8], **values))
        if number == 1 and "checkpoint" in request.param:
            found.table.checkpoint()
    found.turn(**AFTER, same=pa.int64())
    found.add(found.part(3, [30, 31], d=[0, DAY], n=[0.5, 1.5], s=["a", "b"], t=[1, 2], more=[5, 6]))
    return found


def zones(day: int, number: int) -> dict[str, Zone]:
    return {
        "d": Zone(day * DAY, day * DAY, 1),
        "n": Zone(float(number), float(number), 1),
        "s": Zone(None, None, 0),  # 9 and 10 are in another order as text
        "same": Zone(7, 8, 0),
    }


@pytest.mark.parametrize("by", ["the one who made them", "whoever opens it", "a snapshot"])
def test_every_zone_is_in_terms_of_the_columns_of_now(table: Aging, by: str) -> None:
    state = table.opened().state if by == "whoever opens it" else table.table.state
    if by == "a snapshot":
        con = sqlite3.connect(":memory:", isolation_level=None)
        state.settled().write_root(con, state.meta)
        store = MemberStore(con, state.root)
        store.check()
        found = dict(_found(state, store.by_path))
        assert "gone" not in store.columns_with_zones
    else:
        found = dict(_found(state, state.find))
        listed = {member.path: member.zones for member in state.with_zones()}
        assert listed == {path: member.zones for path, member in found.items()}
    old = sorted(found.values(), key=lambda member: member.key_min)
    for member, (day, number) in zip(old[:2], ((2, 1), (4, 2)), strict=True):
        own = {name: zone for name, zone in member.zones.items() if name not in ("k", "_source")}
        assert own == zones(day, number), "text that is a number now: nothing is known, not even its nulls"
        assert type(own["n"].min) is float
    assert old[2].zones["s"] == Zone("a", "b", 0) and old[2].zones["more"] == Zone(5, 6, 0)


def _found(state, find):
    return [(member.path, find(member.path)[0]) for member in state.candidates(None)]


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("d = '1970-01-03'", [10]),
        ("d > '1970-01-04'", [20]),
        ("n >= 2", [20]),
        ("s = '10'", [10, 20]),
        ("t = 5", [10, 20]),
        ("t is null", [10, 20]),
        ("more is null", [10, 20]),
        ("same > 8", []),
    ],
)
def test_no_part_that_may_match_is_ruled_out(table: Aging, where: str, keys: list[int]) -> None:
    bound = bind(parse(where), table.schema)
    for state in (table.table.state, table.opened().state):
        assert set(keys) <= {member.key_min for member in state.candidates(bound)}


def test_a_member_that_is_subtracted_from_keeps_its_zones_in_the_terms_of_now(table: Aging) -> None:
    paths = {member.key_min: member.path for member in table.table.state.candidates(None)}
    table.minus((paths[10], [9]), (paths[20], [9]))
    for state in (table.table.state, table.opened().state):
        for key, (day, number) in ((10, (2, 1)), (20, (4, 2))):
            found = state.find(paths[key])
            assert found is not None and found[0].minus == (9,)
            assert found[0].zones["d"] == zones(day, number)["d"]
            assert found[0].zones["n"] == zones(day, number)["n"]


def test_one_commit_may_change_the_columns_and_subtract(tmp_path: Path) -> None:
    for checkpoint in (False, True):
        table = Aging(tmp_path / str(checkpoint), d=pa.date32())
        table.add(table.part([1, 2], [10, 11], d=[FIRST, SECOND]))
        if checkpoint:
            table.table.checkpoint()
        [member] = table.table.state.candidates(None)
        table.turn(minus=[(member.path, [1])], d=pa.timestamp("us"))
        for state in (table.table.state, Table.open(table.folder).state):
            found = state.find(member.path)
            assert found is not None and found[0].zones["d"] == Zone(2 * DAY, 4 * DAY, 0)


def test_nothing_is_decoded_for_columns_that_only_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "OVERLAY_EVERY", 1)
    table = Aging(tmp_path, n=pa.int64())
    table.add(table.part(1, [1], n=[1]))
    monkeypatch.setattr(log, "OVERLAY_EVERY", 99)
    table.turn(n=pa.int64(), more=pa.string())
    state = Table.open(table.folder).state
    assert state._members[0] is not None, "the overlay is as it lay"
    table.turn(n=pa.string(), more=pa.string())
    assert Table.open(table.folder).state._members[0] is None
