"""Opening several tables: their snapshots belong together, or nobody gets them."""

from __future__ import annotations

import pytest

from lading.errors import NotReady
from lading.model import Pin
from lading.read.together import Snapshot, belonging


def made_of(ref: str, **inputs: str) -> Snapshot:
    return Snapshot(ref, tuple(Pin(name, "id", 1, at, "run", "") for name, at in inputs.items()))


class Tables:
    """Each with its snapshots, the first of which readers see."""

    def __init__(self, **tables: list[Snapshot]) -> None:
        self.tables = tables
        self.alike: set[frozenset[str]] = set()

    def open(self, *names: str) -> dict[str, str]:
        return belonging(names, self)

    def seen(self, name: str, number: int) -> Snapshot | None:
        return self.tables[name][number] if number < len(self.tables[name]) else None

    def at(self, name: str, ref: str) -> Snapshot | None:
        return next((one for one in self.tables[name] if one.ref == ref), None)

    def same(self, name: str, one: str, other: str) -> bool:
        return frozenset([one, other]) in self.alike


def test_tables_that_have_nothing_to_do_with_each_other_are_as_readers_see_them():
    assert Tables(a=[Snapshot("a2"), Snapshot("a1")], b=[Snapshot("b1")]).open("a", "b") == {
        "a": "a2",
        "b": "b1",
    }


def test_an_input_is_opened_as_it_was_when_the_table_was_made_of_it():
    tables = Tables(raw=[Snapshot("r2"), Snapshot("r1")], top=[made_of("t1", raw="r1")])
    assert tables.open("raw", "top") == tables.open("top", "raw") == {"raw": "r1", "top": "t1"}


def test_tables_in_between_are_followed():
    tables = Tables(
        raw=[Snapshot("r3"), Snapshot("r2"), Snapshot("r1")],
        middle=[made_of("m2", raw="r2"), made_of("m1", raw="r1")],
        top=[made_of("t1", middle="m1")],
    )
    assert tables.open("raw", "top") == {"raw": "r1", "top": "t1"}
    assert tables.open("raw", "middle") == {"raw": "r2", "middle": "m2"}


def test_two_tables_made_of_different_snapshots_don_t_belong_together():
    tables = Tables(
        raw=[Snapshot("r2"), Snapshot("r1")], one=[made_of("o1", raw="r1")], two=[made_of("t1", raw="r2")]
    )
    with pytest.raises(NotReady, match="were made from different snapshots of raw"):
        tables.open("one", "two")
    tables.alike.add(frozenset(["r1", "r2"]))
    assert tables.open("one", "two") == {"one": "o1", "two": "t1"}


def test_the_one_that_was_made_from_a_newer_snapshot_is_opened_as_it_was_before():
    tables = Tables(
        raw=[Snapshot("r3"), Snapshot("r2"), Snapshot("r1")],
        one=[made_of("o3", raw="r3"), made_of("o2", raw="r2"), made_of("o1", raw="r1")],
        two=[made_of("t2", raw="r2"), made_of("t1", raw="r1")],
    )
    assert tables.open("one", "two") == {"one": "o2", "two": "t2"}
    assert tables.open("two", "raw", "one") == {"one": "o2", "two": "t2", "raw": "r2"}
    assert tables.open("one") == {"one": "o3"}


def test_of_several_sets_it_is_the_one_with_the_fewest_steps_back():
    tables = Tables(
        raw=[Snapshot(f"r{number}") for number in (5, 4, 3, 2, 1)],
        one=[made_of("o5", raw="r5"), made_of("o3", raw="r3"), made_of("o2", raw="r2")],
        two=[made_of("t4", raw="r4"), made_of("t3", raw="r3"), made_of("t2", raw="r2")],
    )
    assert tables.open("one", "two") == {"one": "o3", "two": "t3"}


def test_after_a_rollback_of_an_input_the_set_is_found_though_its_snapshots_are_in_no_order():
    tables = Tables(
        raw=[Snapshot("r3"), Snapshot("r2"), Snapshot("r1")],
        one=[made_of("o3", raw="r1"), made_of("o2", raw="r3")],  # made of r3, then of r1 again
        two=[made_of("t2", raw="r3"), made_of("t1", raw="r2")],
    )
    assert tables.open("one", "two") == {"one": "o2", "two": "t2"}


def test_tables_that_share_an_input_two_levels_down_are_brought_together():
    tables = Tables(
        raw=[Snapshot("r2"), Snapshot("r1")],
        middle=[made_of("m2", raw="r2"), made_of("m1", raw="r1")],
        top=[made_of("p2", middle="m2"), made_of("p1", middle="m1")],
        side=[made_of("s1", raw="r1")],
    )
    assert tables.open("top", "side") == {"top": "p1", "side": "s1"}


def test_a_set_whose_input_is_no_longer_kept_is_none():
    tables = Tables(
        raw=[Snapshot("r3"), Snapshot("r2")],
        one=[made_of("o3", raw="r3"), made_of("o1", raw="r1")],
        two=[made_of("t2", raw="r2"), made_of("t1", raw="r1")],
    )
    with pytest.raises(
        NotReady, match=r"no snapshots of these tables that are kept belong together"
    ) as raised:
        tables.open("one", "two")
    assert "one and two were made from different snapshots of raw" in str(raised.value)


def test_one_table_alone_is_as_readers_see_it_though_its_input_is_no_longer_kept():
    tables = Tables(raw=[Snapshot("r2")], one=[made_of("o1", raw="r1")])
    assert tables.open("one") == tables.open("one", "one") == {"one": "o1"}


def test_many_snapshots_that_never_fit_end_in_an_answer():
    tables = Tables(
        raw=[Snapshot(f"r{number}") for number in range(400)],
        one=[made_of(f"o{number}", raw=f"r{number}") for number in range(0, 400, 2)],
        two=[made_of(f"t{number}", raw=f"r{number}") for number in range(1, 400, 2)],
    )
    with pytest.raises(NotReady):
        tables.open("one", "two")
