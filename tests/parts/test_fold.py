"""Folding parts: which ones, into what, and that no row is lost, doubled or brought back."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lading.errors import PartError
from lading.layout.table import is_part_of
from lading.model import Member
from lading.parts.fold import Fold, FoldSpec, fold_parts, plan_folds
from lading.parts.footer import Origin
from lading.parts.write import PartWriter

SCHEMA = pa.schema(
    [("k", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.int64())), ("_source", pa.int64())]
)
ORIGIN = Origin("t", "run-2", "c2", "k")


def part(folder, keys, sources, bucket=0, **fields) -> Member:
    writer = PartWriter(str(folder), bucket, SCHEMA, Origin("t", "run-1", "c1", "k"))
    rows = {"k": keys, "s": [f"s{key}" for key in keys], "l": [[key] for key in keys], "_source": sources}
    writer.write(pa.table(rows, schema=SCHEMA))
    return msgspec.structs.replace(writer.close(), **fields)


def spec(folder, **options) -> FoldSpec:
    return FoldSpec(str(folder), ORIGIN, SCHEMA.serialize().to_pybytes(), **options)


def read(folder, members):
    return pa.concat_tables([pq.ParquetFile(folder / member.path).read() for member in members])


def sized(name: str, size: int, bucket: int = 0, *, minus=(), sources=((1, 5), (2, 5)), key=0) -> Member:
    return Member(
        name, 10, size, bucket, key, key, key, key, "2024-01-01", {}, tuple(sources), 0, tuple(minus)
    )


class TestPlan:
    def test_small_parts_of_one_bucket_are_folded_and_large_ones_left(self):
        members = [sized("a", 10), sized("b", 20), sized("c", 60), sized("d", 10, bucket=1)]
        assert [(fold.bucket, fold.paths) for fold in plan_folds(members, 100)] == [(0, ("a", "b"))]

    def test_a_part_with_rows_that_no_longer_count_is_folded_whatever_its_size(self):
        assert [f.paths for f in plan_folds([sized("a", 500, minus=(1,)), sized("b", 500)], 100)] == [("a",)]

    def test_a_bucket_that_would_not_get_fewer_parts_is_left_alone(self):
        many = [sized(f"p{n}", 10, sources=[(n * 4096 + i, 1) for i in range(4096)]) for n in range(3)]
        assert plan_folds(many, 100) == []
        assert plan_folds([sized("a", 10)], 100) == []

    def test_one_fold_reads_no_more_than_it_can_bear_and_takes_neighbours(self):
        members = [sized(f"p{n:02}", 40, key=n) for n in range(40)]
        folds = plan_folds(members[::-1], 100)
        assert [fold.paths[0] for fold in folds] == ["p00", "p20"]
        assert all(fold.bytes <= 800 for fold in folds)
        assert sorted(path for fold in folds for path in fold.paths) == [m.path for m in members]


class TestFold:
    def test_rows_are_the_same_sorted_and_keep_their_sources(self, tmp_path):
        old = [
            part(tmp_path, [1, 5, 9], [7, 8, 7], bucket=3),
            part(tmp_path, [2, 5], [9, 7], bucket=3, tier=2),
        ]
        [new] = fold_parts(Fold(3, tuple(old)), spec(tmp_path))
        rows = read(tmp_path, [new])
        assert rows["k"].to_pylist() == [1, 2, 5, 5, 9]
        assert rows["_source"].to_pylist() == [7, 9, 7, 8, 7], "equal keys by source, as a build sorts them"
        assert rows["l"].to_pylist() == [[1], [2], [5], [5], [9]]
        assert (new.rows, new.bucket, new.sources, new.tier) == (5, 3, ((7, 3), (8, 1), (9, 1)), 2)
        assert (new.key_min, new.key_max, new.tick_min, new.tick_max) == (1, 9, 1, 9)
        assert new.path.startswith("bucket=000003/") and is_part_of(new.path, "run-2")
        assert all((tmp_path / member.path).is_file() for member in old)

    def test_what_a_minus_took_out_is_gone_for_good(self, tmp_path):
        old = [part(tmp_path, [1, 2, 3], [7, 8, 7], minus=(7,)), part(tmp_path, [4], [7])]
        [new] = fold_parts(Fold(0, tuple(old)), spec(tmp_path))
        assert (new.minus, new.sources) == ((), ((7, 1), (8, 1)))
        assert read(tmp_path, [new])["k"].to_pylist() == [2, 4]

    def test_nothing_left_is_no_part(self, tmp_path):
        assert fold_parts(Fold(0, (part(tmp_path, [1], [7], minus=(7,)),)), spec(tmp_path)) == []
        assert len(list(tmp_path.rglob("*part-*"))) == 1

    def test_files_end_at_the_target_size_between_two_keys(self, tmp_path, monkeypatch):
        monkeypatch.setattr("lading.parts.cut.ROW_GROUP", 500)
        old = [part(tmp_path, sorted(range(n, 6000, 3)), [n] * 2000) for n in range(3)]
        new = fold_parts(Fold(0, tuple(old)), spec(tmp_path, target=20_000))
        assert len(new) > 1
        assert all(one.key_max < two.key_min for one, two in pairwise(new))
        assert read(tmp_path, new)["k"].to_pylist() == list(range(6000))

    def test_more_rows_than_memory_are_folded_through_the_disk(self, tmp_path):
        old = [part(tmp_path, list(range(n, 4000, 4)), [n] * 1000) for n in range(4)]
        new = fold_parts(Fold(0, tuple(old)), spec(tmp_path, memory=4096))
        assert read(tmp_path, new)["k"].to_pylist() == list(range(4000))

    def test_a_damaged_part_is_named_and_leaves_no_half_part(self, tmp_path):
        good, bad = part(tmp_path, [1], [7]), part(tmp_path, [2], [7])
        (tmp_path / bad.path).write_bytes(b"PAR1")
        with pytest.raises(PartError, match="can't be read"):
            fold_parts(Fold(0, (good, bad)), spec(tmp_path))
        assert len(list(tmp_path.rglob("*part-*"))) == 2


def test_spark_folds_as_this_process_does(spark, tmp_path):
    from lading.spark.tasks import fold_on_spark

    folds = [
        Fold(
            b,
            (
                part(tmp_path, [b * 10 + 1, b * 10 + 3], [7, 8], b),
                part(tmp_path, [b * 10 + 2], [9], b, minus=()),
            ),
        )
        for b in range(3)
    ]
    folds.append(Fold(3, (part(tmp_path, [31], [7], 3, minus=(7,)),)))
    found = fold_on_spark(spark, folds, spec(tmp_path))
    assert [len(members) for members in found] == [1, 1, 1, 0]
    for bucket, [member] in enumerate(found[:3]):
        keys = [bucket * 10 + 1, bucket * 10 + 2, bucket * 10 + 3]
        assert read(tmp_path, [member])["k"].to_pylist() == keys
        [here] = fold_parts(folds[bucket], spec(tmp_path))
        assert (here.rows, here.sources, here.zones, here.bucket) == (
            member.rows,
            member.sources,
            member.zones,
            member.bucket,
        )
