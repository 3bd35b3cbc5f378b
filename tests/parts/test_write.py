"""One part: its name, its footer, what it leaves behind when it fails, and what is said of it."""

from __future__ import annotations

import uuid
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lading.layout.table import is_part_of, part_name
from lading.parts.footer import Origin
from lading.parts.write import PartWriter

SCHEMA = pa.schema(
    [("k", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.int64())), ("_source", pa.int64())]
)


def rows(keys, sources, strings=None):
    return pa.table(
        {"k": keys, "s": strings or ["x"] * len(keys), "l": [[1]] * len(keys), "_source": sources},
        schema=SCHEMA,
    )


def writer(tmp_path, schema=SCHEMA, order_by="k", bucket=0, passing=False):
    return PartWriter(str(tmp_path), bucket, schema, Origin("t", "run-1", "c", order_by), passing=passing)


def test_a_part_is_named_by_a_valid_uuid_that_carries_its_run():
    names = {part_name("run-1") for _ in range(100)}
    assert len(names) == 100
    for name in names:
        value = uuid.UUID(name.removeprefix("part-").removesuffix(".parquet"))
        assert (value.version, value.variant) == (8, uuid.RFC_4122)
        assert is_part_of(name, "run-1")
        assert is_part_of(f"bucket=000001/{name}", "run-1")
        assert is_part_of(f".{name}.tmp", "run-1")
        assert not is_part_of(name, "run-2")


@pytest.mark.parametrize(
    "name", ["part-x.parquet", "notes.txt", "part-6b6d627b-a283-4461-8f1d-72793959f29f.parquet", ""]
)
def test_other_files_belong_to_no_run(name):
    assert not is_part_of(name, "run-1")


def test_figures_of_several_writes_are_added_up(tmp_path):
    part = writer(tmp_path)
    part.write(rows([1, 2], [7, 8], [None, None]))
    part.write(rows([2, 9], [8, 8], ["b", "a"]))
    member = part.close()
    assert (member.rows, member.sources) == (4, ((7, 1), (8, 3)))
    assert (member.key_min, member.key_max, member.tick_min, member.tick_max) == (1, 9, 1, 9)
    assert (member.zones["s"].min, member.zones["s"].max, member.zones["s"].nulls) == ("a", "b", 2)
    assert "l" not in member.zones
    path = tmp_path / member.path
    assert member.bytes == path.stat().st_size
    assert pq.ParquetFile(path).metadata.num_row_groups == 2


def test_a_column_of_nulls_has_a_zone_that_says_so(tmp_path):
    part = writer(tmp_path)
    part.write(rows([1, 2], [7, 7], [None, None]))
    zone = part.close().zones["s"]
    assert (zone.min, zone.max, zone.nulls) == (None, None, 2)


def test_keys_are_exact_where_zones_are_cut_short(tmp_path):
    schema = pa.schema([("k", pa.string()), ("_source", pa.int64())])
    part = writer(tmp_path, schema)
    part.write(pa.table({"k": ["a" * 100, "b" * 100], "_source": [1, 1]}, schema=schema))
    member = part.close()
    assert (member.key_min, member.key_max) == ("a" * 100, "b" * 100)
    assert len(member.zones["k"].min) == 64
    assert (member.tick_min, member.tick_max) == (0, 0)


def test_dates_tick_in_days(tmp_path):
    schema = pa.schema([("k", pa.date32()), ("_source", pa.int64())])
    part = writer(tmp_path, schema, bucket=-3)
    part.write(pa.table({"k": [date(1969, 12, 1), date(1970, 1, 2)], "_source": [1, 1]}, schema=schema))
    member = part.close()
    assert (member.tick_min, member.tick_max, member.bucket) == (-31, 1, -3)
    assert member.path.startswith("bucket=-000003/part-")


def test_an_aborted_part_leaves_nothing(tmp_path):
    part = writer(tmp_path)
    part.write(rows([1], [1]))
    part.abort()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_part_is_not_visible_before_it_is_closed(tmp_path):
    part = writer(tmp_path)
    part.write(rows([1], [1]))
    assert list(tmp_path.rglob("part-*")) == []
    (hidden,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert hidden.name.startswith(".part-")
    member = part.close()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [member.path.split("/")[1]]


def test_row_groups_carry_statistics_and_a_page_index(tmp_path):
    part = writer(tmp_path)
    part.write(rows([1, 5], [7, 7]))
    column = pq.ParquetFile(tmp_path / part.close().path).metadata.row_group(0).column(0)
    assert (column.statistics.min, column.statistics.max) == (1, 5)
    assert column.has_column_index
    assert column.has_offset_index


def test_only_values_that_repeat_get_a_dictionary(tmp_path):
    table = pa.table({"k": pa.array(range(100), pa.int64()), "_source": pa.array([7] * 100, pa.int64())})
    part = writer(tmp_path, table.schema)
    part.write(table)
    group = pq.ParquetFile(tmp_path / part.close().path).metadata.row_group(0)
    encoded = {group.column(i).path_in_schema: group.column(i).encodings for i in range(group.num_columns)}
    assert "RLE_DICTIONARY" not in encoded["k"]
    assert "RLE_DICTIONARY" in encoded["_source"]


def test_a_part_without_rows_is_a_file_with_the_schema(tmp_path):
    member = writer(tmp_path).close()
    assert member.rows == 0
    assert pq.read_table(tmp_path / member.path).schema.names == SCHEMA.names


def test_a_passing_part_holds_every_kind_of_value(tmp_path):
    rows = pa.table(
        {
            "k": pa.array([-(2**63), 0, 2**63 - 1]),
            "_source": pa.array([1, -(2**63), 2**63 - 1]),
            "tiny": pa.array([-128, None, 127], pa.int8()),
            "day": pa.array([None, date(1, 1, 1), date(9999, 12, 31)]),
            "at": pa.array([None, -(2**62), 2**62], pa.int64()).cast(pa.timestamp("us", "UTC")),
            "part": pa.array([{"n": "text"}, None, {"n": None}]),
            "part.n": pa.array([1, 2, None]),
        }
    )
    part = writer(tmp_path, rows.schema, passing=True)
    part.write(rows)
    member = part.close()
    found = pq.read_table(tmp_path / member.path, partitioning=None)
    assert found.replace_schema_metadata(None).equals(rows)
    assert (member.key_min, member.key_max, member.zones) == (-(2**63), 2**63 - 1, {})
