"""Types of files that Spark has none for: each is read exactly, or refused in a sentence."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.reading import Seen, read, source, spec_of

from lading.errors import SchemaDrift, SourceError
from lading.formats.advice import advice
from lading.formats.exact import exact
from lading.formats.infer.columns import infer
from lading.formats.registry import file_types, reader_of
from lading.model import BadRow, FoundFile

DAY = 86_400 * 10**6
ONE, OTHER = uuid.UUID(int=2**127 + 5), uuid.UUID(int=0)


def write(folder: Path, values: pa.Array, **options: Any) -> Path:
    path = folder / "a.parquet"
    pq.write_table(pa.table({"a": values}), path, **options)
    return path


def inferred_type(path: Path, fmt: Any = "parquet") -> str:
    return file_types(fmt, source(path)).columns["a"]


def read_as(path: Path, kind: str, *, inferred: bool = False) -> Seen:
    return read(spec_of("parquet", f"a {kind}", inferred=inferred), path)


def nested(values: pa.Array) -> list[tuple[str, pa.Array, Callable[[Any], Any]]]:
    """The same values inside of others: the type around theirs, the array, and what is made of a value."""
    count = len(values)
    ends = pa.array(range(count + 1), pa.int32())
    return [
        ("array<{}>", pa.ListArray.from_arrays(ends, values), lambda one: [one]),
        ("struct<x:{}>", pa.StructArray.from_arrays([values], ["x"]), lambda one: {"x": one}),
        (
            "map<string,{}>",
            pa.MapArray.from_arrays(ends, pa.array(["k"] * count), values),
            lambda one: [("k", one)],
        ),
    ]


EXACT = [
    (pa.array([1_704_067_200_123_456_000, None, -1_000], pa.timestamp("ns")), "timestamp_ntz",
     [datetime(2024, 1, 1, 0, 0, 0, 123456), None, datetime(1969, 12, 31, 23, 59, 59, 999999)]),
    (pa.array([0], pa.timestamp("ns", "Asia/Tokyo")), "timestamp", [datetime(1970, 1, 1, tzinfo=UTC)]),
    (pa.array([0, 86_399], pa.time32("s")), "string", ["00:00:00", "23:59:59"]),
    (pa.array([1_500, None, 45_296_010], pa.time32("ms")), "string", ["00:00:01.5", None, "12:34:56.01"]),
    (pa.array([1, DAY - 1], pa.time64("us")), "string", ["00:00:00.000001", "23:59:59.999999"]),
    (pa.array([1, 10**9], pa.time64("ns")), "string", ["00:00:00.000000001", "00:00:01"]),
    (pa.array([5, -7, None], pa.duration("ms")), "bigint", [5, -7, None]),
    (pa.array([2**64 - 1, 0], pa.uint64()), "decimal(20,0)", [Decimal(2**64 - 1), Decimal(0)]),
    (pa.array([Decimal("1.50"), None], pa.decimal256(40, 2)), "string", ["1.50", None]),
    (pa.array([Decimal(10) ** 60], pa.decimal256(76, 0)), "string", ["1" + "0" * 60]),
    (pa.array([Decimal("1.5")], pa.decimal256(38, 1)), "decimal(38,1)", [Decimal("1.5")]),
    (pa.array([Decimal("1.5")], pa.decimal32(5, 1)), "decimal(5,1)", [Decimal("1.5")]),
    (pa.array([Decimal("1.5")], pa.decimal64(15, 1)), "decimal(15,1)", [Decimal("1.5")]),
    (pa.array([1.5, None, -0.1], pa.float16()), "float", [1.5, None, -0.0999755859375]),
    (pa.array(["x", None], pa.large_string()), "string", ["x", None]),
    (pa.array(["x", None], pa.string_view()), "string", ["x", None]),
    (pa.array([b"x", None], pa.binary_view()), "binary", [b"x", None]),
    (pa.array([b"ab", None], pa.binary(2)), "binary", [b"ab", None]),
    (pa.array([ONE.bytes, None, OTHER.bytes], pa.uuid()), "string", [str(ONE), None, str(OTHER)]),
    (pa.array(['{"x":1}', None], pa.json_()), "string", ['{"x":1}', None]),
    (pa.array(["x", None, "x"]).dictionary_encode(), "string", ["x", None, "x"]),
    (pa.array([1_000, None], pa.timestamp("ns")).dictionary_encode(), "timestamp_ntz",
     [datetime(1970, 1, 1, 0, 0, 0, 1), None]),
    (pa.array([[1, 2], None, [3]], pa.list_view(pa.int64())), "array<bigint>", [[1, 2], None, [3]]),
    (pa.array([[1, 2], None, [3]], pa.large_list_view(pa.int64())), "array<bigint>", [[1, 2], None, [3]]),
]  # fmt: skip


@pytest.mark.parametrize(("values", "kind", "reads"), EXACT)
def test_each_type_is_inferred_as_one_that_holds_all_its_values(
    tmp_path: Path, values: pa.Array, kind: str, reads: list[Any]
) -> None:
    path = write(tmp_path, values)
    assert inferred_type(path) == kind
    seen = read_as(path, kind, inferred=True)
    assert seen.table["a"].to_pylist() == reads and not seen.bad


# Parquet's reader gives no dictionaries inside of other values.
FLAT = [one for one in EXACT if not one[0].type.num_fields and not pa.types.is_dictionary(one[0].type)]


@pytest.mark.parametrize(("values", "kind", "reads"), FLAT)
def test_inside_of_other_values_too(tmp_path: Path, values: pa.Array, kind: str, reads: list[Any]) -> None:
    for around, array, made in nested(values):
        path = write(tmp_path, array)
        assert inferred_type(path) == around.format(kind)
        seen = read_as(path, around.format(kind), inferred=True)
        assert seen.table["a"].to_pylist() == [made(one) for one in reads] and not seen.bad


CHOICES = [
    (pa.array([1, None, -1], pa.timestamp("ns")), "string",
     ["1970-01-01 00:00:00.000000001", None, "1969-12-31 23:59:59.999999999"]),
    (pa.array([10**18 + 7], pa.timestamp("ns", "Asia/Tokyo")), "string", ["2001-09-09 01:46:40.000000007"]),
    (pa.array([0], pa.timestamp("ms", "Asia/Tokyo")), "string", ["1970-01-01 00:00:00"]),
    (pa.array([1, None, -1], pa.timestamp("ns")), "bigint", [1, None, -1]),
    (pa.array([1, -1], pa.timestamp("us", "UTC")), "bigint", [1_000, -1_000]),
    (pa.array([1], pa.timestamp("ms")), "bigint", [1_000_000]),
    (pa.array([0], pa.timestamp("us")), "timestamp", [datetime(1970, 1, 1, tzinfo=UTC)]),
    (pa.array([0], pa.timestamp("us", "Asia/Tokyo")), "timestamp_ntz", [datetime(1970, 1, 1)]),
    (pa.array([1, None], pa.time32("s")), "bigint", [1_000_000, None]),
    (pa.array([1], pa.time64("us")), "bigint", [1]),
    (pa.array([1_000], pa.time64("ns")), "bigint", [1]),
    (pa.array([5, None], pa.uint64()), "bigint", [5, None]),
    (pa.array([Decimal("1.5"), None], pa.decimal256(40, 2)), "decimal(38,2)", [Decimal("1.50"), None]),
    (pa.array([ONE.bytes], pa.uuid()), "binary", [ONE.bytes]),
]  # fmt: skip


@pytest.mark.parametrize(("values", "kind", "reads"), CHOICES)
def test_a_person_may_choose_another_type(
    tmp_path: Path, values: pa.Array, kind: str, reads: list[Any]
) -> None:
    path = write(tmp_path, values)
    assert read_as(path, kind).table["a"].to_pylist() == reads
    for around, array, made in nested(values):
        path = write(tmp_path, array)
        seen = read_as(path, around.format(kind))
        assert seen.table["a"].to_pylist() == [made(one) for one in reads] and not seen.bad


@pytest.mark.parametrize(("values", "kind", "reads"), [one for one in CHOICES if one[1] != "binary"])
def test_a_type_that_was_inferred_from_other_files_is_no_choice(
    tmp_path: Path, values: pa.Array, kind: str, reads: list[Any]
) -> None:
    with pytest.raises(SchemaDrift, match=f"but the schema says {kind.split('(')[0]}"):
        read_as(write(tmp_path, values), kind, inferred=True)


BAD = [
    (pa.array([1_000, 1_001], pa.timestamp("ns")), "timestamp_ntz",
     "'1970-01-01 00:00:00.000001001' is finer than a microsecond"),
    (pa.array([0, 10**9 + 1], pa.timestamp("ns", "Asia/Tokyo")), "timestamp",
     "'1970-01-01 00:00:01.000000001' is finer than a microsecond"),
    (pa.array([1_000, 1], pa.time64("ns")), "bigint", "'00:00:00.000000001' is finer than a microsecond"),
    (pa.array([1, DAY], pa.time64("us")), "string", f"'{DAY}' is not a string"),
    (pa.array([1, -1], pa.time32("ms")), "string", "'-1' is not a string"),
    (pa.array([1, DAY], pa.time64("us")), "bigint", f"'{DAY}' is not a bigint"),
    (pa.array([1, 2**63], pa.uint64()), "bigint", f"'{2**63}' is not a bigint"),
    (pa.array([1, 10**17], pa.timestamp("us")), "bigint", "'5138-11-16 09:46:40' is not a bigint"),
    (pa.array([Decimal(1), Decimal(10) ** 39], pa.decimal256(40, 0)), "decimal(38,0)",
     f"'1{'0' * 39}' is not a decimal(38,0)"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "kind", "reason"), BAD)
def test_a_value_that_the_type_can_not_hold_is_a_bad_row(
    tmp_path: Path, values: pa.Array, kind: str, reason: str
) -> None:
    seen = read_as(write(tmp_path, values), kind)
    assert seen.records == [1]
    [bad] = seen.bad
    assert (bad.record, bad.column, bad.reason) == (2, "a", reason)
    for around, array, _ in nested(values):
        seen = read_as(write(tmp_path, array), around.format(kind))
        assert seen.records == [1] and [one.record for one in seen.bad] == [2]


@pytest.mark.parametrize("inferred", [True, False])
def test_who_meets_nanoseconds_is_told_the_way_out(tmp_path: Path, inferred: bool) -> None:
    path = write(tmp_path, pa.array([1], pa.timestamp("ns")))
    spec = spec_of("parquet", "a timestamp_ntz", inferred=inferred)
    [bad] = read(spec, path).bad
    said = advice(spec, BadRow(0, bad.record, bad.line, bad.column, bad.reason, bad.text), "t")
    assert "write the file with microseconds" in said and "schema/t.yaml" in said
    assert "`string` keeps all digits" in said and "nanoseconds since 1970" in said


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (pa.StructArray.from_arrays([pa.array([1])] * 2, ["x", "x"]), "has two fields 'x' and 'x'"),
        (pa.StructArray.from_arrays([pa.array([1])] * 2, ["id", "ID"]),
         "Spark can't tell apart its fields 'id' and 'ID'"),
        (pa.array([[{"É": 1, "é": 2}]], pa.list_(pa.struct([("É", pa.int64()), ("é", pa.int64())]))),
         "Spark can't tell apart its fields 'É' and 'é'"),
    ],
)  # fmt: skip
def test_fields_that_spark_can_not_tell_apart_are_refused(
    tmp_path: Path, values: pa.Array, says: str
) -> None:
    path = write(tmp_path, values)
    with pytest.raises(SourceError) as caught:
        inferred_type(path)
    assert caught.value.message == f"a.parquet: column 'a' can't be read: {says}"
    assert "other names" in caught.value.hint
    with pytest.raises(SourceError):
        reader_of(spec_of("parquet", "a struct<x:bigint>")).head(source(path))


@pytest.mark.parametrize("kind", ["int", "string", "array<string>", "struct<x:date>", "decimal(5,2)"])
@pytest.mark.parametrize("inferred", [True, False])
def test_nothing_but_nulls_is_of_every_type(tmp_path: Path, kind: str, inferred: bool) -> None:
    path = write(tmp_path, pa.nulls(2))
    assert inferred_type(path) == "void"
    assert read_as(path, kind, inferred=inferred).table["a"].to_pylist() == [None, None]
    path = write(tmp_path, pa.array([[None], None], pa.list_(pa.null())))
    assert inferred_type(path) == "array<void>"
    seen = read_as(path, f"array<{kind}>", inferred=inferred)
    assert seen.table["a"].to_pylist() == [[None], None]


def test_a_column_that_is_null_in_one_file_takes_its_type_from_another(tmp_path: Path) -> None:
    files = []
    for name, values in (("a", pa.nulls(1)), ("b", pa.array(["x"])), ("c", pa.nulls(1))):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"a": values, "n": pa.nulls(1)}), path)
        files.append(FoundFile(path.name, str(path), path.stat().st_size, 0, False))
    inferred = infer(files, fmt="parquet", read_options={})
    assert [(column.name, column.type) for column in inferred.columns] == [("a", "string"), ("n", "string")]
    assert inferred.because == {"a": "string: the footer of b.parquet", "n": "string: no value in any file"}


# Times of 96 bits.

FAR = [datetime(1, 1, 1), datetime(1600, 2, 29, 23, 59, 59, 999999), datetime(9999, 12, 31)]


def old(folder: Path, values: pa.Array) -> Path:
    return write(folder, values, use_deprecated_int96_timestamps=True)


def test_times_of_96_bits_are_instants(tmp_path: Path) -> None:
    path = old(tmp_path, pa.array([0, None, 1_000], pa.timestamp("ns")))
    assert inferred_type(path) == "timestamp"
    want = [datetime(1970, 1, 1, tzinfo=UTC), None, datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]
    assert read_as(path, "timestamp", inferred=True).table["a"].to_pylist() == want
    assert read_as(path, "timestamp_ntz").table["a"].to_pylist()[0] == datetime(1970, 1, 1)
    with pytest.raises(SchemaDrift, match="is timestamp, but the schema says timestamp_ntz"):
        read_as(path, "timestamp_ntz", inferred=True)


def test_times_of_96_bits_reach_as_far_as_microseconds(tmp_path: Path) -> None:
    path = old(tmp_path, pa.array([*FAR, None], pa.timestamp("us")))
    want = [*(one.replace(tzinfo=UTC) for one in FAR), None]
    assert read_as(path, "timestamp").table["a"].to_pylist() == want
    assert read_as(path, "string").table["a"].to_pylist()[:2] == [
        "0001-01-01 00:00:00",
        "1600-02-29 23:59:59.999999",
    ]


def test_nanoseconds_of_96_bits_are_seen(tmp_path: Path) -> None:
    path = old(tmp_path, pa.array([0, 1_001], pa.timestamp("ns")))
    seen = read_as(path, "timestamp")
    assert seen.records == [1] and seen.bad[0].reason.endswith("is finer than a microsecond")
    assert read_as(path, "bigint").table["a"].to_pylist() == [0, 1_001]
    assert read_as(path, "string").table["a"].to_pylist()[1] == "1970-01-01 00:00:00.000001001"


def test_far_times_and_nanoseconds_together_are_refused(tmp_path: Path) -> None:
    far = pa.array(FAR, pa.timestamp("us"))
    table = pa.table({"a": pa.StructArray.from_arrays([far, pa.array([1, 2, 3], pa.timestamp("ns"))], "uv")})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    with pytest.raises(SourceError, match=r"'a' has times beyond .*, and others finer than a microsecond"):
        read_as(path, "struct<u:timestamp,v:timestamp>")


@pytest.mark.parametrize("far", [True, False])
def test_times_of_96_bits_are_read_inside_of_other_values(tmp_path: Path, far: bool) -> None:
    values = pa.array(FAR if far else [0, 1_000, None], pa.timestamp("us" if far else "ns"))
    want = read_as(old(tmp_path, values), "timestamp").table["a"].to_pylist()
    assert len(want) == 3
    for around, array, made in nested(values):
        path = old(tmp_path, array)
        assert inferred_type(path) == around.format("timestamp")
        seen = read_as(path, around.format("timestamp"), inferred=True)
        assert seen.table["a"].to_pylist() == [made(one) for one in want] and not seen.bad


@settings(deadline=None, max_examples=100)
@given(st.lists(st.none() | st.integers(-(2**63) + 1, 2**63 - 1), max_size=20), st.booleans())
@example([-(2**63) + 1, 2**63 - 1], True)
@example([-9_223_372_036_854_774_001], True)
def test_nanoseconds_are_those_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int | None], of_96_bits: bool
) -> None:
    values = pa.array(numbers, pa.timestamp("ns"))
    path = write(tmp_path_factory.mktemp("p"), values, use_deprecated_int96_timestamps=of_96_bits)
    assert read_as(path, "bigint").table["a"].to_pylist() == numbers
    kind = inferred_type(path)
    seen = read_as(path, kind)
    whole = [number is None or number % 1_000 == 0 for number in numbers]
    assert seen.records == [at for at, one in enumerate(whole, 1) if one]
    assert [bad.record for bad in seen.bad] == [at for at, one in enumerate(whole, 1) if not one]


def test_orc_times_may_be_kept_to_the_nanosecond(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    orc.write_table(pa.table({"a": pa.array([1_001, None], pa.timestamp("ns"))}), str(path))
    assert inferred_type(path, "orc") == "timestamp_ntz"
    assert read(spec_of("orc", "a bigint"), path).table["a"].to_pylist() == [1_001, None]
    text = read(spec_of("orc", "a string"), path)
    assert text.table["a"].to_pylist() == ["1970-01-01 00:00:00.000001001", None]


@pytest.mark.parametrize("start", range(4))
def test_a_slice_of_nested_values_is_converted_without_its_neighbours(start: int) -> None:
    """Readers cut batches where a text that stands in the file once is long."""
    values = pa.array([1_000, None, 3_000, 4_001], pa.timestamp("ns"))
    texts = exact(values, pa.string()).to_pylist()
    targets = (pa.list_(pa.string()), pa.struct([("x", pa.string())]), pa.map_(pa.string(), pa.string()))
    for (_, array, made), target in zip(nested(values), targets, strict=True):
        found = exact(array.slice(start, 2), target)
        found.validate(full=True)
        assert found.to_pylist() == [made(one) for one in texts[start : start + 2]]


@pytest.mark.parametrize("start", range(3))
def test_a_slice_of_uuids_is_that_of_their_texts(start: int) -> None:
    values = pa.array([ONE.bytes, OTHER.bytes, ONE.bytes, None], pa.uuid())
    texts = [str(ONE), str(OTHER), str(ONE), None]
    assert exact(values.slice(start, 2), pa.string()).to_pylist() == texts[start : start + 2]
