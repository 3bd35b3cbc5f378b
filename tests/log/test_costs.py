"""What things cost, counted and not timed: syncs, opened files, decoded members."""

from __future__ import annotations

import os
from collections import Counter, OrderedDict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lading
from lading.log.table import Table
from lading.model import Commit, Member, Source, Zone
from lading.parts.footer_zones import Footers
from lading.read.scan import table_schema
from lading.state import edit, tables
from lading.state import page as page_module
from lading.state.loaded import MemberPage
from lading.state.page import Page
from lading.state.sealed import Sealed
from lading.where.bind import bind, parse


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
    assert taken(steps) == {"fsync": 3, "replace": 1}, (
        "the log too: whoever wrote its last frame may be about to"
    )
    collection.compact()
    assert taken(steps) == {"fsync": 4, "replace": 2}


def test_a_merge_syncs_its_file_and_commits_once(collection, steps):
    collection.merge("f0.parquet", "f1.parquet")
    assert taken(steps) == {"fsync": 3, "link": 1, "pwrite": 1}


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
    real = MemberPage.rows

    def fetching(self, wanted=None, **options):
        assert wanted is not None, "the whole list was decoded"
        fetched.extend(wanted)
        return real(self, wanted, **options)

    monkeypatch.setattr(MemberPage, "rows", fetching)
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


SIZE = 1024


@pytest.fixture
def small_pages(monkeypatch):
    """So that few members make many pages."""
    monkeypatch.setattr(edit, "PAGE", SIZE)
    monkeypatch.setattr(tables, "INLINE", 4096)
    monkeypatch.setattr(page_module, "HEAD", 1024)


class Reads:
    """What is read of a checkpoint: statements to its root, members, and bytes of pages."""

    def __init__(self, monkeypatch) -> None:
        self.statements = self.members = self.bytes = 0
        query, rows, pieces = Sealed.query, MemberPage.rows, Page._pieces

        def asking(store, *args):
            self.statements += 1
            return query(store, *args)

        def decoding(store, *args, **options):
            found = rows(store, *args, **options)
            self.members += len(found)
            return found

        def reading(store, *args, **options):
            found = pieces(store, *args, **options)
            self.bytes += sum(map(len, found))
            return found

        monkeypatch.setattr(Sealed, "query", asking)
        monkeypatch.setattr(MemberPage, "rows", decoding)
        monkeypatch.setattr(Page, "_pieces", reading)

    def taken(self) -> tuple[int, int, int]:
        found = self.statements, self.members, self.bytes
        self.statements = self.members = self.bytes = 0
        return found


def large_table(folder: Path, members: int, frames: int = 0) -> Path:
    """Zones of two columns, a key range a member, and commits of one member each behind the checkpoint."""
    schema = pa.schema([("key", pa.int64()), ("status", pa.int64())]).serialize().to_pybytes()

    def one(n: int) -> Member:
        zones = {"key": Zone(n * 10, n * 10 + 9, 0), "status": Zone(200, 404, 0)}
        return Member(f"m{n}", 1, 1, 0, 0, 0, n * 10, n * 10 + 9, "2024", zones, ((n, 1),))

    table = Table.create(folder, "t")
    table.commit(
        Commit("c", "r", "2024", "", add=tuple(map(one, range(members))), schema=schema, order_by="key")
    )
    table.compact()
    for n in range(members, members + frames):
        table.commit(Commit(f"c{n}", "r", "2024", "", add=(one(n),)))
    table.close()
    return folder


def test_opening_and_planning_read_as_much_of_a_large_table_as_of_a_small_one(
    tmp_path, monkeypatch, small_pages
):
    reads = Reads(monkeypatch)
    costs = []
    for members in (3 * SIZE, 12 * SIZE):
        folder = large_table(tmp_path / str(members), members, frames=5)
        reads.taken()
        table = Table.open(folder)
        assert reads.taken() == (1, 0, 0), "opening reads what the checkpoint says of itself and no vector"
        where = bind(parse("key = 12345 and status = 404"), table_schema(table.state))
        assert [member.path for member in table.state.candidates(where)] == ["m1234"]
        costs.append(reads.taken())
    (statements, decoded, size), (of_large, decoded_of_large, size_of_large) = costs
    assert statements == of_large <= 10 and decoded == decoded_of_large == 1
    assert size_of_large == size < 20 * SIZE, "one page: its directory, a few vectors and one member"


