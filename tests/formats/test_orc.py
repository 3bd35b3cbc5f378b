"""ORC: the schema's types exactly, or a bad row; damage is an error."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.reading import read, source, spec_of

from lading.errors import SchemaDrift, SourceError
from lading.formats.orc import OrcReader
from lading.formats.reader import Piece
from lading.formats.registry import may_be_cut, reader_of


def write(tmp_path: Path, columns: dict[str, Any], **options: Any) -> Path:
    path = tmp_path / "a.orc"
    orc.write_table(pa.table(columns), str(path), **options)
    return path


@pytest.mark.parametrize(
    ("values", "kind", "wanted", "reads"),
    [
        (pa.array([1, None], pa.int8()), "tinyint", "tinyint", None),
        (pa.array([1, None], pa.int16()), "smallint", "int", None),
        (pa.array([1, None], pa.int32()), "int", "bigint", None),
        (pa.array([2**63 - 1], pa.int64()), "bigint", "bigint", None),
        (pa.array([1.5], pa.float32()), "float", "double", None),
        (pa.array([0.1]), "double", "double", None),
        (pa.array([True, None]), "boolean", "boolean", None),
        (pa.array(["ä", "", None]), "string", "string", None),
        (pa.array([b"\xff", None]), "binary", "binary", None),
        (pa.array([date(1970, 1, 1), date(9999, 12, 31)]), "date", "date", None),
        (pa.array([date(2024, 2, 29)]), "date", "timestamp_ntz", [datetime(2024, 2, 29)]),
        (pa.array([datetime(2024, 2, 29, 1, 2, 3, 456_789)]), "timestamp_ntz", "timestamp_ntz", None),
        (pa.array([datetime(1969, 12, 31, 23, 59, 59, 1)]), "timestamp_ntz", "timestamp_ntz", None),
        (pa.array([datetime(2024, 2, 29, tzinfo=UTC)]), "timestamp", "timestamp", None),
        (pa.array([Decimal("-1.50")]), "decimal(3,2)", "decimal(38,10)", [Decimal("-1.50")]),
        (pa.array([[1, None], None, []], pa.list_(pa.int64())), "array<bigint>", "array<bigint>", None),
        (
            pa.array([[("a", datetime(2024, 1, 1))]], pa.map_(pa.string(), pa.timestamp("us"))),
            "map<string,timestamp_ntz>",
            "map<string,timestamp_ntz>",
            None,
        ),
        (
            pa.array([{"t": [datetime(2024, 1, 1)]}, None]),
            "struct<t:array<timestamp_ntz>>",
            "struct<t:array<timestamp_ntz>>",
            None,
        ),
    ],
)
def test_what_a_file_holds_is_read_exactly(
    tmp_path: Path, values: pa.Array, kind: str, wanted: str, reads: list[Any] | None
) -> None:
    path = write(tmp_path, {"a": values})
    spec = spec_of("orc", f"a {wanted}")
    head = reader_of(spec).head(source(path))
    assert head is not None and dict(head.columns) == {"a": kind}
    seen = read(spec, path)
    assert seen.table["a"].to_pylist() == (values.to_pylist() if reads is None else reads)
    assert not seen.bad and seen.records == list(range(1, len(values) + 1)) and seen.lines == []


def test_a_time_finer_than_a_microsecond_is_a_bad_row(tmp_path: Path) -> None:
    path = write(tmp_path, {"n": [1, 2, 3], "t": pa.array([1_000, 1_001, None], pa.timestamp("ns"))})
    seen = read(spec_of("orc", "n bigint; t timestamp_ntz"), path)
    assert [row["n"] for row in seen.rows] == [1, 3]
    [bad] = seen.bad
    assert (bad.record, bad.line, bad.column) == (2, None, "t")
    assert bad.reason == "'1970-01-01 00:00:00.000001001' is finer than a microsecond"
    assert json.loads(bad.text) == {"n": 2, "t": "1970-01-01 00:00:00.000001001"}


def test_bytes_that_are_no_text_make_a_bad_row(tmp_path: Path) -> None:
    path = write(tmp_path, {"n": [1, 2, 3], "s": pa.array([b"x", b"\xffy", b"z"]).view(pa.string())})
    seen = read(spec_of("orc", "n bigint; s string"), path)
    assert seen.records == [1, 3]
    [bad] = seen.bad
    assert (bad.column, bad.reason, bad.text) == ("s", "bytes that are not UTF-8", '{"n": 2, "s": "\ufffdy"}')


def test_columns_come_in_any_order_and_drift_says_which(tmp_path: Path) -> None:
    path = write(tmp_path, {"b.c": ["x"], "a": pa.array([1], pa.int32()), "c": [1.5]})
    with pytest.raises(SchemaDrift, match="column 'c' is new"):
        read(spec_of("orc", "a bigint; b.c string"), path)
    assert read(spec_of("orc", "a bigint; b.c string", drift="ignore_new"), path).rows == [
        {"a": 1, "b.c": "x"}
    ]
    with pytest.raises(SchemaDrift, match="column 'd' is missing"):
        read(spec_of("orc", "a bigint; b.c string; c double; d date"), path)
    more = spec_of("orc", "a string; b.c string; c double; d date", drift="evolve")
    assert read(more, path).rows == [{"a": "1", "b.c": "x", "c": 1.5, "d": None}]


@pytest.mark.parametrize("content", [b"", b"id,name\n", b"ORC nonsense of some length", None])
def test_what_is_no_orc_is_refused_by_name(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.orc"
    if content is not None:
        path.write_bytes(content)
    says = "can't be read as ORC" if content is not None else "vanished"
    with pytest.raises(SourceError, match=rf"^a\.orc {says}") as caught:
        read(spec_of("orc", "a bigint"), path)
    assert caught.value.file == "a.orc"


def test_a_damaged_stripe_and_a_cut_off_file_are_errors(tmp_path: Path) -> None:
    path = write(tmp_path, {"s": [f"x{n * 7919}" for n in range(20_000)]}, compression="zlib")
    content = path.read_bytes()
    path.write_bytes(content[:5_000] + b"\xff" * 100 + content[5_100:])
    with pytest.raises(SourceError, match=r"^a\.orc can't be read as ORC"):
        read(spec_of("orc", "s string"), path)
    path.write_bytes(content[:-50])
    with pytest.raises(SourceError, match=r"^a\.orc can't be read as ORC"):
        read(spec_of("orc", "s string"), path)


def test_a_time_that_nanoseconds_can_not_reach_is_an_error_not_another_time(tmp_path: Path) -> None:
    path = write(tmp_path, {"t": pa.array([datetime(9999, 12, 31)], pa.timestamp("us"))})
    with pytest.raises(SourceError, match="out of range") as caught:
        read(spec_of("orc", "t timestamp_ntz"), path)
    assert "1678 and 2262" in caught.value.hint


def test_batches_are_as_small_as_rows_are_large(tmp_path: Path) -> None:
    texts = [f"{number:05d}" * 400 for number in range(2_000)]
    path = write(tmp_path, {"a": texts}, compression="uncompressed", dictionary_key_size_threshold=0)
    spec = spec_of("orc", "a string")
    seen = read(spec, path, reader=OrcReader(spec, 1 << 20))
    assert seen.blocks > 3 and seen.records == list(range(1, 2_001))
    assert seen.table["a"].to_pylist() == texts


@given(
    st.lists(
        st.tuples(st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.text(max_size=5)), max_size=60
    ),
    st.sampled_from([1, 50, 1 << 20]),
)
@settings(max_examples=60, deadline=None)
def test_blocks_give_what_the_file_holds(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, Any]], block: int
) -> None:
    columns = {
        "n": pa.array([row[0] for row in rows], pa.int64()),
        "s": pa.array([row[1] for row in rows], pa.string()),
    }
    path = write(tmp_path_factory.mktemp("o"), columns)
    spec = spec_of("orc", "n bigint; s string")
    assert not may_be_cut(spec, str(path))
    seen = read(spec, path, Piece(0, None), reader=OrcReader(spec, block))
    assert [(row["n"], row["s"]) for row in seen.rows] == rows
    assert seen.records == list(range(1, len(rows) + 1)) and seen.taken == len(rows)
