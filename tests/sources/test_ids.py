from __future__ import annotations

import pytest

from lading.errors import SourceError
from lading.sources import fingerprint as ids


def test_an_id_is_the_signed_xxh3_of_the_key() -> None:
    assert ids.source_id("") == 0x2D06800538D394C2  # xxh3_64 of nothing, as its authors publish it
    assert ids.source_id("2023/data.csv") == ids.source_id("2023/" + "data.csv")
    some = [ids.source_id(str(number)) for number in range(200)]
    assert all(-(1 << 63) <= value < 1 << 63 for value in some)
    assert min(some) < 0 < max(some)
    assert len(set(some)) == 200


def test_two_files_with_one_key_are_an_error_never_an_overwrite() -> None:
    ids.check_collisions(["a.csv", "b.csv"])
    with pytest.raises(SourceError, match=r"two source files have the key 'a\.csv'"):
        ids.check_collisions(["a.csv", "b.csv", "".join(["a", ".csv"])])


def test_a_collision_of_ids_stops_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "source_id", len)
    with pytest.raises(SourceError, match=r"'a\.csv' and 'b\.csv' have the same source id"):
        ids.check_collisions(["a.csv", "xx", "b.csv"])
