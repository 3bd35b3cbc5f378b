"""Members without some of their sources: same rows, same order, new files, no Spark."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lading.layout.table import is_part_of
from lading.parts import write as parts
from lading.parts.footer import Origin
from lading.parts.rewrite import rewrite_members
from lading.parts.write import PartWriter

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("_source", pa.int64())])
NAMES = {"table_id": "t", "run_id": "run-2", "commit_id": "c2", "order_by": "k"}


def member(folder, keys, sources, bucket=0):
    part = PartWriter(str(folder), bucket, SCHEMA, Origin("t", "run-1", "c1", "k"))
    part.write(pa.table({"k": keys, "s": [f"s{key}" for key in keys], "_source": sources}, schema=SCHEMA))
    return part.close()


def read(folder, one):
    with pq.ParquetFile(folder / one.path) as file:
        return file.read()


def test_rows_of_the_dropped_sources_leave_and_the_others_keep_their_order(tmp_path):
    old = [member(tmp_path, [1, 2, 3, 4], [7, 8, 7, 9]), member(tmp_path, [150], [8], bucket=1)]
    first, second = rewrite_members(str(tmp_path), old, frozenset({7}), **NAMES)
    assert read(tmp_path, first).column("k").to_pylist() == [2, 4]
    assert (first.rows, first.sources) == (2, ((8, 1), (9, 1)))
    assert (first.key_min, first.key_max, first.tick_min, first.tick_max) == (2, 4, 2, 4)
    assert (first.zones["s"].min, first.zones["s"].max) == ("s2", "s4")
    assert (second.bucket, second.rows) == (1, 1)
    assert second.path.startswith("bucket=000001/")
    assert is_part_of(first.path, "run-2")
    assert (tmp_path / old[0].path).is_file()
    footer = pq.read_metadata(tmp_path / first.path).metadata
    assert (footer[b"lading.run_id"], footer[b"lading.commit_id"]) == (b"run-2", b"c2")


def test_a_member_of_which_nothing_is_left_gives_nothing_and_leaves_no_file(tmp_path):
    old = member(tmp_path, [1, 2], [7, 8])
    assert rewrite_members(str(tmp_path), [old], frozenset({7, 8}), **NAMES) == []
    assert [path.name for path in tmp_path.rglob("*.parquet*")] == [old.path.split("/")[1]]


def test_rows_that_no_longer_counted_are_gone_for_good_and_the_tier_stays(tmp_path):
    old = msgspec.structs.replace(member(tmp_path, [1, 2, 3], [7, 8, 9]), minus=(8,), tier=2)
    (new,) = rewrite_members(str(tmp_path), [old], frozenset({7}), **NAMES)
    assert (new.rows, new.minus, new.tier, new.live_rows) == (1, (), 2, 1)
    assert read(tmp_path, new).column("k").to_pylist() == [3]


def test_long_members_are_rewritten_in_full_row_groups(tmp_path, monkeypatch):
    keys = list(range(1000))
    old = member(tmp_path, keys, [key % 2 for key in keys])
    monkeypatch.setattr("lading.parts.rewrite.ROW_GROUP", 100)
    (new,) = rewrite_members(str(tmp_path), [old], frozenset({1}), **NAMES)
    assert read(tmp_path, new).column("k").to_pylist() == keys[::2]
    assert pq.ParquetFile(tmp_path / new.path).metadata.num_row_groups == 5
    assert (new.zones["k"].min, new.zones["k"].max, new.sources) == (0, 998, ((0, 500),))


def test_a_failure_reaches_the_caller_and_leaves_no_half_part(tmp_path, monkeypatch):
    old = member(tmp_path, [1, 2], [7, 8])

    def full_disk(self, table):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parts.PartWriter, "write", full_disk)
    with pytest.raises(OSError, match="No space"):
        rewrite_members(str(tmp_path), [old], frozenset({7}), **NAMES)
    assert [path.name for path in tmp_path.rglob("*part-*")] == [old.path.split("/")[1]]


def test_rewriting_needs_no_spark():
    code = "import sys, lading.parts.rewrite; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
