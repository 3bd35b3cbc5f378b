"""What a task does with its rows, without Spark: order, runs on disk, and where parts are cut."""

from __future__ import annotations

import random
import threading
import time
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lading.parts import cut as cutting
from lading.parts.cut import Limits
from lading.parts.footer import Origin
from lading.parts.task import TaskSpec, written

MB = 1 << 20
ROWS = 3000


def order_values(kind: str) -> pa.Array:
    pick = random.Random(kind)
    if kind == "int":
        return pa.array([pick.randrange(-200, 200) for _ in range(ROWS)], pa.int32())
    if kind == "timestamp":
        return pa.array([pick.randrange(-(10**9), 10**9) for _ in range(ROWS)]).cast(
            pa.timestamp("us", "UTC")
        )
    if kind == "far timestamp":  # beyond what Python's datetime can say
        return pa.array([pick.randrange(10**17) * 9 for _ in range(ROWS)]).cast(pa.timestamp("us"))
    if kind == "date":
        return pa.array([pick.randrange(-50, 50) for _ in range(ROWS)], pa.int32()).cast(pa.date32())
    if kind == "string":
        return pa.array([pick.choice(["a", "ä", "z", "\U0001f600", ""]) + str(n % 40) for n in range(ROWS)])
    if kind == "decimal":
        return pa.array([Decimal(pick.randrange(100)) / 4 for _ in range(ROWS)], pa.decimal128(20, 2))
    if kind == "float":
        return pa.array([pick.choice([float("nan"), 0.5, -1.0, 3.25]) for _ in range(ROWS)])
    if kind == "bool":
        return pa.array([pick.random() < 0.5 for _ in range(ROWS)])
    return pa.array([1] * ROWS, pa.int64())


def table_of(kind: str) -> pa.Table:
    pick = random.Random(1)
    nested = [[pick.randrange(3)] for _ in range(ROWS)]
    return pa.table(
        {
            "k": order_values(kind),
            "n": pa.array([pick.choice([None, 1.5, 2.5]) for _ in range(ROWS)]),
            "l": nested,
            "_source": pa.array([pick.randrange(30) for _ in range(ROWS)], pa.int64()),
        }
    )


def write(folder, table, *, memory=512 * MB, limits=None, bucket_size=None, order_by="k"):
    schema = table.schema
    spec = TaskSpec(
        str(folder),
        Origin("t", "run", "c", order_by),
        schema.serialize().to_pybytes(),
        bucket_size,
        memory,
        limits or Limits(),
    )
    return written(iter(table.to_batches(max_chunksize=170)), spec)


def read(folder, members):
    return pa.concat_tables(pq.read_table(folder / member.path, partitioning=None) for member in members)


def shown(table):
    """Values in which NaN equals NaN and no year is too far for Python."""
    columns = dict(zip(table.column_names, table.columns, strict=True))
    if pa.types.is_timestamp(columns["k"].type):
        columns["k"] = columns["k"].cast(pa.int64())
    return {name: str(column.to_pylist()) for name, column in columns.items()}


@pytest.mark.parametrize(
    "kind", ["int", "timestamp", "far timestamp", "date", "string", "decimal", "float", "bool", "one value"]
)
def test_runs_on_disk_give_the_same_rows_in_the_same_order(tmp_path, kind):
    table = table_of(kind)
    whole = read(tmp_path, write(tmp_path, table))
    assert whole.num_rows == ROWS
    for memory in (60_000, 6_000):
        again = read(tmp_path, write(tmp_path, table, memory=memory))
        assert shown(again) == shown(whole)


def test_rows_are_in_the_order_of_the_keys(tmp_path):
    found = read(tmp_path, write(tmp_path, table_of("int"), memory=60_000)).to_pylist()
    keys = [(row["k"], row["_source"], row["n"] is None, row["n"] or 0) for row in found]
    assert keys == sorted(keys)


@pytest.mark.parametrize("memory", [512 * MB, 20_000])
def test_parts_of_a_bucket_never_share_an_order_value(tmp_path, memory, monkeypatch):
    monkeypatch.setattr(cutting, "ROW_GROUP", 64)
    members = write(tmp_path, table_of("int"), memory=memory, limits=Limits(rows=200), bucket_size=100)
    assert sum(member.rows for member in members) == ROWS
    assert all(member.rows <= 200 for member in members)
    assert {member.bucket for member in members} == {-2, -1, 0, 1}
    assert len(members) > 8
    for one, two in pairwise(members):
        assert one.bucket < two.bucket or (one.bucket == two.bucket and one.key_max < two.key_min)


def test_a_part_lists_no_more_sources_than_it_may(tmp_path):
    table = pa.table({"k": pa.array(range(100)), "_source": pa.array(range(100))})
    members = write(tmp_path, table, limits=Limits(sources=30))
    assert [len(member.sources) for member in members] == [30, 30, 30, 10]
    assert read(tmp_path, members).column("k").to_pylist() == list(range(100))


