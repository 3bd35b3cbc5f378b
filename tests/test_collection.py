"""A collection from Python: what can be added, how members are named, what is refused and why."""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
import shutil
import threading
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lading
from lading.errors import ConfigError, Conflict, NotFound, PartError, SchemaDrift
from lading.log.table import Table


def write(path: Path, rows: dict[str, object] | pa.Table, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows if isinstance(rows, pa.Table) else pa.table(rows), path, **options)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(3):
        keys = list(range(number * 10, number * 10 + 10))
        write(tmp_path / "c" / f"f{number}.parquet", {"k": keys, "s": [f"s{key}" for key in keys]})
    return tmp_path / "c"


@pytest.fixture
def collection(folder: Path) -> lading.Collection:
    found = lading.Collection(folder)
    found.add(*sorted(folder.glob("*.parquet")), key="k")
    return found


def paths(collection: lading.Collection) -> list[str]:
    return [member.path for member in collection.members()]


class TestAdd:
    def test_one_call_is_one_commit(self, folder):
        done = lading.Collection(folder).add(*folder.glob("*.parquet"), key="k")
        assert done.sequence == 1 and sorted(done.added) == ["f0.parquet", "f1.parquet", "f2.parquet"]

    def test_only_footers_are_read_of_files_that_say_what_they_are_sorted_by(self, folder):
        file = folder / "f0.parquet"
        write(file, pq.read_table(file), sorting_columns=[pq.SortingColumn(0)])
        data = bytearray(file.read_bytes())
        column = pq.read_metadata(file).row_group(0).column(0)
        data[4 : 4 + column.total_compressed_size] = bytes(column.total_compressed_size)
        file.write_bytes(data)
        lading.Collection(folder).add(file, key="k")
        assert lading.Collection(folder).members()[0].key_max == 9

    def test_a_name_is_looked_for_here_and_then_in_the_collection(self, folder, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        found = lading.Collection("c")
        found.add("f0.parquet", "c/f1.parquet")
        assert paths(found) == ["f0.parquet", "f1.parquet"]

    def test_a_file_reached_through_a_link_to_the_folder_is_inside(self, folder, tmp_path):
        (tmp_path / "link").symlink_to(folder)
        found = lading.Collection(tmp_path / "link")
        found.add(folder / "f0.parquet")
        assert paths(found) == ["f0.parquet"]

    def test_collection_and_files_can_be_moved_together(self, collection, folder, tmp_path):
        shutil.move(folder, tmp_path / "elsewhere")
        assert lading.Collection(tmp_path / "elsewhere").lookup(15).member == "f1.parquet"

    def test_adding_again_says_nothing_new_and_commits_nothing(self, collection, folder):
        done = collection.add(folder / "f0.parquet")
        assert (done.unchanged, done.added, done.sequence) == (("f0.parquet",), (), 1)
        os.utime(folder / "f0.parquet")
        assert collection.add(folder / "f0.parquet").unchanged == ("f0.parquet",)

    def test_a_file_that_changed_is_described_anew_and_keeps_its_tier(self, collection, folder):
        collection.tier("f0.parquet", 4)
        write(folder / "f0.parquet", {"k": [100, 200], "s": ["a", "b"]})
        assert collection.add(folder / "f0.parquet").changed == ("f0.parquet",)
        [member] = [one for one in lading.Collection(folder).members() if one.path == "f0.parquet"]
        assert (member.rows, member.key_min, member.key_max, member.tier) == (2, 100, 200, 4)
        assert len(collection) == 3

    def test_a_removed_file_can_come_back(self, collection, folder):
        collection.remove("f1.parquet")
        collection.compact()
        collection.add(folder / "f1.parquet")
        assert paths(lading.Collection(folder)) == ["f0.parquet", "f1.parquet", "f2.parquet"]
        assert lading.Collection(folder).lookup(15).found

    @pytest.mark.parametrize("what", ["missing.parquet", "text.parquet", "."])
    def test_what_is_no_parquet_file_is_named_and_nothing_is_added(self, folder, what):
        (folder / "text.parquet").write_text("PAR1")
        found = lading.Collection(folder)
        with pytest.raises(PartError, match=r"nothing was added"):
            found.add(folder / "f0.parquet", folder / what)
        assert not (folder / "manifest.log").exists()

    def test_the_key_is_what_the_files_declare(self, tmp_path):
        write(tmp_path / "a.parquet", {"x": [2, 1], "k": [1, 2]}, sorting_columns=[pq.SortingColumn(1)])
        found = lading.Collection(tmp_path)
        found.add(tmp_path / "a.parquet")
        assert found.key == "k" and lading.Collection(tmp_path).key == "k"

    def test_a_descending_or_disputed_order_is_no_key(self, tmp_path):
        write(tmp_path / "a.parquet", {"k": [2, 1]}, sorting_columns=[pq.SortingColumn(0, descending=True)])
        found = lading.Collection(tmp_path)
        found.add(tmp_path / "a.parquet")
        assert found.key is None
        with pytest.raises(ConfigError, match="no key"):
            found.lookup(1)

    def test_a_key_that_comes_late_is_every_members(self, folder):
        found = lading.Collection(folder)
        found.add(folder / "f0.parquet", folder / "f1.parquet")
        assert [member.key_min for member in found.members()] == [None, None]
        found.add(folder / "f2.parquet", key="k")
        again = lading.Collection(folder)
        assert [(member.key_min, member.key_max) for member in again.members()] == [
            (0, 9),
            (10, 19),
            (20, 29),
        ]
        assert again.lookup(15).opened == 1

    def test_another_key_than_the_collection_has_is_refused(self, collection, folder):
        with pytest.raises(ConfigError, match="keyed by k"):
            collection.add(folder / "f0.parquet", key="s")

    def test_a_key_that_no_file_has_lists_the_columns(self, folder):
        with pytest.raises(NotFound, match="there is no column nope") as caught:
            lading.Collection(folder).add(folder / "f0.parquet", key="nope")
        assert "k" in caught.value.hint

    def test_a_key_without_an_order_is_refused(self, tmp_path):
        write(tmp_path / "a.parquet", {"l": [[1], [2]]})
        with pytest.raises(ConfigError, match="no order"):
            lading.Collection(tmp_path).add(tmp_path / "a.parquet", key="l")


class TestSchemas:
    def add(self, tmp_path: Path, *tables: pa.Table, key: str | None = None) -> lading.Collection:
        found = lading.Collection(tmp_path)
        for number, table in enumerate(tables):
            found.add(write(tmp_path / f"{number}.parquet", table), key=key)
        return lading.Collection(tmp_path)

    def test_columns_are_joined_and_what_a_file_lacks_is_null(self, tmp_path):
        found = self.add(
            tmp_path, pa.table({"a": [1]}), pa.table({"b": ["x"], "a": [2]}), pa.table({"b": ["y"]})
        )
        assert found.scan().to_table().to_pylist() == [
            {"a": 1, "b": None},
            {"a": 2, "b": "x"},
            {"a": None, "b": "y"},
        ]
        assert found.scan("b = 'x'").to_table().num_rows == 1
        assert found.scan("b is null").to_table()["a"].to_pylist() == [1]

    @pytest.mark.parametrize(
        ("first", "second", "joined"),
        [
            (pa.array([1], pa.int32()), pa.array([2**40], pa.int64()), pa.int64()),
            (pa.array([2**40], pa.int64()), pa.array([1], pa.int8()), pa.int64()),
            (pa.array([1.5], pa.float32()), pa.array([2.5], pa.float64()), pa.float64()),
            (pa.array([2.5], pa.float64()), pa.array([1.5], pa.float32()), pa.float64()),
            (pa.array([None], pa.null()), pa.array(["x"]), pa.string()),
            (pa.array(["x"]), pa.array([None], pa.null()), pa.string()),
            (pa.array(["x"]), pa.array(["y"]).dictionary_encode(), pa.string()),
            (pa.array(["y"]).dictionary_encode(), pa.array(["x"]), pa.string()),
            (
                pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
                pa.array([Decimal("2")], pa.decimal128(9, 2)),
                pa.decimal128(9, 2),
            ),
            (
                pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("us")),
                pa.array([dt.datetime(2024, 1, 2)], pa.timestamp("ms")),
                pa.timestamp("us"),
            ),
        ],
    )
    def test_types_widen_as_far_as_nothing_is_lost(self, tmp_path, first, second, joined):
        found = self.add(tmp_path, pa.table({"x": first}), pa.table({"x": second}))
        rows = found.scan().to_table()
        assert rows.schema.field("x").type == joined
        values = [first[0].as_py(), second[0].as_py()]
        assert rows["x"].to_pylist() == values
        for value in filter(None, values):
            literal = value if isinstance(value, int | float | Decimal) else repr(str(value))
            assert found.scan(f"x = {literal}").to_table()["x"].to_pylist() == [value]

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (pa.array([1]), pa.array(["x"])),
            (pa.array([1]), pa.array([1.5])),
            (pa.array([1], pa.int64()), pa.array([2**63], pa.uint64())),
            (pa.array([1], pa.timestamp("ms")), pa.array([1], pa.timestamp("us"))),
            (pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("us", "UTC"))),
            (pa.array([[1]]), pa.array([["x"]])),
        ],
    )
    def test_types_that_no_value_survives_in_are_refused_by_name(self, tmp_path, first, second):
        found = lading.Collection(tmp_path)
        found.add(write(tmp_path / "0.parquet", pa.table({"x": first})))
        with pytest.raises(SchemaDrift, match=r"1\.parquet: column x is"):
            found.add(write(tmp_path / "1.parquet", pa.table({"x": second})))
        assert len(lading.Collection(tmp_path)) == 1


