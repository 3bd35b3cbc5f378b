"""Numbers of columns: for good, each given once."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lading.parts.field_ids import (
    SOURCE_ID,
    field_id,
    fields_within,
    gone_names,
    has_parts_without_numbers,
    last_id,
    numbered,
    of_log,
    same_columns,
    stays,
    without_numbers,
)

NESTED = pa.struct(
    [("x", pa.int32()), ("y", pa.list_(pa.field("element", pa.map_(pa.string(), pa.int32()))))]
)


def schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([*columns.items(), ("_source", pa.int64())])


def told(given: pa.Schema) -> bytes:
    return bytes(given.serialize())


def numbers(given: pa.Schema) -> dict[str, int | None]:
    return {field.name: field_id(field) for field in given}


def test_every_field_has_a_number_of_its_own_and_source_always_the_same() -> None:
    given = numbered(schema(a=pa.int32(), b=NESTED))
    found = [field_id(field) for field in fields_within(given)]
    assert None not in found and len(set(found)) == len(found) == 8
    assert numbers(given)["_source"] == SOURCE_ID


def test_a_column_keeps_its_number_wherever_it_stands() -> None:
    first = numbered(schema(a=pa.int32(), b=NESTED))
    second = numbered(schema(c=pa.string(), b=NESTED, a=pa.int32()), told(first))
    assert {name: numbers(second)[name] for name in "ab"} == {name: numbers(first)[name] for name in "ab"}
    assert numbers(second)["c"] == last_id(first) + 1
    assert [field_id(one) for one in fields_within([second.field("b")])] == [
        field_id(one) for one in fields_within([first.field("b")])
    ]


def test_that_parts_have_no_numbers_is_never_forgotten() -> None:
    plain = schema(a=pa.int32())
    assert not has_parts_without_numbers(numbered(plain))
    assert not has_parts_without_numbers(numbered(schema(a=pa.string()), told(numbered(plain))))
    since = numbered(schema(a=pa.string()), told(plain))  # the log's, from before there were numbers
    assert has_parts_without_numbers(of_log(told(plain))) and has_parts_without_numbers(since)
    assert has_parts_without_numbers(numbered(schema(b=pa.string()), told(since)))
    rebuilt = numbered(plain).remove_metadata()  # from files, which may be of any time
    assert has_parts_without_numbers(rebuilt) and has_parts_without_numbers(numbered(plain, told(rebuilt)))


def test_a_column_that_went_and_came_back_is_another_one() -> None:
    first = numbered(schema(a=pa.int32(), b=pa.string()))
    without = numbered(schema(a=pa.int32()), told(first))
    back = numbered(schema(a=pa.int32(), b=pa.string()), told(without))
    assert numbers(back)["b"] not in (None, *numbers(first).values())
    assert gone_names(without) == {"b": numbers(first)["b"]} and gone_names(back) == {}


def test_readers_are_told_the_schema_as_it_was_before_it_had_numbers() -> None:
    given = schema(a=NESTED, b=pa.map_(NESTED, pa.string()), c=pa.list_(NESTED, 2))
    assert without_numbers(numbered(given)).equals(given, check_metadata=True)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        (pa.int32(), pa.int64(), True),
        (pa.int8(), pa.int16(), True),
        (pa.int32(), pa.int8(), True),  # both are Iceberg's int
        (pa.int64(), pa.int32(), False),
        (pa.int32(), pa.float64(), False),
        (pa.float32(), pa.float64(), True),
        (pa.float64(), pa.float32(), False),
        (pa.decimal128(9, 2), pa.decimal128(12, 2), True),
        (pa.decimal128(9, 2), pa.decimal128(12, 3), False),
        (pa.date32(), pa.timestamp("us"), False),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), False),
        (pa.int64(), pa.string(), False),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), True),
        (pa.struct([("x", pa.int32())]), pa.struct([("y", pa.int32())]), False),
        (pa.struct([("x", pa.int32())]), pa.struct([("x", pa.int32()), ("y", pa.int32())]), False),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64()), True),
        (pa.int32(), pa.list_(pa.int32()), False),
    ],
)
def test_a_type_that_old_values_cannot_be_read_as_makes_another_column(
    old: pa.DataType, new: pa.DataType, same: bool
) -> None:
    assert stays(old, new) == same
    first = numbered(schema(a=old))
    second = numbered(schema(a=new), told(first))
    assert (numbers(first)["a"] == numbers(second)["a"]) == same
    assert last_id(second) > last_id(first) or same


def test_a_number_is_never_given_twice() -> None:
    seen: dict[int, str] = {}
    known = b""
    for kind in (pa.int64(), pa.string(), pa.int64(), pa.float64()):
        given = numbered(schema(a=kind), known)
        number = numbers(given)["a"]
        assert number is not None and number not in seen
        seen[number] = str(kind)
        known = told(given)


def test_a_schema_without_numbers_has_those_that_counting_gives() -> None:
    plain = told(schema(a=pa.int32(), b=NESTED))
    assert numbers(of_log(plain)) == numbers(numbered(schema(a=pa.int32(), b=NESTED)))
    later = numbered(schema(b=NESTED, c=pa.int32()), plain)
    assert numbers(later)["b"] == numbers(of_log(plain))["b"]


def test_numbers_make_no_difference_to_readers() -> None:
    plain = schema(a=pa.int32(), b=NESTED)
    given = numbered(plain)
    assert same_columns(told(plain), told(given)) and not same_columns(
        told(schema(a=pa.int64())), told(given)
    )
    assert without_numbers(given).equals(plain, check_metadata=True)


def test_parts_carry_them(tmp_path: object) -> None:
    given = numbered(schema(a=pa.int32(), b=NESTED))
    sink = pa.BufferOutputStream()
    pq.write_table(given.empty_table(), sink)
    stored = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema_arrow
    assert [field_id(one) for one in fields_within(stored)] == [field_id(one) for one in fields_within(given)]
