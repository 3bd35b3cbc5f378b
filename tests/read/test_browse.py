"""Some rows at a time: pages put together are what a scan gives, wherever one of them ends."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.page import Shown

from lading.config.file import load
from lading.errors import ConfigError, NotFound
from lading.read.browse import SORTED, Leaf, Spot, browse, browse_sorted
from lading.read.scan import scan
from lading.snapshots.history import Wanted, find
from lading.snapshots.opening import open_members
from lading.snapshots.stores.by_url import store_of
from lading.state.members import MemberStore


@pytest.fixture
def members(tmp_path: Path) -> MemberStore:
    shown = Shown(tmp_path / "shipping")
    for number in range(5):
        shown.put(f"{number}.csv", *((f"ship {n % 7}", n * 5 + number, n) for n in range(20)))
    shown.run("voyages")
    shown.put("1.csv", ("edited", 3, 4))
    shown.run("voyages")
    config = load(shown.folder)
    store, place = store_of(config, "voyages"), config.place("voyages")
    return open_members(store, find(store, Wanted(), place).ref, place)


def leafed(members: MemberStore, where: str | None, limit: int, most: int | None = None) -> list[Leaf]:
    found = [browse(members, where, Spot(), limit, most=most)]
    while found[-1].following is not None:
        assert found[-1].rows.num_rows == limit or found[-1].cut
        found.append(browse(members, where, found[-1].following, limit, most=most))
    return found


@pytest.mark.parametrize("where", [None, "tonnes > 7", "ship = 'ship 3' or day between 20 and 40", "day < 0"])
@pytest.mark.parametrize("limit", [1, 3, 7, 50, 1000])
def test_pages_put_together_are_the_scan(members: MemberStore, where: str | None, limit: int) -> None:
    whole = scan(members, where=where).to_table()
    found = leafed(members, where, limit)
    assert pa.concat_tables([one.rows for one in found]).equals(whole)
    assert len(found) == max(1, -(-whole.num_rows // limit)), "no empty page at the end"
    assert all(one.files_scanned == len(members.candidates(None)) for one in found if where is None)


@pytest.mark.parametrize("most", [0, 1, 10])
def test_a_page_that_looked_through_enough_ends_and_the_next_goes_on(members: MemberStore, most: int) -> None:
    where = "tonnes != 3"
    found = leafed(members, where, 1000, most)
    assert pa.concat_tables([one.rows for one in found]).equals(scan(members, where=where).to_table())
    assert all(one.cut for one in found[:-1]) and not found[-1].cut
    assert len(found) > 2, "a page ends when it has looked through so many rows"


def test_sorted_rows_are_all_of_them_by_the_column(members: MemberStore) -> None:
    whole = scan(members).to_table()
    for descending in (False, True):
        ships: list[str] = []
        for skip in range(0, whole.num_rows, 9):
            leaf, all_of_them = browse_sorted(
                members, None, "ship", descending=descending, skip=skip, limit=9
            )
            assert all_of_them
            assert (leaf.following is None) == (skip + 9 >= whole.num_rows)
            ships += leaf.rows.column("ship").to_pylist()
        assert ships == sorted(whole.column("ship").to_pylist(), reverse=descending)
    assert whole.num_rows < SORTED


def test_more_rows_than_are_sorted_are_told(members: MemberStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lading.read.browse.SORTED", 10)
    leaf, all_of_them = browse_sorted(members, None, "tonnes", descending=True, skip=0, limit=50)
    assert leaf.rows.num_rows == 10 and not all_of_them


def test_what_cannot_be_sorted_by_says_so(members: MemberStore) -> None:
    with pytest.raises(NotFound, match="no column nope"):
        browse_sorted(members, None, "nope", descending=False, skip=0, limit=5)


def test_lists_cannot_be_sorted_by(tmp_path: Path) -> None:
    shown = Shown(tmp_path / "shipping")
    (shown.folder / "data" / "ports" / "ports.csv").unlink()
    text = (
        (shown.folder / "lading.yaml")
        .read_text()
        .replace('"ports/*.csv"\n    format: csv', '"ports/*.json"\n    format: json')
    )
    (shown.folder / "lading.yaml").write_text(text)
    (shown.folder / "schema" / "ports.yaml").unlink()
    (shown.folder / "data" / "ports" / "p.json").write_text('{"a": [1, 2]}\n{"a": [3]}\n')
    shown.run("ports")
    config = load(shown.folder)
    store, place = store_of(config, "ports"), config.place("ports")
    opened = open_members(store, find(store, Wanted(), place).ref, place)
    with pytest.raises(ConfigError, match="can't be sorted by a"):
        browse_sorted(opened, None, "a", descending=False, skip=0, limit=5)
