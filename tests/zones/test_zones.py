"""Zone vectors: what goes in comes out, and damage is named instead of read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.errors import LogCorrupt
from lading.model import Zone
from lading.zones.vector import ZoneVector, pack

_BOUNDS = [
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.binary(max_size=5),
]


def zones_of(bounds: st.SearchStrategy[object]) -> st.SearchStrategy[list[Zone | None]]:
    maybe = st.none() | bounds
    return st.lists(st.none() | st.builds(Zone, maybe, maybe, st.none() | st.integers(0, 2**40)), max_size=12)


def told(zone: Zone | None) -> Zone | None:
    """Nothing known of any part is the same as no zone."""
    return None if zone == Zone(None, None, None) else zone


@given(st.one_of([zones_of(bounds) for bounds in _BOUNDS]))
def test_what_is_packed_comes_back_from_the_blob(zones: list[Zone | None]) -> None:
    vector = ZoneVector.from_blob(pack(zones).to_blob())
    assert [vector.zone(at) for at in range(len(vector))] == [told(zone) for zone in zones]


@given(st.one_of([st.tuples(zones_of(b), zones_of(b), zones_of(b)) for b in _BOUNDS]), st.data())
def test_concat_and_take_are_those_of_lists(
    parts: tuple[list[Zone | None], ...], data: st.DataObject
) -> None:
    together = [told(zone) for part in parts for zone in part]
    vector = ZoneVector.concat([pack(part) for part in parts])
    assert [vector.zone(at) for at in range(len(vector))] == together
    picks = data.draw(st.lists(st.integers(0, len(together) - 1), max_size=8)) if together else []
    taken = vector.take(np.array(picks, np.int64))
    again = ZoneVector.from_blob(taken.to_blob())
    assert [again.zone(at) for at in range(len(again))] == [together[at] for at in picks]


def test_kinds_that_mix_are_unknown_but_their_nulls_stay() -> None:
    vector = pack([Zone(1, 2, 3), Zone("a", "b", 0), None])
    assert [vector.zone(at) for at in range(3)] == [Zone(None, None, 3), Zone(None, None, 0), None]
    joined = ZoneVector.concat([pack([Zone(1, 2, 3)]), pack([Zone(1.5, 2.5, 4)])])
    assert [joined.zone(at) for at in range(2)] == [Zone(None, None, 3), Zone(None, None, 4)]


def test_an_integer_beyond_64_bits_is_unknown_on_its_side_only() -> None:
    assert pack([Zone(1, 2**64 - 1, 0)]).zone(0) == Zone(1, None, 0)


def test_a_slice_of_text_is_written_from_its_own_start() -> None:
    vector = pack([Zone("aaa", "aab", 0), Zone("b", "bb", 0), Zone("c", "cc", 0)])
    part = ZoneVector("str", vector.mins[1:], vector.maxs[1:], None, None, vector.nulls[1:])
    assert ZoneVector.from_blob(part.to_blob()).zone(1) == Zone("c", "cc", 0)


def test_numbers_that_differ_little_take_little_room_and_equal_ones_none() -> None:
    equal = pack([Zone(7, 7, 0)] * 1000).to_blob()
    near = pack([Zone(10**15 + at, 10**15 + at + 1, 0) for at in range(1000)]).to_blob()
    assert len(equal) == len(pack([Zone(7, 7, 0)]).to_blob())
    assert len(near) - len(equal) == 2 * 2 * 1000


def test_wide_numbers_are_read_in_place() -> None:
    blob = pack([Zone(at << 40, (at << 40) + 1, 0) for at in range(100)]).to_blob()
    vector = ZoneVector.from_blob(blob)
    assert vector.mins.base is not None
    assert not vector.mins.flags.owndata
    assert vector.mins.flags.aligned


@pytest.mark.parametrize("bound", [1, "text", b"bytes", 0.5])
def test_a_cut_blob_is_an_error_never_a_shorter_vector(bound: int | str | bytes | float) -> None:
    blob = pack([Zone(bound, bound, 0), None, Zone(bound, None, 1)]).to_blob()
    for end in range(len(blob)):
        with pytest.raises(LogCorrupt):
            ZoneVector.from_blob(blob[:end])
    with pytest.raises(LogCorrupt):
        ZoneVector.from_blob(blob + b"\0")


def test_offsets_that_run_backwards_are_refused() -> None:
    blob = bytearray(pack([Zone("aaa", "b", 0), Zone("c", "d", 0)]).to_blob())
    at = 16 + 24 + 4  # header, null counts (all alike), the first offset
    blob[at : at + 4] = (100).to_bytes(4, "little")
    with pytest.raises(LogCorrupt):
        ZoneVector.from_blob(bytes(blob))
