"""Strictness of reading: what others turn into nulls or drop is a bad row with a reason."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def the_bad(shop: Any, columns: str, good: str, bad: str, **changes: Any) -> Any:
    header = ",".join(item.strip().split(" ")[0] for item in columns.split(";"))
    done = shop.ingest(shop.csv(f"{header}\n{good}\n{bad}\n"), columns, **changes)
    assert done.bad_rows == 1, done
    assert shop.table(done).num_rows == 1
    (row,) = done.bad
    assert row.source == 1
    assert row.text == bad
    return row


def test_headers_in_another_order_are_matched_by_name(shop, rows_of):
    done = shop.ingest(shop.csv("a,b\n1,x\n", "b,a\ny,2\n"), "a bigint; b string")
    assert done.bad_rows == 0
    assert sorted(rows_of(done), key=lambda row: row["a"]) == [
        {"a": 1, "b": "x", "_source": 1},
        {"a": 2, "b": "y", "_source": 2},
    ]


def test_source_ids_may_be_any_number_of_64_bits(shop, rows_of):
    low, high = -(2**63), 2**63 - 1
    group = shop.stage({low: "a\n1\n", high: "a\n2\n", -7: "a\n3\n"})
    done = shop.ingest([group], "a bigint")
    assert {(row["a"], row["_source"]) for row in rows_of(done)} == {(1, low), (2, high), (3, -7)}


@pytest.mark.parametrize(
    ("type", "good", "bad"),
    [
        ("bigint", "1", "1.5"),
        ("bigint", "1", "12abc"),
        ("bigint", "1", "99999999999999999999"),
        ("int", "1", "3000000000"),
        ("double", "1.5", "abc"),
        ("date", "2024-01-31", "2024-13-45"),
        ("date", "2024-01-31", "2024-02-30"),
        ("date", "2024-01-31", "2024-1-1"),
        ("date", "2024-01-31", "2024-01-31T10:00:00"),
        ("boolean", "true", "yes"),
        ("timestamp_ntz", "2024-01-31T10:00:00.5", "2024-01-31T25:00:00"),
        ("timestamp", "2024-01-31T10:00:00Z", "12:30"),
        ("timestamp", "2024-01-31 10:00:00+02:00", "now"),
        ("decimal(5,2)", "1.25", "1234567.5"),
    ],
)
def test_a_value_that_does_not_parse_is_a_bad_row_that_names_its_column(shop, type, good, bad):
    row = the_bad(shop, f"k string; v {type}", f"one,{good}", f"two,{bad}")
    assert row.column == "v"
    assert row.reason.startswith(f"{bad!r} is not a")


def test_rows_with_too_few_or_too_many_fields_are_bad(shop):
    assert the_bad(shop, "a bigint; b string", "1,x", "2").reason == "has 1 field, but the header has 2"
    assert the_bad(shop, "a bigint; b string", "1,x", "2,y,z").reason == "has 3 fields, but the header has 2"


def test_quotes_are_doubled_as_in_rfc_4180(shop, rows_of):
    content = 'a,b\n1,"say ""hi"", \\ done"\n2,plain\n'
    done = shop.ingest(shop.csv(content), "a bigint; b string", order_by="a")
    assert [row["b"] for row in rows_of(done)] == ['say "hi", \\ done', "plain"]


def test_read_options_are_kept_to(shop, rows_of):
    content = "# head\nk;d;t;n\n x ;31.01.2024;31.01.2024 10:30;NA\n".encode(
        "latin-1"
    ) + "é;01.02.2024;;1\n".encode("latin-1")
    options = {
        "delimiter": ";",
        "comment": "#",
        "encoding": "latin-1",
        "null": "NA",
        "trim": True,
        "date_format": "dd.MM.yyyy",
        "timestamp_format": "dd.MM.yyyy HH:mm",
    }
    group = shop.stage({1: content})
    done = shop.ingest(
        [group], "k string; d date; t timestamp_ntz; n bigint", read_options=options, order_by="d"
    )
    assert done.bad == ()
    assert [(r["k"], r["d"], r["t"], r["n"]) for r in rows_of(done)] == [
        ("x", date(2024, 1, 31), datetime(2024, 1, 31, 10, 30), None),
        ("é", date(2024, 2, 1), None, 1),
    ]


def test_a_record_over_several_lines_is_one_row_if_asked_for(shop, rows_of):
    content = 'a,b\n1,"two\nlines"\n'
    strict = shop.ingest(shop.csv(content), "a bigint; b string")
    assert strict.bad_rows > 0
    done = shop.ingest(shop.csv(content), "a bigint; b string", read_options={"multiline": True})
    assert [row["b"] for row in rows_of(done)] == ["two\nlines"]


def test_files_without_a_header_keep_their_first_line(shop, rows_of):
    group = shop.stage({1: "1\tx\n2\ty\n"}, ext="tsv")
    done = shop.ingest(
        [group], "a bigint; b string", format="tsv", read_options={"header": False}, order_by="a"
    )
    assert [(row["a"], row["b"]) for row in rows_of(done)] == [(1, "x"), (2, "y")]


def test_wide_encodings_are_read(shop, rows_of):
    group = shop.stage({1: "a,b\n1,ä\n2,ö\n".encode("utf-16")})
    done = shop.ingest([group], "a bigint; b string", read_options={"encoding": "utf-16"}, order_by="a")
    assert [row["b"] for row in rows_of(done)] == ["ä", "ö"]


def test_columns_from_names_stay_text_and_take_their_place_in_the_schema(shop, rows_of):
    group = shop.stage({1: "a\n1\n"}, names={"port": "007", "day": None})
    done = shop.ingest([group], "port string; a bigint; day string")
    assert rows_of(done) == [{"port": "007", "a": 1, "day": None, "_source": 1}]
    assert shop.table(done).column_names == ["port", "a", "day", "_source"]


def test_odd_column_names_and_a_folder_that_looks_like_a_pattern_are_read(tmp_path, shop, rows_of):
    shop.folder = tmp_path / "a[1] {x},*"
    names = ("a.b", "c`d", "_metadata", "äö")
    group = shop.stage({1: ",".join(names) + "\n1,2,3,4\n"})
    done = shop.ingest([group], "; ".join(f"{name} bigint" for name in names), order_by="a.b")
    assert rows_of(done) == [{"a.b": 1, "c`d": 2, "_metadata": 3, "äö": 4, "_source": 1}]


def test_duplicate_rows_are_kept(shop):
    done = shop.ingest(shop.csv("a,b\n1,x\n1,x\n1,x\n"), "a bigint; b string", order_by="a")
    assert shop.table(done).num_rows == 3


def test_types_of_parts_are_those_of_the_schema(shop):
    columns = "i int; l bigint; f double; c decimal(10,2); d date; t timestamp; n timestamp_ntz"
    columns += "; b boolean; s string"
    content = (
        "i,l,f,c,d,t,n,b,s\n1,2,1.5,3.25,2024-01-31,2024-01-31T10:00:00+01:00,2024-01-31T10:00:00,true,x\n"
    )
    done = shop.ingest(shop.csv(content), columns)
    table = shop.table(done)
    assert [str(field.type) for field in table.schema] == [
        "int32",
        "int64",
        "double",
        "decimal128(10, 2)",
        "date32[day]",
        "timestamp[us, tz=UTC]",
        "timestamp[us]",
        "bool",
        "string",
        "int64",
    ]
    row = table.to_pylist()[0]
    assert row["t"] == datetime(2024, 1, 31, 9, tzinfo=UTC)
    assert row["n"] == datetime(2024, 1, 31, 10)
    assert row["c"] == Decimal("3.25")


@pytest.mark.parametrize("compression", ["none", "zstd", "gzip"])
def test_a_damaged_page_of_parquet_is_refused_not_read(shop, tmp_path, compression):
    path = tmp_path / "x.parquet"
    values = pa.array([number * 7919 % 10_007 for number in range(5_000)], pa.int64())
    pq.write_table(
        pa.table({"a": values}),
        path,
        compression=compression,
        use_dictionary=False,
        write_page_checksum=True,
    )
    column = pq.read_metadata(path).row_group(0).column(0)
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    group = shop.stage({5: bytes(content)}, ext="parquet")
    done = shop.ingest([group], "a bigint", format="parquet", order_by="a")
    assert re.search(r"_the file 5.parquet.*page", done.files[5].refused.message)


def test_parquet_files_are_read_and_their_rows_carry_lineage(shop, rows_of, tmp_path):
    pq.write_table(pa.table({"b": ["x", None], "a": pa.array([1, 2], pa.int64())}), tmp_path / "x.parquet")
    group = shop.stage({5: (tmp_path / "x.parquet").read_bytes()}, ext="parquet")
    done = shop.ingest([group], "a bigint; b string", format="parquet", order_by="a")
    assert rows_of(done) == [{"a": 1, "b": "x", "_source": 5}, {"a": 2, "b": None, "_source": 5}]
