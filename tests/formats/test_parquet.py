"""Parquet: the schema's types exactly, or a bad row; damage is an error; pieces add up to the file."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.reading import columns_of, pieces_of, read, source, spec_of

from lading.errors import SchemaDrift, SourceError
from lading.formats.parquet import ParquetReader
from lading.formats.registry import may_be_cut, reader_of
from lading.model import DRIFTS

BAD_TEXT = pa.array([b"x", b"\xffy", None, b"z"]).view(pa.string())


def write(tmp_path: Path, table: pa.Table | dict[str, Any], **options: Any) -> Path:
    path = tmp_path / "a.parquet"
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), path, **options)
    return path


@pytest.mark.parametrize(
    ("values", "kind", "reads"),
    [
        (pa.array([1, None], pa.int32()), "bigint", [1, None]),
        (pa.array([1, -128], pa.int8()), "double", [1.0, -128.0]),
        (pa.array([255], pa.uint8()), "smallint", [255]),
        (pa.array([2**32 - 1], pa.uint32()), "bigint", [2**32 - 1]),
        (pa.array([2**64 - 1], pa.uint64()), "decimal(20,0)", [Decimal(2**64 - 1)]),
        (pa.array([2**64 - 1], pa.uint64()), "decimal(22,2)", [Decimal(2**64 - 1)]),
        (pa.array([0.1], pa.float32()), "double", [pa.scalar(0.1, pa.float32()).as_py()]),
        (pa.array(["x", None], pa.large_string()), "string", ["x", None]),
        (pa.array(["x", None], pa.string_view()), "string", ["x", None]),
        (pa.array(["x", None, "x"]).dictionary_encode(), "string", ["x", None, "x"]),
        (pa.array([3, None, 3], pa.int64()).dictionary_encode(), "bigint", [3, None, 3]),
        (pa.array([b"ab"], pa.binary(2)), "binary", [b"ab"]),
        (pa.array([b"ab"], pa.large_binary()), "binary", [b"ab"]),
        (pa.array([date(2024, 2, 29)], pa.date64()), "date", [date(2024, 2, 29)]),
        (pa.array([date(2024, 2, 29)]), "timestamp_ntz", [datetime(2024, 2, 29)]),
        (pa.array([1500], pa.timestamp("ms")), "timestamp_ntz", [datetime(1970, 1, 1, 0, 0, 1, 500_000)]),
        (pa.array([0], pa.timestamp("us", "Asia/Tokyo")), "timestamp", [datetime(1970, 1, 1, tzinfo=UTC)]),
        (pa.array([5, None], pa.duration("s")), "bigint", None),
        (pa.array([Decimal("1.5")], pa.decimal256(20, 1)), "decimal(38,2)", [Decimal("1.50")]),
        (pa.array([[1, 2], None, []], pa.list_(pa.int64())), "array<bigint>", [[1, 2], None, []]),
        (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), "array<bigint>", [[1, 2], None]),
        (pa.array([["a"], [None]], pa.large_list(pa.large_string())), "array<string>", [["a"], [None]]),
        (pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())), "map<string,bigint>", None),
        (pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())])), "struct<x:bigint>", [{"x": 1}, None]),
        (pa.nulls(2), "int", [None, None]),
        (pa.nulls(2), "bigint", [None, None]),
        (pa.array([True, None]), "boolean", [True, None]),
    ],
)
def test_what_a_file_holds_is_read_exactly(
    tmp_path: Path, values: pa.Array, kind: str, reads: list[Any] | None
) -> None:
    seen = read(spec_of("parquet", f"a {kind}"), write(tmp_path, {"a": values}))
    expected = values.to_pylist() if reads is None else reads
    if pa.types.is_duration(values.type):
        expected = pc.cast(pq.read_table(tmp_path / "a.parquet")["a"], pa.int64()).to_pylist()
    assert seen.table["a"].to_pylist() == expected and not seen.bad
    assert seen.records == list(range(1, len(values) + 1)) and seen.lines == []


def test_columns_come_in_any_order_and_drift_says_which(tmp_path: Path) -> None:
    path = write(tmp_path, {"b": ["x"], "a": pa.array([1], pa.int32()), "c": [1.5]})
    with pytest.raises(SchemaDrift, match="column 'c' is new"):
        read(spec_of("parquet", "a bigint; b string"), path)
    lenient = spec_of("parquet", "a bigint; b string", drift="ignore_new")
    head = reader_of(lenient).head(source(path))
    assert head is not None and head.ignored == ("c",)
    assert dict(head.columns) == {"b": "string", "a": "int", "c": "double"}
    assert read(lenient, path).rows == [{"a": 1, "b": "x"}]
    with pytest.raises(SchemaDrift, match="column 'd' is missing"):
        read(spec_of("parquet", "a bigint; b string; c double; d date"), path)
    more = spec_of("parquet", "a bigint; b string; c double; d date; e array<int>", drift="evolve")
    assert read(more, path).rows == [{"a": 1, "b": "x", "c": 1.5, "d": None, "e": None}]
    with pytest.raises(SchemaDrift, match="column 'a' is int, but the schema says string"):
        read(spec_of("parquet", "a string; b string; c double"), path)


def test_a_file_with_none_of_the_columns_still_has_its_rows(tmp_path: Path) -> None:
    path = write(tmp_path, {"x": [1, 2, 3]})
    path_of_none = spec_of("parquet", "a bigint; x bigint", drift="evolve")
    assert read(path_of_none, path).rows == [{"a": None, "x": n} for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("values", "kind", "reads"),
    [
        (pa.array([1, None], pa.int64()), "string", ["1", None]),
        (pa.array([1.0, 0.1, 1e300, -2.0]), "string", ["1.0", "0.1", "1e+300", "-2.0"]),
        (pa.array([float("nan"), float("-inf")]), "string", ["NaN", "-Infinity"]),
        (pa.array([True]), "string", ["true"]),
        (pa.array([date(2024, 1, 31)]), "string", ["2024-01-31"]),
        (
            pa.array([datetime(2024, 1, 31), datetime(2024, 1, 31, 1, 2, 3, 450_000)]),
            "string",
            ["2024-01-31 00:00:00", "2024-01-31 01:02:03.45"],
        ),
        (pa.array([datetime(2024, 1, 31, tzinfo=UTC)]), "string", ["2024-01-31 00:00:00"]),
        (pa.array([1, -(10**14)], pa.int64()), "double", [1.0, -1e14]),
        (
            pa.array([[{"q": 1}], None], pa.list_(pa.struct([("q", pa.int32())]))),
            "array<struct<p:string,q:bigint>>",
            [[{"p": None, "q": 1}], None],
        ),
    ],
)
def test_files_of_older_types_are_read_as_an_evolved_schema_has_them(
    tmp_path: Path, values: pa.Array, kind: str, reads: list[Any]
) -> None:
    path = write(tmp_path, {"a": values})
    assert read(spec_of("parquet", f"a {kind}", drift="evolve"), path).table["a"].to_pylist() == reads


def test_a_number_that_a_double_would_round_is_a_bad_row(tmp_path: Path) -> None:
    path = write(tmp_path, {"a": pa.array([1, 2**53 + 1, 3], pa.int64())})
    seen = read(spec_of("parquet", "a double", drift="evolve"), path)
    assert seen.rows == [{"a": 1.0}, {"a": 3.0}] and seen.records == [1, 3]
    [bad] = seen.bad
    assert (bad.record, bad.line, bad.column) == (2, None, "a")
    assert bad.reason == "'9007199254740993' is not a double" and bad.text == '{"a": 9007199254740993}'


@pytest.mark.parametrize(("unit", "number"), [("s", 2**50), ("ms", -(2**62))])
def test_a_time_beyond_the_calendar_of_microseconds_is_a_bad_row(
    tmp_path: Path, unit: str, number: int
) -> None:
    path = write(tmp_path, {"a": pa.array([0, number], pa.timestamp(unit))}, coerce_timestamps=None)
    seen = read(spec_of("parquet", "a timestamp_ntz"), path)
    assert seen.rows == [{"a": datetime(1970, 1, 1)}]
    assert "is not a timestamp_ntz" in seen.bad[0].reason and seen.bad[0].record == 2


@pytest.mark.parametrize("inferred", [True, False])
def test_bytes_that_are_no_text_make_a_bad_row_with_the_row_as_json(tmp_path: Path, inferred: bool) -> None:
    path = write(
        tmp_path,
        {"n": pa.array([1, 2, 3, None], pa.int64()), "s": BAD_TEXT, "b": pa.array([b"\xff"] * 4)},
    )
    seen = read(spec_of("parquet", "n bigint; s string; b binary", inferred=inferred), path)
    assert seen.table["s"].to_pylist() == ["x", None, "z"] and seen.records == [1, 3, 4]
    [bad] = seen.bad
    assert (bad.record, bad.column, bad.reason) == (2, "s", "bytes that are not UTF-8")
    assert json.loads(bad.text) == {"n": 2, "s": "\ufffdy", "b": "/w=="}
    assert json.loads(seen.texts[2]) == {"s": "z", "b": "/w=="}


@pytest.mark.parametrize("nest", ["list", "struct", "map", "dictionary"])
def test_text_inside_of_other_values_is_looked_at_too(tmp_path: Path, nest: str) -> None:
    bad = BAD_TEXT.fill_null("")
    values, kind = {
        "list": (pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4]), bad), "array<string>"),
        "struct": (pa.StructArray.from_arrays([bad], ["x"]), "struct<x:string>"),
        "map": (pa.MapArray.from_arrays(pa.array([0, 1, 2, 3, 4]), bad, bad), "map<string,string>"),
        "dictionary": (bad.dictionary_encode(), "string"),
    }[nest]
    path = write(tmp_path, {"a": values})
    seen = read(spec_of("parquet", f"a {kind}"), path)
    assert [one.record for one in seen.bad] == [2] and seen.records == [1, 3, 4]
    assert seen.bad[0].reason == "bytes that are not UTF-8" and "\ufffd" in seen.bad[0].text


@pytest.mark.parametrize("compression", ["none", "zstd", "gzip"])
def test_a_damaged_page_is_an_error_not_rows(tmp_path: Path, compression: str) -> None:
    values = pa.array([number * 7919 % 10_007 for number in range(5_000)], pa.int64())
    options = {"compression": compression, "use_dictionary": False, "write_page_checksum": True}
    path = write(tmp_path, {"a": values}, **options)
    column = pq.read_metadata(path).row_group(0).column(0)
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"^a\.parquet can't be read as Parquet: .*") as caught:
        read(spec_of("parquet", "a bigint"), path)
    assert caught.value.file == "a.parquet"


@pytest.mark.parametrize("content", [b"", b"id,name\n", b"PAR1" * 3])
def test_what_is_no_parquet_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"^a\.parquet can't be read as Parquet"):
        read(spec_of("parquet", "a bigint"), path)
    with pytest.raises(SourceError, match=r"^a\.parquet can't be read as Parquet"):
        reader_of(spec_of("parquet", "a bigint")).head(source(path))


def test_a_long_text_that_stands_in_the_file_once_never_fills_the_memory(tmp_path: Path) -> None:
    text = "x" * 1_000_000
    path = write(tmp_path, {"a": pa.array([text] * 1_000).dictionary_encode()}, store_schema=False)
    spec = spec_of("parquet", "a string")
    blocks = [rows.batch for rows in reader_of(spec).rows(source(path))]
    assert sum(batch.num_rows for batch in blocks) == 1_000
    assert max(batch.nbytes for batch in blocks) < 20_000_000


def test_batches_are_as_small_as_rows_are_large(tmp_path: Path) -> None:
    path = write(tmp_path, {"a": [f"{number:05d}" * 2_000 for number in range(2_000)]})
    seen = read(
        spec_of("parquet", "a string"), path, reader=ParquetReader(spec_of("parquet", "a string"), 1 << 20)
    )
    assert seen.blocks > 15 and seen.records == list(range(1, 2_001))


ROW = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "s": st.none() | st.binary(max_size=4),
        "l": st.none() | st.lists(st.none() | st.floats(), max_size=3),
    }
)
COLUMNS = "n bigint; s string; l array<double>"


@given(
    st.lists(ROW, max_size=40), st.lists(st.integers(0, 10_000), max_size=4), st.integers(1, 15), st.data()
)
@settings(max_examples=150, deadline=None)
def test_pieces_and_blocks_give_what_the_file_holds(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[dict[str, Any]],
    cuts: list[int],
    group: int,
    data: st.DataObject,
) -> None:
    table = pa.table(
        {
            "n": pa.array([row["n"] for row in rows], pa.int64()),
            "s": pa.array([row["s"] for row in rows], pa.binary()).view(pa.string()),
            "l": pa.array([row["l"] for row in rows], pa.list_(pa.float64())),
        }
    )
    path = write(tmp_path_factory.mktemp("p"), table, row_group_size=group)
    spec = spec_of("parquet", COLUMNS)
    assert may_be_cut(spec, str(path))
    fits = [_decodes(row["s"]) for row in rows]
    whole = read(spec, path, reader=ParquetReader(spec, data.draw(st.sampled_from([1, 100, 1 << 20]))))
    expected = [
        {"n": row["n"], "s": None if row["s"] is None else row["s"].decode(), "l": row["l"]}
        for row, fit in zip(rows, fits, strict=True)
        if fit
    ]
    assert repr(whole.rows) == repr(expected)  # by their texts, since NaN is not NaN
    assert [one.record for one in whole.bad] == [at for at, fit in enumerate(fits, 1) if not fit]
    taken, found, bad = 0, [], []
    for piece in pieces_of(path.stat().st_size, cuts):
        seen = read(spec, path, piece)
        found += [record + taken for record in seen.records]
        bad += [(one.record + taken, one.column, one.reason, one.text) for one in seen.bad]
        taken += seen.taken
    assert taken == len(rows) and found == whole.records
    assert bad == [(one.record, one.column, one.reason, one.text) for one in whole.bad]


def _decodes(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


@pytest.mark.parametrize("drift", ["strict", "ignore_new", "evolve"])
def test_columns_from_file_names_are_no_columns_of_the_file(tmp_path: Path, drift: str) -> None:
    path = write(tmp_path, {"port": ["x"]})
    spec = spec_of("parquet", "a bigint")
    with pytest.raises(SchemaDrift, match="both in the file and in columns_from_name"):
        read(type(spec)("parquet", {}, columns_of("a bigint"), DRIFTS[drift], None, ("port",)), path)