class TestNames:
    def test_a_member_is_named_by_its_listed_path_or_its_unique_file_name(self, collection, folder, tmp_path):
        write(tmp_path / "far" / "g.parquet", {"k": [50]})
        write(tmp_path / "far" / "f0.parquet", {"k": [60]})
        collection.add(tmp_path / "far" / "g.parquet", tmp_path / "far" / "f0.parquet")
        assert collection.tier("g.parquet", 1) == str(tmp_path / "far" / "g.parquet")
        assert collection.tier("f0.parquet", 2) == "f0.parquet", "a listed path comes first"
        assert collection.tier(str(folder / "f1.parquet"), 3) == "f1.parquet"

    def test_a_name_that_fits_several_is_refused_with_their_paths(self, tmp_path):
        for part in ("a", "b"):
            write(tmp_path / part / "x.parquet", {"k": [1]})
        found = lading.Collection(tmp_path)
        found.add(tmp_path / "a" / "x.parquet", tmp_path / "b" / "x.parquet")
        with pytest.raises(NotFound, match="any of 2") as caught:
            found.remove("x.parquet")
        assert "a/x.parquet, b/x.parquet" in caught.value.hint

    def test_an_unknown_name_suggests_near_ones(self, collection):
        with pytest.raises(NotFound, match="not a member") as caught:
            collection.remove("f9.parquet")
        assert "f0.parquet" in caught.value.hint


