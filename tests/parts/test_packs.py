"""Packs: everything once, in order, and none that keeps a core waiting."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lading.parts.packs import packed

SIZES = st.lists(st.integers(0, 50), max_size=60)


@given(SIZES, st.integers(1, 200), st.none() | st.integers(1, 5))
def test_everything_is_in_one_pack_and_in_order(sizes: list[int], share: int, most: int | None) -> None:
    things = list(enumerate(sizes))
    packs = list(packed(things, lambda thing: thing[1], share, most=most))
    assert [thing for pack in packs for thing in pack] == things
    assert all(packs) and all(most is None or len(pack) <= most for pack in packs)
    if most is None:
        assert len(packs) <= max(1, -(-sum(sizes) // share))


@given(SIZES, st.integers(1, 200))
def test_no_pack_is_larger_than_its_share_and_one_thing(sizes: list[int], share: int) -> None:
    for pack in packed(sizes, lambda size: size, share):
        assert sum(pack) <= share + max(pack)


def test_things_of_one_size_are_dealt_out_evenly() -> None:
    sizes = [len(pack) for pack in packed([16] * 10, lambda size: size, 40)]
    assert sorted(sizes) == [2, 2, 3, 3]
    assert [len(pack) for pack in packed([15] * 20, lambda size: size, 50)] == [3, 4, 3, 3, 4, 3]


def test_what_stays_together_is_not_parted() -> None:
    things = ["a1", "a2", "a3", "b1", "c1", "c2"]
    packs = packed(things, lambda _: 10, 20, most=2, stays=lambda before, thing: before[0] == thing[0])
    assert list(packs) == [["a1", "a2", "a3"], ["b1"], ["c1", "c2"]]
