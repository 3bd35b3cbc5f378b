"""What things cost, counted and not timed: syncs, opened files, decoded members."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lading
from lading.catalog.table import Table
from lading.format.members import MemberStore
from lading.format.predicate import bind, parse
from lading.model import Commit, Member, Source, Zone


@pytest.fixture
def steps(monkeypatch) -> Counter[str]:
    """How often each durable step was taken since."""
    count: Counter[str] = Counter()

    def counting(name, real):
        def step(*args, **options):
            count[name] += 1
            return real(*args, **options)

        return step

    for name in ("fsync", "replace", "rename", "link", "pwrite"):
        monkeypatch.setattr(os, name, counting(name, getattr(os, name)))
    return count


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """The data files that were opened since."""
    found: list[str] = []
    real = pq.ParquetFile

    def opening(source, *args, **options):
        found.append(os.path.basename(str(source)))
        return real(source, *args, **options)

    monkeypatch.setattr(pq, "ParquetFile", opening)
    return found


@pytest.fixture
def collection(tmp_path: Path) -> lading.Collection:
    files = []
    for number in range(6):
        keys = [number * 10, number * 10 + 5]
        files.append(tmp_path / f"f{number}.parquet")
        pq.write_table(pa.table({"k": keys, "even": [number % 2] * 2}), files[-1])
    found = lading.Collection(tmp_path)
    found.add(*files, key="k")
    return found


def taken(steps: Counter[str]) -> dict[str, int]:
    found = dict(steps)
    steps.clear()
    return found


@pytest.mark.acceptance("T5")
def test_every_change_of_a_collection_is_one_write_and_one_sync(collection, tmp_path, steps):
    pq.write_table(pa.table({"k": [99], "even": [1]}), tmp_path / "new.parquet")
    collection.add(tmp_path / "new.parquet")
    assert taken(steps) == {"pwrite": 1, "fsync": 1}
    collection.tier("new.parquet", 3)
    assert taken(steps) == {"pwrite": 1, "fsync": 1}
    collection.remove("new.parquet", "f0.parquet")
    assert taken(steps) == {"pwrite": 1, "fsync": 1}


def test_checkpoint_and_compaction_sync_each_file_and_its_directory_entry(collection, tmp_path, steps):
    Table.open(tmp_path).checkpoint()
    assert taken(steps) == {"fsync": 2, "replace": 1}
    collection.compact()
    assert taken(steps) == {"fsync": 4, "replace": 2}


def test_a_merge_syncs_its_file_and_commits_once(collection, steps):
    collection.merge("f0.parquet", "f1.parquet")
    assert taken(steps) == {"fsync": 3, "rename": 1, "pwrite": 1}


def test_reading_syncs_nothing_and_opens_what_it_needs(collection, tmp_path, steps, opened):
    again = lading.Collection(tmp_path)
    assert again.lookup(25).found and opened == ["f2.parquet"]
    opened.clear()
    assert again.scan("k >= 30 and even = 1").to_table().num_rows == 4
    assert opened == ["f3.parquet", "f5.parquet"]
    opened.clear()
    assert not again.lookup(7).found and opened == []
    again.members()
    again.compact()
    assert opened == []
    assert taken(steps)["fsync"] == 4


def test_opening_pruning_and_committing_decode_no_list_of_members(tmp_path, monkeypatch):
    """Behind a checkpoint of many members, what a reader and a writer do must not grow with them."""
    schema = pa.schema([("k", pa.int64())])
    members = tuple(
        Member(f"m{n}", 1, 1, 0, n, n, n, n, "2024", {"k": Zone(n, n, 0)}, ((n, 1),)) for n in range(3000)
    )
    table = Table.create(tmp_path / "t", "t")
    table.commit(
        Commit("c", "r", "2024", "", add=members, schema=schema.serialize().to_pybytes(), order_by="k")
    )
    table.compact()
    for number in range(50):
        new = Member(f"n{number}", 1, 1, 0, 0, 0, 9000, 9000, "2024", {"k": Zone(9000, 9000, 0)})
        table.commit(Commit(f"c{number}", "r", "2024", "", add=(new,)))
    fetched: list[int] = []
    real = MemberStore._row

    def fetching(self, number):
        fetched.append(number)
        return real(self, number)

    def refuse(self):
        raise AssertionError("the whole list was decoded")

    monkeypatch.setattr(MemberStore, "_row", fetching)
    monkeypatch.setattr(MemberStore, "member_rows", refuse)
    again = Table.open(tmp_path / "t")
    where = bind(parse("k = 1234"), schema)
    assert [m.path for m in again.state.candidates(where)] == ["m1234"]
    assert [m.path for m in again.state.holding(77)] == ["m77"]
    assert [m.path for m in again.state.members_of([5])] == ["m5"]
    assert again.state.row_count() == 3050
    again.commit(Commit("d", "r", "2024", "", remove=("m7",), minus=(("m8", (8,)),)))
    assert again.state.row_count() == 3048
    source = Source(1, "a", "h", "s", 1, 1, 1, False, "2024")
    again.commit(Commit("e", "r", "2024", "", sources=(source,)))
    assert set(fetched) <= {1234, 77, 5, 7, 8}