class TestMerge:
    def test_rows_are_sorted_by_the_key_nulls_last_and_equal_keys_keep_their_order(self, tmp_path):
        found = lading.Collection(tmp_path)
        found.add(write(tmp_path / "a.parquet", {"k": [3, 1, None], "s": ["a", "b", "c"]}), key="k")
        found.add(write(tmp_path / "b.parquet", {"k": [1, 3, 2], "s": ["d", "e", "f"]}))
        path = found.merge("a.parquet", "b.parquet", into="ab.parquet")
        rows = pq.read_table(tmp_path / path)
        assert rows["k"].to_pylist() == [1, 1, 2, 3, 3, None]
        assert rows["s"].to_pylist() == ["b", "d", "f", "a", "e", "c"]
        [member] = found.members()
        assert (member.path, member.key_min, member.key_max) == ("ab.parquet", 1, 3)

    @pytest.mark.parametrize(("unit", "step"), [("s", 1_000_000), ("ms", 1_000), ("us", 1)])
    def test_a_merged_file_is_described_as_it_would_be_if_it_were_added(self, tmp_path, unit, step):
        found = lading.Collection(tmp_path)
        for number in range(2):
            rows = pa.table({"t": pa.array([number * 10, number * 10 + 5], pa.timestamp(unit))})
            found.add(write(tmp_path / f"{number}.parquet", rows), key="t")
        merged = found.merge("0.parquet", "1.parquet", into="m.parquet")
        [member] = Table.open(tmp_path).state.with_zones()
        assert (member.tick_min, member.tick_max) == (0, 15 * step)
        assert found.add(tmp_path / merged).unchanged == ("m.parquet",)

    def test_more_rows_than_memory_are_merged_through_the_disk(self, tmp_path, monkeypatch):
        real = lading.collection._fold_spec
        monkeypatch.setattr(
            lading.collection, "_fold_spec", lambda table: dataclasses.replace(real(table), memory=4096)
        )
        found = lading.Collection(tmp_path)
        for number in range(3):
            keys = [(number + 7 * i) % 5000 for i in range(5000)]
            found.add(write(tmp_path / f"{number}.parquet", {"k": keys}), key="k")
        path = found.merge("0.parquet", "1.parquet", "2.parquet")
        assert pq.read_table(tmp_path / path)["k"].to_pylist() == sorted(
            (number + 7 * i) % 5000 for number in range(3) for i in range(5000)
        )

    def test_without_a_key_the_files_follow_one_another(self, tmp_path):
        found = lading.Collection(tmp_path)
        found.add(write(tmp_path / "b.parquet", {"x": [3, 1]}), write(tmp_path / "a.parquet", {"y": [[2]]}))
        path = found.merge("b.parquet", "a.parquet")
        assert pq.read_table(tmp_path / path).to_pylist() == [
            {"x": 3, "y": None},
            {"x": 1, "y": None},
            {"x": None, "y": [2]},
        ]

    def test_a_file_that_is_there_is_never_overwritten(self, collection, folder):
        before = (folder / "f2.parquet").read_bytes()
        with pytest.raises(ConfigError, match="already exists"):
            collection.merge("f0.parquet", "f1.parquet", into="f2.parquet")
        assert (folder / "f2.parquet").read_bytes() == before

    @pytest.mark.parametrize("name", ["../out.parquet", "/tmp/out.parquet", "sub/out.parquet"])
    def test_the_new_file_stays_in_the_collection(self, collection, name):
        with pytest.raises(ConfigError, match="not a plain file name"):
            collection.merge("f0.parquet", "f1.parquet", into=name)

    def test_one_member_is_nothing_to_merge(self, collection):
        with pytest.raises(ConfigError, match="two members"):
            collection.merge("f0.parquet", "f0.parquet")

    def test_a_merge_whose_input_somebody_removed_meanwhile_conflicts_and_leaves_nothing(
        self, collection, folder, monkeypatch
    ):
        from lading.parts import fold as merge

        real = merge.merge_files

        def slow(*args):
            merged = real(*args)
            lading.Collection(folder).remove("f1.parquet")
            return merged

        monkeypatch.setattr(merge, "merge_files", slow)
        with pytest.raises(Conflict):
            collection.merge("f0.parquet", "f1.parquet", into="new.parquet")
        assert not (folder / "new.parquet").exists()
        assert paths(lading.Collection(folder)) == ["f0.parquet", "f2.parquet"]