def test_only_a_value_that_alone_exceeds_a_limit_is_cut_through(tmp_path):
    keys = [1] * 10 + [2] * 50 + [3] * 10
    table = pa.table({"k": pa.array(keys), "_source": pa.array(range(len(keys)))})
    members = write(tmp_path, table, limits=Limits(sources=30))
    assert [(member.key_min, member.key_max, member.rows) for member in members] == [
        (1, 1, 10),
        (2, 2, 30),
        (2, 3, 30),
    ]


def test_a_big_file_is_ended_at_the_next_value(tmp_path, monkeypatch):
    monkeypatch.setattr(cutting, "ROW_GROUP", 64)
    members = write(tmp_path, table_of("int"), limits=Limits(bytes=2_000))
    assert len(members) > 3
    assert all(one.key_max < two.key_min for one, two in pairwise(members))


def test_an_unordered_table_keeps_all_its_rows_when_memory_is_short(tmp_path):
    table = table_of("int")
    members = write(tmp_path, table, memory=20_000, order_by=None)
    found = read(tmp_path, members)
    assert sorted(found.column("k").to_pylist()) == sorted(table.column("k").to_pylist())
    assert {member.bucket for member in members} == {0}


def test_no_rows_give_no_part_and_no_folder(tmp_path):
    assert write(tmp_path, table_of("int").slice(0, 0)) == []
    assert list(tmp_path.iterdir()) == []


def test_a_failing_task_leaves_no_half_part_and_no_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()

    def broken():
        yield from table_of("int").to_batches(max_chunksize=170)
        raise OSError("the reader died")

    class Broken:
        schema = table_of("int").schema

        def to_batches(self, **_):
            return broken()

    with pytest.raises(OSError, match="died"):
        write(tmp_path / "t", Broken(), memory=20_000)
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not (tmp_path / "t").exists() or not list((tmp_path / "t").rglob("*part-*"))


def test_many_parts_are_made_durable_side_by_side_and_named_in_their_order(tmp_path, monkeypatch):
    at_once, most = [0], [0]
    lock = threading.Lock()
    plain = cutting.PartWriter.close

    def close(part):
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        time.sleep(0.01)
        try:
            return plain(part)
        finally:
            with lock:
                at_once[0] -= 1

    monkeypatch.setattr(cutting.PartWriter, "close", close)
    monkeypatch.setattr(cutting, "_WAITING", 20)
    members = write(tmp_path, table_of("int"), bucket_size=4)
    assert len(members) == 100 and most[0] > 1
    assert [member.bucket for member in members] == list(range(-50, 50))
    assert read(tmp_path, members).num_rows == ROWS
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize("worth", [0, 1 << 20])
def test_a_task_that_fails_leaves_nothing_half_written(tmp_path, monkeypatch, worth):
    """Not of the part at hand, nor of small ones before it that wait to be made durable together."""
    plain = cutting.PartWriter.write

    def write_or_fail(part, *rest):
        if part._bucket == 0:
            raise OSError("no space left")
        plain(part, *rest)

    monkeypatch.setattr(cutting.PartWriter, "write", write_or_fail)
    monkeypatch.setattr(cutting, "_WORTH", worth)
    with pytest.raises(OSError, match="no space left"):
        write(tmp_path, table_of("int"), bucket_size=4)
    assert not list(tmp_path.rglob(".*"))


def test_small_parts_are_made_durable_together_and_large_ones_at_once(tmp_path, monkeypatch):
    closed: list[int] = []
    begun: list[tuple[int, int]] = []  # parts that were begun before, and those of them that were closed
    plain_close, plain_fresh = cutting.PartWriter.close, cutting.Cutter._fresh

    def close(part):
        closed.append(part._bucket)
        return plain_close(part)

    def fresh(cutter):
        for one in cutter._closing._members:
            one.result()
        begun.append((len(begun), len(closed)))
        return plain_fresh(cutter)

    monkeypatch.setattr(cutting.PartWriter, "close", close)
    monkeypatch.setattr(cutting.Cutter, "_fresh", fresh)
    monkeypatch.setattr(cutting, "_WAITING", 20)
    write(tmp_path / "small", table_of("int"), bucket_size=4)
    assert begun == [(number, number // 20 * 20) for number in range(100)]
    begun.clear()
    closed.clear()
    monkeypatch.setattr(cutting, "_WORTH", 1)
    write(tmp_path / "large", table_of("int"), bucket_size=4)
    assert begun == [(number, number) for number in range(100)]


def test_a_part_that_can_t_be_made_durable_fails_the_task(tmp_path, monkeypatch):
    plain = cutting.PartWriter.close

    def close(part):
        if part._bucket == -40:
            part.abort()
            raise OSError("no space left")
        return plain(part)

    monkeypatch.setattr(cutting.PartWriter, "close", close)
    with pytest.raises(OSError, match="no space left"):
        write(tmp_path, table_of("int"), bucket_size=4)
    assert not list(tmp_path.rglob(".*"))
