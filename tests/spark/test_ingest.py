"""From frames to parts: buckets, order, distribution, bad rows after the transform."""

from __future__ import annotations

import hashlib
import random
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lading.errors import ConfigError, TransformError
from lading.ingest.tasks.execute import execute

MB = 1 << 20


def buckets_of(shop, done):
    return {member.bucket: shop.part(member.path).column(0).to_pylist() for member in done.members}


def test_int_buckets_are_rounded_down_also_below_zero(shop):
    done = shop.ingest(shop.csv("k\n-101\n-100\n-1\n0\n99\n100\n"), "k bigint", order_by="k", bucket_size=100)
    assert buckets_of(shop, done) == {-2: [-101], -1: [-100, -1], 0: [0, 99], 1: [100]}
    assert [member.path.split("/")[0] for member in done.members] == [
        "bucket=-000002",
        "bucket=-000001",
        "bucket=000000",
        "bucket=000001",
    ]
    assert [(member.tick_min, member.tick_max) for member in done.members] == [
        (-101, -101),
        (-100, -1),
        (0, 99),
        (100, 100),
    ]


@pytest.mark.parametrize("input_bytes", [1000, 10 * MB, 200 * MB])
def test_however_rows_are_spread_the_parts_hold_the_same(shop, input_bytes):
    values = [random.Random(number).randrange(-500, 500) for number in range(400)]
    content = "k\n" + "\n".join(map(str, values)) + "\n"
    done = shop.ingest(
        shop.csv(content),
        "k int",
        order_by="k",
        bucket_size=100,
        input_bytes=input_bytes,
        run_id=f"r{input_bytes}",
    )
    found = buckets_of(shop, done)
    assert found == {b: sorted(v for v in values if v // 100 == b) for b in {v // 100 for v in values}}
    assert [member.bucket for member in done.members] == sorted(found)


def test_dates_count_in_days_and_timestamps_in_microseconds(shop):
    done = shop.ingest(
        shop.csv("k\n1969-12-31\n1970-01-01\n1970-01-08\n"), "k date", order_by="k", bucket_size="7d"
    )
    assert buckets_of(shop, done) == {-1: [date(1969, 12, 31)], 0: [date(1970, 1, 1)], 1: [date(1970, 1, 8)]}
    assert [member.tick_min for member in done.members] == [-1, 0, 7]
    for type in ("timestamp", "timestamp_ntz"):
        content = "k\n1969-12-31T23:59:59.999999\n1970-01-01T00:00:00\n1970-01-01T12:00:00\n"
        done = shop.ingest(
            shop.csv(content), f"k {type}", order_by="k", bucket_size="12h", input_bytes=200 * MB
        )
        assert [(member.bucket, member.tick_min) for member in done.members] == [
            (-1, -1),
            (0, 0),
            (1, 43_200_000_000),
        ]


def test_order_columns_without_ticks_use_bucket_zero_and_keep_their_keys(shop):
    long = "z" * 100
    done = shop.ingest(shop.csv(f"k\nb\na\n{long}\n"), "k string", order_by="k")
    (member,) = done.members
    assert (member.bucket, member.tick_min, member.tick_max) == (0, 0, 0)
    assert (member.key_min, member.key_max) == ("a", long)
    assert len(member.zones["k"].max) <= 64
    assert shop.part(member.path).column("k").to_pylist() == ["a", "b", long]


def test_a_table_without_order_has_no_keys(shop):
    (member,) = shop.ingest(shop.csv("k\n2\n1\n"), "k bigint").members
    assert (member.bucket, member.key_min, member.key_max, member.tick_min) == (0, None, None, 0)


def test_ranges_of_unbucketed_parts_are_disjoint(shop):
    values = [f"v{random.Random(n).randrange(1000):04}" for n in range(3000)]
    content = "k\n" + "\n".join(values) + "\n"
    same = shop.transform("return df")
    done = shop.ingest(shop.csv(content), "k string", order_by="k", input_bytes=200 * MB, transform=same)
    assert len(done.members) == 2
    first, second = sorted(done.members, key=lambda member: member.key_min)
    assert first.key_max < second.key_min
    assert sorted(shop.table(done).column("k").to_pylist()) == sorted(values)


def test_rows_are_sorted_by_order_column_source_and_the_rest_whatever_the_arrival(shop):
    rows = [(k, b) for k in (1, 2) for b in ("x", "y", "z")]
    tables = []
    for seed in (1, 2):
        contents = []
        for number in (1, 2):
            mixed = random.Random(seed * number).sample(rows, len(rows))
            contents.append("k,b\n" + "".join(f"{k},{b}\n" for k, b in mixed))
        done = shop.ingest(shop.csv(*contents), "k bigint; b string", order_by="k", run_id=f"run-{seed}")
        tables.append(shop.table(done))
    assert tables[0].equals(tables[1])
    assert tables[0].column("_source").to_pylist() == [1, 1, 1, 2, 2, 2] * 2


def test_rows_that_differ_only_in_nested_columns_have_a_fixed_order(shop):
    texts = [f'{{"k":1,"n":[{n}],"m":{{"x":{n}}}}}' for n in range(20)]
    tables = []
    for seed in (1, 2):
        content = "\n".join(random.Random(seed).sample(texts, len(texts)))
        done = shop.ingest(
            [shop.stage({1: content}, ext="json")],
            "k bigint; n array<bigint>; m map<string,bigint>",
            format="json",
            order_by="k",
        )
        assert done.bad == ()
        tables.append(shop.table(done))
    assert tables[0].column_names == ["k", "n", "m", "_source"]
    assert tables[0].equals(tables[1])


def test_a_task_with_little_memory_writes_the_same_rows_in_the_same_order(shop):
    rows = [(random.Random(n).randrange(300), n % 7, f"s{n % 13}") for n in range(5000)]
    content = "k,a,b\n" + "".join(f"{k},{a},{b}\n" for k, a, b in rows)
    done = [
        shop.ingest(
            shop.csv(content),
            "k bigint; a bigint; b string",
            order_by="k",
            bucket_size=50,
            memory=memory,
        )
        for memory in (20_000, 512 * MB)
    ]
    assert shop.table(done[0]).num_rows == 5000
    assert shop.table(done[0]).equals(shop.table(done[1]))
    assert [(m.bucket, m.rows, m.zones, m.sources) for m in done[0].members] == [
        (m.bucket, m.rows, m.zones, m.sources) for m in done[1].members
    ]


def test_runs_on_disk_are_kept_where_spark_keeps_its_own(shop):
    transform = shop.transform(
        "import os\n@F.udf('string')\ndef where(k):\n    return os.environ['SPARK_LOCAL_DIRS']\n"
        'return df.withColumn("d", where("k"))'
    )
    done = shop.ingest(shop.csv("k\n1\n"), "k bigint", transform=transform)
    assert "/spark-cache0/spark/local/" in shop.table(done).column("d").to_pylist()[0]


def test_a_member_tells_what_its_part_holds(shop):
    done = shop.ingest(shop.csv("k,s\n1,\n5,x\n", "k,s\n3,b\n"), "k bigint; s string", order_by="k")
    (member,) = done.members
    path = Path(shop.folder / "warehouse" / "t" / member.path)
    footer = pq.read_metadata(path)
    assert (member.rows, member.bytes) == (footer.num_rows, path.stat().st_size)
    assert member.sources == ((1, 2), (2, 1))
    assert (member.zones["k"].min, member.zones["k"].max, member.zones["k"].nulls) == (1, 5, 0)
    assert (member.zones["s"].min, member.zones["s"].max, member.zones["s"].nulls) == ("b", "x", 1)
    assert {key: footer.metadata[key] for key in footer.metadata if key.startswith(b"lading.")} == {
        b"lading.table_id": b"table-1",
        b"lading.run_id": b"run-1",
        b"lading.commit_id": b"commit-1",
        b"lading.order_by": b"k",
        b"lading.last_field_id": b"3",
    }
    column = footer.row_group(0).column(2)
    assert (column.path_in_schema, column.compression) == ("_source", "ZSTD")
    assert column.has_dictionary_page
    assert footer.row_group(0).column(0).statistics.max == 5


def test_a_null_in_the_order_column_is_a_bad_row_with_the_text_of_its_line(shop):
    done = shop.ingest(shop.csv("k,s\n1,x\n", "s,k\ny,\n"), "k bigint; s string", order_by="k")
    assert done.bad_rows == 1
    assert [(bad.source, bad.text, bad.column) for bad in done.bad] == [(2, "y,", "k")]
    assert done.bad[0].reason == "the order column 'k' is null"
    assert shop.table(done).num_rows == 1
    group = shop.stage({3: '{"k":1}\n{"s":"y"}\n'}, ext="json")
    done = shop.ingest([group], "k bigint; s string", format="json", order_by="k")
    assert [(bad.source, bad.text, bad.column) for bad in done.bad] == [(3, '{"s":"y"}', "k")]


def test_a_null_that_the_transform_made_is_a_bad_row_too(shop):
    transform = shop.transform('return df.withColumn("k", F.nullif("k", F.lit(2)))')
    done = shop.ingest(shop.csv("k,s\n1,x\n2,y\n"), "k bigint; s string", order_by="k", transform=transform)
    assert (done.bad_rows, done.bad[0].source, done.bad[0].column) == (1, 1, "k")
    assert '"s": "y"' in done.bad[0].text


@pytest.mark.parametrize("input_bytes", [1000, 200 * MB])
@pytest.mark.parametrize(
    "body",
    [
        "return df",
        'return df.where("k > 100")',
        "return df.limit(0)",
        'return df.select("_source").withColumn("k", F.lit(1))',
        "return df.where(F.lit(False))",
        'return df.join(df.groupBy("k").count().where("k > 100"), "k").drop("count")',
    ],
)
def test_bad_rows_are_counted_although_nothing_else_is_left(shop, body, input_bytes):
    done = shop.ingest(
        shop.csv("k,s\n1,a\nx,b\ny,c\n"),
        "k bigint; s string",
        order_by="k",
        bucket_size=10,
        transform=shop.transform(body),
        input_bytes=input_bytes,
    )
    assert done.bad_rows == 2
    assert [(bad.text, bad.line) for bad in done.bad] == [("x,b", 3)]


def test_files_with_only_a_header_give_no_part(shop):
    done = shop.ingest(shop.csv("k,s\n"), "k bigint; s string", order_by="k", bucket_size=10)
    assert (done.members, done.bad_rows) == ((), 0)
    assert pa.ipc.read_schema(pa.py_buffer(done.schema)).names == ["k", "s", "_source"]


def test_no_files_give_a_schema_and_no_part(shop):
    done = shop.ingest(
        [], "k bigint", order_by="k", transform=shop.transform('return df.withColumn("n", F.lit(1))')
    )
    assert done.members == ()
    assert pa.ipc.read_schema(pa.py_buffer(done.schema)).names == ["k", "n", "_source"]


def test_a_transform_of_the_whole_table_may_drop_the_source(shop, rows_of):
    transform = shop.transform('return df.groupBy("k").agg(F.count("*").alias("n"))')
    contents = shop.csv("k\n1\n2\n", "k\n1\n")
    done = shop.ingest(contents, "k bigint", order_by="k", transform=transform, per="table")
    assert rows_of(done) == [{"k": 1, "n": 2, "_source": 0}, {"k": 2, "n": 1, "_source": 0}]
    assert done.members[0].sources == ((0, 2),)
    with pytest.raises(TransformError, match="_source"):
        shop.ingest(contents, "k bigint", order_by="k", transform=transform)


@pytest.mark.parametrize(
    ("type", "size"), [("date", "12h"), ("date", 7), ("bigint", "7d"), ("timestamp", 100), ("string", 10)]
)
def test_a_bucket_size_that_does_not_fit_the_order_column_is_a_config_error(shop, type, size):
    with pytest.raises(ConfigError, match="bucket_size") as raised:
        shop.ingest(shop.csv("k\n"), f"k {type}", order_by="k", bucket_size=size)
    assert "tables.t.bucket_size" in raised.value.hint


def test_an_order_column_that_is_not_there_is_a_config_error(shop):
    with pytest.raises(ConfigError, match="'nope'") as raised:
        shop.ingest(shop.csv("k\n"), "k bigint", order_by="nope")
    assert raised.value.hint == "tables.t.order_by: one of k"


def test_progress_is_told_while_spark_works(shop):
    files = shop.csv("k\n1\n2\n")
    slow = shop.transform(
        "import time\n@F.udf('bigint')\ndef slow(k):\n    time.sleep(1.5)\n    return k\n"
        'return df.withColumn("k", slow("k"))'
    )
    told: list[str] = []
    job = shop.job(files, "k bigint", transform=slow)
    done = execute(job, shop.plan(job, files), lambda: shop.spark, in_process=False, tick=told.append)
    assert shop.table(done).num_rows == 2
    assert any("tasks" in text for text in told)


def test_a_file_that_cannot_be_read_is_told_of_and_the_others_are_read(shop):
    good = pa.table({"k": [1, 2]})
    path = shop.folder / "good.parquet"
    pq.write_table(good, path)
    files = [
        shop.stage({1: b"not parquet at all"}, ext="parquet"),
        shop.stage({2: path.read_bytes()}, ext="parquet"),
    ]
    done = shop.ingest(files, "k bigint", format="parquet", quarantine=True)
    assert "_the file 1.parquet" in done.files[1].refused.message
    assert done.files[1].sha256 == hashlib.sha256(b"not parquet at all").hexdigest()
    assert done.files[2].refused is None
    assert shop.table(done).num_rows == 2


def test_values_before_1582_and_beyond_year_9999_survive(shop):
    done = shop.ingest(
        shop.csv("k\n0044-03-15T00:00:00\n1970-01-01T00:00:00\n"), "k timestamp_ntz", order_by="k"
    )
    assert shop.table(done).column("k").to_pylist()[0] == datetime(44, 3, 15)


def test_ragged_rows_are_seen_although_the_transform_needs_one_column(shop):
    transform = shop.transform('return df.select("a", "_source")')
    done = shop.ingest(shop.csv("a,b,c\n1,x,y\n2\n"), "a bigint; b string; c string", transform=transform)
    assert done.bad_rows == 1
    assert done.bad[0].text == "2"
