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
        return belonging(names, lambda name: self.tables[name][0], self.at, self.same)

    def at(self, name: str, ref: str) -> Snapshot:
        return next(one for one in self.tables[name] if one.ref == ref)

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