class TestTogether:
    def test_handles_that_add_at_once_lose_nothing(self, folder, tmp_path):
        lading.Collection(folder).add(folder / "f0.parquet", key="k")
        files = [write(tmp_path / f"n{n}.parquet", {"k": [n]}) for n in range(24)]

        def work(mine: list[Path]) -> None:
            one = lading.Collection(folder)
            for file in mine:
                one.add(file)

        threads = [threading.Thread(target=work, args=(files[n::4],)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = lading.Collection(folder)
        assert len(found) == 25 and found.sequence == 25

    def test_two_that_add_the_same_file_leave_one_member(self, folder):
        one, two = lading.Collection(folder), lading.Collection(folder)
        one.add(folder / "f0.parquet", key="k")
        assert two.add(folder / "f0.parquet").unchanged == ("f0.parquet",)
        three = lading.Collection(folder)
        one.add(folder / "f1.parquet")
        assert three.add(folder / "f1.parquet").unchanged == ("f1.parquet",)
        assert len(lading.Collection(folder)) == 2

    def test_a_scan_goes_on_with_what_it_began_with(self, collection):
        scan = iter(collection.scan())
        first = next(scan)
        collection.remove("f2.parquet")
        collection.compact()
        assert first.num_rows + sum(batch.num_rows for batch in scan) == 30


def test_a_collection_does_not_mistake_a_url_for_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for url in ("ftp://bucket/prefix", "s3://bucket", "s3://"):
        with pytest.raises(ConfigError, match="can't hold a collection"):
            lading.Collection(url)
    assert not list(tmp_path.iterdir())


def test_a_folder_without_a_log_is_not_a_collection(tmp_path):
    with pytest.raises(NotFound, match="not a collection") as caught:
        lading.Collection(tmp_path).members()
    assert "collection add" in caught.value.hint


def test_nanoseconds_and_years_beyond_python_are_listed(tmp_path):
    rows = {"ns": pa.array([1], pa.timestamp("ns")), "far": pa.array([2**60], pa.timestamp("us"))}
    found = lading.Collection(tmp_path)
    found.add(write(tmp_path / "a.parquet", rows))
    [member] = found.members()
    assert str(member.zones["ns"]["min"]).startswith("1970-01-01")
    assert member.zones["far"]["max"]


def test_what_add_found_unchanged_is_a_member_when_it_answers(
    folder: Path, collection: lading.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody removes it between the look and the commit; found by the simulation."""
    new = write(folder / "new.parquet", {"id": [900]})
    old = collection.members()[0].path
    real, quick = Table.commit, []

    def commit(self: Table, *args: object, **kwargs: object) -> object:
        if not quick:
            quick.append(True)
            lading.Collection(folder).remove(old)
        return real(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Table, "commit", commit)
    done = collection.add(folder / old, new)
    assert set(done.added) == {old, "new.parquet"} and done.unchanged == ()
    assert {old, "new.parquet"} <= {one.path for one in lading.Collection(folder).members()}