def test_a_predicate_that_no_summary_rules_out_reads_few_bytes_of_a_member_and_few_statements(
    tmp_path, monkeypatch, small_pages
):
    reads = Reads(monkeypatch)
    costs = []
    for members in (3 * SIZE, 12 * SIZE):
        table = Table.open(large_table(tmp_path / str(members), members))
        where = bind(parse("key < 1000000 and status = 500"), table_schema(table.state))
        reads.taken()
        assert not table.state.candidates(where)
        where = bind(parse("key != 15 and not status < 300"), table_schema(table.state))
        assert len(table.state.candidates(where)) == members
        costs.append(reads.taken())
    (statements, _, size), (of_large, _, size_of_large) = costs
    assert of_large == statements, "the root is asked no more often"
    # Of each page its head; of two zones 2 bytes for each end of the key; and every member that was found.
    assert size_of_large - size <= 10 * (2 * 1024 + SIZE * (5 + 100))


def test_where_each_member_lies_is_kept_from_the_second_question_on(tmp_path, monkeypatch, small_pages):
    """Memory that is taken for one question, and given back with the table, costs more than reading again."""
    pages = 12
    table = Table.open(large_table(tmp_path / "t", pages * SIZE))
    wanted = ", ".join(str(SIZE * 10 * number) for number in range(pages))
    where = bind(parse(f"key in ({wanted})"), table_schema(table.state))
    reads = Reads(monkeypatch)
    costs = []
    for _ in range(3):
        assert len(table.state.candidates(where)) == pages
        costs.append(reads.taken()[2])
    first, second, third = costs
    assert first > second > third + pages * SIZE * 4, "the second reads it again"
    assert third < pages * 200, "the third reads the members and nothing else"


def test_a_key_is_found_by_reading_one_page_and_one_member(tmp_path, monkeypatch, small_pages):
    reads = Reads(monkeypatch)
    for members in (3 * SIZE, 12 * SIZE):
        folder = large_table(tmp_path / str(members), members, frames=50)
        table = Table.open(folder)
        reads.taken()
        assert [member.path for member in table.state.holding(12345)] == ["m1234"]
        statements, decoded, size = reads.taken()
        assert statements == 2 and decoded == 1 and size < 24 * SIZE
        assert [member.path for member in table.state.holding(12355)] == ["m1235"]
        statements, decoded, size = reads.taken()
        assert (statements, decoded) == (0, 1) and size < 200, "warm: one member by its place"


def test_a_commit_reads_the_hashes_of_the_paths_once_and_no_member(tmp_path, monkeypatch, small_pages):
    reads = Reads(monkeypatch)
    for members in (3 * SIZE, 12 * SIZE):
        folder = large_table(tmp_path / str(members), members)
        table = Table.open(folder)
        reads.taken()
        for number in range(2):
            new = Member(f"new{number}", 1, 1, 0, 0, 0, None, None, "2024", {})
            table.commit(Commit("d", "r", "2024", "", add=(new,)))
            statements, decoded, size = reads.taken()
            assert decoded == 0
            if number == 0:
                assert statements == 1 and size <= members * (8 + 2) + 2 * 1024 * members // SIZE
            else:
                assert (statements, size) == (0, 0), "they are kept"


def test_a_member_is_named_without_listing_the_others(tmp_path, monkeypatch, small_pages):
    folder = large_table(tmp_path / "t", 2 * SIZE)
    reads = Reads(monkeypatch)
    collection = lading.Collection(folder)
    collection.tier("m77", 2)
    collection.remove("m78")
    assert reads.taken()[1] <= 10


def test_a_footer_is_parsed_once_and_again_when_its_file_was_replaced(collection, tmp_path, monkeypatch):
    from lading.parts import footer_zones as footers

    parsed: list[str] = []
    real = footers.open_parquet

    def parsing(root, path, *args, metadata=None):
        parsed.extend([] if metadata is not None else [path])
        return real(root, path, *args, metadata=metadata)

    monkeypatch.setattr(footers, "open_parquet", parsing)
    monkeypatch.setattr(footers.FOOTERS, "_kept", OrderedDict())
    for _ in range(3):
        assert collection.lookup(25).found and collection.scan("k = 20").to_table().num_rows == 1
    assert parsed == ["f2.parquet"]
    pq.write_table(pa.table({"k": [20, 23, 25], "even": [7, 7, 7]}), tmp_path / "f2.parquet")
    assert collection.lookup(23).row == {"k": 23, "even": 7}
    assert parsed == ["f2.parquet"] * 2


def test_footers_are_kept_up_to_a_size(tmp_path):
    kept = Footers(most=6)
    for number in range(5):
        pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / f"{number}.parquet")
        member = Member(f"{number}.parquet", 1, 1, 0, 0, 0, None, None, "2024", {})
        kept.open(str(tmp_path), member)[0].close()
    assert [os.path.basename(path) for path in kept._kept] == ["2.parquet", "3.parquet", "4.parquet"]
